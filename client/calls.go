package client

import (
	"context"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
)

// DaemonInfo describes the daemon.
func (c *Client) DaemonInfo(ctx context.Context) (i protocol.DaemonInfo, err error) {
	err = c.Call(ctx, protocol.MethodInfo, struct{}{}, &i)
	return i, err
}

// CreateSession opens a new session, and waits until it has started, unless something has to be
// prepared first. An error is of [session.KindExists], [session.KindLimit], [session.KindStart] or
// another kind that describes the fault in p.
func (c *Client) CreateSession(ctx context.Context, p protocol.CreateParams) (s session.Info, err error) {
	err = c.Call(ctx, protocol.MethodCreate, p, &s)
	return s, err
}

// ListSessions describes all sessions, by name.
func (c *Client) ListSessions(ctx context.Context) ([]session.Info, error) {
	return listSessions(ctx, c.over)
}

// GetSession describes a session. Here and below, an error for a name that no session has is of
// [session.KindClosed].
func (c *Client) GetSession(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, protocol.MethodGet, protocol.NameParams{Session: name}, &s)
	return s, err
}

// ResizeTerminal sets the size of a session's terminal, in characters.
func (c *Client) ResizeTerminal(ctx context.Context, p protocol.ResizeParams) error {
	return c.Call(ctx, protocol.MethodResize, p, nil)
}

// ResetSession ends a session's worker, even a busy one, and starts a new one.
func (c *Client) ResetSession(ctx context.Context, name string) (s session.Info, err error) {
	err = c.Call(ctx, protocol.MethodReset, protocol.EndParams{Session: name}, &s)
	return s, err
}

// ListClients lists the connected clients; only those of one session if name is not "".
func (c *Client) ListClients(ctx context.Context, name string) ([]protocol.ConnectedClient, error) {
	var all protocol.ClientList
	err := c.Call(ctx, protocol.MethodClients, protocol.NameParams{Session: name}, &all)
	return all.Clients, err
}

// DetachClient ends another connection. Its turns continue, and its write lock is released.
func (c *Client) DetachClient(ctx context.Context, p protocol.DetachParams) error {
	return c.Call(ctx, protocol.MethodDetach, p, nil)
}

// CloseSession ends a session permanently.
func (c *Client) CloseSession(ctx context.Context, name string) error {
	return c.Call(ctx, protocol.MethodClose, protocol.EndParams{Session: name}, nil)
}

// StartTurn runs code, and waits for it up to p.WaitMS milliseconds; 0 does not wait. If ctx ends
// before the turn is over, the turn is interrupted, unless p.Continues is set. An error is of
// [session.KindBusy] or [session.KindWaiting] while another turn is active, and of
// [session.KindLocked] while another client has the write lock. An input of more than
// [session.MaxInputBytes] has an error of [session.KindTooLarge].
func (c *Client) StartTurn(ctx context.Context, p protocol.StartParams) (r session.Reply, err error) {
	return startTurn(ctx, c.over, p)
}

// SendInput answers an input request, and then waits for the turn up to p.WaitMS milliseconds; 0
// does not wait. An error is of [session.KindStale] if the request is over; others are those of
// [Client.StartTurn].
func (c *Client) SendInput(ctx context.Context, p protocol.InputParams) (r session.Reply, err error) {
	return sendInput(ctx, c.over, p)
}

// TypeKeys types keys for the programs of the active turn, and names that turn. It does not wait
// until they are typed. An error is of [session.KindStale] if no turn is active, and of
// [session.KindWaiting] if the runtime itself asks for input. Others are those of
// [session.TerminalAccess], and of [Client.StartTurn] for the write lock.
func (c *Client) TypeKeys(ctx context.Context, p protocol.TypeParams) (r protocol.TypeReply, err error) {
	return typeKeys(ctx, c.over, p)
}

// ReadScreen returns what the programs of the active turn show on the terminal. An error is of
// [session.KindStale] if no turn is active.
func (c *Client) ReadScreen(ctx context.Context, name string) (r session.Screen, err error) {
	err = c.Call(ctx, protocol.MethodScreen, protocol.NameParams{Session: name}, &r)
	return r, err
}

// WaitTurn waits until the active turn ends or asks for input. If ctx ends, the turn continues.
func (c *Client) WaitTurn(ctx context.Context, p protocol.WaitParams) (r session.Reply, err error) {
	err = c.Call(ctx, protocol.MethodWait, p, &r)
	return r, err
}

// InterruptTurn interrupts a turn, if it is still the active one. It does not wait for its end.
func (c *Client) InterruptTurn(ctx context.Context, p protocol.InterruptParams) (r protocol.InterruptReply, err error) {
	err = c.Call(ctx, protocol.MethodInterrupt, p, &r)
	return r, err
}

// GrantAccess grants a session access. Only the user may decide that.
func (c *Client) GrantAccess(ctx context.Context, p protocol.GrantParams) error {
	return c.Call(ctx, protocol.MethodGrant, p, nil)
}

// AnswerPermission answers a permission request. Only the user may decide that.
func (c *Client) AnswerPermission(ctx context.Context, p protocol.AnswerPermissionParams) error {
	return c.Call(ctx, protocol.MethodAnswerPermission, p, nil)
}

// CompleteText returns possible continuations of a text. Here and in the other queries, an error is
// of [session.KindBusy] while a turn is active, and of [session.KindUnsupported] if the language
// does not offer the query.
func (c *Client) CompleteText(ctx context.Context, p protocol.QueryParams) (r session.Completion, err error) {
	err = c.Call(ctx, protocol.MethodComplete, p, &r)
	return r, err
}

// ParseText asks whether text is a complete input.
func (c *Client) ParseText(ctx context.Context, p protocol.QueryParams) (r protocol.ParseReply, err error) {
	err = c.Call(ctx, protocol.MethodParse, p, &r)
	return r, err
}

// InspectText describes the name at the cursor.
func (c *Client) InspectText(ctx context.Context, p protocol.QueryParams) (r session.Inspection, err error) {
	err = c.Call(ctx, protocol.MethodInspect, p, &r)
	return r, err
}

// TablePage returns rows of a data frame that a session has shown.
func (c *Client) TablePage(ctx context.Context, p protocol.TablePageParams) (r session.TablePage, err error) {
	err = c.Call(ctx, protocol.MethodTablePage, p, &r)
	return r, err
}

// ListDestinations lists the network destinations that a sandboxed session has connected to.
func (c *Client) ListDestinations(ctx context.Context, name string) (r protocol.Destinations, err error) {
	err = c.Call(ctx, protocol.MethodDestinations, protocol.NameParams{Session: name}, &r)
	return r, err
}

// VisibleHome lists what a sandboxed session sees of the home directory.
func (c *Client) VisibleHome(ctx context.Context, name string) (r session.Visibility, err error) {
	err = c.Call(ctx, protocol.MethodVisibleHome, protocol.NameParams{Session: name}, &r)
	return r, err
}

// ListVariables lists what user code has defined, while the session is idle.
func (c *Client) ListVariables(ctx context.Context, name string) (r session.Variables, err error) {
	err = c.Call(ctx, protocol.MethodVariables, protocol.NameParams{Session: name}, &r)
	return r, err
}

// ReadEvents reads a window of a session's events.
func (c *Client) ReadEvents(ctx context.Context, p protocol.ReadParams) (r session.EventPage, err error) {
	err = c.Call(ctx, protocol.MethodRead, p, &r)
	return r, err
}

// ReadOutline returns summaries of turns.
func (c *Client) ReadOutline(ctx context.Context, p protocol.OutlineParams) (r session.TurnSummaries, err error) {
	err = c.Call(ctx, protocol.MethodOutline, p, &r)
	return r, err
}

// ReadBlob reads a part of the data of an event, by its digest. An error is of [session.KindNoBlob]
// if the session has no such data.
func (c *Client) ReadBlob(ctx context.Context, p protocol.BlobParams) (r session.BlobPart, err error) {
	p.Buffer = true
	err = c.Call(ctx, protocol.MethodBlob, p, &r)
	return r, err
}

// ListFiles lists a directory of a session, or of a crashed one.
func (c *Client) ListFiles(ctx context.Context, p protocol.FilesParams) (r session.FileList, err error) {
	err = c.Call(ctx, protocol.MethodFiles, p, &r)
	return r, err
}

// ReadFile reads a part of a file that ListFiles lists. An error is of [session.KindNoFile] if it is not
// there.
func (c *Client) ReadFile(ctx context.Context, p protocol.FileParams) (r session.FilePart, err error) {
	p.Buffer = true
	err = c.Call(ctx, protocol.MethodFile, p, &r)
	return r, err
}

// ReadLibrary identifies a chart library on the daemon's machine, and with p.Script reads a part of it.
// An error is of [session.KindNoAccess] if the file is not a published build.
func (c *Client) ReadLibrary(ctx context.Context, p protocol.LibraryParams) (r protocol.Library, err error) {
	err = c.Call(ctx, protocol.MethodLibrary, p, &r)
	return r, err
}

// Metrics returns the metrics of the daemon in the text format of Prometheus, version 0.0.4.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	var r protocol.Metrics
	err := c.Call(ctx, protocol.MethodMetrics, nil, &r)
	return r.Text, err
}

// ListCrashed lists the sessions that crashed in the last day, the newest first.
func (c *Client) ListCrashed(ctx context.Context) ([]protocol.CrashedSession, error) {
	var r protocol.CrashedSessions
	err := c.Call(ctx, protocol.MethodListCrashed, nil, &r)
	return r.Sessions, err
}

// SearchLines finds lines of the output and of inputs.
func (c *Client) SearchLines(ctx context.Context, p protocol.SearchParams) (r session.SearchResult, err error) {
	err = c.Call(ctx, protocol.MethodSearch, p, &r)
	return r, err
}

// ReadOutput reads lines of the rendered output.
func (c *Client) ReadOutput(ctx context.Context, p protocol.OutputParams) (r session.Output, err error) {
	err = c.Call(ctx, protocol.MethodOutput, p, &r)
	return r, err
}

// SaveReadCursor stores how far a reader has read, or asks how far it had.
func (c *Client) SaveReadCursor(ctx context.Context, p protocol.ReadCursorParams) (r protocol.ReadCursor, err error) {
	err = c.Call(ctx, protocol.MethodReadCursor, p, &r)
	return r, err
}

// TakeWriteLock takes the write lock of a session: only this client may write until
// ReleaseWriteLock, or until this connection ends. With long, the lock is announced in the
// session.
func (c *Client) TakeWriteLock(ctx context.Context, name, author string, long bool) error {
	return c.Call(ctx, protocol.MethodTakeWriteLock, protocol.WriteLockParams{Session: name, Author: author, Long: long}, nil)
}

// ReleaseWriteLock releases the write lock.
func (c *Client) ReleaseWriteLock(ctx context.Context, name, author string) error {
	return c.Call(ctx, protocol.MethodReleaseWriteLock, protocol.WriteLockParams{Session: name, Author: author}, nil)
}

// Subscribe watches a session from a cursor; 0 is its beginning.
func (c *Client) Subscribe(ctx context.Context, p protocol.SubscribeParams) (*Subscription, error) {
	return newSubscription(ctx, c.over, p)
}

// SubscribeChanges subscribes to the ticks of a session, or of all sessions if name is "". The
// first ticks report the current state of each. Further ticks arrive when something has
// changed, at most ten a second for each session. If all sessions are watched, the last tick of
// a session is Closed.
func (c *Client) SubscribeChanges(ctx context.Context, name string) (*ChangeStream, error) {
	return newChangeStream(ctx, c.over, name)
}
