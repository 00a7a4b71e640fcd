package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A callerSession is the state that the server keeps for one caller about one session: how far
// the caller has read, and which of its calls owns the turn.
type callerSession struct {
	name string
	lang string // guarded by sessions.mu once a backend has opened it; "" until the backend reports it
	dir  string // the chosen working directory; may be ""
	used bool   // guarded by sessions.mu; a call has named it

	codex *codexState // of the call for which it was opened; may be nil

	lastCall time.Time   // guarded by sessions.mu; time of the last call that named it
	expiry   *time.Timer // guarded by sessions.mu; nil without an idle timeout

	preparing     preparation
	cancelOpening context.CancelFunc // stops opening the session

	opened  chan struct{}  // closed when session or err is set
	session *SessionHandle // nil if opening failed
	err     error

	images imageStore // of an open session

	// reportToken holds one token. A call takes it before it creates a reply with new events, and
	// returns it once it is certain whether the client gets that reply. So the client gets no
	// event twice, and events of a lost reply come with the next one.
	reportToken chan struct{}

	// userWaitToken holds one token, taken by the call that waits for the user.
	userWaitToken chan struct{}

	question *openQuestion // guarded by mu; nil when none is open

	// callQueue holds the calls about the session that have not started.
	callQueue mcptransport.Queue

	// answerMu makes an answer and its record one step. It is held while the answer is submitted;
	// only beginAnswer locks it.
	answerMu     sync.Mutex
	lastAnswered timeline.Seq // guarded by answerMu; the last input request that a call answered

	mu     *sync.Mutex // the lock of the caller's sessions
	notice string      // guarded by mu; the first line of the next reply; may be ""

	readPosition
	turnQueue
}

// A readPosition says what a caller has seen of a session: everything up to the cursor.
type readPosition struct {
	cursor         timeline.Seq         // guarded by mu; the caller knows all events up to it
	shownRequestID timeline.Seq         // guarded by mu; the last input request that the caller was shown; 0 without one
	shownRequest   session.InputRequest // guarded by mu; that request, which never changes; meaningless while shownRequestID is 0
	staleUpTo      uint64               // guarded by mu; the inputs of calls up to this number do not answer that request
	staleReason    callOutcome          // guarded by mu; the outcome of an earlier call that is the reason

	fullScreen  bool // guarded by mu; at the cursor, the terminal is on its alternate screen
	startFailed bool // guarded by mu; the last worker before the cursor did not start
}

// A turnQueue orders the calls of a caller that run code in a session.
type turnQueue struct {
	owner        *turnOwner    // guarded by mu; nil if no call owns the turn
	queued       []*queuedCall // guarded by mu; in order, at most maxQueued; nil without an owner
	rejectedUpTo uint64        // guarded by mu; the inputs of calls up to this number are refused
	rejectReason string        // guarded by mu; why they are refused

	ignoredInterruptsTurn uint64 // guarded by mu; the last turn that an interrupt had no effect on
	ignoredInterrupts     int    // guarded by mu; the number of these interrupts
}

// firstEvent is the start of a session's first worker, which is never reported.
const firstEvent = 1

// newCallerSession returns the state for a session. mu is the lock of the caller's sessions.
func newCallerSession(name, lang, dir string, mu *sync.Mutex) *callerSession {
	return &callerSession{
		mu:            mu,
		name:          name,
		lang:          lang,
		dir:           dir,
		opened:        make(chan struct{}),
		reportToken:   make(chan struct{}, 1),
		userWaitToken: make(chan struct{}, 1),
		readPosition:  readPosition{cursor: firstEvent},
	}
}

// handleIfOpen returns the session if it is open.
func (v *callerSession) handleIfOpen() (*SessionHandle, bool) {
	select {
	case <-v.opened:
		return v.session, v.err == nil
	default:
		return nil, false
	}
}

// waitOpen waits until the session is open or the deadline passes. ok is false if it passed or
// ctx ended.
func (v *callerSession) waitOpen(ctx context.Context, deadline time.Time) (s *SessionHandle, ok bool, err error) {
	select {
	case <-v.opened: // needs no timer
		return v.session, true, v.err
	default:
	}
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	select {
	case <-v.opened:
		return v.session, true, v.err
	case <-timeout.C:
		return nil, false, nil
	case <-ctx.Done():
		return nil, false, nil
	}
}

// imageStore returns the image store of an open session. It is next to the transcript, or on the
// client's machine if the session is remote.
func (v *callerSession) imageStore() *imageStore {
	v.images.mu.Lock()
	defer v.images.mu.Unlock()
	if v.session.IsRemote {
		v.images.dir, v.images.createsDir = v.session.ImageDir, true
	} else if path := v.session.OutputPath(); v.images.dir == "" && path != "" {
		v.images.dir = filepath.Dir(path)
	}
	return &v.images
}

// close closes the session, or stops opening it.
func (v *callerSession) close(logger *slog.Logger) {
	v.cancelOpening()
	<-v.opened
	if v.err != nil {
		return
	}
	if err := v.session.Leave(context.Background()); err != nil {
		logger.Error("session close failed", "session", v.name, "error", err)
		return
	}
	logger.Info("caller left session", "session", v.name)
}

// discardUnused closes a session that was opened ahead but does not fit the first call. A backend
// would retain it.
func (v *callerSession) discardUnused(logger *slog.Logger) {
	v.cancelOpening()
	<-v.opened
	if ctx := context.Background(); v.err == nil && v.session.IsNew && v.session.infoOrEnded(ctx).Turn == 0 {
		_ = v.session.Close(ctx)
	}
	v.close(logger)
}

// setCursor sets the caller's cursor. It sets no shown input request, because this may be a new
// conversation, whose first input is code.
func (v *callerSession) setCursor(known timeline.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cursor = max(firstEvent, known)
}

// cursorAndRequest returns the caller's cursor, and the last input request that it was shown.
func (v *callerSession) cursorAndRequest() (cursor, shown timeline.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.cursor, v.shownRequestID
}

// requestAnsweredBy returns the input request that a call's input answers, or 0 if the input is
// code. early is set if the input is neither, and is the outcome of an earlier call. Either that
// call waits for input, and this one was sent before its caller knew; or it was cancelled, and
// may have been meant as the answer.
func (v *callerSession) requestAnsweredBy(c *mcptransport.ToolCall) (requestID timeline.Seq, early callOutcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch number := c.Number(); {
	case v.shownRequestID == 0 || number == 0:
	case number <= v.staleUpTo:
		early = v.staleReason
	case c.FollowsLostCall():
		early = outcomeCancelled
	}
	return v.shownRequestID, early
}

// noteCancelled records that an input was cancelled. If the input request that it may have been
// meant for is still open, an input sent after it does not take its place.
func (v *callerSession) noteCancelled(c *mcptransport.ToolCall) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := c.NewestOverlapping(); c.IsCancelled() && v.shownRequestID != 0 && last > v.staleUpTo {
		v.staleUpTo, v.staleReason = last, outcomeCancelled
	}
}

// requestIfShown returns an input request that the caller was shown, or nil if it has been shown
// another one since.
func (v *callerSession) requestIfShown(requestID timeline.Seq) *session.InputRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shownRequestID != requestID {
		return nil
	}
	w := v.shownRequest
	return &w
}

// expectCode makes the next input code, because the input request that the caller knows is
// answered or given up.
func (v *callerSession) expectCode() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shownRequestID = 0
}

// acknowledgeReply moves the cursor past a reply that the caller has received. A reply that a
// later one has overtaken moves nothing.
func (v *callerSession) acknowledgeReply(c *mcptransport.ToolCall, r session.Reply, fullScreen bool) {
	if v.advanceCursor(c, r, fullScreen) && v.session.SaveCursor != nil {
		v.session.SaveCursor(r.Next)
	}
}

// advanceCursor is acknowledgeReply without saving the cursor. It returns false if nothing moved.
func (v *callerSession) advanceCursor(c *mcptransport.ToolCall, r session.Reply, fullScreen bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Next < v.cursor {
		return false
	}
	v.cursor = r.Next
	v.fullScreen = fullScreen
	if hasEvent[timeline.WorkerExited](r) {
		v.startFailed = hasFailedStart(r)
	}
	switch {
	case r.InputRequest == nil:
		v.shownRequestID = 0
	case r.InputRequest.ID != v.shownRequestID:
		v.shownRequestID, v.shownRequest, v.staleUpTo, v.staleReason = r.InputRequest.ID, *r.InputRequest, c.NewestOverlapping(), outcomeWaitsForInput
	}
	return true
}

// countIgnoredInterrupt counts and returns the interrupts of a turn that had no effect.
func (v *callerSession) countIgnoredInterrupt(turn uint64) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ignoredInterruptsTurn != turn {
		v.ignoredInterruptsTurn, v.ignoredInterrupts = turn, 0
	}
	v.ignoredInterrupts++
	return v.ignoredInterrupts
}

func (v *callerSession) isFullScreen() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fullScreen
}

// hasFailedStart reports whether the last worker before the cursor ended before it was ready.
func (v *callerSession) hasFailedStart() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.startFailed
}

// setQuestion records a question that the user is being asked.
func (v *callerSession) setQuestion(o *openQuestion) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.question = o
}

// openQuestionFor returns the open question for an input request, or nil.
func (v *callerSession) openQuestionFor(requestID timeline.Seq) *openQuestion {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.question == nil || v.question.requestID != requestID {
		return nil
	}
	return v.question
}

// finishQuestion records the outcome of a question. If no call waits for it, the next reply
// reports it.
func (v *callerSession) finishQuestion(o *openQuestion, outcome questionOutcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.question == o {
		v.question = nil
	}
	if !o.isAwaited {
		notes := outcome.notices
		if outcome.result != nil {
			notes = append(notes, resultText(outcome.result))
		}
		if len(notes) > 0 && v.notice != "" {
			notes = append([]string{v.notice}, notes...)
		}
		if len(notes) > 0 {
			v.notice = strings.Join(notes, "; ")
		}
	}
	o.outcome = outcome
	close(o.done)
}

// setQuestionAwaited records whether a call waits for a question's outcome.
func (v *callerSession) setQuestionAwaited(o *openQuestion, waits bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o.isAwaited = waits
}

// isUserAwaited reports whether a call waits for the user.
func (v *callerSession) isUserAwaited() bool { return len(v.userWaitToken) > 0 }

// isUserAsked reports whether the user is being asked.
func (v *callerSession) isUserAsked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isUserAwaited() || v.question != nil
}

// setNotice sets the first line of the next reply.
func (v *callerSession) setNotice(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notice = text
}

// pendingNotice returns the first line of the next reply.
func (v *callerSession) pendingNotice() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.notice
}

// clearNotice removes a line that the caller has received.
func (v *callerSession) clearNotice(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.notice == text {
		v.notice = ""
	}
}

// beginReport takes the report token. It returns false if ctx ends.
func (v *callerSession) beginReport(ctx context.Context) bool {
	select {
	case v.reportToken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (v *callerSession) endReport() { <-v.reportToken }

// errAlreadyAnswered means that an earlier call of the same caller has answered the input
// request.
var errAlreadyAnswered = errors.New("an earlier call has answered the input request")

// An answerInProgress is an answer that a call is submitting to an input request. While it is in
// progress, no other call answers.
type answerInProgress struct {
	caller    *callerSession
	call      *mcptransport.ToolCall
	requestID timeline.Seq

	mu    sync.Mutex
	ended bool       // guarded by mu
	owner *turnOwner // guarded by mu; nil until the answer is known to be accepted
}

// beginAnswer starts the answer to an input request, unless an earlier call has answered it. The
// caller must call finishAnswer.
func (v *callerSession) beginAnswer(c *mcptransport.ToolCall, requestID timeline.Seq) (*answerInProgress, error) {
	v.answerMu.Lock()
	if v.lastAnswered == requestID {
		v.answerMu.Unlock()
		return nil, errAlreadyAnswered
	}
	return &answerInProgress{caller: v, call: c, requestID: requestID}, nil
}

// markAccepted records that the session has accepted the answer. From then on the next input is
// code again, and the call owns the turn. After the end of the call it changes nothing: a client
// that answers again learns that the request is over.
func (h *answerInProgress) markAccepted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.owner != nil {
		return
	}
	h.caller.lastAnswered = h.requestID
	h.caller.expectCode()
	h.owner = h.caller.takeOverTurn(h.call)
	h.caller.answerMu.Unlock()
}

// acceptedOwner returns the ownership of the turn, or nil until the answer is known to be
// accepted.
func (h *answerInProgress) acceptedOwner() *turnOwner {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owner
}

func (h *answerInProgress) finishAnswer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended = true; h.owner == nil {
		h.caller.answerMu.Unlock()
	}
}
