package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A view is one session as its caller knows it.
type view struct {
	name string
	lang string // guarded by sessions.mu once a host has opened it; "" until the host says
	dir  string // where it works, as chosen for it; may be ""
	used bool   // guarded by sessions.mu; a call has named it

	codex *codexState // of the call for which it was opened; may be nil

	touched time.Time   // guarded by sessions.mu; when the last call named it
	expiry  *time.Timer // guarded by sessions.mu; nil when it may stay

	preparing preparation
	giveUp    context.CancelFunc // ends the opening

	opened  chan struct{} // closed when session or err is set
	session *Opened       // nil if opening failed
	err     error

	pictures gallery // of a session that is open

	// reporting holds one token. A call takes it before it makes a reply with the news. It
	// gives the token back when it is certain whether the client gets that reply. So the
	// client gets no news twice, and news of a lost reply come with the next one.
	reporting chan struct{}

	// personAsked holds one token. The call that waits for a person has it.
	personAsked chan struct{}

	question *openQuestion // guarded by mu; nil when none is out

	// lane is the queue of calls about the session that have not begun.
	lane mcpwire.Queue

	// answering makes an answer and its record one step. It is held while the answer is
	// handed over; only beginAnswer takes it.
	answering sync.Mutex
	answered  timeline.Seq // guarded by answering; the wait that a call answered last

	mu     *sync.Mutex          // that of the caller's sessions
	cursor timeline.Seq         // guarded by mu; the caller knows everything up to it
	shown  timeline.Seq         // guarded by mu; the last wait that the caller has seen; 0 when none
	wait   session.InputRequest // guarded by mu; that wait, which stays as it is; of no use while shown is 0
	before uint64               // guarded by mu; the inputs of calls up to this number are no answers to it
	reason fate                 // guarded by mu; of an earlier call, which is why
	owner  *owner               // guarded by mu; nil when no call has the turn
	held   []*holding           // guarded by mu; in order, at most maxHeld; nil when there is no owner
	noted  string               // guarded by mu; the first sentence of the next reply; may be ""

	fullScreen bool // guarded by mu; at the cursor, the terminal is on its alternate screen
	unready    bool // guarded by mu; the last worker before the cursor did not start

	unheededTurn uint64 // guarded by mu; the last turn that an interrupt had no effect on
	unheeded     int    // guarded by mu; the number of these interrupts

	spoiled   uint64 // guarded by mu; the inputs of calls up to this number are refused
	spoiledBy string // guarded by mu; why
}

// firstEvent is the start of a session's first worker. It is not news.
const firstEvent = 1

// newView returns a view that is guarded by the lock of its caller's sessions.
func newView(name, lang, dir string, mu *sync.Mutex) *view {
	return &view{
		mu:          mu,
		name:        name,
		lang:        lang,
		dir:         dir,
		opened:      make(chan struct{}),
		reporting:   make(chan struct{}, 1),
		personAsked: make(chan struct{}, 1),
		cursor:      firstEvent,
	}
}

// isOpen returns the session if it has been opened.
func (v *view) isOpen() (*Opened, bool) {
	select {
	case <-v.opened:
		return v.session, v.err == nil
	default:
		return nil, false
	}
}

// open waits for the session, until the deadline. ok is false when that passed,
// or ctx ended.
func (v *view) open(ctx context.Context, deadline time.Time) (s *Opened, ok bool, err error) {
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

// gallery keeps pictures of the session, which is open, beside its transcript, or on the client's
// machine if that is another one.
func (v *view) gallery() *gallery {
	v.pictures.mu.Lock()
	defer v.pictures.mu.Unlock()
	if v.session.Away {
		v.pictures.dir, v.pictures.makes = v.session.Pictures, true
	} else if path := v.session.OutputPath(); v.pictures.dir == "" && path != "" {
		v.pictures.dir = filepath.Dir(path)
	}
	return &v.pictures
}

// close closes the session, or gives up opening it.
func (v *view) close(logger *slog.Logger) {
	v.giveUp()
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

// abandon closes a session that was opened ahead and is not what the first call wants. A host would
// keep it.
func (v *view) abandon(logger *slog.Logger) {
	v.giveUp()
	<-v.opened
	if ctx := context.Background(); v.err == nil && v.session.Made && v.session.info(ctx).Turn == 0 {
		_ = v.session.Close(ctx)
	}
	v.close(logger)
}

// setCursor sets the caller's cursor, but not the open wait: this may be a new conversation, whose
// first input is code.
func (v *view) setCursor(known timeline.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cursor = max(firstEvent, known)
}

// knows returns the caller's cursor, and the wait that it was last told of.
func (v *view) knows() (cursor, shown timeline.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.cursor, v.shown
}

// answers returns the wait that a call's input answers; 0 when it is code. early is the fate of an
// earlier call for which the input is neither: it waits, and the call had come before its caller was
// told of that; or it was cancelled, and may have been meant as the answer in this one's place.
func (v *view) answers(c *mcpwire.Call) (wait timeline.Seq, early fate) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch number := c.Number(); {
	case v.shown == 0 || number == 0:
	case number <= v.before:
		early = v.reason
	case c.FollowsLost():
		early = fateCancelled
	}
	return v.shown, early
}

// givenUp notes that an input was cancelled. If the wait is still open that it may have been meant
// for, an input that was sent behind it does not take its place.
func (v *view) givenUp(c *mcpwire.Call) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := c.Outlived(); c.IsCancelled() && v.shown != 0 && last > v.before {
		v.before, v.reason = last, fateCancelled
	}
}

// known is a wait that the caller was told of; nil if it was told of another one since.
func (v *view) known(wait timeline.Seq) *session.InputRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shown != wait {
		return nil
	}
	w := v.wait
	return &w
}

// expectCode makes the next input code: the wait that the caller knows is answered or given up.
func (v *view) expectCode() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shown = 0
}

// acknowledge moves the cursor behind a reply that the caller has read, as the answer to a call.
// One that a later reply has overtaken moves nothing.
func (v *view) acknowledge(c *mcpwire.Call, r session.Reply, fullScreen bool) {
	if v.advance(c, r, fullScreen) && v.session.Mark != nil {
		v.session.Mark(r.Next)
	}
}

// advance returns acknowledge for this process. It returns false when nothing moved.
func (v *view) advance(c *mcpwire.Call, r session.Reply, fullScreen bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.Next < v.cursor {
		return false
	}
	v.cursor = r.Next
	v.fullScreen = fullScreen
	if tells[timeline.WorkerExited](r) {
		v.unready = unready(r)
	}
	switch {
	case r.InputRequest == nil:
		v.shown = 0
	case r.InputRequest.ID != v.shown:
		v.shown, v.wait, v.before, v.reason = r.InputRequest.ID, *r.InputRequest, c.Outlived(), fateWaits
	}
	return true
}

// countUnheeded counts the interrupts of a turn that had no effect.
func (v *view) countUnheeded(turn uint64) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unheededTurn != turn {
		v.unheededTurn, v.unheeded = turn, 0
	}
	v.unheeded++
	return v.unheeded
}

func (v *view) isFullScreen() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fullScreen
}

// didNotStart reports whether the last worker before the cursor ended before it was ready.
func (v *view) didNotStart() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.unready
}

// setQuestion notes a question that is put to a person.
func (v *view) setQuestion(o *openQuestion) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.question = o
}

// questionOut returns the question for a wait that a person has; nil if there is none.
func (v *view) questionOut(wait timeline.Seq) *openQuestion {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.question == nil || v.question.wait != wait {
		return nil
	}
	return v.question
}

// questionOver notes what became of a question. If no call waits for that, the next reply says what
// a call would have.
func (v *view) questionOver(o *openQuestion, became outcome) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.question == o {
		v.question = nil
	}
	if !o.waiting {
		notes := became.notes
		if became.result != nil {
			notes = append(notes, textOf(became.result))
		}
		if len(notes) > 0 && v.noted != "" {
			notes = append([]string{v.noted}, notes...)
		}
		if len(notes) > 0 {
			v.noted = strings.Join(notes, "; ")
		}
	}
	o.became = became
	close(o.done)
}

// await says whether a call waits for a question's answer.
func (v *view) await(o *openQuestion, waits bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	o.waiting = waits
}

// isAwaited reports whether a call waits for a person.
func (v *view) isAwaited() bool { return len(v.personAsked) > 0 }

// isAsked reports whether a person has a question.
func (v *view) isAsked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.isAwaited() || v.question != nil
}

// setNote sets the first sentence of the next reply.
func (v *view) setNote(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.noted = text
}

// note returns the sentence that the next reply opens with.
func (v *view) note() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.noted
}

// clearNote removes a sentence that the caller has got.
func (v *view) clearNote(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.noted == text {
		v.noted = ""
	}
}

// beginReport takes the token of reporting. It returns false when ctx ends.
func (v *view) beginReport(ctx context.Context) bool {
	select {
	case v.reporting <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (v *view) endReport() { <-v.reporting }

// errAnswered says that an earlier call of the same caller has answered the wait.
var errAnswered = errors.New("an earlier call has answered the wait")

// A handover is the answer of one call to a wait. While it is under way no other call answers.
type handover struct {
	view *view
	call *mcpwire.Call
	wait timeline.Seq

	mu    sync.Mutex
	ended bool   // guarded by mu
	owner *owner // guarded by mu; nil while the answer is not known to be taken
}

// beginAnswer begins the answer to a wait, unless an earlier call has answered it. The caller ends
// it in any case.
func (v *view) beginAnswer(c *mcpwire.Call, wait timeline.Seq) (*handover, error) {
	v.answering.Lock()
	if v.answered == wait {
		v.answering.Unlock()
		return nil, errAnswered
	}
	return &handover{view: v, call: c, wait: wait}, nil
}

// taken notes that the session has the answer. Then the next input is code again, and the call
// owns the turn. News of that which come after the call has ended change nothing: who answers
// again is told that the wait is over.
func (h *handover) taken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.owner != nil {
		return
	}
	h.view.answered = h.wait
	h.view.expectCode()
	h.owner = h.view.takeOver(h.call)
	h.view.answering.Unlock()
}

// has returns the ownership of the turn; nil while the answer is not known to be taken.
func (h *handover) has() *owner {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owner
}

func (h *handover) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended = true; h.owner == nil {
		h.view.answering.Unlock()
	}
}
