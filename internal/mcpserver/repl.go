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
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callerstate"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/elicitation"
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
	if err == nil {
		err = args.check(r)
	}
	timeout, timeoutErr := r.boundedTimeout("timeout_ms", args.TimeoutMS)
	if err = errors.Join(err, timeoutErr); err != nil {
		return s.errorResult(err)
	}
	if r.sdk.Params.RequestState != "" {
		return s.resumeCall(ctx, r, time.Now().Add(timeout))
	}
	now := time.Now()
	var notices []string
	v, err := r.joinSession(ctx, func() (v *callerstate.CallerSession, err error) {
		v, notices, err = s.sessions.ResolveAndOpen(args.Session, args.Lang, cmp.Or(r.codex.WorkingDir(), s.roots.projectDir(ctx, s, r)), r.codex)
		return v, err
	})
	if v != nil {
		defer v.NoteCancelled(r.ToolCall)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return s.errorResult(err)
	}
	session, result := s.waitOpened(ctx, r, v, now.Add(max(timeout, minOpenTimeout)), reply.InputNotRun+s.wording.NameTools("; repl_output waits"))
	if session == nil {
		return result
	}
	a := s.startSessionCall(r, v, session, now, now.Add(timeout))
	a.notices = notices
	defer a.releaseTurn()
	if args.Keys != "" {
		return a.handleKeys(ctx, args.Keys)
	}
	return a.handleInput(ctx, *args.Input, args.EOF)
}

// check returns an error unless the call has an input or keys. Some models pass "" for an argument
// that they do not use.
func (args *replArgs) check(r *toolRequest) error {
	switch {
	case args.Keys == "" && args.Input == nil:
		if err := unknownArgumentError[replArgs](r); err != nil {
			return err
		}
		return errors.New(`input is required: code, an answer, or "" to wait for output; or keys for a program at the terminal`)
	case args.Keys == "":
		return nil
	case args.Input != nil && *args.Input != "":
		return errors.New("use either input or keys: input is code or an answer, keys are typed as they are")
	case args.EOF:
		return errors.New(`eof does not go with keys: "<C-d>" ends the input of most programs`)
	}
	return nil
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
		return sc.errorResult(err)
	case input == "" && !eof:
		return sc.pollTurn(ctx)
	}
	switch requestID, early := sc.caller.RequestAnsweredBy(sc.call.ToolCall); {
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

// runControlKeys executes leading control characters, and returns the rest of the input.
func (sc *sessionCall) runControlKeys(ctx context.Context, input string) (rest string, err error) {
	for input != "" && (input[0] == interruptKey || input[0] == resetKey) {
		sc.caller.RejectEarlierInputs(ctx, sc.call.ToolCall)
		if input[0] == interruptKey {
			err = sc.interruptNow(ctx)
		} else {
			err = sc.session.Reset(ctx)
		}
		if err != nil {
			return "", err
		}
		sc.caller.ExpectCode()
		input = strings.TrimLeft(input[1:], " ") // the rest must not be indented
	}
	return input, nil
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
	decided := sync.OnceFunc(sc.owner.MarkSubmitted)
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

// submitAnswer answers an input request that the caller has been shown. If that request is over,
// the input does not run as code, because it was not meant as code. If only a user may answer, the
// model can still end the input. A request that the model was shown and may answer is not fetched
// again: that would be another round trip, and requests never change.
func (sc *sessionCall) submitAnswer(ctx context.Context, requestID timeline.Seq, text string, eof bool) *mcp.CallToolResult {
	if w := sc.caller.RequestIfShown(requestID); w == nil || !sc.stdin.allowsModel(w) {
		if w := sc.session.InfoOrEnded(ctx).InputRequest; w != nil && w.ID == requestID && !sc.stdin.allowsModel(w) && (text != "" || w.NeedsUser()) {
			sc.refuseInput("")
			return sc.replyNow(ctx, sc.currentReply)
		}
	}
	in := session.Input{Data: []byte(text), EOF: eof}
	if text != "" {
		in.Data = []byte(elicitation.WithNewline(text))
	}
	h, err := sc.caller.BeginAnswer(sc.call.ToolCall, requestID)
	switch {
	case err != nil && text != "": // another call has answered, so this is code
		return sc.submitCode(ctx, text, eof)
	case err != nil:
		sc.refuseInput(reasonRequestOver)
		return sc.replyNow(ctx, sc.currentReply)
	}
	sc.starting = session.StartAnswer(sc.session.Session, requestID, in, func(uint64) {
		h.MarkAccepted()
		sc.call.sessionTicket.Leave()
	})
	result := sc.awaitReply(ctx, func(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
		r, err := sc.starting.Wait(ctx, o)
		sc.takeOwnership(h)
		return r, err
	})
	h.FinishAnswer()
	sc.takeOwnership(h)
	return sc.interruptIfCancelled(ctx, sc.starting.Turn(), result)
}

// takeOwnership makes the call the owner of the turn once its answer is accepted.
func (sc *sessionCall) takeOwnership(h *callerstate.AnswerInProgress) {
	if sc.owner = h.AcceptedOwner(); sc.owner != nil {
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

// interruptIfCancelled interrupts the turn of a call that has no result because it was cancelled.
// The call keeps the turn until the interrupt has taken effect, for unwindTimeout at most,
// because the next queued input runs then.
func (sc *sessionCall) interruptIfCancelled(ctx context.Context, turn uint64, result *mcp.CallToolResult) *mcp.CallToolResult {
	if result == nil && turn != 0 && errors.Is(context.Cause(ctx), context.Canceled) {
		sc.interruptCancelled(ctx, turn, time.Since(sc.receivedAt))
		if sc.owner != nil {
			sc.owner.EndOwnership()
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
		sc.options.Logger.Error("interrupt of cancelled call failed", "session", sc.caller.Name, "error", err)
	case result == session.InterruptPending:
		notice += fmt.Sprintf(" after %.1f s, and its code has not reacted yet", after.Seconds())
	case result == session.InterruptIdle, result == session.InterruptWaiting:
		notice += fmt.Sprintf(" after %.1f s, and its code interrupted", after.Seconds())
	}
	sc.caller.SetNotice(notice)
}

// takeTurn makes the call the owner of the session's next turn. If it returns false, there is a
// result, which is nil if ctx ended.
func (sc *sessionCall) takeTurn(ctx context.Context) (bool, *mcp.CallToolResult) {
	h := sc.caller.ClaimTurn(sc.call.ToolCall)
	select {
	case <-h.Decision():
	default:
		sc.call.sessionTicket.Leave()
		until := sc.deadline
		if timeout := sc.call.clientProfile().QueueTimeout; timeout > 0 {
			until = earlierTime(until, time.Now().Add(timeout))
		}
		if !sc.awaitWithProgress(ctx, h.Decision(), until) && sc.caller.DropQueued(h) {
			if ctx.Err() != nil {
				return false, nil
			}
			return false, sc.replyRefused(ctx, callorder.ReasonNotAnswered)
		}
		<-h.Decision()
	}
	if h.RefusalReason() != "" {
		return false, sc.replyRefused(ctx, h.RefusalReason())
	}
	sc.owner = h
	return true, nil
}

// replyRefused replies that the input was not run, and why.
func (sc *sessionCall) replyRefused(ctx context.Context, why string) *mcp.CallToolResult {
	sc.refuseInput(why)
	return sc.replyNow(ctx, sc.currentReply)
}

// clientLimitRefusal returns why code must not run here now, or "": the client has lowered its
// limit since the session was opened. A running worker's sandbox cannot be narrowed.
func (sc *sessionCall) clientLimitRefusal() string {
	now, narrowed := sc.sessions.NarrowToClient(sc.call.codex, cmp.Or(sc.session.InitialInfo.Dir, sc.caller.Dir), sc.session.Sandbox)
	if !narrowed {
		return ""
	}
	return "this session has the sandbox " + sc.session.Sandbox.String() + ", and Codex now allows " + now.String() +
		sc.wording.NameTools(`: session "new" creates one with that; repl_reset with close ends this one, and its variables are lost`)
}
