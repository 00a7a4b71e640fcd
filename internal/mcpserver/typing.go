package mcpserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// minTypeTimeout is the least time that a session has for accepting keys, even if the call's own
// timeout is shorter. It accepts them at once, unless its daemon cannot be reached.
const minTypeTimeout = 5 * time.Second

// The reasons for refusing keys.
const (
	reasonNothingRuns  = "nothing is running that could read them; code goes into input"
	reasonCodeAsks     = "the code itself asks: answer with input"
	reasonTurnNotShown = "this code is not yours, and you have not seen it: look first, then send them again"
)

// handleKeys waits until the earlier calls have started, and then types keys for the programs at
// the terminal. As an answer does, keys make the call the owner of the turn. Keys that were sent
// before the caller knew what runs are refused.
func (sc *sessionCall) handleKeys(ctx context.Context, keys string) *mcp.CallToolResult {
	sc.typesKeys = true
	if !sc.awaitEarlierCalls(ctx) {
		if ctx.Err() != nil {
			return nil
		}
		return sc.replyRefused(ctx, "an earlier call has not started yet")
	}
	if _, early := sc.caller.RequestAnsweredBy(sc.call.ToolCall); early != callorder.OutcomeDone {
		return sc.replyRefused(ctx, early.RefusalReason())
	}
	if sc.stdin == StdinDeny {
		return sc.replyRefused(ctx, sc.wording.DenialReason()+" allows no keys")
	}
	if owns, result := sc.takeTurn(ctx); !owns {
		return result
	}
	decided := sync.OnceFunc(sc.owner.MarkSubmitted)
	defer decided()
	now := sc.session.InfoOrEnded(ctx)
	asked := now.InputRequest
	switch {
	case ctx.Err() != nil:
		return nil
	case asked != nil && !sc.stdin.allowsModel(asked):
		return sc.replyRefused(ctx, "")
	case now.State.IsActive() && !sc.caller.KnowsTurn(now.Turn):
		return sc.replyRefused(ctx, reasonTurnNotShown)
	}
	turn, err := sc.typeOnce(ctx, session.Keys{Text: keys, Secret: asked != nil && asked.Secret})
	decided()
	switch {
	case errors.Is(err, session.ErrStale):
		return sc.replyRefused(ctx, reasonNothingRuns)
	case errors.Is(err, session.ErrWaiting):
		return sc.replyRefused(ctx, reasonCodeAsks)
	case sc.isUnreachable(ctx, err):
		return sc.replyUnreachable(err)
	case err != nil:
		return sc.sessionErrorResult(ctx, err)
	}
	sc.caller.ExpectCode()
	return sc.waitForTurn(ctx, turn)
}

// typeOnce types keys. It never repeats them: if the connection breaks, they may have been typed.
func (sc *sessionCall) typeOnce(ctx context.Context, keys session.Keys) (turn uint64, err error) {
	until := time.Now().Add(minTypeTimeout)
	if sc.deadline.After(until) {
		until = sc.deadline
	}
	bounded, cancel := context.WithDeadline(ctx, earlierTime(until, sc.replyDeadline))
	defer cancel()
	return sc.session.Type(bounded, keys)
}

// showScreen shows what the programs of the running turn have drawn.
func (sc *sessionCall) showScreen(ctx context.Context) *mcp.CallToolResult {
	screen, err := sc.session.Screen(ctx)
	switch {
	case errors.Is(err, session.ErrStale):
		return textResult("[nothing is running: the screen is empty]")
	case err != nil:
		return sc.sessionErrorResult(ctx, err)
	}
	return textResult(reply.ScreenText(screen, sc.call.replyBudget()))
}

const (
	// settleTime is how long a polling program must be silent before its new output is reported:
	// the time after which such a program counts as waiting.
	settleTime = 400 * time.Millisecond

	// eventsRetryDelay is the pause after events could not be read.
	eventsRetryDelay = time.Second
)

// waitForNews is Session.Wait for the active turn, except that an input request which the caller
// knows does not end it if the program polls. Such a program may continue by itself, and a caller
// that does not want to answer would otherwise ask again and again.
func (sc *sessionCall) waitForNews(ctx context.Context, o *session.WaitOptions) (session.Reply, error) {
	until, wait := time.Now().Add(o.Timeout), *o
	for {
		r, err := sc.session.Wait(ctx, 0, &wait)
		if err != nil || wait.Poll || !sc.knowsPoll(r) {
			return r, err
		}
		sc.awaitEvent(ctx, r.Next, until)
		if wait.Timeout = time.Until(until); wait.Timeout <= 0 {
			wait.Poll = true
		}
	}
}

// knowsPoll reports whether a reply has only the input request of a program that polls, and the
// caller knows it. Its own input makes every request a new one.
func (sc *sessionCall) knowsPoll(r session.Reply) bool {
	w := r.InputRequest
	if w == nil || !w.Polls || sc.ran || !sc.caller.KnowsRequest(w) {
		return false
	}
	if sc.wantsMatch {
		return true
	}
	for _, e := range r.Events {
		switch e.Body.(type) {
		case timeline.InputRequested, timeline.InputRequestEnded:
		default:
			return false
		}
	}
	return true
}

// awaitEvent waits for an event after a cursor, and if it is output, until the output pauses. It
// returns at the latest at until, or when ctx ends.
func (sc *sessionCall) awaitEvent(ctx context.Context, after timeline.Seq, until time.Time) {
	waiting, stop := context.WithDeadline(ctx, until)
	defer stop()
	settled := time.AfterFunc(time.Until(until), stop)
	defer settled.Stop()
	for e, err := range sc.session.Events(waiting, after) {
		if err != nil {
			select {
			case <-waiting.Done():
			case <-time.After(eventsRetryDelay):
			}
			return
		}
		if _, isText := e.Body.(timeline.Text); !isText {
			return
		}
		settled.Reset(settleTime)
	}
}
