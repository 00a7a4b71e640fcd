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

// Control characters that may precede an input, as if they were typed.
const (
	interruptKey = '\x03'
	resetKey     = '\x04'
)

// cancelTimeout bounds the interrupt of a cancelled call.
const cancelTimeout = 2 * time.Second

// unwindTimeout bounds how long inputs wait for interrupted code that is still busy.
const unwindTimeout = 5 * time.Second

// minOpenTimeout is the least time that an input waits for its session, even if its own timeout
// is shorter.
const minOpenTimeout = 15 * time.Second

// handleRepl implements the tool repl. It runs code, or answers an input request that the caller
// has been shown.
func (s *server) handleRepl(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decodeArguments[replArgs](r, arguments)
	if err == nil && args.Input == nil {
		if err = unknownArgumentError[replArgs](r); err == nil {
			err = errors.New(`input is required: code, an answer, or "" to wait for output`)
		}
	}
	timeout, timeoutErr := r.boundedTimeout("timeout_ms", args.TimeoutMS)
	if err = errors.Join(err, timeoutErr); err != nil {
		return errorResult(err)
	}
	if r.sdk.Params.RequestState != "" {
		return s.resumeCall(ctx, r, time.Now().Add(timeout))
	}
	now := time.Now()
	var notices []string
	v, err := r.joinSession(ctx, func() (v *callerSession, err error) {
		v, notices, err = s.sessions.resolveAndOpen(args.Session, args.Lang, cmp.Or(r.codex.workingDir(), s.roots.projectDir(ctx, s, r)), r.codex)
		return v, err
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return errorResult(err)
	}
	session, result := s.waitOpened(ctx, r, v, now.Add(max(timeout, minOpenTimeout)), inputNotRun+"; repl_output waits")
	if session == nil {
		return result
	}
	a := &sessionCall{server: s, call: r, caller: v, session: session, receivedAt: now, deadline: now.Add(timeout), replyDeadline: now.Add(r.maxCallTime()), notices: notices}
	defer a.releaseTurn()
	defer v.noteCancelled(r.ToolCall)
	return a.handleInput(ctx, *args.Input, args.EOF)
}

// handleInput waits until the earlier calls have started, and then runs the input as code or
// submits it as an answer.
func (a *sessionCall) handleInput(ctx context.Context, input string, eof bool) *mcp.CallToolResult {
	if !a.awaitEarlierCalls(ctx) {
		if ctx.Err() != nil {
			return nil
		}
		return a.replyRefused(ctx, "an earlier call has not started yet")
	}
	input, err := a.runControlKeys(ctx, input)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return errorResult(err)
	case input == "" && !eof:
		return a.pollTurn(ctx)
	}
	switch requestID, early := a.caller.requestAnsweredBy(a.call.ToolCall); {
	case early != outcomeDone:
		a.refuseInput(early.refusalReason())
		return a.replyNow(ctx, a.currentReply)
	case requestID != 0:
		return a.submitAnswer(ctx, requestID, input, eof)
	case input == "":
		a.addNotice("no code waits for input: eof was not used")
		return a.pollTurn(ctx)
	}
	return a.submitCode(ctx, input, eof)
}

// A sessionCall is the state of one tool call about a session, from its arrival to its reply.
type sessionCall struct {
	*server
	call          *toolRequest
	caller        *callerSession
	session       *SessionHandle
	receivedAt    time.Time // arrival of the call
	deadline      time.Time
	replyDeadline time.Time           // when the call must be answered, because its client waits no longer
	firstLine     string              // of the reply; may be ""
	notices       []string            // for the state line
	ran           bool                // the call started or continued a turn
	started       bool                // the call started the turn
	starting      session.PendingTurn // the turn of the call's input, code or an answer; nil without one
	resumedTurn   uint64              // the turn that the call continues after the user's answer
	decision      *userDecision       // nil if the call carries no answer of the user
	deniedReads   int                 // reads that got end of file, because answers are not allowed

	restarted  bool // the call has restarted the interpreter
	foundMatch bool // the line that the call waits for has appeared
	hasOutput  bool // the reply has output, even if it is not shown
	fullScreen bool // the terminal is on its alternate screen at the start of the reply, later at its end

	refused           bool   // the input was not used
	refusal           string // why, if the state does not say it
	ignoredInterrupts int    // ineffective interrupts of the running turn, if the last is from this call

	owner              *turnOwner  // of the turn, if it is this call
	outcome            callOutcome // of the call, for the inputs queued behind it
	releasesOnDelivery bool        // the delivery of the reply releases the turn
}

// refuseInput records that the input was not used. If reason is "", the state of the session says
// why.
func (a *sessionCall) refuseInput(reason string) { a.refused, a.refusal = true, reason }

func (a *sessionCall) addNotice(format string, args ...any) {
	a.notices = append(a.notices, fmt.Sprintf(format, args...))
}

// runControlKeys executes leading control characters, and returns the rest of the input.
func (a *sessionCall) runControlKeys(ctx context.Context, input string) (rest string, err error) {
	for input != "" && (input[0] == interruptKey || input[0] == resetKey) {
		a.caller.rejectEarlierInputs(ctx, a.call.ToolCall)
		if input[0] == interruptKey {
			err = a.interruptNow(ctx)
		} else {
			err = a.session.Reset(ctx)
		}
		if err != nil {
			return "", err
		}
		a.caller.expectCode()
		input = strings.TrimLeft(input[1:], " ") // the rest must not be indented
	}
	return input, nil
}

// interruptNow interrupts the running code, and records the effect unless the reply shows it
// anyway.
func (a *sessionCall) interruptNow(ctx context.Context) error {
	result, err := a.session.Interrupt(ctx, 0)
	switch result {
	case session.InterruptNotRunning, session.InterruptStale:
		a.addNotice("nothing was running")
	case session.InterruptPending:
		a.ignoredInterrupts = a.caller.countIgnoredInterrupt(a.session.infoOrEnded(ctx).Turn)
	case session.InterruptIdle, session.InterruptWaiting:
	}
	return err
}

// submitCode runs code, and waits for its turn.
func (a *sessionCall) submitCode(ctx context.Context, code string, eof bool) *mcp.CallToolResult {
	if why := a.clientLimitRefusal(); why != "" {
		a.refuseInput(why)
		return a.replyNow(ctx, a.currentReply)
	}
	if owns, result := a.takeTurn(ctx); !owns {
		return result
	}
	owner := a.owner
	decided := sync.OnceFunc(func() { close(owner.submitted) })
	defer decided()
	a.starting = session.StartTurn(a.session.Session, code, func(uint64) {
		decided()
		a.call.sessionTicket.Leave()
	})
	if eof {
		a.addNotice("eof was ignored: the input was run as code")
	}
	result := a.awaitReply(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := a.starting.Wait(ctx, o)
		if a.starting.Turn() != 0 {
			a.ran, a.started = true, true
		} else if err != nil {
			decided() // the reply may wait for a call that waits for this
		}
		return r, err
	})
	return a.interruptIfCancelled(ctx, a.starting.Turn(), result)
}

// isRefusal reports whether err means that the session refused an input because it is busy or
// waits for input.
func isRefusal(err error) bool {
	return errors.Is(err, session.ErrWaiting) || errors.Is(err, session.ErrBusy)
}

// submitAnswer answers an input request that the caller has been shown. When that request is
// over, the input is not taken for code, which it was not meant to be. If only a user may answer,
// the model can still end the input. A request that the model was shown and may answer is not
// fetched again: that would be another round trip, and requests never change.
func (a *sessionCall) submitAnswer(ctx context.Context, requestID timeline.Seq, text string, eof bool) *mcp.CallToolResult {
	if w := a.caller.requestIfShown(requestID); w == nil || !a.stdin.allowsModel(w) {
		if w := a.session.infoOrEnded(ctx).InputRequest; w != nil && w.ID == requestID && !a.stdin.allowsModel(w) && (text != "" || w.NeedsUser()) {
			a.refuseInput("")
			return a.replyNow(ctx, a.currentReply)
		}
	}
	in := session.Input{Data: []byte(text), EOF: eof}
	if text != "" {
		in.Data = []byte(withNewline(text))
	}
	h, err := a.caller.beginAnswer(a.call.ToolCall, requestID)
	switch {
	case err != nil && text != "": // another call has answered, so this is code
		return a.submitCode(ctx, text, eof)
	case err != nil:
		a.refuseInput(reasonRequestOver)
		return a.replyNow(ctx, a.currentReply)
	}
	a.starting = session.StartAnswer(a.session.Session, requestID, in, func(uint64) {
		h.markAccepted()
		a.call.sessionTicket.Leave()
	})
	result := a.awaitReply(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := a.starting.Wait(ctx, o)
		a.takeOwnership(h)
		return r, err
	})
	h.finishAnswer()
	a.takeOwnership(h)
	return a.interruptIfCancelled(ctx, a.starting.Turn(), result)
}

// takeOwnership makes the call the owner of the turn once its answer is accepted.
func (a *sessionCall) takeOwnership(h *answerInProgress) {
	if a.owner = h.acceptedOwner(); a.owner != nil {
		a.ran = true
	}
}

// waitForTurn waits for a turn that this call continues. If the client cancels the call, the turn
// is interrupted. If the client is gone, its sessions end anyway.
func (a *sessionCall) waitForTurn(ctx context.Context, turn uint64) *mcp.CallToolResult {
	a.call.sessionTicket.Leave()
	a.ran, a.resumedTurn = true, turn
	return a.interruptIfCancelled(ctx, turn, a.awaitReply(ctx, a.turnWaiter(turn)))
}

// reasonRequestOver is why an answer was not used.
const reasonRequestOver = "the code no longer waits for it"

// interruptIfCancelled interrupts the turn of a call that has no result because it was cancelled.
// The call keeps the turn until the interrupt has taken effect, for unwindTimeout at most,
// because the next queued input runs then.
func (a *sessionCall) interruptIfCancelled(ctx context.Context, turn uint64, result *mcp.CallToolResult) *mcp.CallToolResult {
	if result == nil && turn != 0 && errors.Is(context.Cause(ctx), context.Canceled) {
		a.interruptCancelled(ctx, turn, time.Since(a.receivedAt))
		if a.owner != nil {
			a.owner.endOwnership()
			_, _ = a.session.Wait(context.WithoutCancel(ctx), turn, session.WaitAtMost(unwindTimeout))
		}
	}
	return result
}

// interruptCancelled interrupts the turn of a cancelled call, and sets a notice for the next
// reply. The client shows its model nothing of this call.
func (a *sessionCall) interruptCancelled(ctx context.Context, turn uint64, after time.Duration) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	result, err := a.session.Interrupt(bounded, turn)
	notice := "the previous call was cancelled"
	switch {
	case err != nil:
		a.sessions.logger.Error("interrupt of cancelled call failed", "session", a.caller.name, "error", err)
	case result == session.InterruptPending:
		notice += fmt.Sprintf(" after %.1f s, and its code has not reacted yet", after.Seconds())
	case result == session.InterruptIdle, result == session.InterruptWaiting:
		notice += fmt.Sprintf(" after %.1f s, and its code interrupted", after.Seconds())
	}
	a.caller.setNotice(notice)
}

// pollTurn waits for the active turn without owning it.
func (a *sessionCall) pollTurn(ctx context.Context) *mcp.CallToolResult {
	a.call.sessionTicket.Leave()
	return a.awaitReply(ctx, a.turnWaiter(0))
}

// A waitFunc is Session.Wait bound to one turn.
type waitFunc func(context.Context, *session.WaitOptions) (session.Reply, error)

// turnWaiter returns a waitFunc for one turn; 0 means the active one.
func (a *sessionCall) turnWaiter(turn uint64) waitFunc {
	return func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		return a.session.Wait(ctx, turn, o)
	}
}

// currentReply is a waitFunc that returns at once.
func (a *sessionCall) currentReply(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	o.Poll = true
	return a.session.Wait(ctx, 0, o)
}

// awaitReply waits until there is nothing to wait for or the deadline passes, with progress for
// the client, and replies.
func (a *sessionCall) awaitReply(ctx context.Context, wait waitFunc) *mcp.CallToolResult {
	beat := a.call.beat
	for {
		o := &session.WaitOptions{Timeout: time.Until(beat.nextCheck(a.deadline))}
		o.Poll = o.Timeout <= 0
		o.After, _ = a.caller.cursorAndRequest()
		r, err := wait(ctx, o)
		switch {
		case a.isUnreachable(ctx, err):
			if !time.Now().Before(a.deadline) {
				return a.replyUnreachable(err)
			}
			if elapsed, due := beat.beatIfDue(); due {
				a.call.ReportProgress(elapsed.Seconds(), a.session.Link.RemoteName()+" cannot be reached")
			}
			continue
		case isRefusal(err):
			a.refuseInput("")
			return a.replyNow(ctx, a.currentReply)
		case errors.Is(err, session.ErrStale) && a.starting != nil && !a.ran:
			a.refuseInput(reasonRequestOver)
			return a.replyNow(ctx, a.currentReply)
		case err != nil:
			return a.sessionErrorResult(ctx, err)
		case r.InputRequest != nil && !a.stdin.allowsModel(r.InputRequest):
			if resolved, result := a.resolveInputRequest(ctx, wait, r.InputRequest, beat); !resolved {
				if result != nil && !beat.waitQuiet(ctx) {
					return nil
				}
				return result
			}
			continue
		case a.isFinal(r) || a.foundMatch || !time.Now().Before(a.deadline):
			if !beat.waitQuiet(ctx) {
				return nil
			}
			return a.replyWith(ctx, wait, r, o.After)
		}
		if elapsed, due := beat.beatIfDue(); due {
			a.call.ReportProgress(elapsed.Seconds(), progressText(r)+lastOutputLine(r))
		}
	}
}

// isFinal reports whether there is nothing to wait for. The outcome of a turn of this call may
// come only with the end of the worker.
func (a *sessionCall) isFinal(r session.Reply) bool {
	ending := r.State == session.StateStopping && (a.starting != nil || a.resumedTurn != 0)
	return r.Outcome != "" || r.InputRequest != nil || !r.State.IsActive() && !ending
}

// replyNow replies with the new events, without waiting.
func (a *sessionCall) replyNow(ctx context.Context, wait waitFunc) *mcp.CallToolResult {
	after, _ := a.caller.cursorAndRequest()
	r, err := wait(ctx, &session.WaitOptions{Poll: true, After: after})
	if err != nil {
		return a.sessionErrorResult(ctx, err)
	}
	return a.replyWith(ctx, wait, r, after)
}

// replyWith makes a result of r, which has the events after a cursor. If another call has moved
// the cursor since, it fetches r again. The cursor moves when the client gets the result.
func (a *sessionCall) replyWith(ctx context.Context, wait waitFunc, r session.Reply, after timeline.Seq) *mcp.CallToolResult {
	if !a.caller.awaitCancelled(ctx, a.owner) || !a.caller.beginReport(ctx) {
		return nil
	}
	a.noteUnusedAnswer()
	if cursor, _ := a.caller.cursorAndRequest(); cursor != after {
		var err error
		if r, err = wait(ctx, &session.WaitOptions{Poll: true, After: cursor}); err != nil {
			a.caller.endReport()
			return a.sessionErrorResult(ctx, err)
		}
	}
	a.firstLine = a.caller.pendingNotice()
	a.fullScreen = a.caller.isFullScreen()
	result := a.renderReply(ctx, r)
	if a.outcome = replyOutcome(r); a.refused {
		a.outcome = outcomeNotRun
	}
	a.releasesOnDelivery = true
	finish := sync.OnceFunc(func() {
		a.caller.endReport()
		if a.owner != nil {
			a.caller.releaseTurn(a.owner, a.outcomeNow())
		}
	})
	a.call.OnDelivery(func(delivered bool) {
		if delivered {
			a.caller.acknowledgeReply(a.call.ToolCall, r, a.fullScreen)
			a.caller.clearNotice(a.firstLine)
		}
		finish()
	})
	return result
}
