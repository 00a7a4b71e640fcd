package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	counters "github.com/turnstone-repl/turnstone/cmd/internal/metrics"
	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// drainTimeout is how long a drain waits for running turns.
	drainTimeout = 60 * time.Second

	// finalReadTimeout is how long a daemon that stops gives its subscribers to read the remaining
	// events.
	finalReadTimeout = 2 * time.Second

	// privateStallTimeout is how long the client of a private daemon may leave a line unread. Its
	// sessions would end with the connection, and a debugger may stop a client for hours.
	privateStallTimeout = 365 * 24 * time.Hour

	// maxCommands bounds the control commands in the queue of the owner.
	maxCommands = 16

	// addressCheckInterval is the pause between two checks whether clients can still find the daemon.
	// The checks run where the system does not report removed files, and while the address is lost.
	// One check stats two files, which takes microseconds. A longer pause would leave a daemon without
	// its socket unreachable for longer.
	addressCheckInterval = 2 * time.Second
)

// unreachableReason is the reason logged when a daemon stops because another one has its address.
const unreachableReason = "another daemon has the address, and no client can reach this one"

// New returns a daemon, without starting a goroutine.
func New(o *Options) (*Daemon, error) {
	if o.Supervisor == nil || o.FindSpec == nil || o.Languages == nil || o.HasLanguage == nil {
		return nil, errors.New("daemon: Supervisor, Languages, HasLanguage and FindSpec are required")
	}
	d := &Daemon{
		options: *o, log: o.Logger, started: time.Now(),
		commands:       make(chan controlCommand, maxCommands),
		openSessions:   make(map[string]*openSession),
		opening:        make(map[string]chan struct{}),
		subscriptions:  make(map[string]*subscription),
		chartLibraries: chartlib.NewScriptReader(),
		writeLocks:     make(map[string]*writeLock),
		connections:    make(map[*rpcserver.Conn]*connState),
		knownClients:   make(map[string]*clientState),
	}
	d.streams = make(map[chan struct{}]bool)
	d.newWarmPools()
	d.lastUse = d.currentTime()
	if d.options.Counters == nil {
		d.options.Counters = counters.NewCounters()
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.rpc = &rpcserver.Server{Methods: d.methodHandlers(), InlineMethods: d.inlineHandlers(), Control: d.handleControl, Logger: d.log, OnConnect: d.addConn}
	if d.options.Private {
		d.rpc.StallTimeout = privateStallTimeout
	}
	return d, nil
}

// Serve serves the clients of l until a client stops or drains the daemon, the daemon was idle for
// too long, or ctx ends. Then it closes l, its sessions, and the connections, in this order. So a
// client whose connection ends knows that everything else has ended.
func (d *Daemon) Serve(ctx context.Context, l net.Listener) error {
	connections, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	stopSignal := ctx
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
	d.log.Info("daemon started", "version", d.options.Version, "at", l.Addr())
	why, err := d.runLoop(ctx, accepted, l)
	d.logEnd(why, err)
	_ = l.Close()
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	cancel()
	if stopSignal.Err() != nil { // a signal, as at a logout or at the time limit of a batch job
		d.notifyAll("the daemon is stopping and closes this session: " + why)
	}
	d.closeSessions()
	d.awaitSubscribers(connections)
	hangUp()
	d.wg.Wait()
	return err
}

// notifyAll adds a notice to the timelines of all sessions.
func (d *Daemon) notifyAll(message string) {
	for _, s := range d.supervisorSessions() {
		s.Notify(message)
	}
}

// logEnd logs why the daemon stops. It warns if sessions end with it.
func (d *Daemon) logEnd(why string, err error) {
	level := slog.LevelInfo
	var names []string
	for _, s := range d.supervisorSessions() {
		names = append(names, s.Name())
	}
	if len(names) > 0 && !d.options.Private {
		level = slog.LevelWarn
	}
	if err != nil {
		level, why = slog.LevelError, err.Error()
	}
	d.log.Log(context.Background(), level, "daemon stopping", "why", why, "after", time.Since(d.started).Round(time.Second), "sessions", names)
}

// acceptClients accepts clients until l is closed. It serves them until the context connections
// ends.
func (d *Daemon) acceptClients(ctx, connections context.Context, l net.Listener) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if isTemporary(err) { // such as too few file descriptors; connected clients are served in the meantime
				d.log.Warn("accept failed", "error", err)
				select {
				case <-time.After(100 * time.Millisecond):
					continue
				case <-ctx.Done():
					return nil
				}
			}
			return fmt.Errorf("daemon: accept: %w", err)
		}
		if err := d.authorizeClient(conn); err != nil {
			d.log.Warn("client refused", "error", err)
			_ = conn.Close()
			continue
		}
		d.wg.Go(func() {
			if err := d.rpc.Serve(connections, conn); err != nil {
				d.log.Info("connection ended", "error", err)
			}
		})
	}
}

// authorizeClient refuses the processes of other users.
func (d *Daemon) authorizeClient(conn net.Conn) error {
	if d.options.Private {
		return nil
	}
	return authorizePeer(conn)
}

// runLoop is the main loop of the owner, which alone carries out control commands. It returns why
// the daemon stops.
func (d *Daemon) runLoop(ctx context.Context, accepted <-chan error, l net.Listener) (why string, err error) {
	idle, stop := d.idleChecks()
	defer stop()
	address := d.newAddressWatcher(l)
	defer address.stop()
	var drained chan struct{} // nil until a drain starts
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx).Error(), nil
		case <-drained:
			return "drained", nil
		case err := <-accepted:
			return "cannot accept clients", err
		case <-address.removed:
			if address.restoreAddress() {
				return unreachableReason, nil
			}
		case <-address.nextCheck:
			if address.restoreAddress() {
				return unreachableReason, nil
			}
		case now := <-idle:
			if d.idleFor(now) >= d.options.DaemonIdleTimeout {
				return fmt.Sprintf("unused for %s", d.options.DaemonIdleTimeout), nil
			}
		case c := <-d.commands:
			d.log.Info("control command", "command", c)
			switch c {
			case commandPause, commandResume:
				d.mu.Lock()
				d.paused = c == commandPause
				d.mu.Unlock()
				d.wakePools()
			case commandDrain:
				if drained == nil { // in a goroutine, because the owner must still handle a stop
					drained = make(chan struct{})
					d.wg.Go(func() {
						defer close(drained)
						d.drainTurns(ctx)
					})
				}
			case commandStop:
				return "stopped by a client", nil
			}
		}
	}
}

// drainTurns refuses new work and waits for running turns, for at most drainTimeout.
func (d *Daemon) drainTurns(ctx context.Context) {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for _, s := range d.supervisorSessions() {
		// Do not wait for a session that waits for input: an answer may never come.
		_, _ = s.Wait(ctx, 0, &session.WaitOptions{After: s.Log().LastSeq(), HeadBytes: 1, TailBytes: 1})
	}
	if ctx.Err() != nil {
		return
	}
	d.closeSessions()
	d.awaitSubscribers(ctx)
}

// awaitSubscribers lets subscribers read the remaining events, for finalReadTimeout at most.
func (d *Daemon) awaitSubscribers(ctx context.Context) {
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

// A Renewer is a listener that can restore its files after another program removed them. Renew
// restores them, and reports whether one was missing. [ErrServed] means that another daemon has the
// address now.
type Renewer interface {
	Renew() (renewed bool, err error)
}
