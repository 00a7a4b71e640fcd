package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"

	counters "github.com/turnstone-repl/turnstone/cmd/internal/metrics"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// MaxSessions is the largest limit on sessions that a daemon supports.
const MaxSessions = 2000

// Options configure a Daemon; Supervisor, Languages, HasLanguage and FindSpec are required.
type Options struct {
	// Supervisor opens the sessions. The daemon does not close it.
	Supervisor *supervisor.Supervisor

	// Private is for a daemon that the only client of its listener has started, and that ends with
	// it. The client is not checked, and sessions that end with the daemon are not worth a warning.
	Private bool

	// Languages returns the names that session/create accepts, for display; the first is the
	// default. The list may be some seconds old. HasLanguage reports whether a name is accepted
	// now. Both may read files.
	Languages   func() []string
	HasLanguage func(name string) bool

	// FindSpec finds the runtime of a new session, and the preparations that the session needs. It
	// may search the disk. An error without a kind counts as session.KindSpec, or as
	// session.KindStart if it is a workers.MissingError.
	FindSpec func(p protocol.CreateParams) (workers.Spec, error)

	// DaemonIdleTimeout is how long an unused daemon stays: no call, no active session and no
	// subscription. Status calls and open connections do not count as use. 0 means without limit.
	DaemonIdleTimeout time.Duration

	// SessionIdleTimeout is how long an unused session stays open, unless its creator chose another
	// time. The daemon never closes a session that runs, waits for input, or has a subscriber or a
	// connected reader. 0 means without limit.
	SessionIdleTimeout time.Duration

	// WarmPools configure the warm sessions, one entry for each language. Warm sessions count
	// against the limit of Supervisor until a client needs the room. WarmMemory bounds the memory
	// of the warm sessions of one language together, in bytes; 0 means no bound.
	WarmPools  []WarmPoolOptions
	WarmMemory int64

	// StartStamp describes the files on which a start depends, such as the executable. A warm
	// session that started with another stamp is not given to a client. nil means that the files
	// never change.
	StartStamp func(*workers.Spec) string

	// Counters counts the events of the supervisor's sessions, for Metrics: its CountEvent is the
	// supervisor's OnEvent. nil means that nothing is counted.
	Counters *counters.Counters

	// Logger receives the messages that are not sent to clients; it may be nil.
	Logger *slog.Logger

	// Version is the version of the program, for display.
	Version string

	clock *idlenessClock // nil means the system clock
}

// An idlenessClock replaces the system clock in tests of idle timeouts. checks says when to test
// whether the daemon is idle.
type idlenessClock struct {
	now    func() time.Time
	checks <-chan time.Time
}

// A Daemon serves the sessions of a supervisor to clients on one listener.
type Daemon struct {
	options Options
	log     *slog.Logger
	rpc     *rpcserver.Server
	started time.Time

	chartLibraries *chartlib.ScriptReader

	commands  chan controlCommand
	warmPools map[string]*warmPool // by language
	wg        sync.WaitGroup       // all goroutines of the table in doc.go

	mu            sync.Mutex
	ctx           context.Context                // guarded by mu; ends all goroutines except those of connections; nil before Serve
	listener      net.Listener                   // guarded by mu; nil before Serve
	openSessions  map[string]*openSession        // guarded by mu; by name
	opening       map[string]chan struct{}       // guarded by mu; by name; each is closed when the opening succeeded or failed
	subscriptions map[string]*subscription       // guarded by mu; by id
	counter       uint64                         // guarded by mu; numbers sessions, subscriptions, connections and disconnects
	warmCounter   uint64                         // guarded by mu; numbers warm sessions
	draining      bool                           // guarded by mu
	paused        bool                           // guarded by mu
	writeLocks    map[string]*writeLock          // guarded by mu; by the name of the session
	connections   map[*rpcserver.Conn]*connState // guarded by mu; the state of each connection
	knownClients  map[string]*clientState        // guarded by mu; clients with an identity, by id
	streams       map[chan struct{}]bool         // guarded by mu; running subscriptions; each channel is closed when its subscription has ended
	sessionAdded  chan struct{}                  // guarded by mu; closed when a session is added; nil while no subscription waits for it
	lastUse       time.Time                      // guarded by mu; when a client last used the daemon
}

// A controlCommand is a control line of a client, queued for the owner.
type controlCommand string

const (
	commandPause  controlCommand = "pause"
	commandResume controlCommand = "resume"
	commandDrain  controlCommand = "drain"
	commandStop   controlCommand = "stop"
)

// currentTime returns the time by which idleness is measured.
func (d *Daemon) currentTime() time.Time {
	if d.options.clock != nil {
		return d.options.clock.now()
	}
	return time.Now()
}

// daemonInfo describes the daemon.
func (d *Daemon) daemonInfo() protocol.DaemonInfo {
	languages, warm := d.options.Languages(), d.describePools()
	d.mu.Lock()
	defer d.mu.Unlock()
	return protocol.DaemonInfo{
		Version: d.options.Version, Protocol: protocol.Version, PID: os.Getpid(), Started: d.started,
		Languages: languages, Sessions: len(d.openSessions),
		Connections: d.rpc.Activity().Connections, Draining: d.draining, Paused: d.paused, WarmPools: warm,
	}
}
