package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonline"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// dialTime bounds connecting.
	dialTime = 5 * time.Second

	// maxLine bounds what the daemon may send in one line, in bytes. It keeps to 16 MiB.
	maxLine = 20 << 20

	// stallTime bounds writing one line to a daemon that does not read, and cancelTime
	// how long a cancelled call waits for the daemon's last word on it. The daemon
	// interrupts a turn within 2 s.
	stallTime  = 10 * time.Second
	cancelTime = 3 * time.Second

	// probeTime is how often a daemon that says nothing, while it is to answer, is
	// asked whether it is there; and how long it has for that before it is given up.
	probeTime = 10 * time.Second

	// aliveTime is how long nothing may come from a daemon elsewhere, while it is wanted, before
	// it is asked whether it is there; after as long again it is given up.
	aliveTime = 5 * time.Second

	// heldBytes is how much may wait for the reader of a subscription before its stream is
	// paused, which costs the daemon nothing. The stream goes on once half of that is read. Meanwhile
	// there still comes the megabyte that the daemon has queued, and one notification.
	heldBytes = 4 << 20

	// messageBytes is what a notification takes beside its text, about.
	messageBytes = 512
)

// A Client is a connection to a daemon, or the connections of a [Link]. It is safe for concurrent
// use.
type Client struct {
	link *Link // whose calls these are; then only done of the others is used
	conn *jsonline.Conn
	done chan struct{} // closed when the connection has ended
	log  atomic.Pointer[slog.Logger]

	introduced chan struct{} // of a Link: closed when the hello is answered, or the connection has ended

	there   instance    // of a Link: set before use
	known   bool        // of a Link: set when introduced; the daemon remembers what it has asked for before
	onBegun func(Begun) // of a Link: set before use

	mu       sync.Mutex
	watches  map[string]receiver // guarded by mu
	early    map[string]*backlog // guarded by mu: for subscriptions whose answer is not read yet
	progress func(HostProgress)  // guarded by mu
	err      error               // guarded by mu: why the connection ended
}

// Dial connects to a daemon, makes sure within 5 s that it speaks this package's [Protocol],
// and never starts one. A nil d is the way to the user's own, as [Usual] of os.Getenv. An error is
// of [KindUnreachable], or of [KindProtocol] when the daemon is of another version.
func Dial(ctx context.Context, d Dialer) (*Client, error) {
	if d == nil {
		d = Usual(nil)
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	c := New(conn)
	if err := c.greet(ctx, d); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// greet checks that the other end is a daemon of this protocol. A greeting says so; otherwise
// the daemon is asked.
func (c *Client) greet(ctx context.Context, d Dialer) error {
	if over, ok := c.conn.Stream().(interface{ Greeting() Greeting }); ok {
		g := over.Greeting()
		return speaks(g.Version, g.Protocol, d)
	}
	defer context.AfterFunc(ctx, func() { c.conn.Drop(context.Cause(ctx)) })() // one that is silent has no last word
	i, err := c.Info(ctx)
	switch {
	case err == nil:
		return speaks(i.Version, i.Protocol, d)
	case session.KindOf(err) == KindUnreachable:
		return err
	default:
		return notADaemon(ctx, d, err)
	}
}

// speaks refuses a daemon of another protocol.
func speaks(version string, protocol int, d Dialer) error {
	if protocol == Protocol {
		return nil
	}
	return &session.Error{Kind: KindProtocol, Message: fmt.Sprintf(
		"the daemon at %s is version %s and speaks protocol %d; this program speaks %d: end it with repl ctl drain, and start the one that belongs to this program", d, version, protocol, Protocol)}
}

// New returns a client of the daemon at the other end of a connection.
func New(conn net.Conn) *Client { return connected(conn, false) }

// connected is New. A connection that leads elsewhere is looked after while it is wanted.
func connected(conn net.Conn, far bool) *Client {
	c := &Client{
		done:       make(chan struct{}),
		introduced: make(chan struct{}),
		watches:    make(map[string]receiver),
		early:      make(map[string]*backlog),
	}
	o := jsonline.Options{
		MaxLine: maxLine, MaxSend: jsonline.MaxRequest, StallLimit: stallTime, LastWord: cancelTime,
		Message: c.notified, Malformed: c.malformed,
	}
	if over, ok := conn.(*commandConn); ok && over.to.Alive > 0 {
		o.Sign, o.SignTime = MethodPing, over.to.Alive/signs
	}
	if far {
		o.KeepAlive, o.KeepAliveTime = MethodPing, aliveTime
	} else {
		o.Probe, o.ProbeTime = MethodInfo, probeTime
	}
	c.conn = jsonline.New(conn, &o)
	go c.read()
	return c
}

// malformed ends the connection, unless what is no message came from a command that leads there
// and is not part of one.
func (c *Client) malformed(line []byte, p *jsonline.Problem) {
	if over, ok := c.conn.Stream().(*commandConn); ok && over.pass(line) {
		return
	}
	c.conn.Drop(fmt.Errorf("what came is no message: %s (%.100q)", p.Text, line))
}

// Close ends the connection, and the command that leads to the daemon if there is one. The
// sessions live on.
func (c *Client) Close() error {
	if c.link != nil {
		c.link.Close()
		return nil
	}
	c.conn.Drop(jsonline.ErrClosed)
	<-c.done
	if over, ok := c.conn.Stream().(*commandConn); ok {
		over.End()
	}
	return nil
}

// Done is closed when the connection has ended, whichever side ended it.
func (c *Client) Done() <-chan struct{} { return c.done }

// LogTo logs the connection's end, and at debug each line in both directions: its method, id and
// size, never its contents. nil logs nothing.
func (c *Client) LogTo(l *slog.Logger) {
	if c.link != nil {
		return // its Link has a log of its own
	}
	c.log.Store(l)
	c.conn.LogTo(l)
}

// OnProgress makes the client call f for each notification of a preparation's progress, one
// after the other. f runs in the goroutine that reads answers, so it must not wait for an
// answer. nil ends it.
func (c *Client) OnProgress(f func(HostProgress)) {
	if c.link != nil {
		c.link.OnProgress(f)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress = f
}

// Call calls a method. When ctx ends, the daemon cancels the call, and interrupts or gives up
// its work as the method defines. If a stuck daemon does not confirm that, Call returns 3 s after
// ctx ended. If a daemon is stuck and ctx does not end, Call drops the connection within 30 s.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	if c.link != nil {
		return c.link.call(ctx, method, params, result)
	}
	raw, err := c.conn.Call(ctx, method, params)
	if err = callError(err); err != nil || result == nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// callError is the error of a call for who made it.
func callError(err error) error {
	if refused, ok := errors.AsType[*jsonline.Error](err); ok {
		var e session.Error
		_ = json.Unmarshal(refused.Data, &e) // the message says it, whatever the kind
		e.Message = refused.Message
		if e.Kind == KindMethod {
			e.Message += ": the daemon is older than this program, and goes on until it is ended (repl ctl stop)"
		}
		return &e
	}
	if ended, ok := errors.AsType[*jsonline.EndedError](err); ok {
		return unreachable(ended.Why)
	}
	if long, ok := errors.AsType[*jsonline.SizeError](err); ok {
		return &session.Error{Kind: session.KindTooLarge, Message: long.Error(), Cause: err}
	}
	return err
}

// unreachable is the error of a call on a connection that has ended.
func unreachable(why error) error {
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("the connection to the daemon ended: %v", why), Cause: why}
}

// read reads from the daemon until the connection ends.
func (c *Client) read() {
	defer close(c.done)
	why := c.conn.Read()
	c.conn.Drop(why)
	_ = c.conn.Finish() // which says why again
	if l := c.log.Load(); l != nil && !errors.Is(why, jsonline.ErrClosed) {
		l.Info("the connection to the daemon ended", "error", why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = unreachable(why)
	for _, w := range c.watches {
		w.fail(c.err)
	}
}

// notified handles a notification. It never calls a function of the caller with the lock held.
func (c *Client) notified(m *jsonline.Message) {
	switch m.Method {
	case MethodSnapshot, MethodEvent, MethodTick, MethodEnded:
		var p struct {
			Subscription string `json:"subscription"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if w := c.watches[p.Subscription]; w != nil {
			w.put(m)
		} else {
			c.arriveEarlyLocked(p.Subscription, m)
		}
	case MethodBegun:
		var b Begun
		if json.Unmarshal(m.Params, &b) == nil && c.onBegun != nil {
			c.onBegun(b)
		}
	case MethodProgress:
		var p HostProgress
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		c.mu.Lock()
		f := c.progress
		c.mu.Unlock()
		if f != nil {
			f(p)
		}
	}
}

// maxEarly bounds the subscriptions for which something has come before their answer was read.
const maxEarly = 64

// arriveEarlyLocked holds a notification of a subscription whose answer is not read yet.
func (c *Client) arriveEarlyLocked(id string, m *jsonline.Message) {
	b := c.early[id]
	switch {
	case b == nil && len(c.early) >= maxEarly:
	case b == nil:
		b = &backlog{}
		c.early[id] = b
		b.add(m)
	case b.bytes > heldBytes:
		b.missed = true
	default:
		b.add(m)
	}
}

// ---- the methods

// Info describes the daemon.
func (c *Client) Info(ctx context.Context) (i Info, err error) {
	err = c.Call(ctx, MethodInfo, struct{}{}, &i)
	return i, err
}

// Create opens a session.
func (c *Client) Create(ctx context.Context, p CreateParams) (s session.Info, err error) {
	err = c.Call(ctx, MethodCreate, p, &s)
	return s, err
}

// List describes all sessions, by name.
func (c *Client) List(ctx context.Context) ([]session.Info, error) {
	var r struct {
		Sessions []session.Info `json:"sessions"`
	}
	err := c.Call(ctx, MethodList, struct{}{}, &r)
	return r.Sessions, err
}

// Get describes a session.
func (c *Client) Get(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, MethodGet, NameParams{name}, &s)
	return s, err
}

// Resize sets the size of a session's terminal.
func (c *Client) Resize(ctx context.Context, p ResizeParams) error {
	return c.Call(ctx, MethodResize, p, nil)
}

// Reset ends a session's worker, even a busy one, and starts a new one.
func (c *Client) Reset(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, MethodReset, EndParams{Session: name}, &s)
	return s, err
}

// Clients lists the connected clients; only those of a session, if name is not "".
func (c *Client) Clients(ctx context.Context, name string) ([]Attached, error) {
	var all Clients
	err := c.Call(ctx, MethodClients, NameParams{name}, &all)
	return all.Clients, err
}

// Detach ends another connection. Its turns go on, and its keyboard is given back.
func (c *Client) Detach(ctx context.Context, p DetachParams) error {
	return c.Call(ctx, MethodDetach, p, nil)
}

// CloseSession ends a session for good.
func (c *Client) CloseSession(ctx context.Context, name string) error {
	return c.Call(ctx, MethodClose, EndParams{Session: name}, nil)
}

// Start runs code, and waits for it if p.WaitMS says so. If ctx ends before it is
// over, the turn is interrupted.
func (c *Client) Start(ctx context.Context, p StartParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.Call(ctx, MethodStart, p, &r)
	return r, err
}

// Input answers a wait, and waits for what follows if p.WaitMS says so.
func (c *Client) Input(ctx context.Context, p InputParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.Call(ctx, MethodInput, p, &r)
	return r, err
}

// Wait waits until the active turn ends or asks for input. If ctx ends, the turn
// goes on.
func (c *Client) Wait(ctx context.Context, p WaitParams) (r session.Reply, err error) {
	err = c.Call(ctx, MethodWait, p, &r)
	return r, err
}

// Interrupt interrupts a turn, if it is still that one.
func (c *Client) Interrupt(ctx context.Context, p InterruptParams) (r Interrupted, err error) {
	err = c.Call(ctx, MethodInterrupt, p, &r)
	return r, err
}

// Allow gives a session a right. Only a person may decide that.
func (c *Client) Allow(ctx context.Context, p AllowParams) error {
	return c.Call(ctx, MethodAllow, p, nil)
}

// Permit answers a permission. Only a person may decide that.
func (c *Client) Permit(ctx context.Context, p PermitParams) error {
	return c.Call(ctx, MethodPermit, p, nil)
}

// Complete asks how text could go on.
func (c *Client) Complete(ctx context.Context, p QueryParams) (r session.Completion, err error) {
	err = c.Call(ctx, MethodComplete, p, &r)
	return r, err
}

// Parse asks whether text is a complete input.
func (c *Client) Parse(ctx context.Context, p QueryParams) (r Parsed, err error) {
	err = c.Call(ctx, MethodParse, p, &r)
	return r, err
}

// Inspect asks what the thing at the cursor is.
func (c *Client) Inspect(ctx context.Context, p QueryParams) (r session.Inspection, err error) {
	err = c.Call(ctx, MethodInspect, p, &r)
	return r, err
}

// Reached lists what a session with a sandbox has reached in the network.
func (c *Client) Reached(ctx context.Context, name string) (r ReachedPlaces, err error) {
	err = c.Call(ctx, MethodReached, NameParams{Session: name}, &r)
	return r, err
}

// Shown lists what a session with a sandbox sees of the home directory.
func (c *Client) Shown(ctx context.Context, name string) (r session.Visibility, err error) {
	err = c.Call(ctx, MethodShown, NameParams{Session: name}, &r)
	return r, err
}

// Variables lists what user code has made, while the session is idle.
func (c *Client) Variables(ctx context.Context, name string) (r session.Variables, err error) {
	err = c.Call(ctx, MethodVariables, NameParams{Session: name}, &r)
	return r, err
}

// Read reads a window of a session's events.
func (c *Client) Read(ctx context.Context, p ReadParams) (r session.EventPage, err error) {
	err = c.Call(ctx, MethodRead, p, &r)
	return r, err
}

// Outline says of each turn in short what it was.
func (c *Client) Outline(ctx context.Context, p OutlineParams) (r session.TurnSummaries, err error) {
	err = c.Call(ctx, MethodOutline, p, &r)
	return r, err
}

// Blob reads data that an event has, by its digest.
func (c *Client) Blob(ctx context.Context, p BlobParams) (r session.BlobPart, err error) {
	err = c.Call(ctx, MethodBlob, p, &r)
	return r, err
}

// Files lists the plain files in the own directory of a session, open or lost.
func (c *Client) Files(ctx context.Context, p FilesParams) ([]session.File, error) {
	var r Files
	err := c.Call(ctx, MethodFiles, p, &r)
	return r.Files, err
}

// File reads a part of one of them.
func (c *Client) File(ctx context.Context, p FileParams) (r session.FilePart, err error) {
	err = c.Call(ctx, MethodFile, p, &r)
	return r, err
}

// Lost lists the sessions that were lost in the last day, the newest first.
func (c *Client) Lost(ctx context.Context) ([]Lost, error) {
	var r LostSessions
	err := c.Call(ctx, MethodLost, nil, &r)
	return r.Sessions, err
}

// Search finds lines of the output and of inputs.
func (c *Client) Search(ctx context.Context, p SearchParams) (r session.SearchResult, err error) {
	err = c.Call(ctx, MethodSearch, p, &r)
	return r, err
}

// Output reads lines of the rendered output.
func (c *Client) Output(ctx context.Context, p OutputParams) (r session.Output, err error) {
	err = c.Call(ctx, MethodOutput, p, &r)
	return r, err
}

// Mark stores how far a reader has read, or asks for it.
func (c *Client) Mark(ctx context.Context, p MarkParams) (r Marked, err error) {
	err = c.Call(ctx, MethodMark, p, &r)
	return r, err
}

// Take takes a session's keyboard: only this client may write until Release, or until this
// connection ends. With long, it is announced in the session.
func (c *Client) Take(ctx context.Context, name, author string, long bool) error {
	return c.Call(ctx, MethodTake, WriterParams{Session: name, Author: author, Long: long}, nil)
}

// Release gives the keyboard back.
func (c *Client) Release(ctx context.Context, name, author string) error {
	return c.Call(ctx, MethodRelease, WriterParams{Session: name, Author: author}, nil)
}

// ---- subscriptions

// A receiver takes the notifications of a subscription. It must not wait.
type receiver interface {
	put(m *jsonline.Message)
	fail(err error)
}

// A backlog is notifications that wait, in order.
type backlog struct {
	messages []*jsonline.Message
	bytes    int
	missed   bool // some that came after these were dropped
}

func (b *backlog) add(m *jsonline.Message) {
	b.messages = append(b.messages, m)
	b.bytes += len(m.Params) + messageBytes
}

// take removes the oldest; nil if there is none.
func (b *backlog) take() *jsonline.Message {
	if len(b.messages) == 0 {
		return nil
	}
	m := b.messages[0]
	b.messages[0] = nil
	b.messages = b.messages[1:]
	b.bytes -= len(m.Params) + messageBytes
	return m
}

// A Subscription reads a session's timeline. The daemon sends no more than a few megabytes ahead
// of its reader. One of a [Link] survives the end of its connection: nothing is missing then, and
// nothing comes twice. Next is for one goroutine, the rest for any.
type Subscription struct {
	Seq timeline.Seq // the snapshot reaches up to it

	link    *Link // nil without one
	params  SubscribeParams
	wake    chan struct{}
	ahead   []timeline.Event // of the goroutine that calls Next
	last    timeline.Seq     // of the goroutine that calls Next; all up to it has come
	losses  losses           // of the goroutine that calls Next
	resumed timeline.Seq     // of the goroutine that calls Next; where it went on last

	flowing chan struct{} // holds one element while the daemon is told whether to send

	mu     sync.Mutex
	at     place   // guarded by mu
	held   backlog // guarded by mu
	err    error   // guarded by mu; why no more will come
	paused bool    // guarded by mu; by Pause
	full   bool    // guarded by mu; much is held
	told   telling // guarded by mu; what the daemon knows of it
}

// A telling is what a daemon was told about a stream.
type telling int

const (
	toldToSend telling = iota
	toldToPause
	toldSomething // a call about it failed
)

// A place is where a subscription is.
type place struct {
	client *Client
	id     string
	let    func() // ends looking after the connection
}

// A cut is the end of a connection under a subscription.
type cut struct {
	client *Client // the connection; nil if there was none
	err    error
}

// Subscribe watches a session from a cursor; 0 is its beginning.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams) (*Subscription, error) {
	w := &Subscription{link: c.link, params: p, last: p.After, wake: make(chan struct{}, 1), flowing: make(chan struct{}, 1)}
	seq, err := c.subscribe(ctx, cut{}, p, w, w.move)
	w.Seq = seq
	return w, err
}

// subscribe subscribes for w, over the connection of now or, for a Link, one that it makes.
// before is how w lost the one before. move learns the place before anything comes, and reports whether
// w is still wanted.
func (c *Client) subscribe(ctx context.Context, before cut, p SubscribeParams, w receiver, move func(place) bool) (timeline.Seq, error) {
	var r Subscribed
	do := func(c *Client) error {
		if err := c.Call(ctx, MethodSubscribe, p, &r); err != nil {
			return err
		}
		to := place{c, r.Subscription, c.conn.Hold()}
		wanted := move(to)
		c.receive(r.Subscription, w)
		if !wanted {
			return to.leave(ctx, w)
		}
		return nil
	}
	var err error
	if c.link != nil {
		t := &try{link: c.link, method: MethodSubscribe, params: p, begun: time.Now(), sentTo: before.client, lost: before.err}
		err = t.over(ctx, do)
	} else {
		err = do(c)
	}
	return r.Seq, err
}

// ID names the subscription to the daemon. It changes with the connection.
func (w *Subscription) ID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at.id
}

func (w *Subscription) move(to place) (wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.told = to, toldToSend
	if isCut(w.err) { // it may be cancelled meanwhile
		w.err = nil
	}
	return w.err == nil
}

// resume goes on over another connection.
func (w *Subscription) resume(ctx context.Context, why error) error {
	w.mu.Lock()
	before := w.at
	w.mu.Unlock()
	before.let()
	if w.last > w.resumed { // it gets on
		w.resumed, w.losses = w.last, losses{}
	}
	if err := w.losses.count(ctx, MethodSubscribe, why); err != nil {
		return err
	}
	p := w.params
	p.After = w.last
	if _, err := w.link.all.subscribe(ctx, cut{before.client, why}, p, w, w.move); err != nil {
		return err
	}
	return w.tell(ctx)
}

// receive hands the notifications of a subscription to w, also those that came before its
// answer was read.
func (c *Client) receive(id string, w receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[id] = w
	if b := c.early[id]; b != nil {
		for _, m := range b.messages {
			w.put(m)
		}
		if b.missed {
			w.fail(errors.New("client: more came than could be held: subscribe again behind the last event that you have seen"))
		}
		delete(c.early, id)
	}
	if c.err != nil {
		w.fail(c.err)
	}
}

// leave ends a subscription.
func (at place) leave(ctx context.Context, w receiver) error {
	w.fail(session.ErrClosed)
	err := at.client.Call(ctx, MethodUnsubscribe, SubscriptionParams{at.id}, nil)
	at.client.mu.Lock()
	delete(at.client.watches, at.id)
	at.client.mu.Unlock()
	at.let()
	return err
}

// isCut reports whether a subscription has ended because its connection has.
func isCut(err error) bool { return session.KindOf(err) == KindUnreachable }

// Next is the next event, once there is one. The error is ctx's, session.ErrClosed, or the
// connection's.
func (w *Subscription) Next(ctx context.Context) (timeline.Event, error) {
	if err := ctx.Err(); err != nil {
		return timeline.Event{}, err // also while more is there than anybody can read
	}
	for len(w.ahead) == 0 {
		m, err := w.next(ctx)
		if isCut(err) && w.link != nil {
			if err := w.resume(ctx, err); err != nil {
				return timeline.Event{}, err
			}
			continue
		}
		if err != nil {
			return timeline.Event{}, err
		}
		switch m.Method {
		case MethodSnapshot:
			var s Snapshot
			if err := json.Unmarshal(m.Params, &s); err != nil {
				return timeline.Event{}, err
			}
			w.ahead = append(w.ahead, s.Events...)
		case MethodEvent:
			var l Live
			if err := json.Unmarshal(m.Params, &l); err != nil {
				return timeline.Event{}, err
			}
			w.last = l.Event.Seq
			return l.Event, nil
		case MethodEnded:
			err := endedBy(m)
			w.mu.Lock()
			w.err = err // also when the connection has ended meanwhile
			w.mu.Unlock()
			return timeline.Event{}, err
		}
	}
	e := w.ahead[0]
	w.ahead = w.ahead[1:]
	w.last = e.Seq
	return e, nil
}

// endedBy returns why a subscription has ended.
func endedBy(m *jsonline.Message) error {
	var e Ended
	if json.Unmarshal(m.Params, &e) == nil && e.Detached {
		return &session.Error{Kind: KindDetached, Message: e.Reason}
	}
	return session.ErrClosed
}

func (w *Subscription) next(ctx context.Context) (*jsonline.Message, error) {
	for {
		w.mu.Lock()
		if m := w.held.take(); m != nil {
			if w.full && w.held.bytes <= heldBytes/2 {
				w.full = false
				go w.adjust()
			}
			w.mu.Unlock()
			return m, nil
		}
		err := w.err
		w.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// put holds a notification for Next.
func (w *Subscription) put(m *jsonline.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.held.add(m)
	if !w.full && w.held.bytes > heldBytes {
		w.full = true
		go w.adjust()
	}
	w.nudge()
}

// adjust calls tell for those who must not wait.
func (w *Subscription) adjust() {
	err := w.tell(context.Background())
	switch {
	case err == nil || isCut(err): // the connection tells of its end
	case session.KindOf(err) == KindSubscribed: // the session was closed meanwhile
		w.fail(session.ErrClosed)
	default:
		w.fail(err)
	}
}

// tell lets the daemon know whether to send, until it knows what is wanted.
func (w *Subscription) tell(ctx context.Context) error {
	select {
	case w.flowing <- struct{}{}:
		defer func() { <-w.flowing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		method, wanted := MethodResume, toldToSend
		w.mu.Lock()
		if w.paused || w.full {
			method, wanted = MethodPause, toldToPause
		}
		at, told := w.at, w.told
		w.mu.Unlock()
		if told == wanted {
			return nil
		}
		err := at.client.Call(ctx, method, SubscriptionParams{at.id}, nil)
		w.mu.Lock()
		if w.at.id == at.id && w.at.client == at.client {
			w.told = wanted
			if err != nil {
				w.told = toldSomething
			}
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (w *Subscription) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || isCut(w.err) {
		w.err = err
	}
	w.nudge()
}

func (w *Subscription) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Pause stops the stream. Events go on to be recorded.
func (w *Subscription) Pause(ctx context.Context) error { return w.flow(ctx, true) }

// Resume goes on where the stream was paused, once its reader has read most of what has come.
func (w *Subscription) Resume(ctx context.Context) error { return w.flow(ctx, false) }

// flow pauses the stream or resumes it. Over a connection that has ended nothing flows; the next
// one knows it.
func (w *Subscription) flow(ctx context.Context, paused bool) error {
	w.mu.Lock()
	w.paused = paused
	w.mu.Unlock()
	if err := w.tell(ctx); w.link == nil || !isCut(err) {
		return err
	}
	return nil
}

// Cancel ends the subscription.
func (w *Subscription) Cancel(ctx context.Context) error {
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	return at.leave(ctx, w)
}
