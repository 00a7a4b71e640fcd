package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Control characters that may begin an input, as if they were typed.
const (
	interruptKey = '\x03'
	resetKey     = '\x04'
)

// cancelBound bounds the interrupt of a cancelled call.
const cancelBound = 2 * time.Second

// unwindTime bounds how long inputs wait behind interrupted code that is still busy.
const unwindTime = 5 * time.Second

// openTimeout is the least time that an input waits for its session, even if its own timeout is
// shorter.
const openTimeout = 15 * time.Second

// repl runs code, or answers a wait that the caller knows of.
func (s *server) repl(ctx context.Context, r *request, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decode[replArgs](r, arguments)
	if err == nil && args.Input == nil {
		if err = needsKnown[replArgs](r); err == nil {
			err = errors.New(`input is required: code, an answer, or "" to wait for news`)
		}
	}
	timeout, timeoutErr := r.waitTime("timeout_ms", args.TimeoutMS)
	if err = errors.Join(err, timeoutErr); err != nil {
		return failure(err)
	}
	if r.sdk.Params.RequestState != "" {
		return s.resumeCall(ctx, r, time.Now().Add(timeout))
	}
	now := time.Now()
	var news []string
	v, err := r.named(ctx, func() (v *view, err error) {
		v, news, err = s.sessions.use(args.Session, args.Lang, cmp.Or(r.codex.directory(), s.roots.directory(ctx, s, r)), r.codex)
		return v, err
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return failure(err)
	}
	session, result := s.opened(ctx, r, v, now.Add(max(timeout, openTimeout)), notRun+"; repl_output waits")
	if session == nil {
		return result
	}
	a := &sessionCall{server: s, call: r, view: v, session: session, asked: now, deadline: now.Add(timeout), limit: now.Add(r.patience()), notes: news}
	defer a.releaseTurn()
	defer v.givenUp(r.Call)
	return a.handleInput(ctx, *args.Input, args.EOF)
}

// handleInput waits until the earlier calls have begun, and then submits the input, or
// answers with it.
func (a *sessionCall) handleInput(ctx context.Context, input string, eof bool) *mcp.CallToolResult {
	if !a.awaitEarlierCalls(ctx) {
		if ctx.Err() != nil {
			return nil
		}
		return a.replyRefused(ctx, "an earlier call has not begun yet")
	}
	input, err := a.control(ctx, input)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return failure(err)
	case input == "" && !eof:
		return a.poll(ctx)
	}
	switch wait, early := a.view.answers(a.call.Call); {
	case early != fateDone:
		a.refuse(early.refusal())
		return a.replyNow(ctx, a.now)
	case wait != 0:
		return a.answer(ctx, wait, input, eof)
	case input == "":
		a.note("nothing waits for input: eof was not used")
		return a.poll(ctx)
	}
	return a.submit(ctx, input, eof)
}

// A sessionCall is one call about one session.
type sessionCall struct {
	*server
	call     *request
	view     *view
	session  *Opened
	asked    time.Time // when the call came
	deadline time.Time
	limit    time.Time           // when it is answered at the latest: its client waits no longer
	opening  string              // of the reply; may be ""
	notes    []string            // for the state line
	ran      bool                // the call started or fed a turn
	started  bool                // it started it
	starting session.PendingTurn // the turn of its input, which is code or an answer; nil if it has none
	fed      uint64              // the turn with which it goes on after a person's answer
	decision *personsDecision    // nil when no answer of a person came with the call
	denied   int                 // number of reads that got end of file, because answers are not allowed

	restarted  bool // the call has restarted the interpreter
	found      bool // the line that the call waits for has come
	wrote      bool // there is output in the reply, be it a drawing that is not shown
	fullScreen bool // the terminal is on its alternate screen where the reply begins, and then where it ends

	refused  bool   // the input was not used
	refusal  string // why, if the state does not say it
	unheeded int    // interrupts of the turn that runs, when the last is this call's and had no effect

	owner *owner // of the turn, when it is this call
	fate  fate   // of the call, for the inputs that are held behind it
	told  bool   // the reply ends that this call is the owner
}

// refuse notes that the input of this call was not used. The state says why if reason
// is "".
func (a *sessionCall) refuse(reason string) { a.refused, a.refusal = true, reason }

func (a *sessionCall) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// control does what leading control characters ask for, and returns the rest.
func (a *sessionCall) control(ctx context.Context, input string) (rest string, err error) {
	for input != "" && (input[0] == interruptKey || input[0] == resetKey) {
		a.view.cutOff(ctx, a.call.Call)
		if input[0] == interruptKey {
			err = a.interruptNow(ctx)
		} else {
			err = a.session.Reset(ctx)
		}
		if err != nil {
			return "", err
		}
		a.view.expectCode()
		input = strings.TrimLeft(input[1:], " ") // or the code would be indented
	}
	return input, nil
}

// interruptNow interrupts the running code and notes the effect, unless the reply shows it
// anyway.
func (a *sessionCall) interruptNow(ctx context.Context) error {
	result, err := a.session.Interrupt(ctx, 0)
	switch result {
	case session.InterruptNotRunning, session.InterruptStale:
		a.note("nothing was running")
	case session.InterruptPending:
		a.unheeded = a.view.countUnheeded(a.session.info(ctx).Turn)
	case session.InterruptIdle, session.InterruptWaiting:
	}
	return err
}

// submit runs code.
func (a *sessionCall) submit(ctx context.Context, code string, eof bool) *mcp.CallToolResult {
	if why := a.beyondClient(); why != "" {
		a.refuse(why)
		return a.replyNow(ctx, a.now)
	}
	if owns, result := a.takeTurn(ctx); !owns {
		return result
	}
	owner := a.owner
	decided := sync.OnceFunc(func() { close(owner.begun) })
	defer decided()
	a.starting = session.StartTurn(a.session.Session, code, func(uint64) {
		decided()
		a.call.lane.Leave()
	})
	if eof {
		a.note("eof was not used: it was code")
	}
	result := a.await(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := a.starting.Wait(ctx, o)
		if a.starting.Turn() != 0 {
			a.ran, a.started = true, true
		} else if err != nil {
			decided() // what the reply waits for may wait for this
		}
		return r, err
	})
	return a.interruptIfCancelled(ctx, a.starting.Turn(), result)
}

// isRefusal reports whether err says that the session took no input because it does something
// else.
func isRefusal(err error) bool {
	return errors.Is(err, session.ErrWaiting) || errors.Is(err, session.ErrBusy)
}

// answer answers a wait that the caller knows of. When that is over, the input is
// not taken for code: it was not meant to be. Where only a person may answer, the
// model can still end the input. A wait that the model was told of and may answer is not
// asked for again: elsewhere that would be a trip of its own, and no wait changes.
func (a *sessionCall) answer(ctx context.Context, wait timeline.Seq, text string, eof bool) *mcp.CallToolResult {
	if w := a.view.known(wait); w == nil || !a.stdin.ofModel(w) {
		if w := a.session.info(ctx).InputRequest; w != nil && w.ID == wait && !a.stdin.ofModel(w) && (text != "" || w.NeedsUser()) {
			a.refuse("")
			return a.replyNow(ctx, a.now)
		}
	}
	in := session.Input{Data: []byte(text), EOF: eof}
	if text != "" {
		in.Data = []byte(withNewline(text))
	}
	h, err := a.view.beginAnswer(a.call.Call, wait)
	switch {
	case err != nil && text != "": // so this is code
		return a.submit(ctx, text, eof)
	case err != nil:
		a.refuse(waitOver)
		return a.replyNow(ctx, a.now)
	}
	a.starting = session.StartAnswer(a.session.Session, wait, in, func(uint64) {
		h.taken()
		a.call.lane.Leave()
	})
	result := a.await(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := a.starting.Wait(ctx, o)
		a.isOwner(h)
		return r, err
	})
	h.end()
	a.isOwner(h)
	return a.interruptIfCancelled(ctx, a.starting.Turn(), result)
}

// isOwner takes the ownership of the turn once its answer is taken.
func (a *sessionCall) isOwner(h *handover) {
	if a.owner = h.has(); a.owner != nil {
		a.ran = true
	}
}

// waitForTurn waits for a turn with which this call goes on. If the client cancels the call, the
// turn is interrupted. If the client is gone, its sessions end anyway.
func (a *sessionCall) waitForTurn(ctx context.Context, turn uint64) *mcp.CallToolResult {
	a.call.lane.Leave()
	a.ran, a.fed = true, turn
	return a.interruptIfCancelled(ctx, turn, a.await(ctx, a.until(turn)))
}

// waitOver says why an answer was not used.
const waitOver = "the wait that it was for is over"

// interruptIfCancelled interrupts the turn of a call that has no result because it was cancelled.
// The call owns the turn until that is over, within unwindTime, because an input behind it runs
// then.
func (a *sessionCall) interruptIfCancelled(ctx context.Context, turn uint64, result *mcp.CallToolResult) *mcp.CallToolResult {
	if result == nil && turn != 0 && errors.Is(context.Cause(ctx), context.Canceled) {
		a.interruptCancelled(ctx, turn, time.Since(a.asked))
		if a.owner != nil {
			a.owner.end()
			_, _ = a.session.Wait(context.WithoutCancel(ctx), turn, session.WaitAtMost(unwindTime))
		}
	}
	return result
}

// interruptCancelled interrupts the turn of a call that was cancelled, and notes it for
// the next reply: the client shows its model nothing of this call.
func (a *sessionCall) interruptCancelled(ctx context.Context, turn uint64, after time.Duration) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelBound)
	defer cancel()
	result, err := a.session.Interrupt(bounded, turn)
	word := "the call before was cancelled"
	switch {
	case err != nil:
		a.sessions.logger.Error("a cancelled call was not interrupted", "session", a.view.name, "error", err)
	case result == session.InterruptPending:
		word += fmt.Sprintf(" after %.1f s, and its code does not react yet", after.Seconds())
	case result == session.InterruptIdle, result == session.InterruptWaiting:
		word += fmt.Sprintf(" after %.1f s, and its code interrupted", after.Seconds())
	}
	a.view.setNote(word)
}

// poll waits for the active turn without owning it.
func (a *sessionCall) poll(ctx context.Context) *mcp.CallToolResult {
	a.call.lane.Leave()
	return a.await(ctx, a.until(0))
}

// A waiter is Session.Wait of one turn.
type waiter func(context.Context, *session.WaitOptions) (session.Reply, error)

// until waits for one turn; 0 means the active one.
func (a *sessionCall) until(turn uint64) waiter {
	return func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		return a.session.Wait(ctx, turn, o)
	}
}

// now returns a waiter that does not wait.
func (a *sessionCall) now(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	o.Poll = true
	return a.session.Wait(ctx, 0, o)
}

// await waits until there is nothing to wait for or the deadline passes, with progress for the
// client, and replies.
func (a *sessionCall) await(ctx context.Context, wait waiter) *mcp.CallToolResult {
	beat := a.call.beat
	for {
		o := &session.WaitOptions{Timeout: time.Until(beat.next(a.deadline))}
		o.Poll = o.Timeout <= 0
		o.After, _ = a.view.knows()
		r, err := wait(ctx, o)
		switch {
		case a.isCut(ctx, err):
			if !time.Now().Before(a.deadline) {
				return a.replyCut(err)
			}
			if elapsed, due := beat.due(); due {
				a.call.Progress(elapsed.Seconds(), a.session.Link.Place()+" cannot be reached")
			}
			continue
		case isRefusal(err):
			a.refuse("")
			return a.replyNow(ctx, a.now)
		case errors.Is(err, session.ErrStale) && a.starting != nil && !a.ran:
			a.refuse(waitOver)
			return a.replyNow(ctx, a.now)
		case err != nil:
			return a.sessionFailure(ctx, err)
		case r.InputRequest != nil && !a.stdin.ofModel(r.InputRequest):
			if going, result := a.resolveWait(ctx, wait, r.InputRequest, beat); !going {
				if result != nil && !beat.hold(ctx) {
					return nil
				}
				return result
			}
			continue
		case a.isOver(r) || a.found || !time.Now().Before(a.deadline):
			if !beat.hold(ctx) {
				return nil
			}
			return a.replyWith(ctx, wait, r, o.After)
		}
		if elapsed, due := beat.due(); due {
			a.call.Progress(elapsed.Seconds(), progressText(r)+lastWords(r))
		}
	}
}

// isOver reports whether there is nothing to wait for. The outcome of a turn of this call comes with the
// end of its worker.
func (a *sessionCall) isOver(r session.Reply) bool {
	ending := r.State == session.StateStopping && (a.starting != nil || a.fed != 0)
	return r.Outcome != "" || r.InputRequest != nil || !r.State.IsActive() && !ending
}

// replyNow replies with the new events, without waiting.
func (a *sessionCall) replyNow(ctx context.Context, wait waiter) *mcp.CallToolResult {
	after, _ := a.view.knows()
	r, err := wait(ctx, &session.WaitOptions{Poll: true, After: after})
	if err != nil {
		return a.sessionFailure(ctx, err)
	}
	return a.replyWith(ctx, wait, r, after)
}

// replyWith makes a result of r, which has the events after a cursor. Another call may have moved
// the cursor since. This call moves it when the client gets the result.
func (a *sessionCall) replyWith(ctx context.Context, wait waiter, r session.Reply, after timeline.Seq) *mcp.CallToolResult {
	if !a.view.afterCancelled(ctx, a.owner) || !a.view.beginReport(ctx) {
		return nil
	}
	a.noteUnusedAnswer()
	if cursor, _ := a.view.knows(); cursor != after {
		var err error
		if r, err = wait(ctx, &session.WaitOptions{Poll: true, After: cursor}); err != nil {
			a.view.endReport()
			return a.sessionFailure(ctx, err)
		}
	}
	a.opening = a.view.note()
	a.fullScreen = a.view.isFullScreen()
	result := a.render(ctx, r)
	if a.fate = fateOf(r); a.refused {
		a.fate = fateNotRun
	}
	a.told = true
	over := sync.OnceFunc(func() {
		a.view.endReport()
		if a.owner != nil {
			a.view.release(a.owner, a.fateNow())
		}
	})
	a.call.OnDelivery(func(delivered bool) {
		if delivered {
			a.view.acknowledge(a.call.Call, r, a.fullScreen)
			a.view.clearNote(a.opening)
		}
		over()
	})
	return result
}
