package callerstate

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/elicitation"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A CallerSession is the state that the server keeps for one caller about one session: how far
// the caller has read, and which of its calls owns the turn.
type CallerSession struct {
	Name string
	lang string // guarded by SessionSet.mu once a backend has opened it; "" until the backend reports it
	Dir  string // the chosen working directory; may be ""
	used bool   // guarded by SessionSet.mu; a call has named it

	codex *clientprofile.CodexState // of the call for which it was opened; may be nil

	lastCall time.Time   // guarded by SessionSet.mu; time of the last call that named it
	expiry   *time.Timer // guarded by SessionSet.mu; nil without an idle timeout

	preparing     preparation
	cancelOpening context.CancelFunc // stops opening the session

	opened  chan struct{}          // closed when session or err is set
	session *backend.SessionHandle // nil if opening failed
	err     error

	images reply.ImageStore // of an open session

	// reportToken holds one token. A call takes it before it creates a reply with new events, and
	// returns it once it is certain whether the client gets that reply. So the client gets no
	// event twice, and events of a lost reply come with the next one.
	reportToken chan struct{}

	Questions *elicitation.SessionQuestions // for the user

	// callQueue holds the calls about the session that have not started.
	callQueue mcptransport.Queue

	// answerMu makes an answer and its record one step. It is held while the answer is submitted;
	// only BeginAnswer locks it.
	answerMu     sync.Mutex
	lastAnswered timeline.Seq // guarded by answerMu; the last input request that a call answered

	mu     *sync.Mutex // the lock of the caller's sessions
	notice string      // guarded by mu; the first line of the next reply; may be ""

	readPosition
	turnOrder
}

// A readPosition says how far a caller has read a session: everything up to the cursor.
type readPosition struct {
	cursor         timeline.Seq          // guarded by mu; the caller knows all events up to it
	shownRequestID timeline.Seq          // guarded by mu; the last input request that the caller was shown; 0 without one
	shownRequest   session.InputRequest  // guarded by mu; that request, which never changes; meaningless while shownRequestID is 0
	staleUpTo      uint64                // guarded by mu; the inputs of calls up to this number do not answer that request
	staleReason    callorder.CallOutcome // guarded by mu; the outcome of an earlier call that is the reason

	shownTurn   uint64 // guarded by mu; the latest turn that the caller was shown, running or over
	fullScreen  bool   // guarded by mu; at the cursor, the terminal is on its alternate screen
	startFailed bool   // guarded by mu; the last worker before the cursor did not start
}

// A turnOrder says which call owns the turn of a session, which ones wait for it, and how many
// interrupts had no effect.
type turnOrder struct {
	turns callorder.TurnQueue[*TurnClaim] // guarded by mu

	ignoredInterruptsTurn uint64 // guarded by mu; the last turn that an interrupt had no effect on
	ignoredInterrupts     int    // guarded by mu; the number of these interrupts
}

// firstEvent is the start of a session's first worker, which is never reported.
const firstEvent = 1

// newCallerSession returns the state for a session. mu is the lock of the caller's sessions.
func newCallerSession(name, lang, dir string, mu *sync.Mutex) *CallerSession {
	cs := &CallerSession{
		mu:           mu,
		Name:         name,
		lang:         lang,
		Dir:          dir,
		opened:       make(chan struct{}),
		reportToken:  make(chan struct{}, 1),
		readPosition: readPosition{cursor: firstEvent},
	}
	cs.Questions = elicitation.NewSessionQuestions(cs.addNotice)
	return cs
}

// JoinQueue puts a call at the end of the queue of calls that have not started.
func (cs *CallerSession) JoinQueue() *mcptransport.QueueTicket { return cs.callQueue.Join() }

// HandleIfOpen returns the session if it is open.
func (cs *CallerSession) HandleIfOpen() (*backend.SessionHandle, bool) {
	select {
	case <-cs.opened:
		return cs.session, cs.err == nil
	default:
		return nil, false
	}
}

// WaitOpen waits until the session is open or the deadline passes. ok is false if it passed or
// ctx ended.
func (cs *CallerSession) WaitOpen(ctx context.Context, deadline time.Time) (s *backend.SessionHandle, ok bool, err error) {
	select {
	case <-cs.opened: // needs no timer
		return cs.session, true, cs.err
	default:
	}
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	select {
	case <-cs.opened:
		return cs.session, true, cs.err
	case <-timeout.C:
		return nil, false, nil
	case <-ctx.Done():
		return nil, false, nil
	}
}

// ImageStore returns the image store of an open session. It is next to the transcript, or on the
// client's machine if the session is remote.
func (cs *CallerSession) ImageStore() *reply.ImageStore {
	if cs.session.IsRemote {
		cs.images.UseDir(cs.session.ImageDir, true)
	} else if path := cs.session.OutputPath(); path != "" {
		cs.images.UseDir(filepath.Dir(path), false)
	}
	return &cs.images
}

// close closes the session, or stops opening it.
func (cs *CallerSession) close(logger *slog.Logger) {
	cs.cancelOpening()
	<-cs.opened
	if cs.err != nil {
		return
	}
	if err := cs.session.Leave(context.Background()); err != nil {
		logger.Error("session close failed", "session", cs.Name, "error", err)
		return
	}
	logger.Info("caller left session", "session", cs.Name)
}

// discardUnused closes a session that was opened ahead but does not fit the first call. A backend
// would retain it.
func (cs *CallerSession) discardUnused(logger *slog.Logger) {
	cs.cancelOpening()
	<-cs.opened
	if ctx := context.Background(); cs.err == nil && cs.session.IsNew && cs.session.InfoOrEnded(ctx).Turn == 0 {
		_ = cs.session.Close(ctx)
	}
	cs.close(logger)
}

// setCursor sets the caller's cursor. It sets no shown input request, because this may be a new
// conversation, whose first input is code.
func (cs *CallerSession) setCursor(known timeline.Seq) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.cursor = max(firstEvent, known)
}

// CursorAndRequest returns the caller's cursor, and the last input request that it was shown.
func (cs *CallerSession) CursorAndRequest() (cursor, shown timeline.Seq) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.cursor, cs.shownRequestID
}

// RequestAnsweredBy returns the input request that a call's input answers, or 0 if the input is
// code. early is set if the input is neither, and is the outcome of an earlier call. Either that
// call waits for input, and this one was sent before its caller knew; or it was cancelled, and
// may have been meant as the answer.
func (cs *CallerSession) RequestAnsweredBy(c *mcptransport.ToolCall) (requestID timeline.Seq, early callorder.CallOutcome) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch number := c.Number(); {
	case cs.shownRequestID == 0 || number == 0:
	case number <= cs.staleUpTo:
		early = cs.staleReason
	case c.FollowsLostCall():
		early = callorder.OutcomeCancelled
	}
	return cs.shownRequestID, early
}

// NoteCancelled records that an input was cancelled, which may have been meant as an answer. If
// that input request is still open, inputs that the client has already sent do not answer it.
func (cs *CallerSession) NoteCancelled(c *mcptransport.ToolCall) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if last := c.NewestOverlapping(); c.IsCancelled() && cs.shownRequestID != 0 && last > cs.staleUpTo {
		cs.staleUpTo, cs.staleReason = last, callorder.OutcomeCancelled
	}
}

// RequestIfShown returns an input request that the caller was shown, or nil if it has been shown
// another one since.
func (cs *CallerSession) RequestIfShown(requestID timeline.Seq) *session.InputRequest {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.shownRequestID != requestID {
		return nil
	}
	w := cs.shownRequest
	return &w
}

// KnowsRequest reports whether the caller was shown w, or one of the same program that differs only
// in its ID. A program that polls may stop and ask the same again.
func (cs *CallerSession) KnowsRequest(w *session.InputRequest) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	known := cs.shownRequest
	known.ID = w.ID
	return cs.shownRequestID != 0 && (cs.shownRequestID == w.ID || known == *w)
}

// KnowsTurn reports whether the caller was shown a turn, or a later one.
func (cs *CallerSession) KnowsTurn(turn uint64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return turn <= cs.shownTurn
}

// ExpectCode makes the next input run as code, because the input request that the caller knows is
// answered or given up.
func (cs *CallerSession) ExpectCode() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.shownRequestID = 0
}

// AcknowledgeReply moves the cursor past a reply that the caller has received. A reply that a
// later one has overtaken moves nothing.
func (cs *CallerSession) AcknowledgeReply(c *mcptransport.ToolCall, r session.Reply, fullScreen bool) {
	if cs.advanceCursor(c, r, fullScreen) && cs.session.SaveCursor != nil {
		cs.session.SaveCursor(r.Next)
	}
}

// advanceCursor is AcknowledgeReply without saving the cursor. It returns false if nothing moved.
func (cs *CallerSession) advanceCursor(c *mcptransport.ToolCall, r session.Reply, fullScreen bool) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if r.Next < cs.cursor {
		return false
	}
	cs.cursor = r.Next
	cs.fullScreen, cs.shownTurn = fullScreen, max(cs.shownTurn, r.Turn)
	if reply.HasEvent[timeline.WorkerExited](r) {
		cs.startFailed = reply.HasFailedStart(r)
	}
	switch {
	case r.InputRequest == nil:
		cs.shownRequestID = 0
	case r.InputRequest.ID != cs.shownRequestID:
		cs.shownRequestID, cs.shownRequest, cs.staleUpTo, cs.staleReason = r.InputRequest.ID, *r.InputRequest, c.NewestOverlapping(), callorder.OutcomeWaitsForInput
	}
	return true
}

// CountIgnoredInterrupt counts and returns the interrupts of a turn that had no effect.
func (cs *CallerSession) CountIgnoredInterrupt(turn uint64) int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.ignoredInterruptsTurn != turn {
		cs.ignoredInterruptsTurn, cs.ignoredInterrupts = turn, 0
	}
	cs.ignoredInterrupts++
	return cs.ignoredInterrupts
}

// IsFullScreen reports whether the terminal was on its alternate screen at the cursor.
func (cs *CallerSession) IsFullScreen() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.fullScreen
}

// HasFailedStart reports whether the last worker before the cursor ended before it was ready.
func (cs *CallerSession) HasFailedStart() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.startFailed
}

// SetNotice sets the first line of the next reply.
func (cs *CallerSession) SetNotice(text string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.notice = text
}

// addNotice adds to the first line of the next reply.
func (cs *CallerSession) addNotice(text string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.notice != "" {
		text = cs.notice + "; " + text
	}
	cs.notice = text
}

// PendingNotice returns the first line of the next reply.
func (cs *CallerSession) PendingNotice() string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.notice
}

// ClearNotice removes a line that the caller has received.
func (cs *CallerSession) ClearNotice(text string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.notice == text {
		cs.notice = ""
	}
}

// BeginReport takes the report token. It returns false if ctx ends.
func (cs *CallerSession) BeginReport(ctx context.Context) bool {
	select {
	case cs.reportToken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// EndReport returns the report token that BeginReport took.
func (cs *CallerSession) EndReport() { <-cs.reportToken }

// IsPreparing reports whether the session is being prepared, which may take minutes.
func (cs *CallerSession) IsPreparing() bool { return cs.preparing.isUnderWay() }

// DescribeProgress describes how far the opening of the session is.
func (cs *CallerSession) DescribeProgress() string { return cs.preparing.describeProgress() }
