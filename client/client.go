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

	// maxHeld bounds the notifications that wait for the reader of a subscription. One
	// more ends the subscription with an error; its reader can subscribe again after the
	// last event that it has seen.
	maxHeld = 10_000
)

// A Client is a connection to a daemon. It is safe for concurrent use.
type Client struct {
	conn *jsonline.Conn
	done chan struct{} // closed when the connection has ended
	log  atomic.Pointer[slog.Logger]

	mu       sync.Mutex
	watches  map[string]*Subscription       // guarded by mu
	early    map[string][]*jsonline.Message // guarded by mu: for subscriptions whose answer is not read yet
	progress func(HostProgress)             // guarded by mu
	err      error                          // guarded by mu: why the connection ended
}

// Dial connects to the daemon at a socket, within 5 s, and makes sure that it
// speaks this package's [Protocol]. It never starts one. An error is of
// [KindUnreachable], or of [KindProtocol] when the daemon is of another version.
func Dial(ctx context.Context, socket string) (*Client, error) {
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	conn, err := Connect(ctx, socket)
	if err != nil {
		return nil, err
	}
	c := New(conn)
	if err := c.greet(ctx, socket); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// greet checks that the other end is a daemon of this protocol.
func (c *Client) greet(ctx context.Context, socket string) error {
	defer context.AfterFunc(ctx, func() { c.conn.Drop(context.Cause(ctx)) })() // one that is silent has no last word
	i, err := c.Info(ctx)
	switch {
	case err == nil && i.Protocol == Protocol:
		return nil
	case err == nil:
		return &session.Error{Kind: KindProtocol, Message: fmt.Sprintf(
			"the daemon at %s is version %s and speaks protocol %d; this program speaks %d: end it with repl ctl drain, and start the one that belongs to this program", socket, i.Version, i.Protocol, Protocol)}
	case session.KindOf(err) == KindUnreachable:
		return err
	default:
		return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("what listens at %s does not answer as a daemon does: %v", socket, err)}
	}
}

// New returns a client of the daemon at the other end of a connection.
func New(conn net.Conn) *Client {
	c := &Client{
		done:    make(chan struct{}),
		watches: make(map[string]*Subscription),
		early:   make(map[string][]*jsonline.Message),
	}
	c.conn = jsonline.New(conn, &jsonline.Options{
		MaxLine: maxLine, StallLimit: stallTime, LastWord: cancelTime,
		Probe: MethodInfo, ProbeTime: probeTime,
		Message: c.notified,
	})
	go c.read()
	return c
}

// Close ends the connection. The sessions live on.
func (c *Client) Close() error {
	c.conn.Drop(jsonline.ErrClosed)
	<-c.done
	return nil
}

// Done is closed when the connection has ended, whichever side ended it.
func (c *Client) Done() <-chan struct{} { return c.done }

// LogTo logs the connection's end, and at debug each line in both directions: its method, id and
// size, never its contents.
func (c *Client) LogTo(l *slog.Logger) {
	c.log.Store(l)
	c.conn.LogTo(l)
}

// OnProgress makes the client call f for each notification of a preparation's progress, one
// after the other. f runs in the goroutine that reads answers, so it must not wait for an
// answer.
func (c *Client) OnProgress(f func(HostProgress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress = f
}

// Call calls a method. When ctx ends, the daemon cancels the call, and interrupts or gives up
// its work as the method defines. If a stuck daemon does not confirm that, Call returns 3 s after
// ctx ended. If a daemon is stuck and ctx does not end, Call drops the connection within 30 s.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	raw, err := c.conn.Call(ctx, method, params)
	if refused, ok := errors.AsType[*jsonline.Error](err); ok {
		var e session.Error
		_ = json.Unmarshal(refused.Data, &e) // the message says it, whatever the kind
		e.Message = refused.Message
		return &e
	}
	if ended, ok := errors.AsType[*jsonline.EndedError](err); ok {
		return unreachable(ended.Why)
	}
	if err != nil || result == nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// unreachable is the error of a call on a connection that has ended.
func unreachable(why error) error {
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("the connection to the daemon ended: %v", why)}
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
	case MethodSnapshot, MethodEvent, MethodEnded:
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
		} else if len(c.early) < 64 && len(c.early[p.Subscription]) < maxHeld {
			c.early[p.Subscription] = append(c.early[p.Subscription], m)
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

// Reset ends a session's worker, even a busy one, and starts a new one.
func (c *Client) Reset(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, MethodReset, NameParams{name}, &s)
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
	return c.Call(ctx, MethodClose, NameParams{name}, nil)
}

// Start runs code, and waits for it if p.WaitMS says so. If ctx ends before it is
// over, the turn is interrupted.
func (c *Client) Start(ctx context.Context, p StartParams) (r session.Reply, err error) {
	err = c.Call(ctx, MethodStart, p, &r)
	return r, err
}

// Input answers a wait, and waits for what follows if p.WaitMS says so.
func (c *Client) Input(ctx context.Context, p InputParams) (r session.Reply, err error) {
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

// Reached lists what a session with a sandbox has reached in the network.
func (c *Client) Reached(ctx context.Context, name string) (r ReachedPlaces, err error) {
	err = c.Call(ctx, MethodReached, NameParams{Session: name}, &r)
	return r, err
}

// Variables lists what user code has made, while the session is idle.
func (c *Client) Variables(ctx context.Context, name string) (r session.Variables, err error) {
	err = c.Call(ctx, MethodVariables, NameParams{Session: name}, &r)
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

// A Subscription reads a session's timeline. Next is for one goroutine, the rest for any.
type Subscription struct {
	ID  string
	Seq timeline.Seq // the snapshot reaches up to it

	client *Client

	mu    sync.Mutex
	held  []*jsonline.Message // guarded by mu
	err   error               // guarded by mu; why no more will come
	wake  chan struct{}
	ahead []timeline.Event // of the goroutine that calls Next
}

// Subscribe watches a session from a cursor; 0 is its beginning.
func (c *Client) Subscribe(ctx context.Context, p SubscribeParams) (*Subscription, error) {
	var r Subscribed
	if err := c.Call(ctx, MethodSubscribe, p, &r); err != nil {
		return nil, err
	}
	w := &Subscription{ID: r.Subscription, Seq: r.Seq, client: c, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[w.ID] = w
	for _, m := range c.early[w.ID] {
		w.put(m)
	}
	delete(c.early, w.ID)
	if c.err != nil {
		w.fail(c.err)
	}
	return w, nil
}

// Next is the next event, once there is one. The error is ctx's, session.ErrClosed, or the
// connection's.
func (w *Subscription) Next(ctx context.Context) (timeline.Event, error) {
	for len(w.ahead) == 0 {
		m, err := w.next(ctx)
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
			return l.Event, nil
		case MethodEnded:
			var e Ended
			err := session.ErrClosed
			if json.Unmarshal(m.Params, &e) == nil && e.Detached {
				err = &session.Error{Kind: KindDetached, Message: e.Reason}
			}
			w.mu.Lock()
			w.err = err // also when the connection has ended meanwhile
			w.mu.Unlock()
			return timeline.Event{}, err
		}
	}
	e := w.ahead[0]
	w.ahead = w.ahead[1:]
	return e, nil
}

func (w *Subscription) next(ctx context.Context) (*jsonline.Message, error) {
	for {
		w.mu.Lock()
		if len(w.held) > 0 {
			m := w.held[0]
			w.held = w.held[1:]
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
	if len(w.held) >= maxHeld {
		w.err = fmt.Errorf("client: %d notifications wait: subscribe again behind the last event that you have seen", maxHeld)
	} else {
		w.held = append(w.held, m)
	}
	w.nudge()
}

func (w *Subscription) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
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
func (w *Subscription) Pause(ctx context.Context) error {
	return w.client.Call(ctx, MethodPause, SubscriptionParams{w.ID}, nil)
}

// Resume goes on where the stream was paused.
func (w *Subscription) Resume(ctx context.Context) error {
	return w.client.Call(ctx, MethodResume, SubscriptionParams{w.ID}, nil)
}

// Cancel ends the subscription.
func (w *Subscription) Cancel(ctx context.Context) error {
	err := w.client.Call(ctx, MethodUnsubscribe, SubscriptionParams{w.ID}, nil)
	w.client.mu.Lock()
	delete(w.client.watches, w.ID)
	w.client.mu.Unlock()
	w.fail(session.ErrClosed)
	return err
}
