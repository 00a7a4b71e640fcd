package conn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// DialTimeout bounds connecting to a daemon.
	DialTimeout = 5 * time.Second

	// maxLineBytes bounds what the daemon may send in one line, in bytes. The daemon itself
	// sends at most 16 MiB.
	maxLineBytes = 20 << 20

	// stallTimeout bounds writing one line to a daemon that does not read, and cancelTimeout
	// bounds how long a cancelled call waits for the daemon's final answer. The daemon
	// interrupts a turn within 2 s.
	stallTimeout  = 10 * time.Second
	cancelTimeout = 3 * time.Second

	// probeInterval is how often a silent daemon that owes an answer is probed. If it does not
	// answer within the same time, the connection is dropped.
	probeInterval = 10 * time.Second

	// keepAliveInterval is how long a remote daemon may be silent, while the connection is needed,
	// before it is probed. If it stays silent for the same time again, the connection is dropped.
	keepAliveInterval = 5 * time.Second

	// lateAnswerGrace is how long after the requested wait the answer of a daemon may arrive.
	lateAnswerGrace = 3 * time.Second

	// connectionEndTimeout bounds the wait for the end of a connection on which a call has
	// failed.
	connectionEndTimeout = 5 * time.Second

	// maxEarlySubscriptions bounds the subscriptions with notifications that arrived before
	// their reply was read.
	maxEarlySubscriptions = 64
)

// Methods names the methods that a connection itself calls, and the notifications that it passes to
// subscriptions.
type Methods struct {
	Info          string   // describes the daemon: the first call if there is no hello, and the probe of a silent daemon
	Ping          string   // has no effect: sent to show that this side is alive
	Hello         string   // says who calls
	Notifications []string // have the subscription that they belong to in their params
}

// Options configure how a connection probes, identifies and reads the other end. They do not change while it is used.
type Options struct {
	Protocol  int             // the version of the protocol that the daemon must speak
	Methods   Methods         // the methods of that protocol
	Remote    bool            // the connection is probed while it is needed
	Heartbeat time.Duration   // something is sent this often; 0 means never
	Greeting  *DaemonGreeting // what the transport has said about the daemon; nil if nothing

	CanSkip        func(line []byte) bool    // whether a line that is not a message can be skipped; nil means no
	AfterClose     func()                    // ends the transport; may be nil
	OnNotification func(m *jsonrpc2.Message) // gets the notifications that belong to no subscription

	// OnRequest answers a request of the daemon. It runs in a goroutine of its own. ctx ends when the
	// daemon cancels the request, and with the connection. nil means that there are no methods.
	OnRequest func(ctx context.Context, c *Conn, m *jsonrpc2.Message) (any, error)
}

// A Conn is one connection to a daemon, and ends with it. It is safe for concurrent use.
type Conn struct {
	rpc     *jsonrpc2.Conn
	options Options
	done    chan struct{} // closed when the connection has ended
	log     atomic.Pointer[slog.Logger]

	helloDone     chan struct{}  // closed when the hello is answered, or has failed after SayHello
	daemon        DaemonInstance // set by the hello, before use
	knownToDaemon bool           // set by the hello; the daemon remembers earlier requests

	mu            sync.Mutex
	receivers     map[string]Receiver // guarded by mu
	earlyBacklogs map[string]*Backlog // guarded by mu: for subscriptions whose reply is not read yet
	err           error               // guarded by mu: why the connection ended
	requests      requests            // has its own lock
}

// New returns a connection over stream, and starts its reader and writer.
func New(stream net.Conn, o Options) *Conn {
	c := &Conn{
		options:       o,
		done:          make(chan struct{}),
		helloDone:     make(chan struct{}),
		receivers:     make(map[string]Receiver),
		earlyBacklogs: make(map[string]*Backlog),
	}
	r := jsonrpc2.Options{
		MaxLine: maxLineBytes, MaxSend: jsonrpc2.MaxRequestBytes, StallTimeout: stallTimeout, CancelTimeout: cancelTimeout,
		OnMessage: c.handleNotification, OnMalformed: c.handleMalformed,
	}
	if o.Heartbeat > 0 {
		r.Heartbeat, r.HeartbeatInterval = o.Methods.Ping, o.Heartbeat
	}
	if o.Remote {
		r.KeepAlive, r.KeepAliveInterval = o.Methods.Ping, keepAliveInterval
	} else {
		r.Probe, r.ProbeInterval = o.Methods.Info, probeInterval
	}
	c.rpc = jsonrpc2.New(stream, &r)
	go c.read()
	return c
}

// handleMalformed ends the connection, unless the malformed line was printed by the transport
// and contains no part of a message.
func (c *Conn) handleMalformed(line []byte, p *jsonrpc2.Problem) {
	if c.options.CanSkip != nil && c.options.CanSkip(line) {
		return
	}
	c.rpc.Drop(fmt.Errorf("malformed message: %s (%.100q)", p.Text, line))
}

// Close ends the connection and its transport. The sessions stay alive.
func (c *Conn) Close() error {
	c.rpc.Drop(jsonrpc2.ErrClosed)
	<-c.done
	if c.options.AfterClose != nil {
		c.options.AfterClose()
	}
	return nil
}

// Done is closed when the connection has ended, whichever side ended it.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Ending is closed when the connection is about to end, before the remaining messages are handled.
func (c *Conn) Ending() <-chan struct{} { return c.rpc.Context().Done() }

// IsOpen reports whether the connection is not known to have ended.
func (c *Conn) IsOpen() bool { return c.rpc.Context().Err() == nil }

// LogTo logs the end of the connection, and at debug level each line in both directions: its
// method, ID and size, never its contents. nil logs nothing.
func (c *Conn) LogTo(l *slog.Logger) {
	c.log.Store(l)
	c.rpc.LogTo(l)
}

// LastActivity returns when something last arrived.
func (c *Conn) LastActivity() time.Time { return c.rpc.LastActivity() }

// AddKeepAlive makes the connection, if it is remote, probe the daemon until release is called.
func (c *Conn) AddKeepAlive() (release func()) { return c.rpc.AddKeepAlive() }

// Loss returns why the connection has ended, and when the outage began: if the daemon was silent,
// that is when something last arrived.
func (c *Conn) Loss() (from time.Time, cause error) {
	cause = c.rpc.CloseCause()
	if _, silent := errors.AsType[*jsonrpc2.TimeoutError](cause); silent {
		return c.rpc.LastActivity(), cause
	}
	return time.Now(), cause
}

// AwaitEnd waits until the end of the connection is known.
func (c *Conn) AwaitEnd(ctx context.Context) {
	late := time.NewTimer(connectionEndTimeout)
	defer late.Stop()
	select {
	case <-c.rpc.Context().Done():
	case <-ctx.Done():
	case <-late.C:
	}
}

// ---- calls

// Call calls a method. When ctx ends, the daemon cancels the call. If the daemon is stuck, Call gives
// up within a time limit.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	a, err := c.rpc.Call(ctx, method, params)
	if err = callError(err); err != nil || result == nil {
		return err
	}
	err = json.Unmarshal(a.Result, result)
	if a.Buffer == nil || err != nil {
		return err
	}
	switch part := result.(type) {
	case *session.FilePart:
		part.Data = a.Buffer
	case *session.BlobPart:
		part.Data = a.Buffer
	}
	return nil
}

// callError converts the error of a call for the caller.
func callError(err error) error {
	if refused, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		var e session.Error
		_ = json.Unmarshal(refused.Data, &e) // on failure the message still says what happened
		e.Message = refused.Message
		switch {
		case e.Kind == session.KindUnknownMethod:
			e.Message += ": the daemon is older than this program" + olderDaemonHint
		case e.Kind == session.KindInvalid && strings.Contains(e.Message, "unknown field"):
			e.Message += ": if the daemon is older than this program, it lacks this" + olderDaemonHint
		}
		return &e
	}
	if ended, ok := errors.AsType[*jsonrpc2.EndedError](err); ok {
		return connectionEndedError(ended.Cause)
	}
	if long, ok := errors.AsType[*jsonrpc2.SizeError](err); ok {
		return &session.Error{Kind: session.KindTooLarge, Message: long.Error(), Cause: err}
	}
	return err
}

// olderDaemonHint says how to compare the versions, and how to replace the daemon.
const olderDaemonHint = "; repl daemon status shows both versions, and repl daemon drain ends the daemon once no code runs"

// connectionEndedError returns the error of a call on a connection that has ended.
func connectionEndedError(why error) error {
	return &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("the connection to the daemon ended: %v", why), Cause: why}
}

// ErrLateAnswer is the cause of a context that ended because an answer is late.
var ErrLateAnswer = errors.New("the answer is late")

// WithLateDeadline ends ctx when the answer to a call that waits for this long is late. While
// data arrives, it may be part of a long answer. If continues is set, the call is not cancelled:
// it will be repeated, and must find its effect.
func (c *Conn) WithLateDeadline(ctx context.Context, wait time.Duration, continues bool) (context.Context, context.CancelFunc) {
	cause := ErrLateAnswer
	if continues {
		cause = fmt.Errorf("%w: %w", ErrLateAnswer, jsonrpc2.ErrAbandoned)
	}
	ctx, end := context.WithCancelCause(ctx)
	var look func()
	look = func() {
		switch rest := lateAnswerGrace - time.Since(c.rpc.LastActivity()); {
		case ctx.Err() != nil:
		case rest > 0:
			time.AfterFunc(rest, look)
		default:
			end(cause)
		}
	}
	first := time.AfterFunc(wait+lateAnswerGrace, look)
	return ctx, func() {
		first.Stop()
		end(nil)
	}
}

// ---- reading

// read reads from the daemon until the connection ends.
func (c *Conn) read() {
	defer close(c.done)
	why := c.rpc.Read()
	c.rpc.Drop(why)
	_ = c.rpc.FinishWriting() // its error repeats the reason
	if l := c.log.Load(); l != nil && !errors.Is(why, jsonrpc2.ErrClosed) {
		l.Info("connection to daemon ended", "error", why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = connectionEndedError(why)
	for _, w := range c.receivers {
		w.End(c.err)
	}
}

// handleNotification handles a notification, or a request of the daemon.
func (c *Conn) handleNotification(m *jsonrpc2.Message) {
	switch {
	case m.IsRequest():
		c.startRequest(m)
	case m.Method == jsonrpc2.MethodCancelled:
		c.requests.cancel(jsonrpc2.CancelledKey(m.Params))
	case slices.Contains(c.options.Methods.Notifications, m.Method):
		c.deliverToReceiver(m)
	default:
		c.options.OnNotification(m)
	}
}

// deliverToReceiver hands a notification to the receiver of its subscription.
func (c *Conn) deliverToReceiver(m *jsonrpc2.Message) {
	var p struct {
		Subscription string `json:"subscription"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.receivers[p.Subscription]; ok {
		w.Enqueue(m)
	} else {
		c.bufferEarlyLocked(p.Subscription, m)
	}
}

// bufferEarlyLocked stores a notification of a subscription whose reply is not read yet.
func (c *Conn) bufferEarlyLocked(id string, m *jsonrpc2.Message) {
	b := c.earlyBacklogs[id]
	switch {
	case b == nil && len(c.earlyBacklogs) >= maxEarlySubscriptions:
	case b == nil:
		b = &Backlog{}
		c.earlyBacklogs[id] = b
		b.Add(m)
	case b.bytes > MaxQueuedBytes:
		b.overflowed = true
	default:
		b.Add(m)
	}
}

// AddReceiver delivers the notifications of a subscription to w, including those that arrived
// before its reply was read.
func (c *Conn) AddReceiver(id string, w Receiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.receivers[id] = w
	if b := c.earlyBacklogs[id]; b != nil {
		for _, m := range b.messages {
			w.Enqueue(m)
		}
		if b.overflowed {
			w.End(errors.New("client: too many notifications arrived before the reply; subscribe again after the last event that you have seen"))
		}
		delete(c.earlyBacklogs, id)
	}
	if c.err != nil {
		w.End(c.err)
	}
}

// RemoveReceiver ends the delivery of a subscription's notifications.
func (c *Conn) RemoveReceiver(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.receivers, id)
}
