package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// retryDelays are the pauses before the daemon is dialled again. On this machine there are no more
// than the first three: about a second in all. To a place where it was before there is no end of
// them while a call waits; the last one repeats.
var retryDelays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond, 2 * time.Second, 5 * time.Second}

// maxLocalRetries are those for a daemon on this machine.
const maxLocalRetries = 3

// stuckTimeout is after how long a daemon that does not answer counts as stuck.
const stuckTimeout = 4 * time.Second

// lateAnswerGrace is how much longer than it was told to wait a daemon may be silent before its answer.
const lateAnswerGrace = 3 * time.Second

// A Client is the connection that a client keeps to one daemon. It connects when a caller needs it,
// and again after the connection was lost: then calls go on, and are carried out once, and
// subscriptions go on where they were. It is safe for concurrent use.
type Client struct {
	dialer      Dialer
	startDaemon func(ctx context.Context) error // starts a daemon; nil: nobody does
	remote      bool                            // the way leads elsewhere: it may break while the daemon lives
	id          string                          // of this client
	log         *slog.Logger                    // set before use
	facade      *Conn                           // whose calls go over this link
	ctx         context.Context                 // ends with Close
	stop        context.CancelFunc

	lastRequest      atomic.Uint64 // the last request
	reconnectTimeout atomic.Int64  // see Patience

	mu            sync.Mutex
	conn          *Conn                     // guarded by mu; nil before the first connection, and after one was lost
	epoch         uint64                    // guarded by mu; counts the connections
	attempt       *attempt                  // guarded by mu; nil when nobody dials
	failures      int                       // guarded by mu; attempts since the connection was lost
	lastError     error                     // guarded by mu; the error of the last one; nil after success
	reached       bool                      // guarded by mu; a daemon was there before
	outage        Outage                    // guarded by mu; the one that goes on; its From is zero when none does
	pastOutages   []Outage                  // guarded by mu; the last that are over
	endNoted      chan struct{}             // guarded by mu; closed when the end of the last connection is noted
	closed        bool                      // guarded by mu
	onProgress    func(PreparationProgress) // guarded by mu
	onOutage      func(Outage)              // guarded by mu
	turnCallbacks map[string]func(uint64)   // guarded by mu; who is told of the turn of a request
	helloFirst    bool                      // guarded by mu; a hello behind which calls went was refused
}

// An Outage is a time in which a link was down.
type Outage struct {
	From  time.Time
	To    time.Time // zero while it goes on
	Cause error
}

// maxOutages bounds those that a link remembers.
const maxOutages = 32

// An attempt is one try to connect.
type attempt struct {
	done         chan struct{} // closed when the others are set
	startsDaemon bool          // it starts a daemon if there is none
	conn         *Conn
	err          error
}

// New makes a Client of a daemon; a nil d is the way to the user's own, as [DefaultDialer] of os.Getenv.
// It calls start when there is no daemon. Without start, a daemon that was never there is an error
// at once.
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

// Close ends the connection, and no other is made. The sessions live on.
func (l *Client) Close() {
	l.mu.Lock()
	c, a, first := l.conn, l.attempt, !l.closed
	l.conn, l.closed = nil, true
	l.mu.Unlock()
	l.stop()
	if a != nil {
		<-a.done // which may have started a command
	}
	if c != nil {
		_ = c.Close()
	}
	if first {
		close(l.facade.done)
	}
}

// OnProgress has f called for the progress of preparations, as [Client.OnProgress]. nil ends it.
func (l *Client) OnProgress(f func(PreparationProgress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onProgress = f
	if l.conn != nil {
		l.conn.OnProgress(f)
	}
}

// OnOutage has f called when the link is lost, and when it is there again. f must not wait. nil
// ends it.
func (l *Client) OnOutage(f func(Outage)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onOutage = f
}

// SetReconnectTimeout bounds how long a call waits for a link that is down, if it is not told itself for how
// long to wait; 0 is until its context ends.
func (l *Client) SetReconnectTimeout(d time.Duration) { l.reconnectTimeout.Store(int64(d)) }

// LogTo logs connections, and everything that [Client.LogTo] would log; nil logs nothing. Call it
// before anything else.
func (l *Client) LogTo(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l.log = log
}

// Conn is a client whose calls go over the link: a connection is there as far as one can know,
// and is made again when it is lost.
func (l *Client) Conn(ctx context.Context) (*Conn, error) {
	if _, err := l.acquireConn(ctx, true); err != nil {
		return nil, err
	}
	return l.facade, nil
}

// RemoteName names the daemon for people, as in "the link to gpu".
func (l *Client) RemoteName() string { return displayName(l.dialer) }

func displayName(d Dialer) string {
	if named, ok := d.(interface{ Place() string }); ok {
		return named.Place()
	}
	return "the daemon"
}

// DownSince returns since when the link is down.
func (l *Client) DownSince() (since time.Time, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outage.From, !l.outage.From.IsZero()
}

// IsRemote reports whether the daemon is elsewhere, so that each trip costs time.
func (l *Client) IsRemote() bool { return l.remote }

// Downtime is for how long the link was down since a moment. An outage that had begun before
// counts only if it lasted for a second since.
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

// acquireConn returns a connection. While there is none, it dials until one is there, the failure is
// final, or ctx ends. starts lets a daemon be started.
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
		case starts && l.startDaemon != nil && !a.startsDaemon: // it was another caller's, who wanted less
		case !l.isTransient(a.err):
			return nil, a.err
		}
	}
}

// isTransient reports whether a place that could not be reached may be there again later. One that
// was reached and has no daemon is final.
func (l *Client) isTransient(err error) bool {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remote && l.reached && !l.closed && session.KindOf(err) == KindUnreachable && errors.Unwrap(err) != nil
}

// unreachableError is the error of a call that waits no longer for a connection.
func (l *Client) unreachableError(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	l.mu.Lock()
	noted, lost := l.endNoted, l.conn == nil && l.reached
	l.mu.Unlock()
	if lost {
		<-noted // which is about to come
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := ""
	if w, ok := l.dialer.(interface{ Waiting() string }); ok && w.Waiting() != "" {
		waiting = ": " + w.Waiting()
	}
	if l.outage.From.IsZero() {
		return &session.Error{Kind: KindUnreachable, Message: displayName(l.dialer) + " cannot be reached yet" + waiting, Cause: ctx.Err()}
	}
	why := l.outage.Cause
	if reason := errors.Unwrap(l.lastError); reason != nil {
		why = reason // it says more than how the connection ended
	}
	return &session.Error{Kind: KindUnreachable, Cause: ctx.Err(),
		Message: fmt.Sprintf("%s cannot be reached since %s: %v", displayName(l.dialer), l.outage.From.Format(time.TimeOnly), why)}
}

// currentConn returns the connection, unless it is known to be lost; else the attempt to make one.
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

// runAttempt makes one attempt. It begins when the end of the connection before is noted, and after a
// pause.
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
		if l.failures++; c.hasHelloAnswer() { // otherwise it may still fail
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
		l.log.Warn("the daemon cannot be reached", "at", l.dialer.String(), "error", err)
		return
	}
	l.log.Info("connected to the daemon", "at", l.dialer.String())
	if watch != nil && !over.From.IsZero() {
		watch(over) // before calls go on
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

// watchConn notes the end of a connection.
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

// dialDaemon connects. A daemon on this machine that is not there, or not yet, is dialled again, and
// started before that if starts is set.
func (l *Client) dialDaemon(ctx context.Context, starts bool) (*Conn, error) {
	begun := time.Now()
	c, err := l.openConn(ctx)
	if l.remote && !starts {
		return c, err
	}
	if isAbsent(ctx, err, begun) && starts {
		l.log.Info("no daemon answers, so one is started", "at", l.dialer.String())
		if err := l.startDaemon(ctx); err != nil {
			return nil, fmt.Errorf("cannot start a daemon: %w", err)
		}
		begun = time.Now()
		c, err = l.openConn(ctx)
	}
	for _, pause := range retryDelays[:maxLocalRetries] {
		if !isAbsent(ctx, err, begun) || !starts && !l.wasReached() {
			break
		}
		if sleepContext(ctx, pause) == nil {
			c, err = l.openConn(ctx)
		}
	}
	return c, err
}

// wasReached reports whether a daemon was there before.
func (l *Client) wasReached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// isAbsent reports whether dialling failed because no daemon is there, or not yet.
// One that took long to say nothing is there, and stuck.
func isAbsent(ctx context.Context, err error, begun time.Time) bool {
	return session.KindOf(err) == KindUnreachable && ctx.Err() == nil && time.Since(begun) < stuckTimeout
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

// ---- calls

// A retryableParams is the params of a call whose effect must come once. named returns them with this
// request.
type retryableParams interface {
	withRequestID(request string) any
}

// A waitingParams is the params of a call that waits. waiting returns for how long, and them with
// another time.
type waitingParams interface {
	waitTime() time.Duration
	withWaitTime(d time.Duration) any
}

// newRequestID returns a name for a call and its repetitions.
func (l *Client) newRequestID() string { return strconv.FormatUint(l.lastRequest.Add(1), 36) }

// callWithRetry makes a call, and makes it again when its connection is lost before it is answered: until
// its context ends, or the time for which it waits is over. Its effect comes once.
func (l *Client) callWithRetry(ctx context.Context, method string, params, result any) error {
	t := &retryState{client: l, params: params, startTime: time.Now(), method: method}
	if r, ok := params.(retryableParams); ok {
		t.params = r.withRequestID(l.newRequestID())
	}
	err := t.runWithRetry(ctx, func(c *Conn) error { return t.callOnce(ctx, c, result) })
	if errors.Is(err, context.DeadlineExceeded) && session.KindOf(err) == "" {
		err = fmt.Errorf("the daemon does not answer: %w", err)
	}
	return err
}

// runWithRetry calls do with a connection, and again with the next one while that is of use.
func (t *retryState) runWithRetry(ctx context.Context, do func(*Conn) error) error {
	for {
		c, err := t.acquireConn(ctx)
		if err != nil && t.lossErr != nil && !t.client.remote && session.KindOf(err) == KindUnreachable {
			return t.lossErr // on this machine, that the daemon is gone now says less
		}
		if err != nil {
			return err
		}
		if err = do(c); hasEnded(err) {
			c.awaitEnd(ctx) // a later call must not meet this connection
		}
		t.lastConn, t.lossErr = c, err
		if !t.canRetry(ctx, c, err) {
			return err
		}
		if err := t.losses.recordLoss(ctx, t.method, err); err != nil {
			return err
		}
	}
}

// maxLosses bounds how often in a row something is tried again whose connection is lost within
// lossWindow: a connection that lasts no longer may be lost because of it.
const (
	maxLosses  = 8
	lossWindow = 10 * time.Second
)

// lossCounter are the connections that one caller has lost soon, one after the other.
type lossCounter struct {
	recent int
	last   time.Time
}

// recordLoss counts a loss, and pauses before another try, for longer each time. It is an error when
// there were too many.
func (l *lossCounter) recordLoss(ctx context.Context, method string, lost error) error {
	if !l.last.IsZero() && time.Since(l.last) > lossWindow {
		l.recent = 0
	}
	l.recent++
	switch {
	case l.recent > maxLosses:
		return &session.Error{Kind: KindUnreachable, Cause: lost, Message: fmt.Sprintf(
			"%d connections in a row ended while %s was under way, so it was not repeated again: %v", l.recent, method, lost)}
	case l.recent > 1: // most are lost once
		if err := sleepContext(ctx, retryDelays[min(l.recent-2, len(retryDelays)-1)]); err != nil {
			return err
		}
	}
	l.last = time.Now()
	return nil
}

// A retryState is a call with its repetitions.
type retryState struct {
	client    *Client
	method    string
	params    any
	startTime time.Time
	lastConn  *Conn // the connection over which it was last sent
	lossErr   error // why it got no answer there
	losses    lossCounter
}

// timeLeft returns how long the call may still wait, and whether it waits for a time of its own.
func (t *retryState) timeLeft() (left time.Duration, bounded bool) {
	if p, ok := t.params.(waitingParams); ok && p.waitTime() > 0 {
		return p.waitTime() - time.Since(t.startTime), true
	}
	patience := time.Duration(t.client.reconnectTimeout.Load())
	return patience - time.Since(t.startTime), patience > 0
}

// acquireConn returns a connection on which the call can be made.
func (t *retryState) acquireConn(ctx context.Context) (*Conn, error) {
	if left, bounded := t.timeLeft(); bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, max(left, 0))
		defer stop()
	}
	c, err := t.client.acquireConn(ctx, t.lastConn == nil)
	if err != nil || t.lastConn == nil {
		return c, err
	}
	err = c.checkSameDaemon(t.lastConn, t.method)
	if _, once := t.params.(retryableParams); once && err == nil {
		err = c.checkRemembered(t.method)
	}
	return c, err
}

// callOnce makes the call once.
func (t *retryState) callOnce(ctx context.Context, c *Conn, result any) error {
	params := t.params
	if p, ok := params.(waitingParams); ok && p.waitTime() > 0 {
		left, _ := t.timeLeft()
		if t.lastConn != nil {
			params = p.withWaitTime(max(left, time.Millisecond))
		}
		if t.client.remote {
			var stop context.CancelFunc
			ctx, stop = c.withLateDeadline(ctx, max(left, 0))
			defer stop()
		}
	}
	err := c.Call(ctx, t.method, params, result)
	if err != nil && errors.Is(context.Cause(ctx), errLateAnswer) {
		return &session.Error{Kind: KindUnreachable, Cause: context.DeadlineExceeded,
			Message: fmt.Sprintf("%s has not answered since %s", t.client.RemoteName(), c.conn.LastActivity().Format(time.TimeOnly))}
	}
	return err
}

var errLateAnswer = errors.New("the answer is late")

// withLateDeadline ends ctx when the answer to a call that waits for so long is late. While anything comes,
// it may be the answer, which can be long.
func (c *Conn) withLateDeadline(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	var look func()
	look = func() {
		switch rest := lateAnswerGrace - time.Since(c.conn.LastActivity()); {
		case ctx.Err() != nil:
		case rest > 0:
			time.AfterFunc(rest, look)
		default:
			end(errLateAnswer)
		}
	}
	first := time.AfterFunc(wait+lateAnswerGrace, look)
	return ctx, func() {
		first.Stop()
		end(nil)
	}
}

// connEndTimeout bounds the wait for the end of a connection on which a call has failed.
const connEndTimeout = 5 * time.Second

// hasEnded reports whether an error says that the daemon of a connection has ended.
func hasEnded(err error) bool {
	kind := session.KindOf(err)
	return (kind == KindUnreachable || kind == KindShuttingDown) && !errors.Is(err, context.DeadlineExceeded)
}

// awaitEnd waits until the end of the connection is known.
func (c *Conn) awaitEnd(ctx context.Context) {
	late := time.NewTimer(connEndTimeout)
	defer late.Stop()
	select {
	case <-c.conn.Context().Done():
	case <-ctx.Done():
	case <-late.C:
	}
}

func (l *Client) isConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

// canRetry reports whether a call is made again.
func (t *retryState) canRetry(ctx context.Context, c *Conn, err error) bool {
	if err != nil {
		select {
		case <-c.helloDone: // the hello before it may have been refused for the same reason
		case <-ctx.Done():
		}
	}
	switch kind := session.KindOf(err); {
	case err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return false
	case kind != KindUnreachable:
		return false
	}
	return !c.isOpen()
}

// ---- sessions

// ListSessions describes all sessions, by name.
func (l *Client) ListSessions(ctx context.Context) ([]session.Info, error) {
	return l.facade.ListSessions(ctx)
}

// OpenSession is the session of that name. It is made with p when it is not there and p
// says in which language, and made says whether it was.
func (l *Client) OpenSession(ctx context.Context, p CreateParams) (s *Session, now session.Info, made bool, err error) {
	s = l.Session(p.Name)
	before := l.isConnected()
	now, err = s.Info(ctx)
	if before && hasEnded(err) { // before this call, and nobody knew: there may be another one
		now, err = s.Info(ctx)
	}
	if session.KindOf(err) != session.KindClosed || p.Language == "" {
		return s, now, false, err
	}
	now, err = l.facade.CreateSession(ctx, p)
	made = err == nil
	if session.KindOf(err) == session.KindExists { // somebody was faster
		now, err = s.Info(ctx)
	}
	return s, now, made, err
}

// Session is the session of that name. Nothing is asked before a method of it is called.
func (l *Client) Session(name string) *Session { return l.facade.Session(name) }
