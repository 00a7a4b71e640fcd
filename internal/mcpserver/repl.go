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
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
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
		v, notices, err = s.sessions.resolveAndOpen(args.Session, args.Lang, cmp.Or(r.codex.WorkingDir(), s.roots.projectDir(ctx, s, r)), r.codex)
		return v, err
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return errorResult(err)
	}
	session, result := s.waitOpened(ctx, r, v, now.Add(max(timeout, minOpenTimeout)), reply.InputNotRun+"; repl_output waits")
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
func (sc *sessionCall) handleInput(ctx context.Context, input string, eof bool) *mcp.CallToolResult {
	if !sc.awaitEarlierCalls(ctx) {
		if ctx.Err() != nil {
			return nil
		}
		return sc.replyRefused(ctx, "an earlier call has not started yet")
	}
	input, err := sc.runControlKeys(ctx, input)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return errorResult(err)
	case input == "" && !eof:
		return sc.pollTurn(ctx)
	}
	switch requestID, early := sc.caller.requestAnsweredBy(sc.call.ToolCall); {
	case early != callorder.OutcomeDone:
		sc.refuseInput(early.RefusalReason())
		return sc.replyNow(ctx, sc.currentReply)
	case requestID != 0:
		return sc.submitAnswer(ctx, requestID, input, eof)
	case input == "":
		sc.addNotice("no code waits for input: eof was not used")
		return sc.pollTurn(ctx)
	}
	return sc.submitCode(ctx, input, eof)
}

// A sessionCall is the state of one tool call about a session, from its arrival to its reply.
type sessionCall struct {
	*server
	call          *toolRequest
	caller        *callerSession
	session       *backend.SessionHandle
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
	fullScreen bool // the terminal is on its alternate screen at the start of the reply, later at its end

	refused           bool   // the input was not used
	refusal           string // why, if the state does not say it
	ignoredInterrupts int    // ineffective interrupts of the running turn, if the last is from this call

	owner              *turnClaim            // of the turn, if it is this call
	outcome            callorder.CallOutcome // of the call, for the inputs queued behind it
	releasesOnDelivery bool                  // the delivery of the reply releases the turn
}

// refuseInput records that the input was not used. If reason is "", the state of the session says
// why.
func (sc *sessionCall) refuseInput(reason string) { sc.refused, sc.refusal = true, reason }

func (sc *sessionCall) addNotice(format string, args ...any) {
	sc.notices = append(sc.notices, fmt.Sprintf(format, args...))
}

// runControlKeys executes leading control characters, and returns the rest of the input.
func (sc *sessionCall) runControlKeys(ctx context.Context, input string) (rest string, err error) {
	for input != "" && (input[0] == interruptKey || input[0] == resetKey) {
		sc.caller.rejectEarlierInputs(ctx, sc.call.ToolCall)
		if input[0] == interruptKey {
			err = sc.interruptNow(ctx)
		} else {
			err = sc.session.Reset(ctx)
		}
		if err != nil {
			return "", err
		}
		sc.caller.expectCode()
		input = strings.TrimLeft(input[1:], " ") // the rest must not be indented
	}
	return input, nil
}

// interruptNow interrupts the running code, and records the effect unless the reply shows it
// anyway.
func (sc *sessionCall) interruptNow(ctx context.Context) error {
	result, err := sc.session.Interrupt(ctx, 0)
	switch result {
	case session.InterruptNotRunning, session.InterruptStale:
		sc.addNotice("nothing was running")
	case session.InterruptPending:
		sc.ignoredInterrupts = sc.caller.countIgnoredInterrupt(sc.session.InfoOrEnded(ctx).Turn)
	case session.InterruptIdle, session.InterruptWaiting:
	}
	return err
}

// submitCode runs code, and waits for its turn.
func (sc *sessionCall) submitCode(ctx context.Context, code string, eof bool) *mcp.CallToolResult {
	if why := sc.clientLimitRefusal(); why != "" {
		sc.refuseInput(why)
		return sc.replyNow(ctx, sc.currentReply)
	}
	if owns, result := sc.takeTurn(ctx); !owns {
		return result
	}
	owner := sc.owner
	decided := sync.OnceFunc(func() { close(owner.submitted) })
	defer decided()
	sc.starting = session.StartTurn(sc.session.Session, code, func(uint64) {
		decided()
		sc.call.sessionTicket.Leave()
	})
	if eof {
		sc.addNotice("eof was ignored: the input was run as code")
	}
	result := sc.awaitReply(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := sc.starting.Wait(ctx, o)
		if sc.starting.Turn() != 0 {
			sc.ran, sc.started = true, true
		} else if err != nil {
			decided() // the reply may wait for a call that waits for this
		}
		return r, err
	})
	return sc.interruptIfCancelled(ctx, sc.starting.Turn(), result)
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
func (sc *sessionCall) submitAnswer(ctx context.Context, requestID timeline.Seq, text string, eof bool) *mcp.CallToolResult {
	if w := sc.caller.requestIfShown(requestID); w == nil || !sc.stdin.allowsModel(w) {
		if w := sc.session.InfoOrEnded(ctx).InputRequest; w != nil && w.ID == requestID && !sc.stdin.allowsModel(w) && (text != "" || w.NeedsUser()) {
			sc.refuseInput("")
			return sc.replyNow(ctx, sc.currentReply)
		}
	}
	in := session.Input{Data: []byte(text), EOF: eof}
	if text != "" {
		in.Data = []byte(withNewline(text))
	}
	h, err := sc.caller.beginAnswer(sc.call.ToolCall, requestID)
	switch {
	case err != nil && text != "": // another call has answered, so this is code
		return sc.submitCode(ctx, text, eof)
	case err != nil:
		sc.refuseInput(reasonRequestOver)
		return sc.replyNow(ctx, sc.currentReply)
	}
	sc.starting = session.StartAnswer(sc.session.Session, requestID, in, func(uint64) {
		h.markAccepted()
		sc.call.sessionTicket.Leave()
	})
	result := sc.awaitReply(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := sc.starting.Wait(ctx, o)
		sc.takeOwnership(h)
		return r, err
	})
	h.finishAnswer()
	sc.takeOwnership(h)
	return sc.interruptIfCancelled(ctx, sc.starting.Turn(), result)
}

// takeOwnership makes the call the owner of the turn once its answer is accepted.
func (sc *sessionCall) takeOwnership(h *answerInProgress) {
	if sc.owner = h.acceptedOwner(); sc.owner != nil {
		sc.ran = true
	}
}

// waitForTurn waits for a turn that this call continues. If the client cancels the call, the turn
// is interrupted. If the client is gone, its sessions end anyway.
func (sc *sessionCall) waitForTurn(ctx context.Context, turn uint64) *mcp.CallToolResult {
	sc.call.sessionTicket.Leave()
	sc.ran, sc.resumedTurn = true, turn
	return sc.interruptIfCancelled(ctx, turn, sc.awaitReply(ctx, sc.turnWaiter(turn)))
}

// reasonRequestOver is why an answer was not used.
const reasonRequestOver = "the code no longer waits for it"

// interruptIfCancelled interrupts the turn of a call that has no result because it was cancelled.
// The call keeps the turn until the interrupt has taken effect, for unwindTimeout at most,
// because the next queued input runs then.
func (sc *sessionCall) interruptIfCancelled(ctx context.Context, turn uint64, result *mcp.CallToolResult) *mcp.CallToolResult {
	if result == nil && turn != 0 && errors.Is(context.Cause(ctx), context.Canceled) {
		sc.interruptCancelled(ctx, turn, time.Since(sc.receivedAt))
		if sc.owner != nil {
			sc.owner.endOwnership()
			_, _ = sc.session.Wait(context.WithoutCancel(ctx), turn, session.WaitAtMost(unwindTimeout))
		}
	}
	return result
}

// interruptCancelled interrupts the turn of a cancelled call, and sets a notice for the next
// reply. The client shows its model nothing of this call.
func (sc *sessionCall) interruptCancelled(ctx context.Context, turn uint64, after time.Duration) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	result, err := sc.session.Interrupt(bounded, turn)
	notice := "the previous call was cancelled"
	switch {
	case err != nil:
		sc.sessions.logger.Error("interrupt of cancelled call failed", "session", sc.caller.name, "error", err)
	case result == session.InterruptPending:
		notice += fmt.Sprintf(" after %.1f s, and its code has not reacted yet", after.Seconds())
	case result == session.InterruptIdle, result == session.InterruptWaiting:
		notice += fmt.Sprintf(" after %.1f s, and its code interrupted", after.Seconds())
	}
	sc.caller.setNotice(notice)
}

// pollTurn waits for the active turn without owning it.
func (sc *sessionCall) pollTurn(ctx context.Context) *mcp.CallToolResult {
	sc.call.sessionTicket.Leave()
	return sc.awaitReply(ctx, sc.turnWaiter(0))
}

// A waitFunc is Session.Wait bound to one turn.
type waitFunc func(context.Context, *session.WaitOptions) (session.Reply, error)

// turnWaiter returns a waitFunc for one turn; 0 means the active one.
func (sc *sessionCall) turnWaiter(turn uint64) waitFunc {
	return func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		return sc.session.Wait(ctx, turn, o)
	}
}

// currentReply is a waitFunc that returns at once.
func (sc *sessionCall) currentReply(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	o.Poll = true
	return sc.session.Wait(ctx, 0, o)
}

// awaitReply waits until there is nothing to wait for or the deadline passes, with progress for
// the client, and replies.
func (sc *sessionCall) awaitReply(ctx context.Context, wait waitFunc) *mcp.CallToolResult {
	beat := sc.call.beat
	for {
		o := &session.WaitOptions{Timeout: time.Until(beat.NextCheck(sc.deadline))}
		o.Poll = o.Timeout <= 0
		o.After, _ = sc.caller.cursorAndRequest()
		r, err := wait(ctx, o)
		switch {
		case sc.isUnreachable(ctx, err):
			if !time.Now().Before(sc.deadline) {
				return sc.replyUnreachable(err)
			}
			if elapsed, due := beat.BeatIfDue(); due {
				sc.call.ReportProgress(elapsed.Seconds(), sc.session.Link.RemoteName()+" cannot be reached")
			}
			continue
		case isRefusal(err):
			sc.refuseInput("")
			return sc.replyNow(ctx, sc.currentReply)
		case errors.Is(err, session.ErrStale) && sc.starting != nil && !sc.ran:
			sc.refuseInput(reasonRequestOver)
			return sc.replyNow(ctx, sc.currentReply)
		case err != nil:
			return sc.sessionErrorResult(ctx, err)
		case r.InputRequest != nil && !sc.stdin.allowsModel(r.InputRequest):
			if resolved, result := sc.resolveInputRequest(ctx, wait, r.InputRequest, beat); !resolved {
				if result != nil && !beat.WaitQuiet(ctx) {
					return nil
				}
				return result
			}
			continue
		case sc.isFinal(r) || sc.foundMatch || !time.Now().Before(sc.deadline):
			if !beat.WaitQuiet(ctx) {
				return nil
			}
			return sc.replyWith(ctx, wait, r, o.After)
		}
		if elapsed, due := beat.BeatIfDue(); due {
			sc.call.ReportProgress(elapsed.Seconds(), reply.ProgressText(r)+reply.LastOutputLine(r))
		}
	}
}

// isFinal reports whether there is nothing to wait for. The outcome of a turn of this call may
// come only with the end of the worker.
func (sc *sessionCall) isFinal(r session.Reply) bool {
	ending := r.State == session.StateStopping && (sc.starting != nil || sc.resumedTurn != 0)
	return r.Outcome != "" || r.InputRequest != nil || !r.State.IsActive() && !ending
}

// replyNow replies with the new events, without waiting.
func (sc *sessionCall) replyNow(ctx context.Context, wait waitFunc) *mcp.CallToolResult {
	after, _ := sc.caller.cursorAndRequest()
	r, err := wait(ctx, &session.WaitOptions{Poll: true, After: after})
	if err != nil {
		return sc.sessionErrorResult(ctx, err)
	}
	return sc.replyWith(ctx, wait, r, after)
}

// replyWith makes a result of r, which has the events after a cursor. If another call has moved
// the cursor since, it fetches r again. The cursor moves when the client gets the result.
func (sc *sessionCall) replyWith(ctx context.Context, wait waitFunc, r session.Reply, after timeline.Seq) *mcp.CallToolResult {
	if !sc.caller.awaitCancelled(ctx, sc.owner) || !sc.caller.beginReport(ctx) {
		return nil
	}
	sc.noteUnusedAnswer()
	if cursor, _ := sc.caller.cursorAndRequest(); cursor != after {
		var err error
		if r, err = wait(ctx, &session.WaitOptions{Poll: true, After: cursor}); err != nil {
			sc.caller.endReport()
			return sc.sessionErrorResult(ctx, err)
		}
	}
	sc.firstLine = sc.caller.pendingNotice()
	sc.fullScreen = sc.caller.isFullScreen()
	result := sc.renderReply(ctx, r)
	if sc.outcome = replyOutcome(r); sc.refused {
		sc.outcome = callorder.OutcomeNotRun
	}
	sc.releasesOnDelivery = true
	finish := sync.OnceFunc(func() {
		sc.caller.endReport()
		if sc.owner != nil {
			sc.caller.releaseTurn(sc.owner, sc.outcomeNow())
		}
	})
	sc.call.OnDelivery(func(delivered bool) {
		if delivered {
			sc.caller.acknowledgeReply(sc.call.ToolCall, r, sc.fullScreen)
			sc.caller.clearNotice(sc.firstLine)
		}
		finish()
	})
	return result
}
