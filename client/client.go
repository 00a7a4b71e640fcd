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

// lateAnswerGrace is how long after the requested wait the answer of a daemon may arrive.
const lateAnswerGrace = 3 * time.Second

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

	lastRequest      atomic.Uint64 // number of the last request ID
	reconnectTimeout atomic.Int64  // see SetReconnectTimeout

	mu            sync.Mutex
	conn          *Conn                     // guarded by mu; nil before the first connection and after a loss
	epoch         uint64                    // guarded by mu; number of connections so far
	attempt       *attempt                  // guarded by mu; nil when not dialling
	failures      int                       // guarded by mu; failed attempts since the connection was lost
	lastError     error                     // guarded by mu; error of the last attempt; nil after success
	reached       bool                      // guarded by mu; a daemon was reached before
	outage        Outage                    // guarded by mu; the current outage; its From is zero if there is none
	pastOutages   []Outage                  // guarded by mu; the most recent past outages
	endNoted      chan struct{}             // guarded by mu; closed when the end of the last connection has been handled
	closed        bool                      // guarded by mu
	onProgress    func(PreparationProgress) // guarded by mu
	onOutage      func(Outage)              // guarded by mu
	turnCallbacks map[string]func(uint64)   // guarded by mu; callbacks for the turn of a request
	helloFirst    bool                      // guarded by mu; wait for the hello's answer: a hello that was sent together with calls was refused
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
	conn         *Conn
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
		log: slog.New(slog.DiscardHandler), turnCallbacks: make(map[string]func(uint64)),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.facade = &Conn{client: l, done: make(chan struct{})}
	return l
}

// Close ends the connection permanently. The sessions stay alive.
func (l *Client) Close() {
	l.mu.Lock()
	c, a, first := l.conn, l.attempt, !l.closed
	l.conn, l.closed = nil, true
	l.mu.Unlock()
	l.stop()
	if a != nil {
		<-a.done // the attempt may have started a transport command
	}
	if c != nil {
		_ = c.Close()
	}
	if first {
		close(l.facade.done)
	}
}

// OnProgress sets a callback for the progress of preparations, as [Conn.OnProgress]. nil
// removes it.
func (l *Client) OnProgress(f func(PreparationProgress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onProgress = f
	if l.conn != nil {
		l.conn.OnProgress(f)
	}
}

// OnOutage sets a callback for the loss of the connection and for its return. f must not block.
// nil removes it.
func (l *Client) OnOutage(f func(Outage)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onOutage = f
}

// SetReconnectTimeout bounds how long a call without its own timeout waits for a lost
// connection; 0 means until its context ends.
func (l *Client) SetReconnectTimeout(d time.Duration) { l.reconnectTimeout.Store(int64(d)) }

// LogTo logs connections, and everything that [Conn.LogTo] would log; nil logs nothing. Call it
// before any other method.
func (l *Client) LogTo(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l.log = log
}

// Conn returns a Conn that uses the client's current connection, once there is one. It stays
// valid after a reconnect.
func (l *Client) Conn(ctx context.Context) (*Conn, error) {
	if _, err := l.acquireConn(ctx, true); err != nil {
		return nil, err
	}
	return l.facade, nil
}

// RemoteName names the daemon for users, as in "the connection to gpu".
func (l *Client) RemoteName() string { return displayName(l.dialer) }

func displayName(d Dialer) string {
	if named, ok := d.(interface{ DisplayName() string }); ok {
		return named.DisplayName()
	}
	return "the daemon"
}

// DownSince returns the start time of the current outage, if there is one.
func (l *Client) DownSince() (since time.Time, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outage.From, !l.outage.From.IsZero()
}

// IsRemote reports whether the daemon is remote, so that each round trip takes time.
func (l *Client) IsRemote() bool { return l.remote }

// Downtime returns how long the connection was down since a time. An outage that had started
// before counts only if it lasted for at least a second after it.
func (l *Client) Downtime(since time.Time) (down time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range append(l.pastOutages[:len(l.pastOutages):len(l.pastOutages)], l.outage) {
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
func (l *Client) acquireConn(ctx context.Context, starts bool) (*Conn, error) {
	for {
		c, a, err := l.currentConn(starts)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, l.unreachableError(ctx)
		}
		switch {
		case a.err == nil:
			return a.conn, nil
		case starts && l.startDaemon != nil && !a.startsDaemon: // the attempt was for a caller that does not start a daemon
		case !l.isTransient(a.err):
			return nil, a.err
		}
	}
}

// isTransient reports whether a remote daemon that could not be reached may be reachable later.
// A host that was reached but has no daemon is final.
func (l *Client) isTransient(err error) bool {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remote && l.reached && !l.closed && session.KindOf(err) == KindUnreachable && errors.Unwrap(err) != nil
}

// unreachableError returns the error of a call that stops waiting for a connection.
func (l *Client) unreachableError(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	l.mu.Lock()
	noted, lost := l.endNoted, l.conn == nil && l.reached
	l.mu.Unlock()
	if lost {
		<-noted // which is about to happen
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := ""
	if w, ok := l.dialer.(interface{ PendingPrompt() string }); ok && w.PendingPrompt() != "" {
		waiting = ": " + w.PendingPrompt()
	}
	if l.outage.From.IsZero() {
		return &session.Error{Kind: KindUnreachable, Message: displayName(l.dialer) + " cannot be reached yet" + waiting, Cause: ctx.Err()}
	}
	why := l.outage.Cause
	if reason := errors.Unwrap(l.lastError); reason != nil {
		why = reason // it is more specific than how the connection ended
	}
	return &session.Error{Kind: KindUnreachable, Cause: ctx.Err(),
		Message: fmt.Sprintf("%s cannot be reached since %s: %v", displayName(l.dialer), l.outage.From.Format(time.TimeOnly), why)}
}

// currentConn returns the connection, unless it is known to be lost; otherwise the attempt to
// make one.
func (l *Client) currentConn(starts bool) (*Conn, *attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, &session.Error{Kind: KindUnreachable, Message: "the connection to the daemon is closed"}
	}
	if l.conn != nil {
		if l.conn.isOpen() {
			return l.conn, nil, nil
		}
		l.conn = nil
	}
	if l.attempt == nil {
		l.attempt = &attempt{done: make(chan struct{}), startsDaemon: starts && l.startDaemon != nil}
		go l.runAttempt(l.attempt, l.endNoted)
	}
	return nil, l.attempt, nil
}

// runAttempt runs one attempt. It starts after the end of the previous connection has been
// handled, and after a pause.
func (l *Client) runAttempt(a *attempt, noted <-chan struct{}) {
	if noted != nil {
		<-noted
	}
	l.mu.Lock()
	pause := time.Duration(0)
	if !l.outage.From.IsZero() && l.remote {
		pause = retryDelays[min(l.failures, len(retryDelays)-1)]
		if l.failures == 0 {
			pause -= time.Since(l.outage.From)
		}
	}
	l.mu.Unlock()
	var c *Conn
	err := sleepContext(l.ctx, pause)
	if err == nil {
		c, err = l.dialDaemon(l.ctx, a.startsDaemon)
	}
	l.mu.Lock()
	if err == nil && l.closed {
		err = &session.Error{Kind: KindUnreachable, Message: "the connection to the daemon is closed"}
		go func() { _ = c.Close() }()
	}
	a.conn, a.err, l.lastError, l.attempt = c, err, err, nil
	var over Outage
	if err != nil {
		l.failures++
	} else {
		l.conn, l.reached = c, true
		if l.failures++; c.hasHelloAnswer() { // otherwise the connection may still fail
			l.failures = 0
		}
		over = l.endOutageLocked()
		c.LogTo(l.log)
		c.OnProgress(l.onProgress)
		l.endNoted = make(chan struct{})
		go l.watchConn(c, l.endNoted)
	}
	watch := l.onOutage
	l.mu.Unlock()
	defer close(a.done)
	if err != nil {
		l.log.Warn("daemon unreachable", "at", l.dialer.String(), "error", err)
		return
	}
	l.log.Info("connected to daemon", "at", l.dialer.String())
	if watch != nil && !over.From.IsZero() {
		watch(over) // before calls continue
	}
}

// endOutageLocked ends an outage, if there was one. The caller holds l.mu.
func (l *Client) endOutageLocked() Outage {
	over := l.outage
	if over.From.IsZero() {
		return over
	}
	over.To, l.outage = time.Now(), Outage{}
	l.pastOutages = append(l.pastOutages, over)
	l.pastOutages = l.pastOutages[max(0, len(l.pastOutages)-maxOutages):]
	return over
}

// watchConn waits for the end of a connection and handles it.
func (l *Client) watchConn(c *Conn, noted chan<- struct{}) {
	defer close(noted)
	<-c.conn.Context().Done()
	o := c.newOutage()
	l.mu.Lock()
	watch := l.onOutage
	if l.closed {
		watch = nil
	} else {
		l.outage = o
		if l.conn == c {
			l.conn = nil
		}
	}
	l.mu.Unlock()
	if watch != nil {
		watch(o)
	}
}

// dialDaemon connects. A local daemon that is not running, or not yet, is dialled again, and
// started before that if starts is set.
func (l *Client) dialDaemon(ctx context.Context, starts bool) (*Conn, error) {
	started := time.Now()
	c, err := l.openConn(ctx)
	if l.remote && !starts {
		return c, err
	}
	if isDaemonAbsent(ctx, err, started) && starts {
		l.log.Info("starting daemon", "at", l.dialer.String())
		if err := l.startDaemon(ctx); err != nil {
			return nil, fmt.Errorf("cannot start a daemon: %w", err)
		}
		started = time.Now()
		c, err = l.openConn(ctx)
	}
	for _, pause := range retryDelays[:maxLocalRetries] {
		if !isDaemonAbsent(ctx, err, started) || !starts && !l.wasReached() {
			break
		}
		if sleepContext(ctx, pause) == nil {
			c, err = l.openConn(ctx)
		}
	}
	return c, err
}

// wasReached reports whether a daemon was reached before.
func (l *Client) wasReached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// isDaemonAbsent reports whether dialling failed because no daemon is running, or not yet. A daemon
// that takes long without answering is running, but stuck.
func isDaemonAbsent(ctx context.Context, err error, started time.Time) bool {
	return session.KindOf(err) == KindUnreachable && ctx.Err() == nil && time.Since(started) < stuckTimeout
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
func (l *Client) ListSessions(ctx context.Context) ([]session.Info, error) {
	return l.facade.ListSessions(ctx)
}

// OpenSession returns the session with the name in p. If it does not exist and p names a
// language, it is created, and made is true.
func (l *Client) OpenSession(ctx context.Context, p CreateParams) (s *Session, now session.Info, made bool, err error) {
	s = l.Session(p.Name)
	before := l.isConnected()
	now, err = s.Info(ctx)
	if before && hasEnded(err) { // it ended before this call, unnoticed: another daemon may be running
		now, err = s.Info(ctx)
	}
	if session.KindOf(err) != session.KindClosed || p.Language == "" {
		return s, now, false, err
	}
	now, err = l.facade.CreateSession(ctx, p)
	made = err == nil
	if session.KindOf(err) == session.KindExists { // another client was faster
		now, err = s.Info(ctx)
	}
	return s, now, made, err
}

// Session returns the session with this name. The daemon is not contacted before a method of it
// is called.
func (l *Client) Session(name string) *Session { return l.facade.Session(name) }
