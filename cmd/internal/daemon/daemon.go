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
	// drainLimit is how long a drain waits for turns that run.
	drainLimit = 60 * time.Second

	// farewellLimit is how long a drain then waits for watchers to read the rest.
	farewellLimit = 2 * time.Second

	// maxCommands bounds the control lines that wait for the owner.
	maxCommands = 16

	// lookPause is how often the owner looks whether clients can still find the daemon:
	// two looks at a file, some microseconds. Longer is longer out of reach.
	lookPause = 2 * time.Second
)

// A Renewer is a listener whose place others may take away: Renew makes it anew then,
// and reports whether it had to. [ErrServed] says that another daemon has it now.
type Renewer interface {
	Renew() (renewed bool, err error)
}

// Options are what a daemon needs. Supervisor, Languages and Spec are required.
type Options struct {
	// Supervisor opens the sessions. The daemon does not close it.
	Supervisor *supervisor.Supervisor

	// Languages are the names that session/create takes; the first is the default.
	Languages []string

	// Spec finds the runtime for a new session, and says what has to be prepared for it.
	// It may search. An error without a kind is of session.KindStart.
	Spec func(p client.CreateParams) (workers.Spec, error)

	// IdleExit ends the daemon after this time without use, when nothing runs and no client
	// watches. Probes and mere connections are no use. 0 means never.
	IdleExit time.Duration

	// CullIdle closes a session after this time without use, unless it was created with a
	// time of its own. It never closes one that runs, waits, or has a watcher or a live
	// reader. 0 means never.
	CullIdle time.Duration

	// Logger gets facts that no client is told; it may be nil.
	Logger *slog.Logger

	// Version is the program's, for display.
	Version string
}

// A Daemon serves clients.
type Daemon struct {
	o       Options
	log     *slog.Logger
	rpc     *rpc.Server
	started time.Time

	commands chan command
	wg       sync.WaitGroup // clients, subscriptions, openings, indicators, a drain

	mu          sync.Mutex
	ctx         context.Context          // guarded by mu: of everything; nil before Serve
	entries     map[string]*entry        // guarded by mu: sessions
	opening     int                      // guarded by mu: sessions that are being opened
	watches     map[string]*watch        // guarded by mu: subscriptions, by name
	counter     uint64                   // guarded by mu: names of sessions and subscriptions
	draining    bool                     // guarded by mu
	paused      bool                     // guarded by mu
	writers     map[string]*keyboardHold // guarded by mu: who has a session's keyboard
	connections map[*rpc.Conn]*connState // guarded by mu: what belongs to a connection
	streams     map[chan struct{}]bool   // guarded by mu: subscriptions that are not paused; each is closed at its end
	lastUse     time.Time                // guarded by mu: when somebody last wanted something
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
	if o.Supervisor == nil || o.Spec == nil || len(o.Languages) == 0 {
		return nil, errors.New("daemon: Supervisor, Languages and Spec are required")
	}
	d := &Daemon{
		o: *o, log: o.Logger, started: time.Now(), lastUse: time.Now(),
		commands:    make(chan command, maxCommands),
		entries:     make(map[string]*entry),
		watches:     make(map[string]*watch),
		writers:     make(map[string]*keyboardHold),
		connections: make(map[*rpc.Conn]*connState),
	}
	d.streams = make(map[chan struct{}]bool)
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.rpc = &rpc.Server{Methods: d.methods(), Quick: d.quickMethods(), Control: d.control, Logger: d.log, Opened: d.opened}
	return d, nil
}

// Serve serves the clients that l accepts until it is told to stop, drained, idle
// for too long, or ctx ends. Then it closes l, the sessions that it opened, and at
// last every connection: who waits for the end of one knows that the rest is gone.
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

// logEnd says why the daemon ends. That sessions end with it is a warning.
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

// accept accepts clients until l is closed. They are served until connections ends.
func (d *Daemon) accept(ctx, connections context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if isTemporary(err) { // out of file descriptors, say: those who are here go on
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

// own returns the daemon's life: it alone starts and stops things. It returns why it ends.
func (d *Daemon) own(ctx context.Context, accepted <-chan error, l net.Listener) (why string, err error) {
	var idle <-chan time.Time
	if d.o.IdleExit > 0 {
		ticker := time.NewTicker(max(d.o.IdleExit/4, time.Millisecond))
		defer ticker.Stop()
		idle = ticker.C
	}
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
				if drained == nil { // it goes on beside the owner, who can still be told to stop
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

// drain refuses new work and waits for what runs, for drainLimit at most.
func (d *Daemon) drain(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	for _, s := range d.sessions() {
		// A session that waits for input is not waited for: nobody may answer it.
		_, _ = s.Wait(ctx, 0, &session.WaitOptions{After: s.Log().Last(), HeadBytes: 1, TailBytes: 1})
	}
	if ctx.Err() != nil {
		return
	}
	d.closeSessions()
	d.seeOff(ctx)
}

// seeOff lets those who watch see the end of what they watch, for farewellLimit at most.
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

// idleFor returns how long nobody has wanted anything and nothing has gone on.
func (d *Daemon) idleFor() time.Duration {
	if d.isBusy() {
		d.used() // what begins when it ends is the whole time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.lastUse)
}

// isBusy reports whether something goes on.
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
		d.usedAt(i.Since) // its turn may have ended since somebody looked here last
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.watches {
		if d.entries[w.entry.name] == w.entry { // one that is paused outlives its session
			return true
		}
	}
	return false
}

// used notes a use of the daemon.
func (d *Daemon) used() { d.usedAt(time.Now()) }

func (d *Daemon) usedAt(then time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if then.After(d.lastUse) {
		d.lastUse = then
	}
}

// info describes the daemon.
func (d *Daemon) info() client.Info {
	d.mu.Lock()
	defer d.mu.Unlock()
	return client.Info{
		Version: d.o.Version, Protocol: client.Protocol, PID: os.Getpid(), Started: d.started,
		Languages: slices.Clone(d.o.Languages), Sessions: len(d.entries),
		Connections: d.rpc.Activity().Connections, Draining: d.draining, Paused: d.paused,
	}
}
