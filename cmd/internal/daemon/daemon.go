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
	"github.com/turnstone-repl/turnstone/cmd/internal/rpc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// MaxSessions is the largest bound on sessions that a daemon supports.
const MaxSessions = 2000

const (
	// drainLimit is how long a drain waits for running turns.
	drainLimit = 60 * time.Second

	// farewellLimit is how long a drain then waits until watchers have read the rest.
	farewellLimit = 2 * time.Second

	// maxCommands bounds the control lines that wait for the owner.
	maxCommands = 16

	// lookPause is how often the owner checks that clients can still find the daemon. One
	// check stats two files, which takes microseconds. With a longer pause, a daemon that lost
	// its socket is out of reach for longer.
	lookPause = 2 * time.Second
)

// A Renewer is a listener that may lose its place in the file system. Renew restores the
// place, and reports whether it was lost. The error [ErrServed] means that another daemon has
// it now.
type Renewer interface {
	Renew() (renewed bool, err error)
}

// Options are what a daemon needs. Supervisor, Languages and Spec are required.
type Options struct {
	// Supervisor opens the sessions. The daemon does not close it.
	Supervisor *supervisor.Supervisor

	// Languages returns the names that session/create accepts; the first is the default. It
	// may read a file.
	Languages func() []string

	// Spec finds the runtime for a new session, and says what has to be prepared for it. It
	// may search the disk. An error without a kind counts as session.KindStart.
	Spec func(p client.CreateParams) (workers.Spec, error)

	// IdleExit is how long the daemon stays when nobody uses it, nothing runs and no client
	// watches. Status calls and open connections do not count as use. 0 means for ever.
	IdleExit time.Duration

	// CullIdle is how long an unused session stays open, unless its creator chose another
	// time. The daemon never closes a session that runs, waits, or has a watcher or a
	// connected reader. 0 means for ever.
	CullIdle time.Duration

	// Logger gets facts that no client learns; it may be nil.
	Logger *slog.Logger

	// Version is the program's, for display.
	Version string

	clock *clock // nil is the machine's
}

// A clock says what time it is for idleness, and when to look whether it is over.
type clock struct {
	now   func() time.Time
	looks <-chan time.Time
}

// A Daemon serves clients.
type Daemon struct {
	o       Options
	log     *slog.Logger
	rpc     *rpc.Server
	started time.Time

	commands chan command
	wg       sync.WaitGroup // counts the goroutines of clients, subscriptions, openings, indicators and a drain

	mu          sync.Mutex
	ctx         context.Context          // guarded by mu; ends everything; nil before Serve
	entries     map[string]*entry        // guarded by mu; the sessions
	opening     int                      // guarded by mu; how many sessions are being opened
	watches     map[string]*watch        // guarded by mu; subscriptions by name
	counter     uint64                   // guarded by mu; makes names for sessions and subscriptions
	draining    bool                     // guarded by mu
	paused      bool                     // guarded by mu
	writers     map[string]*keyboardHold // guarded by mu; who holds the keyboard of which session
	connections map[*rpc.Conn]*connState // guarded by mu; what belongs to each connection
	streams     map[chan struct{}]bool   // guarded by mu; running subscriptions, each closed at its end
	lastUse     time.Time                // guarded by mu; when a client last used the daemon
}

// A command is a control line that waits for the owner.
type command string

const (
	commandPause  command = "pause"
	commandResume command = "resume"
	commandDrain  command = "drain"
	commandStop   command = "stop"
)

// New makes a daemon. It starts nothing.
func New(o *Options) (*Daemon, error) {
	if o.Supervisor == nil || o.Spec == nil || o.Languages == nil {
		return nil, errors.New("daemon: Supervisor, Languages and Spec are required")
	}
	d := &Daemon{
		o: *o, log: o.Logger, started: time.Now(),
		commands:    make(chan command, maxCommands),
		entries:     make(map[string]*entry),
		watches:     make(map[string]*watch),
		writers:     make(map[string]*keyboardHold),
		connections: make(map[*rpc.Conn]*connState),
	}
	d.streams = make(map[chan struct{}]bool)
	d.lastUse = d.now()
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.rpc = &rpc.Server{Methods: d.methods(), Quick: d.quickMethods(), Control: d.control, Logger: d.log, Opened: d.opened}
	return d, nil
}

// Serve serves the clients of l until a client stops or drains the daemon, the daemon was idle
// for too long, or ctx ends. Then it closes l, then the sessions that it opened, and the
// connections last. So a client that sees its connection end knows that everything else has
// ended.
func (d *Daemon) Serve(ctx context.Context, l net.Listener) error {
	connections, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()

	accepted := make(chan error, 1)
	d.wg.Go(func() { accepted <- d.accept(ctx, connections, l) })
	d.log.Info("the daemon begins", "version", d.o.Version, "at", l.Addr())
	why, err := d.own(ctx, accepted, l)
	d.logEnd(why, err)
	_ = l.Close()
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	cancel()
	d.closeSessions()
	hangUp()
	d.wg.Wait()
	return err
}

// logEnd logs why the daemon ends. It warns when sessions end with it.
func (d *Daemon) logEnd(why string, err error) {
	level := slog.LevelInfo
	var names []string
	for _, s := range d.sessions() {
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

// accept accepts clients until l is closed. It serves them until the context connections ends.
func (d *Daemon) accept(ctx, connections context.Context, l net.Listener) error {
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
		if err := authorize(conn); err != nil {
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

// own is the main loop of the daemon: only it starts and stops things. It returns the reason
// for the end.
func (d *Daemon) own(ctx context.Context, accepted <-chan error, l net.Listener) (why string, err error) {
	idle, stop := d.idleLooks()
	defer stop()
	place := d.newPlace(l)
	defer place.stop()
	var drained chan struct{} // nil until a drain begins
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx).Error(), nil
		case <-drained:
			return "it is drained", nil
		case err := <-accepted:
			return "it cannot accept clients", err
		case <-place.look:
			if place.isLost() {
				return "another daemon serves its clients now, and nobody can reach this one", nil
			}
		case <-idle:
			if d.idleFor() >= d.o.IdleExit {
				return fmt.Sprintf("nobody has used it for %s", d.o.IdleExit), nil
			}
		case c := <-d.commands:
			d.log.Info("a client commands", "what", c)
			switch c {
			case commandPause, commandResume:
				d.mu.Lock()
				d.paused = c == commandPause
				d.mu.Unlock()
			case commandDrain:
				if drained == nil { // a drain runs beside the owner, which can still be told to stop
					drained = make(chan struct{})
					d.wg.Go(func() {
						defer close(drained)
						d.drain(ctx)
					})
				}
			case commandStop:
				return "a client told it to stop", nil
			}
		}
	}
}

// idleLooks says when to look whether the daemon has been idle for long enough, until stop.
func (d *Daemon) idleLooks() (looks <-chan time.Time, stop func()) {
	switch {
	case d.o.clock != nil:
		return d.o.clock.looks, func() {}
	case d.o.IdleExit == 0:
		return nil, func() {}
	}
	ticker := time.NewTicker(max(d.o.IdleExit/4, time.Millisecond))
	return ticker.C, ticker.Stop
}

// now is the time by which idleness is measured.
func (d *Daemon) now() time.Time {
	if d.o.clock != nil {
		return d.o.clock.now()
	}
	return time.Now()
}

// drain refuses new work and waits for running turns, for drainLimit at most.
func (d *Daemon) drain(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for _, s := range d.sessions() {
		// Do not wait for a session that waits for input: perhaps nobody answers it.
		_, _ = s.Wait(ctx, 0, &session.WaitOptions{After: s.Log().Last(), HeadBytes: 1, TailBytes: 1})
	}
	if ctx.Err() != nil {
		return
	}
	d.closeSessions()
	d.seeOff(ctx)
}

// seeOff lets watchers read the rest of what they watch, for farewellLimit at most.
func (d *Daemon) seeOff(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewellLimit)
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

// idleFor returns for how long nobody has used the daemon and nothing has run.
func (d *Daemon) idleFor() time.Duration {
	if d.isBusy() {
		d.used() // idle time starts anew when the activity ends
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now().Sub(d.lastUse)
}

// isBusy reports whether anything is under way.
func (d *Daemon) isBusy() bool {
	d.mu.Lock()
	opening := d.opening > 0
	d.mu.Unlock()
	if opening {
		return true
	}
	for _, e := range d.all() {
		if e.isRead() {
			return true
		}
	}
	for _, s := range d.sessions() {
		i, _ := s.Info(context.Background())
		switch i.State {
		case session.StatePreparing, session.StateRunning, session.StateStarting, session.StateWaiting:
			return true // a person may take long to answer
		}
		d.usedAt(i.Since) // a turn may have ended since the last check
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.watches {
		if d.entries[w.entry.name] == w.entry { // a paused watch outlives its session
			return true
		}
	}
	return false
}

// used notes that somebody uses the daemon.
func (d *Daemon) used() { d.usedAt(d.now()) }

func (d *Daemon) usedAt(then time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if then.After(d.lastUse) {
		d.lastUse = then
	}
}

// info describes the daemon.
func (d *Daemon) info() client.Info {
	languages := d.o.Languages()
	d.mu.Lock()
	defer d.mu.Unlock()
	return client.Info{
		Version: d.o.Version, Protocol: client.Protocol, PID: os.Getpid(), Started: d.started,
		Languages: languages, Sessions: len(d.entries),
		Connections: d.rpc.Activity().Connections, Draining: d.draining, Paused: d.paused,
	}
}
