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

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// dialTimeout bounds connecting to a daemon.
	dialTimeout = 5 * time.Second

	// maxLineBytes bounds what the daemon may send in one line, in bytes. The daemon itself
	// sends at most 16 MiB.
	maxLineBytes = 20 << 20

	// stallTimeout bounds writing one line to a daemon that does not read, and cancelTimeout
	// bounds how long a cancelled call waits for the daemon's final answer. The daemon
	// interrupts a turn within 2 s.
	stallTimeout  = 10 * time.Second
	cancelTimeout = 3 * time.Second

	// probeInterval is how often a silent daemon that owes an answer is asked whether it is
	// alive, and how long it has to answer before the connection is dropped.
	probeInterval = 10 * time.Second

	// keepAliveInterval is how long a remote daemon may be silent, while the connection is
	// needed, before it is asked whether it is alive. After the same time again the connection
	// is dropped.
	keepAliveInterval = 5 * time.Second

	// maxQueuedBytes is how much may be queued for the reader of a subscription before its
	// stream is paused, which costs the daemon nothing. The stream continues once half of that
	// is read. In the meantime up to a megabyte that the daemon has queued, and one
	// notification, may still arrive.
	maxQueuedBytes = 4 << 20

	// messageOverhead is the approximate memory of a notification in addition to its text.
	messageOverhead = 512
)

// A Conn is one connection to a daemon, or stands for the changing connections of a [Client].
// It is safe for concurrent use.
type Conn struct {
	client *Client // the Client that makes the calls; then, of the other fields, only done is used
	conn   *jsonrpc2.Conn
	done   chan struct{} // closed when the connection has ended
	log    atomic.Pointer[slog.Logger]

	helloDone chan struct{} // of a Client: closed when the hello is answered or the connection has ended

	daemon         daemonInstance     // of a Client: set before use
	knownToDaemon  bool               // of a Client: set by the hello; the daemon remembers its earlier requests
	onTurnAccepted func(TurnAccepted) // of a Client: set before use

	mu            sync.Mutex
	receivers     map[string]streamReceiver // guarded by mu
	earlyBacklogs map[string]*backlog       // guarded by mu: for subscriptions whose reply is not read yet
	onProgress    func(PreparationProgress) // guarded by mu
	err           error                     // guarded by mu: why the connection ended
}

// Dial connects to a daemon, checks within 5 s that it speaks this package's [Protocol], and
// never starts one. A nil d is the user's own daemon, as [DefaultDialer] of os.Getenv. An error
// is of [KindUnreachable], or of [KindProtocol] if the daemon has a different version.
func Dial(ctx context.Context, d Dialer) (*Conn, error) {
	if d == nil {
		d = DefaultDialer(nil)
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, dialTimeout)
	defer stop()
	c := NewConn(conn)
	if err := c.checkDaemon(ctx, d); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// checkDaemon checks that the other end is a daemon of this protocol. A greeting says so;
// otherwise the daemon is asked.
func (c *Conn) checkDaemon(ctx context.Context, d Dialer) error {
	if over, ok := c.conn.Stream().(interface{ Greeting() Greeting }); ok {
		g := over.Greeting()
		return checkProtocol(g.Version, g.Protocol, d)
	}
	defer context.AfterFunc(ctx, func() { c.conn.Drop(context.Cause(ctx)) })() // a silent daemon sends no error
	i, err := c.DaemonInfo(ctx)
	switch {
	case err == nil:
		return checkProtocol(i.Version, i.Protocol, d)
	case session.KindOf(err) == KindUnreachable:
		return err
	default:
		return notDaemonError(ctx, d, err)
	}
}

// checkProtocol returns an error for a daemon with a different protocol.
func checkProtocol(version string, protocol int, d Dialer) error {
	if protocol == Protocol {
		return nil
	}
	return &session.Error{Kind: KindProtocol, Message: fmt.Sprintf(
		"the daemon at %s is version %s and speaks protocol %d; this program speaks %d: end it with repl daemon drain, and start the one that belongs to this program", d, version, protocol, Protocol)}
}

// NewConn returns a Conn to the daemon at the other end of a network connection.
func NewConn(conn net.Conn) *Conn { return newConn(conn, false) }

// newConn is NewConn. A remote connection is probed while it is needed.
func newConn(conn net.Conn, remote bool) *Conn {
	c := &Conn{
		done:          make(chan struct{}),
		helloDone:     make(chan struct{}),
		receivers:     make(map[string]streamReceiver),
		earlyBacklogs: make(map[string]*backlog),
	}
	o := jsonrpc2.Options{
		MaxLine: maxLineBytes, MaxSend: jsonrpc2.MaxRequestBytes, StallTimeout: stallTimeout, CancelTimeout: cancelTimeout,
		OnMessage: c.handleNotification, OnMalformed: c.handleMalformed,
	}
	if over, ok := conn.(*commandConn); ok && over.command.KeepAlive > 0 {
		o.Heartbeat, o.HeartbeatInterval = MethodPing, over.command.KeepAlive/pingsPerKeepAlive
	}
	if remote {
		o.KeepAlive, o.KeepAliveInterval = MethodPing, keepAliveInterval
	} else {
		o.Probe, o.ProbeInterval = MethodInfo, probeInterval
	}
	c.conn = jsonrpc2.New(conn, &o)
	go c.read()
	return c
}

// handleMalformed ends the connection, unless the malformed line was printed by the transport
// command and contains no part of a message.
func (c *Conn) handleMalformed(line []byte, p *jsonrpc2.Problem) {
	if over, ok := c.conn.Stream().(*commandConn); ok && over.canSkip(line) {
		return
	}
	c.conn.Drop(fmt.Errorf("malformed message: %s (%.100q)", p.Text, line))
}

// Close ends the connection, and the transport command if there is one. The sessions stay
// alive.
func (c *Conn) Close() error {
	if c.client != nil {
		c.client.Close()
		return nil
	}
	c.conn.Drop(jsonrpc2.ErrClosed)
	<-c.done
	if over, ok := c.conn.Stream().(*commandConn); ok {
		over.Terminate()
	}
	return nil
}

// Done is closed when the connection has ended, whichever side ended it.
func (c *Conn) Done() <-chan struct{} { return c.done }

// LogTo logs the end of the connection, and at debug level each line in both directions: its
// method, ID and size, never its contents. nil logs nothing.
func (c *Conn) LogTo(l *slog.Logger) {
	if c.client != nil {
		return // its Client has its own log
	}
	c.log.Store(l)
	c.conn.LogTo(l)
}

// OnProgress makes the connection call f for each progress notification of a preparation, one
// at a time. f runs in the goroutine that reads replies, so it must not wait for a reply. nil
// removes the callback.
func (c *Conn) OnProgress(f func(PreparationProgress)) {
	if c.client != nil {
		c.client.OnProgress(f)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onProgress = f
}

// Call calls a method. When ctx ends, the daemon cancels the call, and interrupts or abandons
// its work as the method defines. If a stuck daemon does not confirm that, Call returns 3 s
// after ctx ended. If a daemon is stuck and ctx does not end, Call drops the connection within
// 30 s.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	if c.client != nil {
		return c.client.callWithRetry(ctx, method, params, result)
	}
	raw, err := c.conn.Call(ctx, method, params)
	if err = callError(err); err != nil || result == nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// callError converts the error of a call for the caller.
func callError(err error) error {
	if refused, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		var e session.Error
		_ = json.Unmarshal(refused.Data, &e) // on failure the message still says what happened
		e.Message = refused.Message
		if e.Kind == KindUnknownMethod {
			e.Message += ": the daemon is older than this program, and goes on until it is ended (repl daemon stop)"
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

// connectionEndedError returns the error of a call on a connection that has ended.
func connectionEndedError(why error) error {
	return &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("the connection to the daemon ended: %v", why), Cause: why}
}

// read reads from the daemon until the connection ends.
func (c *Conn) read() {
	defer close(c.done)
	why := c.conn.Read()
	c.conn.Drop(why)
	_ = c.conn.FinishWriting() // its error repeats the reason
	if l := c.log.Load(); l != nil && !errors.Is(why, jsonrpc2.ErrClosed) {
		l.Info("connection to daemon ended", "error", why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = connectionEndedError(why)
	for _, w := range c.receivers {
		w.closeWithError(c.err)
	}
}

// handleNotification handles a notification. It never calls a callback while holding the lock.
func (c *Conn) handleNotification(m *jsonrpc2.Message) {
	switch m.Method {
	case MethodSnapshot, MethodEvent, MethodChange, MethodEnded:
		var p struct {
			Subscription string `json:"subscription"`
		}
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if w := c.receivers[p.Subscription]; w != nil {
			w.enqueue(m)
		} else {
			c.bufferEarlyLocked(p.Subscription, m)
		}
	case MethodTurnAccepted:
		var b TurnAccepted
		if json.Unmarshal(m.Params, &b) == nil && c.onTurnAccepted != nil {
			c.onTurnAccepted(b)
		}
	case MethodProgress:
		var p PreparationProgress
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		c.mu.Lock()
		f := c.onProgress
		c.mu.Unlock()
		if f != nil {
			f(p)
		}
	}
}

// maxEarlySubscriptions bounds the subscriptions with notifications that arrived before their
// reply was read.
const maxEarlySubscriptions = 64

// bufferEarlyLocked stores a notification of a subscription whose reply is not read yet.
func (c *Conn) bufferEarlyLocked(id string, m *jsonrpc2.Message) {
	b := c.earlyBacklogs[id]
	switch {
	case b == nil && len(c.earlyBacklogs) >= maxEarlySubscriptions:
	case b == nil:
		b = &backlog{}
		c.earlyBacklogs[id] = b
		b.add(m)
	case b.bytes > maxQueuedBytes:
		b.overflowed = true
	default:
		b.add(m)
	}
}

// ---- methods

// DaemonInfo describes the daemon.
func (c *Conn) DaemonInfo(ctx context.Context) (i DaemonInfo, err error) {
	err = c.Call(ctx, MethodInfo, struct{}{}, &i)
	return i, err
}

// CreateSession opens a new session.
func (c *Conn) CreateSession(ctx context.Context, p CreateParams) (s session.Info, err error) {
	err = c.Call(ctx, MethodCreate, p, &s)
	return s, err
}

// ListSessions describes all sessions, by name.
func (c *Conn) ListSessions(ctx context.Context) ([]session.Info, error) {
	var r struct {
		Sessions []session.Info `json:"sessions"`
	}
	err := c.Call(ctx, MethodList, struct{}{}, &r)
	return r.Sessions, err
}

// GetSession describes a session.
func (c *Conn) GetSession(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, MethodGet, NameParams{name}, &s)
	return s, err
}

// ResizeTerminal sets the size of a session's terminal.
func (c *Conn) ResizeTerminal(ctx context.Context, p ResizeParams) error {
	return c.Call(ctx, MethodResize, p, nil)
}

// ResetSession ends a session's worker, even a busy one, and starts a new one.
func (c *Conn) ResetSession(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, MethodReset, EndParams{Session: name}, &s)
	return s, err
}

// ListClients lists the connected clients; only those of one session if name is not "".
func (c *Conn) ListClients(ctx context.Context, name string) ([]ConnectedClient, error) {
	var all ClientList
	err := c.Call(ctx, MethodClients, NameParams{name}, &all)
	return all.Clients, err
}

// DetachClient ends another connection. Its turns continue, and its write lock is released.
func (c *Conn) DetachClient(ctx context.Context, p DetachParams) error {
	return c.Call(ctx, MethodDetach, p, nil)
}

// CloseSession ends a session permanently.
func (c *Conn) CloseSession(ctx context.Context, name string) error {
	return c.Call(ctx, MethodClose, EndParams{Session: name}, nil)
}

// StartTurn runs code, and waits for it if p.WaitMS is set. If ctx ends before the turn is
// over, the turn is interrupted.
func (c *Conn) StartTurn(ctx context.Context, p StartParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.Call(ctx, MethodStart, p, &r)
	return r, err
}

// SendInput answers an input request, and waits for what follows if p.WaitMS is set.
func (c *Conn) SendInput(ctx context.Context, p InputParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.Call(ctx, MethodInput, p, &r)
	return r, err
}

// WaitTurn waits until the active turn ends or asks for input. If ctx ends, the turn continues.
func (c *Conn) WaitTurn(ctx context.Context, p WaitParams) (r session.Reply, err error) {
	err = c.Call(ctx, MethodWait, p, &r)
	return r, err
}

// InterruptTurn interrupts a turn, if it is still the active one.
func (c *Conn) InterruptTurn(ctx context.Context, p InterruptParams) (r InterruptReply, err error) {
	err = c.Call(ctx, MethodInterrupt, p, &r)
	return r, err
}

// GrantAccess grants a session access. Only the user may decide that.
func (c *Conn) GrantAccess(ctx context.Context, p GrantParams) error {
	return c.Call(ctx, MethodGrant, p, nil)
}

// AnswerPermission answers a permission request. Only the user may decide that.
func (c *Conn) AnswerPermission(ctx context.Context, p AnswerPermissionParams) error {
	return c.Call(ctx, MethodAnswerPermission, p, nil)
}

// CompleteText returns possible continuations of a text.
func (c *Conn) CompleteText(ctx context.Context, p QueryParams) (r session.Completion, err error) {
	err = c.Call(ctx, MethodComplete, p, &r)
	return r, err
}

// ParseText asks whether text is a complete input.
func (c *Conn) ParseText(ctx context.Context, p QueryParams) (r ParseReply, err error) {
	err = c.Call(ctx, MethodParse, p, &r)
	return r, err
}

// InspectText describes the name at the cursor.
func (c *Conn) InspectText(ctx context.Context, p QueryParams) (r session.Inspection, err error) {
	err = c.Call(ctx, MethodInspect, p, &r)
	return r, err
}

// ListDestinations lists the network destinations that a sandboxed session has connected to.
func (c *Conn) ListDestinations(ctx context.Context, name string) (r Destinations, err error) {
	err = c.Call(ctx, MethodDestinations, NameParams{Session: name}, &r)
	return r, err
}

// VisibleHome lists what a sandboxed session sees of the home directory.
func (c *Conn) VisibleHome(ctx context.Context, name string) (r session.Visibility, err error) {
	err = c.Call(ctx, MethodVisibleHome, NameParams{Session: name}, &r)
	return r, err
}

// ListVariables lists what user code has defined, while the session is idle.
func (c *Conn) ListVariables(ctx context.Context, name string) (r session.Variables, err error) {
	err = c.Call(ctx, MethodVariables, NameParams{Session: name}, &r)
	return r, err
}

// ReadEvents reads a window of a session's events.
func (c *Conn) ReadEvents(ctx context.Context, p ReadParams) (r session.EventPage, err error) {
	err = c.Call(ctx, MethodRead, p, &r)
	return r, err
}

// ReadOutline returns summaries of turns.
func (c *Conn) ReadOutline(ctx context.Context, p OutlineParams) (r session.TurnSummaries, err error) {
	err = c.Call(ctx, MethodOutline, p, &r)
	return r, err
}

// ReadBlob reads data of an event, by its digest.
func (c *Conn) ReadBlob(ctx context.Context, p BlobParams) (r session.BlobPart, err error) {
	err = c.Call(ctx, MethodBlob, p, &r)
	return r, err
}

// ListFiles lists the regular files in a session's own directory; the session may be open or
// crashed.
func (c *Conn) ListFiles(ctx context.Context, p FilesParams) ([]session.File, error) {
	var r FileList
	err := c.Call(ctx, MethodFiles, p, &r)
	return r.Files, err
}

// ReadFile reads a part of such a file.
func (c *Conn) ReadFile(ctx context.Context, p FileParams) (r session.FilePart, err error) {
	err = c.Call(ctx, MethodFile, p, &r)
	return r, err
}

// ListCrashed lists the sessions that crashed in the last day, the newest first.
func (c *Conn) ListCrashed(ctx context.Context) ([]CrashedSession, error) {
	var r CrashedSessions
	err := c.Call(ctx, MethodListCrashed, nil, &r)
	return r.Sessions, err
}

// SearchLines finds lines of the output and of inputs.
func (c *Conn) SearchLines(ctx context.Context, p SearchParams) (r session.SearchResult, err error) {
	err = c.Call(ctx, MethodSearch, p, &r)
	return r, err
}

// ReadOutput reads lines of the rendered output.
func (c *Conn) ReadOutput(ctx context.Context, p OutputParams) (r session.Output, err error) {
	err = c.Call(ctx, MethodOutput, p, &r)
	return r, err
}

// SaveReadCursor stores how far a reader has read, or asks how far it had.
func (c *Conn) SaveReadCursor(ctx context.Context, p ReadCursorParams) (r ReadCursor, err error) {
	err = c.Call(ctx, MethodReadCursor, p, &r)
	return r, err
}

// TakeWriteLock takes the write lock of a session: only this client may write until
// ReleaseWriteLock, or until this connection ends. With long, the lock is announced in the
// session.
func (c *Conn) TakeWriteLock(ctx context.Context, name, author string, long bool) error {
	return c.Call(ctx, MethodTakeWriteLock, WriteLockParams{Session: name, Author: author, Long: long}, nil)
}

// ReleaseWriteLock releases the write lock.
func (c *Conn) ReleaseWriteLock(ctx context.Context, name, author string) error {
	return c.Call(ctx, MethodReleaseWriteLock, WriteLockParams{Session: name, Author: author}, nil)
}
