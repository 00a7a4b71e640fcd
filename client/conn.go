package client

import (
	"context"
	"log/slog"
	"net"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A caller makes calls and subscribes: over one connection, or over those that a Client makes
// one after the other.
type caller interface {
	callMethod(ctx context.Context, method string, params, result any) error

	// subscribeReceiver subscribes for w, which has lost the connection in before; the zero
	// lostStream means none.
	subscribeReceiver(ctx context.Context, before lostStream, p SubscribeParams, w streamReceiver) (timeline.Seq, error)

	// canReconnect reports whether calls and subscriptions survive the end of a connection.
	canReconnect() bool

	// newRequestID returns an ID for a call and its repetitions; "" if none are made.
	newRequestID() string

	// watchTurn calls f with the turn of a request before the call ends, until stop is called.
	watchTurn(request string, f func(turn uint64)) (stop func())
}

// An endpoint is a caller that a Conn can also close and observe.
type endpoint interface {
	caller
	Close() error
	Done() <-chan struct{}
	LogTo(l *slog.Logger)
	OnProgress(f func(PreparationProgress))
}

// A Conn has the methods of a daemon: over one connection that is never made again, or over the
// changing ones of a [Client]. It is safe for concurrent use.
type Conn struct{ over endpoint }

// Dial connects to a daemon, checks within 5 s that it speaks this package's [Protocol], and
// never starts one. A nil d is the user's own daemon, as [DefaultDialer] of os.Getenv. An error
// is of [session.KindUnreachable], or of [session.KindProtocol] if the daemon has a different version.
func Dial(ctx context.Context, d Dialer) (*Conn, error) {
	if d == nil {
		d = DefaultDialer(nil)
	}
	stream, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, conn.DialTimeout)
	defer stop()
	c := newSingleConn(stream)
	if err := c.CheckDaemon(ctx, d); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &Conn{over: c}, nil
}

// NewConn returns a Conn to the daemon at the other end of a network connection.
func NewConn(conn net.Conn) *Conn { return &Conn{over: newSingleConn(conn)} }

// Close ends the connection, and the transport command if there is one. The sessions stay
// alive.
func (c *Conn) Close() error { return c.over.Close() }

// Done is closed when the connection has ended, whichever side ended it.
func (c *Conn) Done() <-chan struct{} { return c.over.Done() }

// LogTo logs the end of the connection, and at debug level each line in both directions: its
// method, ID and size, never its contents. nil logs nothing. A [Client] has its own log.
func (c *Conn) LogTo(l *slog.Logger) { c.over.LogTo(l) }

// OnProgress makes the connection call f for each progress notification of a preparation, one
// at a time. f runs in the goroutine that reads replies, so it must not wait for a reply. nil
// removes the callback.
func (c *Conn) OnProgress(f func(PreparationProgress)) { c.over.OnProgress(f) }

// Call calls a method. When ctx ends, the daemon cancels the call, and interrupts or abandons
// its work as the method defines. If a stuck daemon does not confirm that, Call returns 3 s
// after ctx ended. If a daemon is stuck and ctx does not end, Call drops the connection within
// 30 s.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	return c.over.callMethod(ctx, method, params, result)
}

// Session returns the session with this name, on this connection. The daemon is not contacted
// before a method of it is called.
func (c *Conn) Session(name string) *Session {
	return &Session{calls: c.over, name: name, pendingCursor: &pendingReadCursor{}}
}

// ---- one connection

// A singleConn is one connection, whose calls and subscriptions end with it.
type singleConn struct {
	*conn.Conn
	callbacks
}

func newSingleConn(stream net.Conn) *singleConn {
	c := &singleConn{}
	c.Conn = conn.New(stream, connectionOptions(stream, false, c.callbacks.handleNotification))
	return c
}

// connectionMethods are the methods that a connection itself uses.
var connectionMethods = conn.Methods{
	Info: MethodInfo, Ping: MethodPing, Hello: MethodHello,
	Notifications: []string{MethodSnapshot, MethodEvent, MethodChange, MethodEnded},
}

// connectionOptions returns the options of a connection. A remote one is probed while it is
// needed.
func connectionOptions(stream net.Conn, isRemote bool, handle func(*jsonrpc2.Message)) conn.Options {
	o := conn.Options{Protocol: Protocol, Methods: connectionMethods, Remote: isRemote, OnNotification: handle}
	if over, ok := stream.(interface{ Greeting() remote.Greeting }); ok {
		g := over.Greeting()
		o.Greeting = &conn.DaemonGreeting{Version: g.Version, Protocol: g.Protocol, PID: g.PID, Started: g.Started}
	}
	if over, ok := stream.(*remote.CommandConn); ok {
		o.CanSkip, o.AfterClose, o.Heartbeat = over.CanSkip, over.Terminate, over.PingInterval()
	}
	return o
}

func (c *singleConn) callMethod(ctx context.Context, method string, params, result any) error {
	return c.Call(ctx, method, params, result)
}

func (c *singleConn) subscribeReceiver(ctx context.Context, before lostStream, p SubscribeParams, w streamReceiver) (timeline.Seq, error) {
	if before.err != nil {
		return 0, before.err
	}
	return subscribeOver(ctx, c.Conn, p, w)
}

func (c *singleConn) canReconnect() bool { return false }

func (c *singleConn) newRequestID() string { return "" }

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
	return listSessions(ctx, c.over)
}

func listSessions(ctx context.Context, c caller) ([]session.Info, error) {
	var r struct {
		Sessions []session.Info `json:"sessions"`
	}
	err := c.callMethod(ctx, MethodList, struct{}{}, &r)
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
	return startTurn(ctx, c.over, p)
}

func startTurn(ctx context.Context, c caller, p StartParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.callMethod(ctx, MethodStart, p, &r)
	return r, err
}

// SendInput answers an input request, and waits for what follows if p.WaitMS is set.
func (c *Conn) SendInput(ctx context.Context, p InputParams) (r session.Reply, err error) {
	return sendInput(ctx, c.over, p)
}

func sendInput(ctx context.Context, c caller, p InputParams) (r session.Reply, err error) {
	if len(p.Input) > session.MaxInputBytes {
		return r, session.NewTooLargeError(len(p.Input))
	}
	err = c.callMethod(ctx, MethodInput, p, &r)
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
