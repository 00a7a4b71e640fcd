package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// retryDelay is how long a request waits between two attempts to start its turn. An event of the
// session ends the wait early.
const retryDelay = 500 * time.Millisecond

// answerAborted answers a request that is not executed because an earlier one has failed.
func (k *kernel) answerAborted(r *peerRequest) {
	k.sendPlainReply(r, "execute_reply", map[string]any{"status": "aborted"})
}

// interruptCurrent interrupts the turn of this kernel. If its request still waits for the turn, the
// request is canceled. Without a request, it interrupts the turn of another client.
func (k *kernel) interruptCurrent() {
	s := &k.shell
	s.mu.Lock()
	j, cancel := s.current, s.cancel
	var turn uint64
	if j != nil && j.execute != nil && !j.ended {
		j.interrupted = true
		if turn = j.turn; turn == 0 {
			cancel()
		}
	} else {
		j = nil
	}
	s.mu.Unlock()
	if j != nil && turn == 0 {
		return
	}
	if l, _ := k.sessions.latestSession(); l != nil && l.isAlive() {
		if _, err := l.session.Interrupt(k.ctx, turn); err != nil {
			k.printNotice("cannot interrupt: %v", err)
		}
	}
}

// queueExecute parses an execute request for the queue.
func (k *kernel) queueExecute(r *peerRequest) error {
	e := executeContent{StoreHistory: true, AllowStdin: true, StopOnError: true}
	if err := json.Unmarshal(r.Content, &e); err != nil {
		k.sendPlainReply(r, "execute_reply", notRunContent(fmt.Errorf("malformed request: %w", err)))
		return nil
	}
	if k.shell.followsFailure(r) {
		k.answerAborted(r)
		return nil
	}
	return k.shell.addRequest(&queuedRequest{peerRequest: r, execute: &e, answer: k.answerExecute, replied: make(chan struct{})})
}

// answerExecute runs a request and answers it. A failed request aborts all requests that were made
// before its reply. So the reply waits until these have arrived; followsFailure recognizes late ones.
func (k *kernel) answerExecute(ctx context.Context, j *queuedRequest) {
	defer close(j.replied)
	started := time.Now()
	content, failed := k.executeReply(ctx, j)
	if k.ctx.Err() != nil {
		return // the kernel is ending, and no peer waits for a reply
	}
	metadata, _ := json.Marshal(map[string]any{
		"started": started.UTC().Format(time.RFC3339Nano), "dependencies_met": true,
		"engine": k.id, "status": content["status"],
	})
	var aborted []*queuedRequest
	if failed && j.execute.StopOnError && !j.execute.Silent {
		k.shell.mu.Lock()
		j.ended = true
		k.shell.mu.Unlock()
		k.shell.awaitBurst()
		aborted = k.shell.removeAborted(j)
	}
	k.sendReply(j.peerRequest, "execute_reply", content, metadata)
	if j.turnless {
		k.publishIdle(&j.Header)
	}
	for _, a := range aborted {
		k.answerAborted(a.peerRequest)
	}
}

// executeReply runs a request, and returns the content of its reply.
func (k *kernel) executeReply(ctx context.Context, j *queuedRequest) (content map[string]any, failed bool) {
	t, l, err := k.runTurn(ctx, j)
	if err != nil {
		return k.reportUnable(j, err), true
	}
	content = map[string]any{"status": "ok", "execution_count": t.count, "payload": []any{}, "user_expressions": map[string]any{}}
	if f := newErrorContent(*t.ended, t.traceback, t.workerExit); f != nil {
		content["status"], content["ename"], content["evalue"], content["traceback"] = "error", f.Name, f.Value, f.Traceback
		return content, true
	}
	if len(j.execute.Expressions) > 0 {
		content["user_expressions"] = k.evaluateExpressions(ctx, l, j)
	}
	return content, false
}

// reportUnable reports to the front ends that a request got no turn, or that its turn was lost.
func (k *kernel) reportUnable(j *queuedRequest, err error) map[string]any {
	f := notRunContent(err)
	if errors.Is(err, context.Canceled) {
		f["ename"], f["evalue"] = "KeyboardInterrupt", "interrupted before its turn started"
		f["traceback"] = []string{"KeyboardInterrupt: interrupted before its turn started"}
	}
	if !j.isAnnounced() {
		k.announceBusy(j)
		k.subs.publish(&j.Header, "execute_input", map[string]any{"code": j.execute.Code, "execution_count": 0})
	}
	k.subs.publish(&j.Header, "error", map[string]any{"ename": f["ename"], "evalue": f["evalue"], "traceback": f["traceback"]})
	j.turnless = true
	return f
}

// notRunContent returns the content of the reply to a request that did not run.
func notRunContent(err error) map[string]any {
	return map[string]any{
		"status": "error", "execution_count": 0, "user_expressions": map[string]any{}, "payload": []any{},
		"ename": "NotExecuted", "evalue": err.Error(), "traceback": []string{"NotExecuted: " + err.Error()},
	}
}

// runTurn starts the turn of a request, and waits until it has ended.
func (k *kernel) runTurn(ctx context.Context, j *queuedRequest) (sessionTurn, *attachedSession, error) {
	l, n, err := k.startTurn(ctx, j)
	if err != nil {
		return sessionTurn{}, nil, err
	}
	k.shell.mu.Lock()
	j.turn = n
	interrupted := j.interrupted
	k.shell.mu.Unlock()
	if interrupted {
		_, _ = l.session.Interrupt(k.ctx, n)
	}
	t, err := k.attendTurn(j, l, n)
	return t, l, err
}

// startTurn starts the turn of a request. While another one runs, it waits.
func (k *kernel) startTurn(ctx context.Context, j *queuedRequest) (*attachedSession, uint64, error) {
	code := strings.ReplaceAll(j.execute.Code, "\r\n", "\n")
	for reported := false; ; {
		l, err := k.sessions.ensureSession(ctx)
		if err != nil {
			return nil, 0, err
		}
		if err := k.reportLoss(j); err != nil {
			return nil, 0, err
		}
		_, _, changed, _ := l.turnState(0)
		// An interrupt at this point finds no turn and cancels ctx. The start continues anyway, so that
		// it is certain whether there is a turn.
		n, err := l.submitTurn(context.WithoutCancel(ctx), j, code, j.execute.Silent)
		if err == nil {
			return l, n, nil
		}
		if !isTemporary(err) {
			if isSessionGone(err) && !l.isStillOpen(err) {
				l.markEnded(err)
				continue
			}
			return nil, 0, err
		}
		if !reported {
			reported = true
			k.announceBusy(j)
			k.subs.publish(&j.Header, "stream", streamContent("stderr", "[waiting for "+runningAuthor(l, err)+"]\n"))
		}
		select {
		case <-changed:
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// reportLoss reports to the first cell after a loss that the variables are gone. A cell relies on the
// variables of earlier ones, so it does not run, unless the loss was requested by a reset.
func (k *kernel) reportLoss(j *queuedRequest) error {
	if j.execute.Silent {
		return nil
	}
	how := k.sessions.takeLoss()
	if how == nil {
		return nil
	}
	if loss, ok := errors.AsType[*stateLossError](how); ok && loss.isReset() {
		k.announceBusy(j)
		k.subs.publish(&j.Header, "stream", streamContent("stderr", "["+how.Error()+"]\n"))
		return nil
	}
	return fmt.Errorf("%w. This cell was not run; the next one starts from scratch", how)
}

// isTemporary reports whether another attempt may succeed once the running turn is over.
func isTemporary(err error) bool {
	switch session.KindOf(err) {
	case session.KindBusy, session.KindWaiting, session.KindLocked:
		return true
	}
	return false
}

// isSessionGone reports whether an error may mean that the session no longer exists.
func isSessionGone(err error) bool {
	kind := session.KindOf(err)
	return kind == session.KindClosed || kind == session.KindUnreachable || kind == session.KindShuttingDown
}

// runningAuthor names the turn, or the lock, that a request waits for.
func runningAuthor(l *attachedSession, err error) string {
	t, ok := l.activeTurn()
	switch {
	case !ok && session.KindOf(err) == session.KindLocked:
		return "the write lock: " + err.Error()
	case !ok:
		return "the session: " + err.Error()
	case t.author == "":
		return fmt.Sprintf("turn %d", t.number)
	}
	return fmt.Sprintf("%s's turn %d", t.author, t.number)
}

// announceBusy publishes the status busy for a request, once.
func (k *kernel) announceBusy(j *queuedRequest) {
	if !j.busyPublished.Swap(true) {
		k.publishBusy(&j.Header)
	}
}

// attendTurn waits for the end of a turn of this kernel, and asks the front end for input that it
// needs.
func (k *kernel) attendTurn(j *queuedRequest, l *attachedSession, n uint64) (sessionTurn, error) {
	var openRequest timeline.Seq
	defer func() { k.inputs.dropQuestion() }()
	for eofs := 0; ; {
		t, ok, changed, over := l.turnState(n)
		switch {
		case ok && t.isOver():
			return t, nil
		case over != nil:
			return sessionTurn{}, over
		case ok && t.inputRequestID != openRequest:
			if openRequest = t.inputRequestID; openRequest != 0 {
				eofs = k.requestInput(j, l, &t, eofs)
			} else {
				k.inputs.dropQuestion()
			}
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return sessionTurn{}, k.ctx.Err()
		}
	}
}

// requestInput asks the front end of a request for the input that its turn waits for. If the front end
// cannot answer, the turn gets an end of file first, and an interrupt after that. requestInput returns
// the number of such answers, given the number so far.
func (k *kernel) requestInput(j *queuedRequest, l *attachedSession, t *sessionTurn, eofs int) int {
	if t.inputRequest.Kind == timeline.InputKindPermission {
		text := "[waiting for a permission: " + t.inputRequest.Prompt + "]"
		if k.options.PermissionHint != "" {
			text += " " + k.options.PermissionHint
		}
		k.subs.publish(&j.Header, "stream", streamContent("stderr", text+"\n"))
		return eofs
	}
	if j.execute.AllowStdin && k.inputs.sendQuestion(j, l, t) {
		return eofs
	}
	if eofs == 0 {
		k.subs.publish(&j.Header, "stream", streamContent("stderr", "[this front end does not answer input requests: the input gets an end of file]\n"))
		if _, err := l.session.Answer(k.ctx, t.inputRequestID, session.Input{EOF: true}); err == nil {
			return 1
		}
	}
	_, _ = l.session.Interrupt(k.ctx, t.number) // the code asks repeatedly, or does not accept an end of file
	return eofs + 1
}
