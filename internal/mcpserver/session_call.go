package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callerstate"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/elicitation"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A sessionCall is the state of one tool call about a session, from its arrival to its reply.
type sessionCall struct {
	*server
	call          *toolRequest
	caller        *callerstate.CallerSession
	session       *backend.SessionHandle
	receivedAt    time.Time // arrival of the call
	deadline      time.Time
	replyDeadline time.Time               // when the call must be answered, because its client waits no longer
	firstLine     string                  // of the reply; may be ""
	notices       []string                // for the state line
	ran           bool                    // the call started or continued a turn
	started       bool                    // the call started the turn
	starting      session.PendingTurn     // the turn of the call's input, code or an answer; nil without one
	resumedTurn   uint64                  // the turn that the call continues after the user's answer
	questions     *elicitation.AskingCall // what the call asks the user

	restarted  bool // the call has restarted the interpreter
	wantsMatch bool // the call waits for a line, and other output does not end that
	foundMatch bool // the line that the call waits for has appeared
	typesKeys  bool // the input is keys, not code or an answer
	fullScreen bool // the terminal is on its alternate screen at the start of the reply, later at its end

	refused           bool   // the input was not used
	refusal           string // why, if the state does not say it
	ignoredInterrupts int    // ineffective interrupts of the running turn, if the last is from this call

	owner              *callerstate.TurnClaim // of the turn, if this call is the owner
	outcome            callorder.CallOutcome  // of the call, for the inputs queued behind it
	releasesOnDelivery bool                   // the delivery of the reply releases the turn
}

// startSessionCall returns a call that arrived at a time, about a session that is open.
func (s *server) startSessionCall(r *toolRequest, v *callerstate.CallerSession, open *backend.SessionHandle, receivedAt, deadline time.Time) *sessionCall {
	replyDeadline := receivedAt.Add(r.maxCallTime())
	return &sessionCall{
		server: s, call: r, caller: v, session: open, receivedAt: receivedAt, deadline: deadline, replyDeadline: replyDeadline,
		questions: &elicitation.AskingCall{
			Asker: s.asker, Questions: v.Questions, Tool: r.ToolCall, Request: r.sdk, Beat: r.beat,
			Session: open, SessionName: v.Name, ReplyDeadline: replyDeadline,
		},
	}
}

// refuseInput records that the input was not used. If reason is "", the state of the session says
// why.
func (sc *sessionCall) refuseInput(reason string) { sc.refused, sc.refusal = true, reason }

func (sc *sessionCall) addNotice(format string, args ...any) {
	sc.notices = append(sc.notices, fmt.Sprintf(format, args...))
}

// interruptNow interrupts the running code, and records the effect unless the reply shows it
// anyway.
func (sc *sessionCall) interruptNow(ctx context.Context) error {
	result, err := sc.session.Interrupt(ctx, 0)
	switch result {
	case session.InterruptNotRunning, session.InterruptStale:
		sc.addNotice("nothing was running")
	case session.InterruptPending:
		sc.ignoredInterrupts = sc.caller.CountIgnoredInterrupt(sc.session.InfoOrEnded(ctx).Turn)
	case session.InterruptIdle, session.InterruptWaiting:
	}
	return err
}

// reasonRequestOver is why an answer was not used.
const reasonRequestOver = "the code no longer waits for it"

// pollTurn waits for the active turn without owning it.
func (sc *sessionCall) pollTurn(ctx context.Context) *mcp.CallToolResult {
	sc.call.sessionTicket.Leave()
	return sc.awaitReply(ctx, sc.waitForNews)
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
		o.After, _ = sc.caller.CursorAndRequest()
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
			if resolved, result := sc.resolveInputRequest(ctx, wait, r.InputRequest); !resolved {
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

// resolveInputRequest handles an input request that the model must not answer. It returns true
// when the request is over and the call can continue to wait for the turn. Otherwise there is a
// result, which is nil if ctx ended.
func (sc *sessionCall) resolveInputRequest(ctx context.Context, wait waitFunc, w *session.InputRequest) (bool, *mcp.CallToolResult) {
	_, shown := sc.caller.CursorAndRequest()
	v := sc.questions.Resolve(ctx, w, shown == w.ID, sc.deadline)
	if v.Waited > 0 {
		sc.deadline = earlierTime(sc.deadline.Add(v.Waited), sc.replyDeadline)
	}
	sc.notices = append(sc.notices, v.Notices...)
	switch v.Next {
	case elicitation.StepReply:
		return false, sc.replyNow(ctx, wait)
	case elicitation.StepFail:
		return false, sc.errorResult(v.Err)
	case elicitation.StepReturn:
		return false, sc.returnQuestion(w, v.Question)
	case elicitation.StepStop:
		return false, nil
	}
	return true, nil
}

// isFinal reports whether there is nothing to wait for. The outcome of a turn of this call may
// come only with the end of the worker.
func (sc *sessionCall) isFinal(r session.Reply) bool {
	ending := r.State == session.StateStopping && (sc.starting != nil || sc.resumedTurn != 0)
	return r.Outcome != "" || r.InputRequest != nil && !sc.knowsPoll(r) || !r.State.IsActive() && !ending
}

// replyNow replies with the new events, without waiting.
func (sc *sessionCall) replyNow(ctx context.Context, wait waitFunc) *mcp.CallToolResult {
	after, _ := sc.caller.CursorAndRequest()
	r, err := wait(ctx, &session.WaitOptions{Poll: true, After: after})
	if err != nil {
		return sc.sessionErrorResult(ctx, err)
	}
	return sc.replyWith(ctx, wait, r, after)
}

// replyWith makes a result of r, which has the events after a cursor. If another call has moved
// the cursor since, it fetches r again. The cursor moves when the client gets the result.
func (sc *sessionCall) replyWith(ctx context.Context, wait waitFunc, r session.Reply, after timeline.Seq) *mcp.CallToolResult {
	if !sc.caller.AwaitCancelled(ctx, sc.owner) || !sc.caller.BeginReport(ctx) {
		return nil
	}
	if unused := sc.questions.DropAnswer(); unused != "" {
		sc.addNotice("%s", unused)
	}
	if cursor, _ := sc.caller.CursorAndRequest(); cursor != after {
		var err error
		if r, err = wait(ctx, &session.WaitOptions{Poll: true, After: cursor}); err != nil {
			sc.caller.EndReport()
			return sc.sessionErrorResult(ctx, err)
		}
	}
	sc.firstLine = sc.caller.PendingNotice()
	sc.fullScreen = sc.caller.IsFullScreen()
	result := sc.renderReply(ctx, r)
	if sc.outcome = replyOutcome(r); sc.refused {
		sc.outcome = callorder.OutcomeNotRun
	}
	sc.releasesOnDelivery = true
	finish := sync.OnceFunc(func() {
		sc.caller.EndReport()
		if sc.owner != nil {
			sc.caller.ReleaseTurn(sc.owner, sc.outcomeNow())
		}
	})
	sc.call.OnDelivery(func(delivered bool) {
		if delivered {
			sc.caller.AcknowledgeReply(sc.call.ToolCall, r, sc.fullScreen)
			sc.caller.ClearNotice(sc.firstLine)
		}
		finish()
	})
	return result
}

// renderReply makes a result of new events.
func (sc *sessionCall) renderReply(ctx context.Context, r session.Reply) *mcp.CallToolResult {
	state := reply.CallState{
		Session: sc.caller.Name, TranscriptName: sc.session.TranscriptName(), Author: sc.session.Author(),
		RewriteEvent: sc.session.RewriteEvent,
		Wording:      sc.wording, Profile: sc.call.clientProfile(), Images: sc.caller.ImageStore(), ImageSide: sc.imageSide,
		FirstLine: sc.firstLine, Facts: slices.Clone(sc.notices),
		FullScreen: sc.fullScreen, StartFailed: sc.caller.HasFailedStart(),
		ReadScreen: sc.session.Screen, TypesKeys: sc.typesKeys,
		Ran: sc.ran, Started: sc.started, Restarted: sc.restarted,
		Refused: sc.refused, Refusal: sc.refusal, IgnoredInterrupts: sc.ignoredInterrupts,
	}
	if notice := sc.outageNotice(); notice != "" {
		state.Facts = append(state.Facts, notice)
	}
	if sc.questions.HasDeniedReads() {
		state.Facts = append(state.Facts, "standard input is at its end: "+sc.wording.DenialReason())
	}
	if r.InputRequest != nil && !sc.stdin.allowsModel(r.InputRequest) {
		state.RequestAdvice = sc.questions.Advice(r.InputRequest)
	}
	rendered := reply.Render(ctx, state, r)
	sc.fullScreen, sc.refused = rendered.FullScreen, rendered.Refused
	return rendered.Result
}

// sessionErrorResult returns the result for an error of the session, or nil if ctx ended. It
// forgets a session that no longer exists, so the next call creates another.
func (sc *sessionCall) sessionErrorResult(ctx context.Context, err error) *mcp.CallToolResult {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, session.ErrClosed):
		sc.sessions.RemoveSession(sc.caller)
		return sc.errorResult(errors.New("this session no longer exists, and its variables are lost: it was closed, or its daemon ended; the next call starts a new one"))
	}
	return sc.errorResult(err)
}

// isUnreachable reports whether err means that the session was not reached within the call's
// time, and may be reached later.
func (sc *sessionCall) isUnreachable(ctx context.Context, err error) bool {
	return sc.session.Link != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
}

// outageNotice reports for how long the connection to the session was down during the call, or
// returns "".
func (sc *sessionCall) outageNotice() string {
	if sc.session.Link == nil {
		return ""
	}
	down := sc.session.Link.Downtime(sc.receivedAt)
	if down == 0 {
		return ""
	}
	return fmt.Sprintf("the connection to %s was down for %s", sc.session.Link.RemoteName(), formatSeconds(down))
}

// replyUnreachable replies that the session cannot be reached, and whether the input is known to
// run.
func (sc *sessionCall) replyUnreachable(err error) *mcp.CallToolResult {
	text := err.Error() // says how long it has not answered
	if since, down := sc.session.Link.DownSince(); down {
		text = fmt.Sprintf("%s has been unreachable since %s", sc.session.Link.RemoteName(), since.Format(time.TimeOnly))
	}
	switch {
	case sc.turnNumber() != 0:
		text += fmt.Sprintf("; turn %d continues there", sc.turnNumber())
	case sc.typesKeys:
		text += "; it is not known whether your keys were typed: look before you type them again"
	case sc.starting != nil:
		text += "; it is not known whether your input was run: the next call will show it"
	}
	sc.outcome = callorder.OutcomeStillRuns
	return textResult("[" + text + "]")
}

// turnNumber returns the number of the turn that the call started or continued, or 0 if it is not
// known yet.
func (sc *sessionCall) turnNumber() uint64 {
	if sc.starting != nil {
		return sc.starting.Turn()
	}
	return sc.resumedTurn
}

// formatSeconds formats a duration in seconds, with one decimal below 10 s.
func formatSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// isRefusal reports whether err means that the session refused an input because it is busy or
// waits for input.
func isRefusal(err error) bool {
	return errors.Is(err, session.ErrWaiting) || errors.Is(err, session.ErrBusy)
}

// awaitEarlierCalls waits until the earlier calls about the same session have started. It returns
// false if ctx ended or the deadline passed.
func (sc *sessionCall) awaitEarlierCalls(ctx context.Context) bool {
	return sc.awaitWithProgress(ctx, sc.call.sessionTicket.Ready(), sc.deadline)
}

// awaitWithProgress waits until ready is closed or the deadline passes, with progress for the
// client.
func (sc *sessionCall) awaitWithProgress(ctx context.Context, ready <-chan struct{}, deadline time.Time) bool {
	select {
	case <-ready: // needs no timer
		return true
	default:
	}
	beat := sc.call.beat
	for {
		timer := time.NewTimer(time.Until(beat.NextCheck(deadline)))
		select {
		case <-ready:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if !time.Now().Before(deadline) {
			return false
		}
		if elapsed, due := beat.BeatIfDue(); due {
			sc.call.ReportProgress(elapsed.Seconds(), "an earlier call comes first")
		}
	}
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// releaseTurn ends the call's ownership of a turn, unless the delivery of a reply will end it.
func (sc *sessionCall) releaseTurn() {
	if sc.owner == nil || sc.releasesOnDelivery {
		return
	}
	if sc.outcome == callorder.OutcomeDone {
		sc.outcome = callorder.OutcomeFailed
	}
	sc.caller.ReleaseTurn(sc.owner, sc.outcomeNow())
}

// outcomeNow returns the call's outcome so far.
func (sc *sessionCall) outcomeNow() callorder.CallOutcome {
	if sc.call.IsCancelled() {
		return callorder.OutcomeCancelled
	}
	return sc.outcome
}

// replyOutcome returns the outcome of a call that gets this reply.
func replyOutcome(r session.Reply) callorder.CallOutcome {
	switch {
	case r.InputRequest != nil:
		return callorder.OutcomeWaitsForInput
	case r.Outcome == timeline.OutcomeOK:
		return callorder.OutcomeDone
	case r.Outcome == timeline.OutcomeError:
		return callorder.OutcomeError
	case r.Outcome == timeline.OutcomeInterrupted:
		return callorder.OutcomeInterrupted
	case r.Outcome != "", r.State == session.StateEnded:
		return callorder.OutcomeSessionEnded
	default:
		return callorder.OutcomeStillRuns
	}
}

// newSessionCall returns a call about an existing session, or the call's result. If waits is set,
// the call waits for preparation, not only for the start of the session.
func (s *server) newSessionCall(ctx context.Context, r *toolRequest, name string, deadline time.Time, waits bool) (*sessionCall, *mcp.CallToolResult) {
	v, err := r.joinSession(ctx, func() (*callerstate.CallerSession, error) { return s.sessions.Find(name, r.codex) })
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, s.errorResult(err)
	}
	until := deadline
	if !waits && v.IsPreparing() {
		until = time.Now() // preparation may take minutes, and there is nothing to act on yet
	}
	session, result := s.waitOpened(ctx, r, v, until, s.wording.NameTools("call repl_output to wait"))
	if session == nil {
		return nil, result
	}
	a := s.startSessionCall(r, v, session, time.Now(), deadline)
	if !a.awaitEarlierCalls(ctx) && ctx.Err() != nil { // after the deadline it continues: the code that it should stop may be what it waits for
		return nil, nil
	}
	return a, nil
}

// waitOpened waits until a session is open or the deadline passes, and reports the progress to
// the client in the meantime. Without a session it returns a result, which is nil if ctx ended.
// later says what the model should do if the session is not open by then.
func (s *server) waitOpened(ctx context.Context, r *toolRequest, v *callerstate.CallerSession, deadline time.Time, later string) (*backend.SessionHandle, *mcp.CallToolResult) {
	for {
		session, ok, err := v.WaitOpen(ctx, r.beat.NextCheck(deadline))
		late := !time.Now().Before(deadline)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case ok || late:
			if !r.beat.WaitQuiet(ctx) {
				return nil, nil
			}
		}
		switch {
		case err != nil:
			return nil, s.openErrorResult(err)
		case ok:
			return session, nil
		case late:
			result := textResult(fmt.Sprintf("[session %q is not open yet, %s: %s]", v.Name, v.DescribeProgress(), later))
			result.IsError = strings.HasPrefix(later, reply.InputNotRun)
			return nil, result
		}
		if elapsed, due := r.beat.BeatIfDue(); due {
			r.ReportProgress(elapsed.Seconds(), v.DescribeProgress())
		}
	}
}

// openErrorResult returns why a session could not be opened.
func (s *server) openErrorResult(err error) *mcp.CallToolResult {
	if failed, ok := errors.AsType[*backend.PrepareError](err); ok {
		return s.errorResult(fmt.Errorf("%w\n[no session was opened and nothing was run. The next call tries again; if that fails too, tell the user, who chose this when starting the server (--with)]", failed))
	}
	if !errors.Is(err, session.ErrLimit) {
		return s.errorResult(err)
	}
	var names []string
	for _, v := range s.sessions.AllSessions() {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		return s.errorResult(errors.New("too many sessions: all belong to other clients; call again when one of them has ended"))
	}
	return s.errorResult(fmt.Errorf("too many sessions: use one of %s, or close one (%s, close: true)", text.JoinNames(names, "or", ""), s.wording.NameTools("repl_reset")))
}
