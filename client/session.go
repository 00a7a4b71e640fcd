package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// shortCallTimeout bounds the call that ends a subscription whose reader is gone.
	shortCallTimeout = 5 * time.Second

	// maxPollTimeout bounds the wait of one call. A longer wait takes several calls.
	maxPollTimeout = time.Hour

	// minPollInterval is the minimum time between two calls of one wait, whatever the daemon does.
	minPollInterval = 100 * time.Millisecond
)

// A Session calls one session of a daemon by name. It has no state except its name and its
// author. An error is of [session.KindUnreachable] if the daemon is gone.
type Session struct {
	calls         caller
	name          string
	author        string
	pendingCursor *pendingReadCursor

	writeLock bool                 // turns that it starts take the write lock
	dialect   session.InputDialect // of the inputs of turns that it starts
}

var (
	_ session.Session     = (*Session)(nil)
	_ session.TurnStarter = (*Session)(nil)
	_ session.TurnQueuer  = (*Session)(nil)
)

// callSession calls a method for its result, and explains the error of a call that took too long.
func callSession[R any](ctx context.Context, s *Session, method string, params any) (r R, err error) {
	err = s.explainError(s.calls.callMethod(ctx, method, params, &r))
	return r, err
}

// callWithoutResult calls a method that has no result.
func (s *Session) callWithoutResult(ctx context.Context, method string, params any) error {
	return s.explainError(s.calls.callMethod(ctx, method, params, nil))
}

// explainError explains the error of a call that took too long. A caller that reconnects explains
// it itself.
func (s *Session) explainError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !s.calls.canReconnect() {
		return fmt.Errorf("the daemon does not respond: %w", err)
	}
	return err
}

// Name implements session.Session.
func (s *Session) Name() string { return s.name }

// Author implements session.Session.
func (s *Session) Author() string { return s.author }

// As implements session.Session. See [protocol.IsAuthor] for the names that a daemon accepts.
func (s *Session) As(author string) session.Session { return s.WithAuthor(author) }

// WithAuthor is As with the type *Session as its result.
func (s *Session) WithAuthor(author string) *Session {
	view := *s
	view.author, view.pendingCursor = author, &pendingReadCursor{}
	return &view
}

// InDialect implements session.Session.
func (s *Session) InDialect(dialect session.InputDialect) session.Session {
	view := *s
	view.dialect = dialect
	return &view
}

// WithWriteLock returns the same session: no other client may write during a turn that it
// starts.
func (s *Session) WithWriteLock() *Session {
	view := *s
	view.writeLock = true
	return &view
}

// Info implements session.Session.
func (s *Session) Info(ctx context.Context) (session.Info, error) {
	return callSession[session.Info](ctx, s, protocol.MethodGet, protocol.NameParams{Session: s.name})
}

// Submit implements session.Session.
func (s *Session) Submit(ctx context.Context, code string) (uint64, error) {
	return s.startTurn(ctx, protocol.StartParams{Input: code, WriteLock: s.writeLock})
}

// SubmitQueued implements session.TurnQueuer. The daemon keeps the place of the input while the
// connection is down.
func (s *Session) SubmitQueued(ctx context.Context, code string) (uint64, error) {
	return s.startTurn(ctx, protocol.StartParams{Input: code, WriteLock: s.writeLock, Queue: true})
}

// SubmitSilent implements session.Session.
func (s *Session) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return s.startTurn(ctx, protocol.StartParams{Input: code, Silent: true})
}

// SubmitMayExit implements session.Session.
func (s *Session) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return s.startTurn(ctx, protocol.StartParams{Input: code, WriteLock: s.writeLock, MayExit: true})
}

func (s *Session) startTurn(ctx context.Context, p protocol.StartParams) (uint64, error) {
	p.Session, p.Author, p.Dialect = s.name, s.author, s.dialect
	r, err := startTurn(ctx, s.calls, p)
	return r.Turn, s.explainError(err)
}

// Answer implements session.Session.
func (s *Session) Answer(ctx context.Context, wait timeline.Seq, in session.Input) (uint64, error) {
	r, err := sendInput(ctx, s.calls, protocol.InputParams{Session: s.name, InputRequest: wait, Input: string(in.Data), EOF: in.EOF, Author: s.author})
	return r.Turn, s.explainError(err)
}

// Wait implements session.Session. The daemon itself bounds the reply.
func (s *Session) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	var opts session.WaitOptions
	if o != nil {
		opts = *o
	}
	deadline := time.Now().Add(opts.Timeout)
	for {
		pause := maxPollTimeout
		switch {
		case opts.Poll:
			pause = 0
		case opts.Timeout > 0:
			pause = min(pause, max(time.Until(deadline), 1)) // 0 would be a poll
		}
		asked := time.Now()
		reply, err := callSession[session.Reply](ctx, s, protocol.MethodWait, protocol.WaitParams{Session: s.name, Turn: turn, WaitMS: protocol.Millis(pause), After: opts.After})
		if err != nil {
			return session.Reply{}, err
		}
		ending := turn != 0 && reply.State == session.StateStopping // its outcome arrives with the end of the worker
		over := reply.Outcome != "" || !reply.State.IsActive() && !ending || reply.State == session.StateWaiting
		if over || pause < time.Millisecond || opts.Timeout > 0 && !time.Now().Before(deadline) {
			return reply, nil
		}
		if rest := min(minPollInterval, pause) - time.Since(asked); rest > 0 { // the daemon should have waited
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return session.Reply{}, ctx.Err()
			}
		}
	}
}

// Interrupt implements session.Session.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	r, err := callSession[protocol.InterruptReply](ctx, s, protocol.MethodInterrupt, protocol.InterruptParams{Session: s.name, Turn: turn, Active: turn == 0, Author: s.author})
	return r.Result, err
}

// Allow implements session.Session.
func (s *Session) Allow(ctx context.Context, g session.Grant) error {
	return s.callWithoutResult(ctx, protocol.MethodGrant, protocol.GrantParams{Session: s.name, Grant: g, Author: s.author})
}

// AnswerPermission implements session.Session.
func (s *Session) AnswerPermission(ctx context.Context, id uint64, ok bool) error {
	return s.callWithoutResult(ctx, protocol.MethodAnswerPermission, protocol.AnswerPermissionParams{Session: s.name, Permission: id, OK: ok, Author: s.author})
}

// Reset implements session.Session.
func (s *Session) Reset(ctx context.Context) error {
	_, err := callSession[session.Info](ctx, s, protocol.MethodReset, protocol.EndParams{Session: s.name})
	return err
}

// Close implements session.Session. It ends the session for all clients.
func (s *Session) Close(ctx context.Context) error {
	return s.callWithoutResult(ctx, protocol.MethodClose, protocol.EndParams{Session: s.name})
}

// Events implements session.Session. It also ends when the daemon is gone.
func (s *Session) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		w, err := newSubscription(ctx, s.calls, protocol.SubscribeParams{Session: s.name, After: after, Author: s.author})
		if err != nil {
			yield(timeline.Event{}, s.explainError(err))
			return
		}
		defer func() {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shortCallTimeout)
			defer cancel()
			_ = w.Cancel(bounded)
		}()
		for {
			e, err := w.Next(ctx)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Read implements session.Session.
func (s *Session) Read(ctx context.Context, q session.ReadQuery) (session.EventPage, error) {
	return callSession[session.EventPage](ctx, s, protocol.MethodRead, protocol.ReadParams{Session: s.name, ReadQuery: q})
}

// TurnSummaries implements session.Session.
func (s *Session) TurnSummaries(ctx context.Context, q session.TurnSummariesQuery) (session.TurnSummaries, error) {
	return callSession[session.TurnSummaries](ctx, s, protocol.MethodOutline, protocol.OutlineParams{Session: s.name, TurnSummariesQuery: q})
}

// Blob implements session.Session.
func (s *Session) Blob(ctx context.Context, digest string, offset int64, limit int) (session.BlobPart, error) {
	return callSession[session.BlobPart](ctx, s, protocol.MethodBlob, protocol.BlobParams{Session: s.name, Digest: digest, Offset: offset, Limit: limit, Buffer: true})
}

// Files implements session.Session.
func (s *Session) Files(ctx context.Context, path string) (session.FileList, error) {
	return callSession[session.FileList](ctx, s, protocol.MethodFiles, protocol.FilesParams{Session: s.name, Path: path})
}

// File implements session.Session.
func (s *Session) File(ctx context.Context, path string, offset int64, limit int) (session.FilePart, error) {
	return callSession[session.FilePart](ctx, s, protocol.MethodFile, protocol.FileParams{FilesParams: protocol.FilesParams{Session: s.name, Path: path}, Offset: offset, Limit: limit, Buffer: true})
}

// PutFile implements session.Session.
func (s *Session) PutFile(ctx context.Context, p session.FilePiece) (session.PutProgress, error) {
	data := p.Data
	p.Data = nil
	return callSession[session.PutProgress](ctx, s, protocol.MethodPutFile, jsonrpc2.Buffered{Value: protocol.PutFileParams{Session: s.name, FilePiece: p}, Buffer: data})
}

// RemoveFile implements session.Session.
func (s *Session) RemoveFile(ctx context.Context, path string) error {
	return s.callWithoutResult(ctx, protocol.MethodRemoveFile, protocol.RemoveFileParams{Session: s.name, Path: path})
}

// Search implements session.Session.
func (s *Session) Search(ctx context.Context, q session.SearchQuery) (session.SearchResult, error) {
	return callSession[session.SearchResult](ctx, s, protocol.MethodSearch, protocol.SearchParams{Session: s.name, SearchQuery: q})
}

// Output implements session.Session.
func (s *Session) Output(ctx context.Context, q session.OutputQuery) (session.Output, error) {
	return callSession[session.Output](ctx, s, protocol.MethodOutput, protocol.OutputParams{Session: s.name, OutputQuery: q})
}

// Complete implements session.Session.
func (s *Session) Complete(ctx context.Context, text string, cursor int) (session.Completion, error) {
	return callSession[session.Completion](ctx, s, protocol.MethodComplete, protocol.QueryParams{Session: s.name, Text: text, Cursor: cursor})
}

// Inspect implements session.Session.
func (s *Session) Inspect(ctx context.Context, text string, cursor int) (session.Inspection, error) {
	return callSession[session.Inspection](ctx, s, protocol.MethodInspect, protocol.QueryParams{Session: s.name, Text: text, Cursor: cursor})
}

// TablePage implements session.Session.
func (s *Session) TablePage(ctx context.Context, q session.TableQuery) (session.TablePage, error) {
	return callSession[session.TablePage](ctx, s, protocol.MethodTablePage, protocol.TablePageParams{Session: s.name, TableQuery: q})
}

// Comms implements session.Session.
func (s *Session) Comms(ctx context.Context, q session.CommsQuery) (session.CommChanges, error) {
	return callSession[session.CommChanges](ctx, s, protocol.MethodComms, protocol.CommsParams{Session: s.name, CommsQuery: q})
}

// Parse implements session.Session.
func (s *Session) Parse(ctx context.Context, text string) (session.ParseStatus, error) {
	p, err := callSession[protocol.ParseReply](ctx, s, protocol.MethodParse, protocol.ParseParams{Session: s.name, Text: text, Dialect: s.dialect})
	return p.Status, err
}

// Destinations implements session.Session.
func (s *Session) Destinations(ctx context.Context) ([]session.Destination, error) {
	r, err := callSession[protocol.Destinations](ctx, s, protocol.MethodDestinations, protocol.NameParams{Session: s.name})
	return r.Destinations, err
}

// Visibility implements session.Session.
func (s *Session) Visibility(ctx context.Context) (session.Visibility, error) {
	return callSession[session.Visibility](ctx, s, protocol.MethodVisibleHome, protocol.NameParams{Session: s.name})
}

// Variables implements session.Session.
func (s *Session) Variables(ctx context.Context) (session.Variables, error) {
	return callSession[session.Variables](ctx, s, protocol.MethodVariables, protocol.NameParams{Session: s.name})
}

// Type implements session.Session. It returns when the daemon has accepted the keys. Calls that are
// made at the same time may arrive in another order.
func (s *Session) Type(ctx context.Context, keys session.Keys) (uint64, error) {
	r, err := typeKeys(ctx, s.calls, protocol.TypeParams{Session: s.name, Author: s.author, Keys: keys})
	return r.Turn, s.explainError(err)
}

// Screen implements session.Session.
func (s *Session) Screen(ctx context.Context) (session.Screen, error) {
	return callSession[session.Screen](ctx, s, protocol.MethodScreen, protocol.NameParams{Session: s.name})
}

// Resize implements session.Session. With several clients the latest size counts.
func (s *Session) Resize(ctx context.Context, size session.Size) error {
	return s.callWithoutResult(ctx, protocol.MethodResize, protocol.ResizeParams{Session: s.name, Rows: int(size.Rows), Cols: int(size.Cols)})
}

// ReadAs lets a reader continue where it stopped. It reads under its own name, or under a different
// one if a connected client already uses that name. It waits for a session that is being prepared.
// The returned session writes under the same name. read is how far the reader had read.
func (s *Session) ReadAs(ctx context.Context, reader string) (as *Session, read timeline.Seq, err error) {
	m, err := callSession[protocol.ReadCursor](ctx, s, protocol.MethodReadCursor, protocol.ReadCursorParams{Session: s.name, Reader: reader, Own: true})
	if err != nil {
		return s, 0, err
	}
	return s.WithAuthor(m.Reader), m.Seq, nil
}

// SaveReadCursor stores how far the author has read, and returns it; 0 only asks.
func (s *Session) SaveReadCursor(ctx context.Context, seq timeline.Seq) (timeline.Seq, error) {
	m, err := callSession[protocol.ReadCursor](ctx, s, protocol.MethodReadCursor, protocol.ReadCursorParams{Session: s.name, Reader: s.author, Seq: seq})
	return m.Seq, err
}

// TakeWriteLock takes the write lock, see Client.TakeWriteLock.
func (s *Session) TakeWriteLock(ctx context.Context, long bool) error {
	return s.callWithoutResult(ctx, protocol.MethodTakeWriteLock, protocol.WriteLockParams{Session: s.name, Author: s.author, Long: long})
}

// ReleaseWriteLock releases the write lock, if this process has it.
func (s *Session) ReleaseWriteLock(ctx context.Context) error {
	return s.callWithoutResult(ctx, protocol.MethodReleaseWriteLock, protocol.WriteLockParams{Session: s.name, Author: s.author})
}
