package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// MaxSessions is the largest bound on sessions that a daemon supports.
const MaxSessions = 2000

const (
	// drainTimeout is how long a drain waits for running turns.
	drainTimeout = 60 * time.Second

	// finalReadTimeout is how long the daemon then waits until watchers have read the rest.
	finalReadTimeout = 2 * time.Second

	// maxCommands bounds the control lines that wait for the owner.
	maxCommands = 16

	// addressCheckInterval is how often the owner checks that clients can still find the daemon while
	// they cannot, or where the system does not say when a file is removed. One check stats
	// two files, which takes microseconds. With a longer pause, a daemon that lost its socket
	// is out of reach for longer.
	addressCheckInterval = 2 * time.Second
)

// unreachableReason is why a daemon ends whose address another one has.
const unreachableReason = "another daemon serves its clients now, and nobody can reach this one"

// A Renewer is a listener that may lose its place in the file system. Renew restores the
// place, and reports whether it was lost. The error [ErrServed] means that another daemon has
// it now.
type Renewer interface {
	Renew() (renewed bool, err error)
}

// Options are what a daemon needs. Supervisor, Languages, HasLanguage and Spec are required.
type Options struct {
	// Supervisor opens the sessions. The daemon does not close it.
	Supervisor *supervisor.Supervisor

	// Languages returns the names that session/create accepts, for people; the first is the
	// default. They may be some seconds old. HasLanguage reports whether it accepts a name now.
	// Both may read files.
	Languages   func() []string
	HasLanguage func(name string) bool

	// FindSpec finds the runtime for a new session, and says what has to be prepared for it. It
	// may search the disk. An error without a kind counts as session.KindSpec, and as
	// session.KindStart if it is a workers.MissingError.
	FindSpec func(p client.CreateParams) (workers.Spec, error)

	// DaemonIdleTimeout is how long the daemon stays when nobody uses it, nothing runs and no client
	// watches. Status calls and open connections do not count as use. 0 means for ever.
	DaemonIdleTimeout time.Duration

	// SessionIdleTimeout is how long an unused session stays open, unless its creator chose another
	// time. The daemon never closes a session that runs, waits, or has a watcher or a
	// connected reader. 0 means for ever.
	SessionIdleTimeout time.Duration

	// WarmPools are the sessions that are kept ready, one entry for a language. They count as
	// sessions of Supervisor until a client needs the room. WarmMemory bounds what those of one
	// language use together, in bytes; 0 is no bound.
	WarmPools  []WarmPoolOptions
	WarmMemory int64

	// StartStamp describes the files that a start depends on, such as the executable. A session that
	// began with another stamp is not given to a client. nil means that none change.
	StartStamp func(*workers.Spec) string

	// Logger gets facts that no client learns; it may be nil.
	Logger *slog.Logger

	// Version is the program's, for display.
	Version string

	clock *idlenessClock // nil is the machine's
}

// An idlenessClock says what time it is for idleness, and when to look whether it is over.
type idlenessClock struct {
	now    func() time.Time
	checks <-chan time.Time
}

// A Daemon serves clients.
type Daemon struct {
	options Options
	log     *slog.Logger
	rpc     *rpcserver.Server
	started time.Time

	commands  chan controlCommand
	warmPools map[string]*warmPool // of warm sessions, by language
	wg        sync.WaitGroup       // counts the goroutines of clients, subscriptions, openings, indicators and a drain

	mu            sync.Mutex
	ctx           context.Context                // guarded by mu; ends everything; nil before Serve
	listener      net.Listener                   // guarded by mu; nil before Serve
	openSessions  map[string]*openSession        // guarded by mu; the sessions
	opening       map[string]chan struct{}       // guarded by mu; by the name of a session that is being opened, closed when that is over
	subscriptions map[string]*subscription       // guarded by mu; subscriptions by name
	counter       uint64                         // guarded by mu; makes names for sessions and subscriptions
	warmCounter   uint64                         // guarded by mu; makes names for warm sessions
	draining      bool                           // guarded by mu
	paused        bool                           // guarded by mu
	writeLocks    map[string]*writeLock          // guarded by mu; who holds the keyboard of which session
	connections   map[*rpcserver.Conn]*connState // guarded by mu; what belongs to each connection
	knownClients  map[string]*clientState        // guarded by mu; the clients that have said client/hello, by id
	streams       map[chan struct{}]bool         // guarded by mu; running subscriptions, each closed at its end
	sessionAdded  chan struct{}                  // guarded by mu; closed when a session is opened; nil if nobody waits for it
	lastUse       time.Time                      // guarded by mu; when a client last used the daemon
}

// A controlCommand is a control line that waits for the owner.
type controlCommand string

const (
	commandPause  controlCommand = "pause"
	commandResume controlCommand = "resume"
	commandDrain  controlCommand = "drain"
	commandStop   controlCommand = "stop"
)

// New makes a daemon. It starts nothing.
func New(o *Options) (*Daemon, error) {
	if o.Supervisor == nil || o.FindSpec == nil || o.Languages == nil || o.HasLanguage == nil {
		return nil, errors.New("daemon: Supervisor, Languages, HasLanguage and Spec are required")
	}
	d := &Daemon{
		options: *o, log: o.Logger, started: time.Now(),
		commands:      make(chan controlCommand, maxCommands),
		openSessions:  make(map[string]*openSession),
		opening:       make(map[string]chan struct{}),
		subscriptions: make(map[string]*subscription),
		writeLocks:    make(map[string]*writeLock),
		connections:   make(map[*rpcserver.Conn]*connState),
		knownClients:  make(map[string]*clientState),
	}
	d.streams = make(map[chan struct{}]bool)
	d.newWarmPools()
	d.lastUse = d.currentTime()
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.rpc = &rpcserver.Server{Methods: d.methodHandlers(), InlineMethods: d.quickHandlers(), Control: d.handleControl, Logger: d.log, OnConnect: d.addConn}
	return d, nil
}

// Serve serves the clients of l until a client stops or drains the daemon, the daemon was idle
// for too long, or ctx ends. Then it closes l, then the sessions that it opened, and the
// connections last. So a client that sees its connection end knows that everything else has
// ended.
func (d *Daemon) Serve(ctx context.Context, l net.Listener) error {
	connections, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	told := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.ctx, d.listener = ctx, l
	d.mu.Unlock()

	for _, p := range d.warmPools {
		d.wg.Go(func() { p.fillUntilDone(ctx) })
	}
	accepted := make(chan error, 1)
	d.wg.Go(func() { accepted <- d.acceptClients(ctx, connections, l) })
	d.log.Info("the daemon begins", "version", d.options.Version, "at", l.Addr())
	why, err := d.runLoop(ctx, accepted, l)
	d.logEnd(why, err)
	_ = l.Close()
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	cancel()
	if told.Err() != nil { // by a signal, as at a logout or at the end of a job's time
		d.notifyAll("the daemon ends, and this session with it: " + why)
	}
	d.closeSessions()
	d.awaitWatchers(connections)
	hangUp()
	d.wg.Wait()
	return err
}

// notifyAll says something to those who read any session.
func (d *Daemon) notifyAll(message string) {
	for _, s := range d.supervisorSessions() {
		s.Notify(message)
	}
}

// logEnd logs why the daemon ends. It warns when sessions end with it.
func (d *Daemon) logEnd(why string, err error) {
	level := slog.LevelInfo
	var names []string
	for _, s := range d.supervisorSessions() {
		names = append(names, s.Name())
	}
	if len(names) > 0 {
		level = slog.LevelWarn
	}
	if err != nil {
		level, why = slog.LevelError, err.Error()
	}
	d.log.Log(context.Background(), level, "the daemon ends", "why", why, "after", time.Since(d.started).Round(time.Second), "sessions", names)
}

// acceptClients accepts clients until l is closed. It serves them until the context connections ends.
func (d *Daemon) acceptClients(ctx, connections context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if isTemporary(err) { // such as too few file descriptors; clients who are here go on
				d.log.Warn("cannot accept a client", "error", err)
				select {
				case <-time.After(100 * time.Millisecond):
					continue
				case <-ctx.Done():
					return nil
				}
			}
			return fmt.Errorf("daemon: accept: %w", err)
		}
		if err := authorizePeer(conn); err != nil {
			d.log.Warn("a client was refused", "error", err)
			_ = conn.Close()
			continue
		}
		d.wg.Go(func() {
			if err := d.rpc.Serve(connections, conn); err != nil {
				d.log.Info("a connection ended", "error", err)
			}
		})
	}
}

// runLoop is the main loop of the daemon: only it starts and stops things. It returns the reason
// for the end.
func (d *Daemon) runLoop(ctx context.Context, accepted <-chan error, l net.Listener) (why string, err error) {
	idle, stop := d.idleChecks()
	defer stop()
	address := d.newAddressWatcher(l)
	defer address.stop()
	var drained chan struct{} // nil until a drain begins
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx).Error(), nil
		case <-drained:
			return "it is drained", nil
		case err := <-accepted:
			return "it cannot accept clients", err
		case <-address.removed:
			if address.isLost() {
				return unreachableReason, nil
			}
		case <-address.nextCheck:
			if address.isLost() {
				return unreachableReason, nil
			}
		case now := <-idle:
			if d.idleFor(now) >= d.options.DaemonIdleTimeout {
				return fmt.Sprintf("nobody has used it for %s", d.options.DaemonIdleTimeout), nil
			}
		case c := <-d.commands:
			d.log.Info("a client commands", "what", c)
			switch c {
			case commandPause, commandResume:
				d.mu.Lock()
				d.paused = c == commandPause
				d.mu.Unlock()
				d.wakePools()
			case commandDrain:
				if drained == nil { // a drain runs beside the owner, which can still be told to stop
					drained = make(chan struct{})
					d.wg.Go(func() {
						defer close(drained)
						d.drainTurns(ctx)
					})
				}
			case commandStop:
				return "a client told it to stop", nil
			}
		}
	}
}

// idleChecks says when to look whether the daemon has been idle for long enough, until stop.
func (d *Daemon) idleChecks() (looks <-chan time.Time, stop func()) {
	switch {
	case d.options.clock != nil:
		return d.options.clock.checks, func() {}
	case d.options.DaemonIdleTimeout == 0:
		return nil, func() {}
	}
	ticker := time.NewTicker(max(d.options.DaemonIdleTimeout/4, time.Millisecond))
	return ticker.C, ticker.Stop
}

// currentTime is the time by which idleness is measured.
func (d *Daemon) currentTime() time.Time {
	if d.options.clock != nil {
		return d.options.clock.now()
	}
	return time.Now()
}

// drainTurns refuses new work and waits for running turns, for drainTimeout at most.
func (d *Daemon) drainTurns(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for _, s := range d.supervisorSessions() {
		// Do not wait for a session that waits for input: perhaps nobody answers it.
		_, _ = s.Wait(ctx, 0, &session.WaitOptions{After: s.Log().LastSeq(), HeadBytes: 1, TailBytes: 1})
	}
	if ctx.Err() != nil {
		return
	}
	d.closeSessions()
	d.awaitWatchers(ctx)
}

// awaitWatchers lets watchers read the rest of what they watch, for finalReadTimeout at most.
func (d *Daemon) awaitWatchers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, finalReadTimeout)
	defer cancel()
	d.mu.Lock()
	streams := slices.Collect(maps.Keys(d.streams))
	d.mu.Unlock()
	for _, ended := range streams {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// idleFor returns for how long nobody has used the daemon and nothing has run. now is from before
// the look: what comes meanwhile is seen by the next one.
func (d *Daemon) idleFor(now time.Time) time.Duration {
	if d.isBusy() {
		d.noteUseAt(now) // idle time starts anew when the activity ends
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Sub(d.lastUse)
}

// isBusy reports whether anything is under way.
func (d *Daemon) isBusy() bool {
	d.mu.Lock()
	opening := len(d.opening) > 0
	d.mu.Unlock()
	if opening {
		return true
	}
	for _, e := range d.sortedSessions() {
		if e.hasReader() {
			return true
		}
	}
	for _, s := range d.supervisorSessions() {
		i, _ := s.Info(context.Background())
		switch i.State {
		case session.StatePreparing, session.StateRunning, session.StateStarting, session.StateWaiting:
			return true // a person may take long to answer
		}
		d.noteUseAt(i.StateSince) // a turn may have ended since the last check
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.subscriptions {
		if w.entry != nil && !d.isSessionClosedLocked(w) { // a paused watch outlives its session
			return true
		}
	}
	return false
}

// noteUse notes that somebody uses the daemon.
func (d *Daemon) noteUse() { d.noteUseAt(d.currentTime()) }

func (d *Daemon) noteUseAt(then time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if then.After(d.lastUse) {
		d.lastUse = then
	}
}

// daemonInfo describes the daemon.
func (d *Daemon) daemonInfo() client.Info {
	languages, warm := d.options.Languages(), d.describePools()
	d.mu.Lock()
	defer d.mu.Unlock()
	return client.Info{
		Version: d.options.Version, Protocol: client.Protocol, PID: os.Getpid(), Started: d.started,
		Languages: languages, Sessions: len(d.openSessions),
		Connections: d.rpc.Activity().Connections, Draining: d.draining, Paused: d.paused, WarmPools: warm,
	}
}
