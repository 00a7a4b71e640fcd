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

// A callerSession is one session as its caller knows it.
type callerSession struct {
	name string
	lang string // guarded by sessions.mu once a host has opened it; "" until the host says
	dir  string // where it works, as chosen for it; may be ""
	used bool   // guarded by sessions.mu; a call has named it

	codex *codexState // of the call for which it was opened; may be nil

	lastCall time.Time   // guarded by sessions.mu; when the last call named it
	expiry   *time.Timer // guarded by sessions.mu; nil when it may stay

	preparing     preparation
	cancelOpening context.CancelFunc // ends the opening

	opened  chan struct{}  // closed when session or err is set
	session *SessionHandle // nil if opening failed
	err     error

	images imageStore // of a session that is open

	// reportToken holds one token. A call takes it before it makes a reply with the news. It
	// gives the token back when it is certain whether the client gets that reply. So the
	// client gets no news twice, and news of a lost reply come with the next one.
	reportToken chan struct{}

	// userWaitToken holds one token. The call that waits for a person has it.
	userWaitToken chan struct{}

	question *openQuestion // guarded by mu; nil when none is out

	// callQueue is the queue of calls about the session that have not begun.
	callQueue mcptransport.Queue

	// answerMu makes an answer and its record one step. It is held while the answer is
	// handed over; only beginAnswer takes it.
	answerMu     sync.Mutex
	lastAnswered timeline.Seq // guarded by answering; the wait that a call answered last

	mu             *sync.Mutex          // that of the caller's sessions
	cursor         timeline.Seq         // guarded by mu; the caller knows everything up to it
	shownRequestID timeline.Seq         // guarded by mu; the last wait that the caller has seen; 0 when none
	shownRequest   session.InputRequest // guarded by mu; that wait, which stays as it is; of no use while shown is 0
	staleUpTo      uint64               // guarded by mu; the inputs of calls up to this number are no answers to it
	staleReason    callOutcome          // guarded by mu; of an earlier call, which is why
	owner          *turnOwner           // guarded by mu; nil when no call has the turn
	queued         []*queuedCall        // guarded by mu; in order, at most maxQueued; nil when there is no owner
	notice         string               // guarded by mu; the first sentence of the next reply; may be ""

	fullScreen  bool // guarded by mu; at the cursor, the terminal is on its alternate screen
	startFailed bool // guarded by mu; the last worker before the cursor did not start

	ignoredInterruptsTurn uint64 // guarded by mu; the last turn that an interrupt had no effect on
	ignoredInterrupts     int    // guarded by mu; the number of these interrupts

	rejectedUpTo uint64 // guarded by mu; the inputs of calls up to this number are refused
	rejectReason string // guarded by mu; why
}

// firstEvent is the start of a session's first worker. It is not news.
const firstEvent = 1

// newCallerSession returns a view that is guarded by the lock of its caller's sessions.
func newCallerSession(name, lang, dir string, mu *sync.Mutex) *callerSession {
	return &callerSession{
		mu:            mu,
		name:          name,
		lang:          lang,
		dir:           dir,
		opened:        make(chan struct{}),
		reportToken:   make(chan struct{}, 1),
		userWaitToken: make(chan struct{}, 1),
		cursor:        firstEvent,
	}
}

// handleIfOpen returns the session if it has been opened.
func (v *callerSession) handleIfOpen() (*SessionHandle, bool) {
	select {
	case <-v.opened:
		return v.session, v.err == nil
	default:
		return nil, false
	}
}

// waitOpen waits for the session, until the deadline. ok is false when that passed,
// or ctx ended.
func (v *callerSession) waitOpen(ctx context.Context, deadline time.Time) (s *SessionHandle, ok bool, err error) {
	select {
	case <-v.opened: // no timer when it is open
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

// imageStore keeps pictures of the session, which is open, beside its transcript, or on the client's
// machine if that is another one.
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

// close closes the session, or gives up opening it.
func (v *callerSession) close(logger *slog.Logger) {
	v.cancelOpening()
	<-v.opened
	if v.err != nil {
		return
	}
	if err := v.session.Leave(context.Background()); err != nil {
		logger.Error("a session did not close cleanly", "session", v.name, "error", err)
		return
	}
	logger.Info("a caller left a session", "session", v.name)
}

// discardUnused closes a session that was opened ahead and is not what the first call wants. A host would
// keep it.
func (v *callerSession) discardUnused(logger *slog.Logger) {
	v.cancelOpening()
	<-v.opened
	if ctx := context.Background(); v.err == nil && v.session.IsNew && v.session.infoOrEnded(ctx).Turn == 0 {
		_ = v.session.Close(ctx)
	}
	v.close(logger)
}

// setCursor sets the caller's cursor, but not the open wait: this may be a new conversation, whose
// first input is code.
func (v *callerSession) setCursor(known timeline.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cursor = max(firstEvent, known)
}

// cursorAndRequest returns the caller's cursor, and the wait that it was last told of.
func (v *callerSession) cursorAndRequest() (cursor, shown timeline.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.cursor, v.shownRequestID
}

// requestAnsweredBy returns the wait that a call's input answers; 0 when it is code. early is the fate of an
// earlier call for which the input is neither: it waits, and the call had come before its caller was
// told of that; or it was cancelled, and may have been meant as the answer in this one's place.
func (v *callerSession) requestAnsweredBy(c *mcptransport.ToolCall) (wait timeline.Seq, early callOutcome) {
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

// noteCancelled notes that an input was cancelled. If the wait is still open that it may have been meant
// for, an input that was sent behind it does not take its place.
func (v *callerSession) noteCancelled(c *mcptransport.ToolCall) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := c.NewestOverlapping(); c.IsCancelled() && v.shownRequestID != 0 && last > v.staleUpTo {
		v.staleUpTo, v.staleReason = last, outcomeCancelled
	}
}

// requestIfShown is a wait that the caller was told of; nil if it was told of another one since.
func (v *callerSession) requestIfShown(wait timeline.Seq) *session.InputRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shownRequestID != wait {
		return nil
	}
	w := v.shownRequest
	return &w
}

// expectCode makes the next input code: the wait that the caller knows is answered or given up.
func (v *callerSession) expectCode() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shownRequestID = 0
}

// acknowledgeReply moves the cursor behind a reply that the caller has read, as the answer to a call.
// One that a later reply has overtaken moves nothing.
func (v *callerSession) acknowledgeReply(c *mcptransport.ToolCall, r session.Reply, fullScreen bool) {
	if v.advanceCursor(c, r, fullScreen) && v.session.SaveCursor != nil {
		v.session.SaveCursor(r.Next)
	}
}

// advanceCursor returns acknowledge for this process. It returns false when nothing moved.
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

// countIgnoredInterrupt counts the interrupts of a turn that had no effect.
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

// setQuestion notes a question that is put to a person.
func (v *callerSession) setQuestion(o *openQuestion) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.question = o
}

// openQuestionFor returns the question for a wait that a person has; nil if there is none.
func (v *callerSession) openQuestionFor(wait timeline.Seq) *openQuestion {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.question == nil || v.question.requestID != wait {
		return nil
	}
	return v.question
}

// finishQuestion notes what became of a question. If no call waits for that, the next reply says what
// a call would have.
func (v *callerSession) finishQuestion(o *openQuestion, became questionOutcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.question == o {
		v.question = nil
	}
	if !o.isAwaited {
		notes := became.notices
		if became.result != nil {
			notes = append(notes, resultText(became.result))
		}
		if len(notes) > 0 && v.notice != "" {
			notes = append([]string{v.notice}, notes...)
		}
		if len(notes) > 0 {
			v.notice = strings.Join(notes, "; ")
		}
	}
	o.outcome = became
	close(o.done)
}

// setQuestionAwaited says whether a call waits for a question's answer.
func (v *callerSession) setQuestionAwaited(o *openQuestion, waits bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o.isAwaited = waits
}

// isUserAwaited reports whether a call waits for a person.
func (v *callerSession) isUserAwaited() bool { return len(v.userWaitToken) > 0 }

// isUserAsked reports whether a person has a question.
func (v *callerSession) isUserAsked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isUserAwaited() || v.question != nil
}

// setNotice sets the first sentence of the next reply.
func (v *callerSession) setNotice(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notice = text
}

// pendingNotice returns the sentence that the next reply opens with.
func (v *callerSession) pendingNotice() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.notice
}

// clearNotice removes a sentence that the caller has got.
func (v *callerSession) clearNotice(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.notice == text {
		v.notice = ""
	}
}

// beginReport takes the token of reporting. It returns false when ctx ends.
func (v *callerSession) beginReport(ctx context.Context) bool {
	select {
	case v.reportToken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (v *callerSession) endReport() { <-v.reportToken }

// errAlreadyAnswered says that an earlier call of the same caller has answered the wait.
var errAlreadyAnswered = errors.New("an earlier call has answered the wait")

// An answerInProgress is the answer of one call to a wait. While it is under way no other call answers.
type answerInProgress struct {
	caller    *callerSession
	call      *mcptransport.ToolCall
	requestID timeline.Seq

	mu    sync.Mutex
	ended bool       // guarded by mu
	owner *turnOwner // guarded by mu; nil while the answer is not known to be taken
}

// beginAnswer begins the answer to a wait, unless an earlier call has answered it. The caller ends
// it in any case.
func (v *callerSession) beginAnswer(c *mcptransport.ToolCall, wait timeline.Seq) (*answerInProgress, error) {
	v.answerMu.Lock()
	if v.lastAnswered == wait {
		v.answerMu.Unlock()
		return nil, errAlreadyAnswered
	}
	return &answerInProgress{caller: v, call: c, requestID: wait}, nil
}

// markAccepted notes that the session has the answer. Then the next input is code again, and the call
// owns the turn. News of that which come after the call has ended change nothing: who answers
// again is told that the wait is over.
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

// acceptedOwner returns the ownership of the turn; nil while the answer is not known to be taken.
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
