package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/backoff"
	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

// maxLocalRetries is the number of retries for a daemon on this machine.
const maxLocalRetries = 3

// stuckTimeout is the time after which a daemon that does not answer counts as stuck.
const stuckTimeout = 4 * time.Second

// A reconnectingConn maintains a connection to one daemon: it connects when a caller needs it, and
// again after a lost connection. It is safe for concurrent use.
type reconnectingConn struct {
	dialer      Dialer
	startDaemon func(ctx context.Context) error // starts a daemon; may be nil
	remote      bool                            // the daemon is remote: the connection may break while the daemon lives
	id          string                          // of this client
	log         *slog.Logger                    // set before use
	ctx         context.Context                 // ends with Close
	stop        context.CancelFunc
	done        chan struct{} // closed by Close

	callbacks
	lastRequest      atomic.Uint64 // number of the last request ID
	reconnectTimeout atomic.Int64  // see Client.SetReconnectTimeout

	mu         sync.Mutex
	conn       *conn.Conn    // guarded by mu; nil before the first connection and after a loss
	epoch      uint64        // guarded by mu; number of connections so far
	attempt    *attempt      // guarded by mu; nil when not dialling
	failures   int           // guarded by mu; failed attempts since the connection was lost
	lastError  error         // guarded by mu; error of the last attempt; nil after success
	reached    bool          // guarded by mu; a daemon was reached before
	outages    outageLog     // guarded by mu
	endNoted   chan struct{} // guarded by mu; closed when the end of the last connection has been handled
	closed     bool          // guarded by mu
	onOutage   func(Outage)  // guarded by mu
	kept       *conn.Conn    // guarded by mu; the connection that is probed because of functions
	helloFirst bool          // guarded by mu; wait for the hello's answer: a hello that was sent together with calls was refused
}

// An attempt is one connection attempt, shared by all callers that wait for it.
type attempt struct {
	done         chan struct{} // closed when the other fields are set
	startsDaemon bool          // it starts a daemon if none is running
	conn         *conn.Conn
	err          error
}

func newReconnectingConn(d Dialer, start func(ctx context.Context) error) *reconnectingConn {
	rc := &reconnectingConn{
		dialer: d, startDaemon: start, remote: !isLocal(d), id: rand.Text(),
		log: slog.New(slog.DiscardHandler), done: make(chan struct{}),
	}
	rc.ctx, rc.stop = context.WithCancel(context.Background())
	rc.host.onSet = rc.keepForFunctions
	return rc
}

// keepForFunctions makes the connection, if it is remote, probe the daemon. While this program gives
// functions, it must notice that the connection is lost, even if it calls nothing.
func (rc *reconnectingConn) keepForFunctions() {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.keepForFunctionsLocked()
}

func (rc *reconnectingConn) keepForFunctionsLocked() {
	if rc.conn != nil && rc.conn != rc.kept && rc.host.hasAny() {
		rc.kept = rc.conn
		rc.conn.AddKeepAlive() // released by the end of the connection
	}
}

// Close implements endpoint.
func (rc *reconnectingConn) Close() error {
	rc.mu.Lock()
	c, a, first := rc.conn, rc.attempt, !rc.closed
	rc.conn, rc.closed = nil, true
	rc.mu.Unlock()
	rc.stop()
	if a != nil {
		<-a.done // the attempt may have started a transport command
	}
	if c != nil {
		_ = c.Close()
	}
	if first {
		close(rc.done)
	}
	return nil
}

// Done is closed by Close.
func (rc *reconnectingConn) Done() <-chan struct{} { return rc.done }

// LogTo logs connections, and for each what conn.Conn.LogTo logs.
func (rc *reconnectingConn) LogTo(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	rc.log = log
}

// OnOutage is [Client.OnOutage].
func (rc *reconnectingConn) OnOutage(f func(Outage)) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.onOutage = f
}

// DownSince is [Client.DownSince].
func (rc *reconnectingConn) DownSince() (since time.Time, down bool) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.outages.current.From, rc.outages.isDown()
}

// Downtime is [Client.Downtime].
func (rc *reconnectingConn) Downtime(since time.Time) (down time.Duration) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.outages.downtime(since)
}

func (rc *reconnectingConn) canReconnect() bool { return true }

// awaitConnection implements endpoint. It starts a daemon if none is running.
func (rc *reconnectingConn) awaitConnection(ctx context.Context) error {
	_, err := rc.acquireConn(ctx, true)
	return err
}

func (rc *reconnectingConn) isConnected() bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.conn != nil
}

// acquireConn returns a connection. If there is none, it dials until it is connected, the
// failure is final, or ctx ends. starts allows starting a daemon.
func (rc *reconnectingConn) acquireConn(ctx context.Context, starts bool) (*conn.Conn, error) {
	for {
		c, a, err := rc.currentConn(starts)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, rc.unreachableError(ctx)
		}
		switch {
		case a.err == nil:
			return a.conn, nil
		case starts && rc.startDaemon != nil && !a.startsDaemon: // the attempt was for a caller that does not start a daemon
		case !rc.isTransient(a.err):
			return nil, a.err
		}
	}
}

// isTransient reports whether a remote daemon that could not be reached may be reachable later.
// A host that was reached but has no daemon is final.
func (rc *reconnectingConn) isTransient(err error) bool {
	if _, refused := errors.AsType[*remote.RefusedError](err); refused {
		return false
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.remote && rc.reached && !rc.closed && session.KindOf(err) == session.KindUnreachable && errors.Unwrap(err) != nil
}

// unreachableError returns the error of a call that stops waiting for a connection.
func (rc *reconnectingConn) unreachableError(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	rc.mu.Lock()
	noted, lost := rc.endNoted, rc.conn == nil && rc.reached
	rc.mu.Unlock()
	if lost {
		<-noted // which is about to happen
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	waiting := ""
	if w, ok := rc.dialer.(interface{ PendingPrompt() string }); ok && w.PendingPrompt() != "" {
		waiting = ": " + w.PendingPrompt()
	}
	if !rc.outages.isDown() {
		return &session.Error{Kind: session.KindUnreachable, Message: displayName(rc.dialer) + " cannot be reached yet" + waiting, Cause: ctx.Err()}
	}
	why := rc.outages.current.Cause
	if reason := errors.Unwrap(rc.lastError); reason != nil {
		why = reason // it is more specific than how the connection ended
	}
	return &session.Error{Kind: session.KindUnreachable, Cause: ctx.Err(),
		Message: fmt.Sprintf("%s cannot be reached since %s: %v", displayName(rc.dialer), rc.outages.current.From.Format(time.TimeOnly), why)}
}

// currentConn returns the connection, unless it is known to be lost; otherwise the attempt to
// make one.
func (rc *reconnectingConn) currentConn(starts bool) (*conn.Conn, *attempt, error) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.closed {
		return nil, nil, &session.Error{Kind: session.KindUnreachable, Message: "the connection to the daemon is closed"}
	}
	if rc.conn != nil {
		if rc.conn.IsOpen() {
			return rc.conn, nil, nil
		}
		rc.conn = nil
	}
	if rc.attempt == nil {
		rc.attempt = &attempt{done: make(chan struct{}), startsDaemon: starts && rc.startDaemon != nil}
		go rc.runAttempt(rc.attempt, rc.endNoted)
	}
	return nil, rc.attempt, nil
}

// runAttempt runs one attempt. It starts after the end of the previous connection has been
// handled, and after a pause.
func (rc *reconnectingConn) runAttempt(a *attempt, noted <-chan struct{}) {
	if noted != nil {
		<-noted
	}
	rc.mu.Lock()
	pause := time.Duration(0)
	if rc.outages.isDown() && rc.remote {
		pause = backoff.Delay(rc.failures)
		if rc.failures == 0 {
			pause -= time.Since(rc.outages.current.From)
		}
	}
	rc.mu.Unlock()
	var c *conn.Conn
	err := backoff.Sleep(rc.ctx, pause)
	if err == nil {
		c, err = rc.dialDaemon(rc.ctx, a.startsDaemon)
	}
	rc.mu.Lock()
	if err == nil && rc.closed {
		err = &session.Error{Kind: session.KindUnreachable, Message: "the connection to the daemon is closed"}
		go func() { _ = c.Close() }()
	}
	a.conn, a.err, rc.lastError, rc.attempt = c, err, err, nil
	var over Outage
	if err != nil {
		rc.failures++
	} else {
		rc.host.restore(c, func(name string, err error) { // before rc.conn is set, so before other calls
			rc.log.Warn("functions not given again", "session", name, "error", err)
		})
		rc.conn, rc.reached = c, true
		rc.keepForFunctionsLocked()
		if rc.failures++; c.HasHelloAnswer() { // otherwise the connection may still fail
			rc.failures = 0
		}
		over = rc.outages.end()
		c.LogTo(rc.log)
		rc.endNoted = make(chan struct{})
		go rc.watchConn(c, rc.endNoted)
	}
	watch := rc.onOutage
	rc.mu.Unlock()
	defer close(a.done)
	if err != nil {
		rc.log.Warn("daemon unreachable", "at", rc.dialer.String(), "error", err)
		return
	}
	rc.log.Info("connected to daemon", "at", rc.dialer.String())
	if watch != nil && !over.From.IsZero() {
		watch(over) // before calls continue
	}
}

// watchConn waits for the end of a connection and handles it.
func (rc *reconnectingConn) watchConn(c *conn.Conn, noted chan<- struct{}) {
	defer close(noted)
	<-c.Ending()
	from, cause := c.Loss()
	o := Outage{From: from, Cause: cause}
	rc.mu.Lock()
	watch, closed := rc.onOutage, rc.closed
	if closed {
		watch = nil
	} else {
		rc.outages.current = o
		if rc.conn == c {
			rc.conn = nil
		}
	}
	rc.mu.Unlock()
	if watch != nil {
		watch(o)
	}
	if !closed && rc.host.hasAny() { // code may call them although this program calls nothing
		go func() { _, _ = rc.acquireConn(rc.ctx, false) }()
	}
}

// dialDaemon connects. A local daemon that is not running, or not yet, is dialled again, and
// started before that if starts is set.
func (rc *reconnectingConn) dialDaemon(ctx context.Context, starts bool) (*conn.Conn, error) {
	started := time.Now()
	c, err := rc.openConn(ctx)
	if rc.remote && !starts {
		return c, err
	}
	if isDaemonAbsent(ctx, err, started) && starts {
		rc.log.Info("starting daemon", "at", rc.dialer.String())
		if err := rc.startDaemon(ctx); err != nil {
			return nil, fmt.Errorf("cannot start a daemon: %w", err)
		}
		started = time.Now()
		c, err = rc.openConn(ctx)
	}
	for _, pause := range backoff.Delays()[:maxLocalRetries] {
		if !isDaemonAbsent(ctx, err, started) || !starts && !rc.wasReached() {
			break
		}
		if backoff.Sleep(ctx, pause) == nil {
			c, err = rc.openConn(ctx)
		}
	}
	return c, err
}

// wasReached reports whether a daemon was reached before.
func (rc *reconnectingConn) wasReached() bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.reached
}

// isDaemonAbsent reports whether dialling failed because no daemon is running, or not yet. A daemon
// that takes long without answering is running, but stuck.
func isDaemonAbsent(ctx context.Context, err error, started time.Time) bool {
	return session.KindOf(err) == session.KindUnreachable && ctx.Err() == nil && time.Since(started) < stuckTimeout
}

// openConn connects once and sends the hello of this client. If a hello that was not waited for
// is refused, the next attempt waits for its answer before other calls, and fails with its
// error.
func (rc *reconnectingConn) openConn(ctx context.Context) (*conn.Conn, error) {
	stream, err := rc.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := rc.newConnection(stream)
	rc.mu.Lock()
	rc.epoch++
	epoch, first := rc.epoch, rc.helloFirst
	rc.mu.Unlock()
	if err := c.SayHello(ctx, rc.dialer, protocol.HelloParams{ID: rc.id, Epoch: epoch}, first, rc.noteHello); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// newConnection returns a connection whose notifications the Client handles.
func (rc *reconnectingConn) newConnection(stream net.Conn) *conn.Conn {
	return conn.New(stream, connectionOptions(stream, rc.remote, &rc.callbacks))
}

// noteHello notes the result of a hello that was not waited for.
func (rc *reconnectingConn) noteHello(err error) {
	cut := session.KindOf(err) == session.KindUnreachable && errors.Unwrap(err) != nil // the connection was lost, nothing was refused
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if err == nil {
		rc.failures = 0
	} else if !cut {
		rc.helloFirst = true
	}
}
