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

// retries are the pauses before the daemon is dialled again. On this machine there are no more
// than the first three: about a second in all. To a place where it was before there is no end of
// them while a call waits; the last one repeats.
var retries = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond, 2 * time.Second, 5 * time.Second}

// localRetries are those for a daemon on this machine.
const localRetries = 3

// stuckTime is after how long a daemon that does not answer counts as stuck.
const stuckTime = 4 * time.Second

// lateTime is how much longer than it was told to wait a daemon may be silent before its answer.
const lateTime = 3 * time.Second

// A Link is the connection that a client keeps to one daemon. It connects when a caller needs it,
// and again after the connection was lost: then calls go on, and are carried out once, and
// subscriptions go on where they were. It is safe for concurrent use.
type Link struct {
	dialer Dialer
	start  func(ctx context.Context) error // starts a daemon; nil: nobody does
	far    bool                            // the way leads elsewhere: it may break while the daemon lives
	id     string                          // of this client
	log    *slog.Logger                    // set before use
	all    *Client                         // whose calls go over this link
	ctx    context.Context                 // ends with Close
	stop   context.CancelFunc

	request atomic.Uint64 // the last request
	patient atomic.Int64  // see Patience

	mu      sync.Mutex
	client  *Client                 // guarded by mu; nil before the first connection, and after one was lost
	epoch   uint64                  // guarded by mu; counts the connections
	dialing *attempt                // guarded by mu; nil when nobody dials
	failed  int                     // guarded by mu; attempts since the connection was lost
	tried   error                   // guarded by mu; the error of the last one; nil after success
	met     bool                    // guarded by mu; a daemon was there before
	down    Outage                  // guarded by mu; the one that goes on; its From is zero when none does
	downs   []Outage                // guarded by mu; the last that are over
	noted   chan struct{}           // guarded by mu; closed when the end of the last connection is noted
	closed  bool                    // guarded by mu
	on      func(HostProgress)      // guarded by mu
	watch   func(Outage)            // guarded by mu
	begun   map[string]func(uint64) // guarded by mu; who is told of the turn of a request
	careful bool                    // guarded by mu; a hello behind which calls went was refused
}

// An Outage is a time in which a link was down.
type Outage struct {
	From time.Time
	To   time.Time // zero while it goes on
	Why  error
}

// maxOutages bounds those that a link remembers.
const maxOutages = 32

// An attempt is one try to connect.
type attempt struct {
	done   chan struct{} // closed when the others are set
	starts bool          // it starts a daemon if there is none
	client *Client
	err    error
}

// NewLink makes a Link to a daemon; a nil d is the way to the user's own, as [Usual] of os.Getenv.
// It calls start when there is no daemon. Without start, a daemon that was never there is an error
// at once.
func NewLink(d Dialer, start func(ctx context.Context) error) *Link {
	if d == nil {
		d = Usual(nil)
	}
	l := &Link{
		dialer: d, start: start, far: !isHere(d), id: rand.Text(),
		log: slog.New(slog.DiscardHandler), begun: make(map[string]func(uint64)),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.all = &Client{link: l, done: make(chan struct{})}
	return l
}

// Close ends the connection, and no other is made. The sessions live on.
func (l *Link) Close() {
	l.mu.Lock()
	c, a, first := l.client, l.dialing, !l.closed
	l.client, l.closed = nil, true
	l.mu.Unlock()
	l.stop()
	if a != nil {
		<-a.done // which may have started a command
	}
	if c != nil {
		_ = c.Close()
	}
	if first {
		close(l.all.done)
	}
}

// OnProgress has f called for the progress of preparations, as [Client.OnProgress]. nil ends it.
func (l *Link) OnProgress(f func(HostProgress)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = f
	if l.client != nil {
		l.client.OnProgress(f)
	}
}

// OnOutage has f called when the link is lost, and when it is there again. f must not wait. nil
// ends it.
func (l *Link) OnOutage(f func(Outage)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = f
}

// Patience bounds how long a call waits for a link that is down, if it is not told itself for how
// long to wait; 0 is until its context ends.
func (l *Link) Patience(d time.Duration) { l.patient.Store(int64(d)) }

// LogTo logs connections, and everything that [Client.LogTo] would log; nil logs nothing. Call it
// before anything else.
func (l *Link) LogTo(log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l.log = log
}

// Client is a client whose calls go over the link: a connection is there as far as one can know,
// and is made again when it is lost.
func (l *Link) Client(ctx context.Context) (*Client, error) {
	if _, err := l.reach(ctx, true); err != nil {
		return nil, err
	}
	return l.all, nil
}

// Place names the daemon for people, as in "the link to gpu".
func (l *Link) Place() string { return placeOf(l.dialer) }

func placeOf(d Dialer) string {
	if named, ok := d.(interface{ Place() string }); ok {
		return named.Place()
	}
	return "the daemon"
}

// Down returns since when the link is down.
func (l *Link) Down() (since time.Time, down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down.From, !l.down.From.IsZero()
}

// IsFar reports whether the daemon is elsewhere, so that each trip costs time.
func (l *Link) IsFar() bool { return l.far }

// Downtime is for how long the link was down since a moment. An outage that had begun before
// counts only if it lasted for a second since.
func (l *Link) Downtime(since time.Time) (down time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range append(l.downs[:len(l.downs):len(l.downs)], l.down) {
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

// reach returns a connection. While there is none, it dials until one is there, the failure is
// final, or ctx ends. starts lets a daemon be started.
func (l *Link) reach(ctx context.Context, starts bool) (*Client, error) {
	for {
		c, a, err := l.current(starts)
		if c != nil || err != nil {
			return c, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, l.unreached(ctx)
		}
		switch {
		case a.err == nil:
			return a.client, nil
		case starts && l.start != nil && !a.starts: // it was another caller's, who wanted less
		case !l.mayReturn(a.err):
			return nil, a.err
		}
	}
}

// mayReturn reports whether a place that could not be reached may be there again later. One that
// was reached and has no daemon is final.
func (l *Link) mayReturn(err error) bool {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.far && l.met && !l.closed && session.KindOf(err) == KindUnreachable && errors.Unwrap(err) != nil
}

// unreached is the error of a call that waits no longer for a connection.
func (l *Link) unreached(ctx context.Context) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	l.mu.Lock()
	noted, lost := l.noted, l.client == nil && l.met
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
	if l.down.From.IsZero() {
		return &session.Error{Kind: KindUnreachable, Message: placeOf(l.dialer) + " cannot be reached yet" + waiting, Cause: ctx.Err()}
	}
	why := l.down.Why
	if reason := errors.Unwrap(l.tried); reason != nil {
		why = reason // it says more than how the connection ended
	}
	return &session.Error{Kind: KindUnreachable, Cause: ctx.Err(),
		Message: fmt.Sprintf("%s cannot be reached since %s: %v", placeOf(l.dialer), l.down.From.Format(time.TimeOnly), why)}
}

// current returns the connection, unless it is known to be lost; else the attempt to make one.
func (l *Link) current(starts bool) (*Client, *attempt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, nil, &session.Error{Kind: KindUnreachable, Message: "the connection to the daemon is closed"}
	}
	if l.client != nil {
		if l.client.isThere() {
			return l.client, nil, nil
		}
		l.client = nil
	}
	if l.dialing == nil {
		l.dialing = &attempt{done: make(chan struct{}), starts: starts && l.start != nil}
		go l.try(l.dialing, l.noted)
	}
	return nil, l.dialing, nil
}

// try makes one attempt. It begins when the end of the connection before is noted, and after a
// pause.
func (l *Link) try(a *attempt, noted <-chan struct{}) {
	if noted != nil {
		<-noted
	}
	l.mu.Lock()
	pause := time.Duration(0)
	if !l.down.From.IsZero() && l.far {
		pause = retries[min(l.failed, len(retries)-1)]
		if l.failed == 0 {
			pause -= time.Since(l.down.From)
		}
	}
	l.mu.Unlock()
	var c *Client
	err := sleep(l.ctx, pause)
	if err == nil {
		c, err = l.dial(l.ctx, a.starts)
	}
	l.mu.Lock()
	if err == nil && l.closed {
		err = &session.Error{Kind: KindUnreachable, Message: "the connection to the daemon is closed"}
		go func() { _ = c.Close() }()
	}
	a.client, a.err, l.tried, l.dialing = c, err, err, nil
	var over Outage
	if err != nil {
		l.failed++
	} else {
		l.client, l.met = c, true
		if l.failed++; c.isIntroduced() { // otherwise it may still fail
			l.failed = 0
		}
		over = l.upLocked()
		c.LogTo(l.log)
		c.OnProgress(l.on)
		l.noted = make(chan struct{})
		go l.look(c, l.noted)
	}
	watch := l.watch
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

// upLocked ends an outage, if there was one. The caller holds l.mu.
func (l *Link) upLocked() Outage {
	over := l.down
	if over.From.IsZero() {
		return over
	}
	over.To, l.down = time.Now(), Outage{}
	l.downs = append(l.downs, over)
	l.downs = l.downs[max(0, len(l.downs)-maxOutages):]
	return over
}

// look notes the end of a connection.
func (l *Link) look(c *Client, noted chan<- struct{}) {
	defer close(noted)
	<-c.conn.Context().Done()
	o := c.outage()
	l.mu.Lock()
	watch := l.watch
	if l.closed {
		watch = nil
	} else {
		l.down = o
		if l.client == c {
			l.client = nil
		}
	}
	l.mu.Unlock()
	if watch != nil {
		watch(o)
	}
}

// dial connects. A daemon on this machine that is not there, or not yet, is dialled again, and
// started before that if starts is set.
func (l *Link) dial(ctx context.Context, starts bool) (*Client, error) {
	begun := time.Now()
	c, err := l.open(ctx)
	if l.far && !starts {
		return c, err
	}
	if absent(ctx, err, begun) && starts {
		l.log.Info("no daemon answers, so one is started", "at", l.dialer.String())
		if err := l.start(ctx); err != nil {
			return nil, fmt.Errorf("cannot start a daemon: %w", err)
		}
		begun = time.Now()
		c, err = l.open(ctx)
	}
	for _, pause := range retries[:localRetries] {
		if !absent(ctx, err, begun) || !starts && !l.wasThere() {
			break
		}
		if sleep(ctx, pause) == nil {
			c, err = l.open(ctx)
		}
	}
	return c, err
}

// wasThere reports whether a daemon was there before.
func (l *Link) wasThere() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.met
}

// absent reports whether dialling failed because no daemon is there, or not yet.
// One that took long to say nothing is there, and stuck.
func absent(ctx context.Context, err error, begun time.Time) bool {
	return session.KindOf(err) == KindUnreachable && ctx.Err() == nil && time.Since(begun) < stuckTime
}

func sleep(ctx context.Context, d time.Duration) error {
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

// A repeatable is the params of a call whose effect must come once. named returns them with this
// request.
type repeatable interface {
	named(request string) any
}

// A patient is the params of a call that waits. waiting returns for how long, and them with
// another time.
type patient interface {
	wait() time.Duration
	waiting(d time.Duration) any
}

// newRequest returns a name for a call and its repetitions.
func (l *Link) newRequest() string { return strconv.FormatUint(l.request.Add(1), 36) }

// call makes a call, and makes it again when its connection is lost before it is answered: until
// its context ends, or the time for which it waits is over. Its effect comes once.
func (l *Link) call(ctx context.Context, method string, params, result any) error {
	t := &try{link: l, params: params, begun: time.Now(), method: method}
	if r, ok := params.(repeatable); ok {
		t.params = r.named(l.newRequest())
	}
	err := t.over(ctx, func(c *Client) error { return t.call(ctx, c, result) })
	if errors.Is(err, context.DeadlineExceeded) && session.KindOf(err) == "" {
		err = fmt.Errorf("the daemon does not answer: %w", err)
	}
	return err
}

// over calls do with a connection, and again with the next one while that is of use.
func (t *try) over(ctx context.Context, do func(*Client) error) error {
	for {
		c, err := t.reach(ctx)
		if err != nil && t.lost != nil && !t.link.far && session.KindOf(err) == KindUnreachable {
			return t.lost // on this machine, that the daemon is gone now says less
		}
		if err != nil {
			return err
		}
		if err = do(c); hasEnded(err) {
			c.awaitEnd(ctx) // a later call must not meet this connection
		}
		t.sentTo, t.lost = c, err
		if !t.goesOn(ctx, c, err) {
			return err
		}
		if err := t.losses.count(ctx, t.method, err); err != nil {
			return err
		}
	}
}

// maxLosses bounds how often in a row something is tried again whose connection is lost within
// lossTime: a connection that lasts no longer may be lost because of it.
const (
	maxLosses = 8
	lossTime  = 10 * time.Second
)

// losses are the connections that one caller has lost soon, one after the other.
type losses struct {
	soon int
	last time.Time
}

// count counts a loss, and pauses before another try, for longer each time. It is an error when
// there were too many.
func (l *losses) count(ctx context.Context, method string, lost error) error {
	if !l.last.IsZero() && time.Since(l.last) > lossTime {
		l.soon = 0
	}
	l.soon++
	switch {
	case l.soon > maxLosses:
		return &session.Error{Kind: KindUnreachable, Cause: lost, Message: fmt.Sprintf(
			"%d connections in a row ended while %s was under way, so it was not repeated again: %v", l.soon, method, lost)}
	case l.soon > 1: // most are lost once
		if err := sleep(ctx, retries[min(l.soon-2, len(retries)-1)]); err != nil {
			return err
		}
	}
	l.last = time.Now()
	return nil
}

// A try is a call with its repetitions.
type try struct {
	link   *Link
	method string
	params any
	begun  time.Time
	sentTo *Client // the connection over which it was last sent
	lost   error   // why it got no answer there
	losses losses
}

// left returns how long the call may still wait, and whether it waits for a time of its own.
func (t *try) left() (left time.Duration, bounded bool) {
	if p, ok := t.params.(patient); ok && p.wait() > 0 {
		return p.wait() - time.Since(t.begun), true
	}
	patience := time.Duration(t.link.patient.Load())
	return patience - time.Since(t.begun), patience > 0
}

// reach returns a connection on which the call can be made.
func (t *try) reach(ctx context.Context) (*Client, error) {
	if left, bounded := t.left(); bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, max(left, 0))
		defer stop()
	}
	c, err := t.link.reach(ctx, t.sentTo == nil)
	if err != nil || t.sentTo == nil {
		return c, err
	}
	err = c.isSameAs(t.sentTo, t.method)
	if _, once := t.params.(repeatable); once && err == nil {
		err = c.hasForgotten(t.method)
	}
	return c, err
}

// call makes the call once.
func (t *try) call(ctx context.Context, c *Client, result any) error {
	params := t.params
	if p, ok := params.(patient); ok && p.wait() > 0 {
		left, _ := t.left()
		if t.sentTo != nil {
			params = p.waiting(max(left, time.Millisecond))
		}
		if t.link.far {
			var stop context.CancelFunc
			ctx, stop = c.untilLate(ctx, max(left, 0))
			defer stop()
		}
	}
	err := c.Call(ctx, t.method, params, result)
	if err != nil && errors.Is(context.Cause(ctx), errLate) {
		return &session.Error{Kind: KindUnreachable, Cause: context.DeadlineExceeded,
			Message: fmt.Sprintf("%s has not answered since %s", t.link.Place(), c.conn.Heard().Format(time.TimeOnly))}
	}
	return err
}

var errLate = errors.New("the answer is late")

// untilLate ends ctx when the answer to a call that waits for so long is late. While anything comes,
// it may be the answer, which can be long.
func (c *Client) untilLate(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	var look func()
	look = func() {
		switch rest := lateTime - time.Since(c.conn.Heard()); {
		case ctx.Err() != nil:
		case rest > 0:
			time.AfterFunc(rest, look)
		default:
			end(errLate)
		}
	}
	first := time.AfterFunc(wait+lateTime, look)
	return ctx, func() {
		first.Stop()
		end(nil)
	}
}

// endTime bounds the wait for the end of a connection on which a call has failed.
const endTime = 5 * time.Second

// hasEnded reports whether an error says that the daemon of a connection has ended.
func hasEnded(err error) bool {
	kind := session.KindOf(err)
	return (kind == KindUnreachable || kind == KindShuttingDown) && !errors.Is(err, context.DeadlineExceeded)
}

// awaitEnd waits until the end of the connection is known.
func (c *Client) awaitEnd(ctx context.Context) {
	late := time.NewTimer(endTime)
	defer late.Stop()
	select {
	case <-c.conn.Context().Done():
	case <-ctx.Done():
	case <-late.C:
	}
}

func (l *Link) isConnected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client != nil
}

// goesOn reports whether a call is made again.
func (t *try) goesOn(ctx context.Context, c *Client, err error) bool {
	if err != nil {
		select {
		case <-c.introduced: // the hello before it may have been refused for the same reason
		case <-ctx.Done():
		}
	}
	switch kind := session.KindOf(err); {
	case err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return false
	case kind != KindUnreachable:
		return false
	}
	return !c.isThere()
}

// ---- sessions

// List describes all sessions, by name.
func (l *Link) List(ctx context.Context) ([]session.Info, error) { return l.all.List(ctx) }

// Open is the session of that name. It is made with p when it is not there and p
// says in which language, and made says whether it was.
func (l *Link) Open(ctx context.Context, p CreateParams) (s *Session, now session.Info, made bool, err error) {
	s = l.Session(p.Name)
	before := l.isConnected()
	now, err = s.Info(ctx)
	if before && hasEnded(err) { // before this call, and nobody knew: there may be another one
		now, err = s.Info(ctx)
	}
	if session.KindOf(err) != session.KindClosed || p.Language == "" {
		return s, now, false, err
	}
	now, err = l.all.Create(ctx, p)
	made = err == nil
	if session.KindOf(err) == session.KindExists { // somebody was faster
		now, err = s.Info(ctx)
	}
	return s, now, made, err
}

// Session is the session of that name. Nothing is asked before a method of it is called.
func (l *Link) Session(name string) *Session { return l.all.Session(name) }
