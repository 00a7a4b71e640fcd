package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

// retryDelays are the pauses before the daemon is dialled again. For a local daemon there are
// only the first three, about a second in all. For a remote daemon that was reached before,
// retries continue while a call waits; the last delay repeats.
var retryDelays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond, 2 * time.Second, 5 * time.Second}

// maxLocalRetries is the number of retries for a daemon on this machine.
const maxLocalRetries = 3

// stuckTimeout is the time after which a daemon that does not answer counts as stuck.
const stuckTimeout = 4 * time.Second

// A Client maintains a connection to one daemon. It connects when a caller needs it, and
// reconnects after a lost connection: then calls are resumed and take effect only once, and
// subscriptions continue where they were. It is safe for concurrent use.
type Client struct {
	dialer      Dialer
	startDaemon func(ctx context.Context) error // starts a daemon; may be nil
	remote      bool                            // the daemon is remote: the connection may break while the daemon lives
	id          string                          // of this client
	log         *slog.Logger                    // set before use
	facade      *Conn                           // its calls use the client's connections
	ctx         context.Context                 // ends with Close
	stop        context.CancelFunc
	done        chan struct{} // closed by Close

	callbacks        callbacks
	lastRequest      atomic.Uint64 // number of the last request ID
	reconnectTimeout atomic.Int64  // see SetReconnectTimeout

	mu          sync.Mutex
	conn        *conn.Conn    // guarded by mu; nil before the first connection and after a loss
	epoch       uint64        // guarded by mu; number of connections so far
	attempt     *attempt      // guarded by mu; nil when not dialling
	failures    int           // guarded by mu; failed attempts since the connection was lost
	lastError   error         // guarded by mu; error of the last attempt; nil after success
	reached     bool          // guarded by mu; a daemon was reached before
	outage      Outage        // guarded by mu; the current outage; its From is zero if there is none
	pastOutages []Outage      // guarded by mu; the most recent past outages
	endNoted    chan struct{} // guarded by mu; closed when the end of the last connection has been handled
	closed      bool          // guarded by mu
	onOutage    func(Outage)  // guarded by mu
	helloFirst  bool          // guarded by mu; wait for the hello's answer: a hello that was sent together with calls was refused
}

// An Outage is a period without a connection.
type Outage struct {
	From  time.Time
	To    time.Time // zero while it lasts
	Cause error
}

// maxOutages bounds the outages that a Client remembers.
const maxOutages = 32

// An attempt is one connection attempt, shared by all callers that wait for it.
type attempt struct {
	done         chan struct{} // closed when the other fields are set
	startsDaemon bool          // it starts a daemon if none is running
	conn         *conn.Conn
	err          error
}

// New returns a Client of a daemon; a nil d is the user's own, as [DefaultDialer] of os.Getenv.
// It calls start when no daemon is running. Without start, a daemon that was never reached is
// an error at once.
func New(d Dialer, start func(ctx context.Context) error) *Client {
	if d == nil {
		d = DefaultDialer(nil)
	}
	l := &Client{
		dialer: d, startDaemon: start, remote: !isLocal(d), id: rand.Text(),
		log: slog.New(slog.DiscardHandler), done: make(chan struct{}),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.facade = &Conn{over: sharedConn{l}}
	return l
}

// Close ends the connection permanently. The sessions stay alive.
func (cl *Client) Close() {
	cl.mu.Lock()
	c, a, first := cl.conn, cl.attempt, !cl.closed
	cl.conn, cl.closed = nil, true
	cl.mu.Unlock()
	cl.stop()
	if a != nil {
		<-a.done // the attempt may have started a transport command
	}
	if c != nil {
		_ = c.Close()
	}
	if first {
		close(cl.done)
	}
}

// OnProgress sets a callback for the progress of preparations, as [Conn.OnProgress]. nil
// removes it.
func (cl *Client) OnProgress(f func(PreparationProgress)) { cl.callbacks.OnProgress(f) }

// OnOutage sets a callback for the loss of the connection and for its return. f must not block.
// nil removes it.
func (cl *Client) OnOutage(f func(Outage)) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.onOutage = f
}

// SetReconnectTimeout bounds how long a call without its own timeout waits for a lost
// connection; 0 means until its context ends.
func (cl *Client) SetReconnectTimeout(d time.Duration) { cl.reconnectTimeout.Store(int64(d)) }

// LogTo logs connections, and everything that [Conn.LogTo] would log; nil logs nothing. Call it
// before any other method.
func (cl *Client) LogTo(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cl.log = log
}

// Conn returns a Conn that uses the client's current connection, once there is one. It stays
// valid after a reconnect.
func (cl *Client) Conn(ctx context.Context) (*Conn, error) {
	if _, err := cl.acquireConn(ctx, true); err != nil {
		return nil, err
	}
	return cl.facade, nil
}

// RemoteName names the daemon for users, as in "the connection to gpu".
func (cl *Client) RemoteName() string { return displayName(cl.dialer) }

func displayName(d Dialer) string {
	if named, ok := d.(interface{ DisplayName() string }); ok {
		return named.DisplayName()
	}
	return "the daemon"
}

// DownSince returns the start time of the current outage, if there is one.
func (cl *Client) DownSince() (since time.Time, down bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.outage.From, !cl.outage.From.IsZero()
}

// IsRemote reports whether the daemon is remote, so that each round trip takes time.
func (cl *Client) IsRemote() bool { return cl.remote }

// Downtime returns how long the connection was down since a time. An outage that had started
// before counts only if it lasted for at least a second after it.
func (cl *Client) Downtime(since time.Time) (down time.Duration) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, o := range append(cl.pastOutages[:len(cl.pastOutages):len(cl.pastOutages)], cl.outage) {
		if o.From.IsZero() {
			continue
		}
		if o.To.IsZero() {
			o.To = time.Now()
		}
		known := o.From.Before(since)
		if known {
			o.From = since
		}
		if d := o.To.Sub(o.From); d > 0 && (!known || d >= time.Second) {
			down += d
		}
	}
	return down
}

// ---- connecting

// acquireConn returns a connection. If there is none, it dials until it is connected, the
// failure is final, or ctx ends. starts allows starting a daemon.
func (cl *Client) acquireConn(ctx context.Context, starts bool) (*conn.Conn, error) {
	for {
		c, a, err := cl.currentConn(starts)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, cl.unreachableError(ctx)
		}
		switch {
		case a.err == nil:
			return a.conn, nil
		case starts && cl.startDaemon != nil && !a.startsDaemon: // the attempt was for a caller that does not start a daemon
		case !cl.isTransient(a.err):
			return nil, a.err
		}
	}
}

// isTransient reports whether a remote daemon that could not be reached may be reachable later.
// A host that was reached but has no daemon is final.
func (cl *Client) isTransient(err error) bool {
	if _, refused := errors.AsType[*remote.RefusedError](err); refused {
		return false
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.remote && cl.reached && !cl.closed && session.KindOf(err) == session.KindUnreachable && errors.Unwrap(err) != nil
}

// unreachableError returns the error of a call that stops waiting for a connection.
func (cl *Client) unreachableError(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	cl.mu.Lock()
	noted, lost := cl.endNoted, cl.conn == nil && cl.reached
	cl.mu.Unlock()
	if lost {
		<-noted // which is about to happen
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	waiting := ""
	if w, ok := cl.dialer.(interface{ PendingPrompt() string }); ok && w.PendingPrompt() != "" {
		waiting = ": " + w.PendingPrompt()
	}
	if cl.outage.From.IsZero() {
		return &session.Error{Kind: session.KindUnreachable, Message: displayName(cl.dialer) + " cannot be reached yet" + waiting, Cause: ctx.Err()}
	}
	why := cl.outage.Cause
	if reason := errors.Unwrap(cl.lastError); reason != nil {
		why = reason // it is more specific than how the connection ended
	}
	return &session.Error{Kind: session.KindUnreachable, Cause: ctx.Err(),
		Message: fmt.Sprintf("%s cannot be reached since %s: %v", displayName(cl.dialer), cl.outage.From.Format(time.TimeOnly), why)}
}

// currentConn returns the connection, unless it is known to be lost; otherwise the attempt to
// make one.
func (cl *Client) currentConn(starts bool) (*conn.Conn, *attempt, error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed {
		return nil, nil, &session.Error{Kind: session.KindUnreachable, Message: "the connection to the daemon is closed"}
	}
	if cl.conn != nil {
		if cl.conn.IsOpen() {
			return cl.conn, nil, nil
		}
		cl.conn = nil
	}
	if cl.attempt == nil {
		cl.attempt = &attempt{done: make(chan struct{}), startsDaemon: starts && cl.startDaemon != nil}
		go cl.runAttempt(cl.attempt, cl.endNoted)
	}
	return nil, cl.attempt, nil
}

// runAttempt runs one attempt. It starts after the end of the previous connection has been
// handled, and after a pause.
func (cl *Client) runAttempt(a *attempt, noted <-chan struct{}) {
	if noted != nil {
		<-noted
	}
	cl.mu.Lock()
	pause := time.Duration(0)
	if !cl.outage.From.IsZero() && cl.remote {
		pause = retryDelays[min(cl.failures, len(retryDelays)-1)]
		if cl.failures == 0 {
			pause -= time.Since(cl.outage.From)
		}
	}
	cl.mu.Unlock()
	var c *conn.Conn
	err := sleepContext(cl.ctx, pause)
	if err == nil {
		c, err = cl.dialDaemon(cl.ctx, a.startsDaemon)
	}
	cl.mu.Lock()
	if err == nil && cl.closed {
		err = &session.Error{Kind: session.KindUnreachable, Message: "the connection to the daemon is closed"}
		go func() { _ = c.Close() }()
	}
	a.conn, a.err, cl.lastError, cl.attempt = c, err, err, nil
	var over Outage
	if err != nil {
		cl.failures++
	} else {
		cl.conn, cl.reached = c, true
		if cl.failures++; c.HasHelloAnswer() { // otherwise the connection may still fail
			cl.failures = 0
		}
		over = cl.endOutageLocked()
		c.LogTo(cl.log)
		cl.endNoted = make(chan struct{})
		go cl.watchConn(c, cl.endNoted)
	}
	watch := cl.onOutage
	cl.mu.Unlock()
	defer close(a.done)
	if err != nil {
		cl.log.Warn("daemon unreachable", "at", cl.dialer.String(), "error", err)
		return
	}
	cl.log.Info("connected to daemon", "at", cl.dialer.String())
	if watch != nil && !over.From.IsZero() {
		watch(over) // before calls continue
	}
}

// endOutageLocked ends an outage, if there was one, and returns it.
func (cl *Client) endOutageLocked() Outage {
	over := cl.outage
	if over.From.IsZero() {
		return over
	}
	over.To, cl.outage = time.Now(), Outage{}
	cl.pastOutages = append(cl.pastOutages, over)
	cl.pastOutages = cl.pastOutages[max(0, len(cl.pastOutages)-maxOutages):]
	return over
}

// watchConn waits for the end of a connection and handles it.
func (cl *Client) watchConn(c *conn.Conn, noted chan<- struct{}) {
	defer close(noted)
	<-c.Ending()
	from, cause := c.Loss()
	o := Outage{From: from, Cause: cause}
	cl.mu.Lock()
	watch := cl.onOutage
	if cl.closed {
		watch = nil
	} else {
		cl.outage = o
		if cl.conn == c {
			cl.conn = nil
		}
	}
	cl.mu.Unlock()
	if watch != nil {
		watch(o)
	}
}

// dialDaemon connects. A local daemon that is not running, or not yet, is dialled again, and
// started before that if starts is set.
func (cl *Client) dialDaemon(ctx context.Context, starts bool) (*conn.Conn, error) {
	started := time.Now()
	c, err := cl.openConn(ctx)
	if cl.remote && !starts {
		return c, err
	}
	if isDaemonAbsent(ctx, err, started) && starts {
		cl.log.Info("starting daemon", "at", cl.dialer.String())
		if err := cl.startDaemon(ctx); err != nil {
			return nil, fmt.Errorf("cannot start a daemon: %w", err)
		}
		started = time.Now()
		c, err = cl.openConn(ctx)
	}
	for _, pause := range retryDelays[:maxLocalRetries] {
		if !isDaemonAbsent(ctx, err, started) || !starts && !cl.wasReached() {
			break
		}
		if sleepContext(ctx, pause) == nil {
			c, err = cl.openConn(ctx)
		}
	}
	return c, err
}

// wasReached reports whether a daemon was reached before.
func (cl *Client) wasReached() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.reached
}

// isDaemonAbsent reports whether dialling failed because no daemon is running, or not yet. A daemon
// that takes long without answering is running, but stuck.
func isDaemonAbsent(ctx context.Context, err error, started time.Time) bool {
	return session.KindOf(err) == session.KindUnreachable && ctx.Err() == nil && time.Since(started) < stuckTimeout
}

func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ---- sessions

// ListSessions describes all sessions, by name.
func (cl *Client) ListSessions(ctx context.Context) ([]session.Info, error) {
	return cl.facade.ListSessions(ctx)
}

// OpenSession returns the session with the name in p. If it does not exist and p names a
// language, it is created, and made is true.
func (cl *Client) OpenSession(ctx context.Context, p CreateParams) (s *Session, now session.Info, made bool, err error) {
	s = cl.Session(p.Name)
	before := cl.isConnected()
	now, err = s.Info(ctx)
	if before && hasEnded(err) { // it ended before this call, unnoticed: another daemon may be running
		now, err = s.Info(ctx)
	}
	if session.KindOf(err) != session.KindClosed || p.Language == "" {
		return s, now, false, err
	}
	now, err = cl.facade.CreateSession(ctx, p)
	made = err == nil
	if session.KindOf(err) == session.KindExists { // another client was faster
		now, err = s.Info(ctx)
	}
	return s, now, made, err
}

// Session returns the session with this name. The daemon is not contacted before a method of it
// is called.
func (cl *Client) Session(name string) *Session { return cl.facade.Session(name) }
