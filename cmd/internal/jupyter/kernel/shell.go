package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Bounds of what a request may ask for.
const (
	maxQueued      = 4096 // requests
	maxExpressions = 32   // of one request
)

// retryDelay is how long a request waits before it tries again to start its turn, if nothing
// happens in the session meanwhile that it would see.
const retryDelay = 500 * time.Millisecond

// A front end that runs several cells sends their requests one after the other. burstDelay is the longest
// pause between two of them for which the reply to a failed one waits, and maxBurstDelay bounds that altogether.
const (
	burstDelay    = 50 * time.Millisecond
	maxBurstDelay = time.Second
)

var errQueueFull = fmt.Errorf("more than %d requests wait; the peer was left", maxQueued)

// A requestQueue executes requests in their order.
type requestQueue struct {
	kernel *kernel
	ready  chan struct{} // holds one when the queue has some

	mu          sync.Mutex
	queue       []*queuedRequest
	lastArrival time.Time      // the last execute request
	lastFailure failedRequest  // the last one that stopped others
	current     *queuedRequest // under way; nil when none is
	cancel      context.CancelFunc
}

// A queuedRequest is a request that waits, or is under way.
type queuedRequest struct {
	*peerRequest
	execute *executeContent // nil for another request
	answer  func(context.Context, *queuedRequest)

	arrived       time.Time
	busyPublished atomic.Bool   // the front ends know that it is busy
	replied       chan struct{} // closed once its reply is on the way
	turnless      bool          // no turn tells the front ends that it is idle again
	turn          uint64        // guarded by shell.mu: its turn, once it has one
	ended         bool          // guarded by shell.mu: nothing of it runs any more
	interrupted   bool          // guarded by shell.mu
}

// A failedRequest is what has to be known of one to tell requests that were made before its reply.
type failedRequest struct {
	session  string        // of the client
	sentAt   time.Time     // by the clock of the client; zero if that is not known
	duration time.Duration // from its arrival to its reply
}

// An executeContent is the content of an execute request.
type executeContent struct {
	Code         string            `json:"code"`
	Silent       bool              `json:"silent"`
	StoreHistory bool              `json:"store_history"`
	Expressions  map[string]string `json:"user_expressions"`
	AllowStdin   bool              `json:"allow_stdin"`
	StopOnError  bool              `json:"stop_on_error"`
}

func (s *requestQueue) initKernel(k *kernel) { s.kernel, s.ready = k, make(chan struct{}, 1) }

// addRequest queues a request.
func (s *requestQueue) addRequest(j *queuedRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= maxQueued {
		return errQueueFull
	}
	j.arrived = time.Now()
	if j.execute != nil {
		s.lastArrival = j.arrived
	}
	s.queue = append(s.queue, j)
	select {
	case s.ready <- struct{}{}:
	default:
	}
	return nil
}

// runQueue answers requests until the kernel leaves.
func (s *requestQueue) runQueue() {
	for {
		j := s.nextRequest()
		if j == nil {
			select {
			case <-s.ready:
				continue
			case <-s.kernel.ctx.Done():
				return
			}
		}
		ctx, cancel := context.WithCancel(s.kernel.ctx)
		s.mu.Lock()
		s.current, s.cancel = j, cancel
		s.mu.Unlock()
		j.answer(ctx, j)
		s.mu.Lock()
		s.current, s.cancel = nil, nil
		s.mu.Unlock()
		cancel()
		if s.kernel.ctx.Err() != nil {
			return
		}
	}
}

func (s *requestQueue) nextRequest() *queuedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	j := s.queue[0]
	s.queue = s.queue[1:]
	return j
}

// awaitBurst waits for the rest of what a front end has sent at once.
func (s *requestQueue) awaitBurst() {
	failed := time.Now()
	for {
		s.mu.Lock()
		last := s.lastArrival
		s.mu.Unlock()
		if last.Before(failed) {
			last = failed
		}
		wait := time.Until(last.Add(burstDelay))
		if wait = min(wait, time.Until(failed.Add(maxBurstDelay))); wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-s.kernel.ctx.Done():
			return
		}
	}
}

// removeAborted takes everything that waits to be executed out of the queue, since what came before it has
// failed, and notes which requests that are still on their way belong to it.
func (s *requestQueue) removeAborted(failed *queuedRequest) (aborted []*queuedRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFailure = failedRequest{failed.Header.Session, sentTime(failed.peerRequest), time.Since(failed.arrived)}
	kept := s.queue[:0:0]
	for _, j := range s.queue {
		if j.execute != nil {
			aborted = append(aborted, j)
		} else {
			kept = append(kept, j)
		}
	}
	s.queue = kept
	return aborted
}

// followsFailure reports whether its client made a request before it could know that another one had failed,
// though it comes after the reply. The clock of a client may be wrong, but for a client the time from the
// one request to the reply is not shorter than it was here, so a request that it made sooner is a late one.
// Dates have milliseconds at least. A client that dates all its requests alike has no clock.
func (s *requestQueue) followsFailure(r *peerRequest) bool {
	s.mu.Lock()
	failed := s.lastFailure
	s.mu.Unlock()
	made := sentTime(r)
	if failed.sentAt.IsZero() || made.IsZero() || failed.session != r.Header.Session {
		return false
	}
	after := made.Sub(failed.sentAt)
	return after > 0 && after < failed.duration-time.Millisecond
}

// sentTime is when the client says that it made a request; zero if it does not.
func sentTime(r *peerRequest) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} { // old clients name no zone
		if t, err := time.Parse(layout, r.Header.Date); err == nil {
			return t
		}
	}
	return time.Time{}
}

// answerAborted answers a request that is given up.
func (k *kernel) answerAborted(r *peerRequest) {
	k.sendPlainReply(r, "execute_reply", map[string]any{"status": "aborted"})
}

// interruptCurrent interrupts our turn, or else gives up the request that waits for its turn, or else
// interrupts the turn that somebody else runs.
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
		k.sendPlainReply(r, "execute_reply", notRunContent(fmt.Errorf("the request is malformed: %w", err)))
		return nil
	}
	if k.shell.followsFailure(r) {
		k.answerAborted(r)
		return nil
	}
	return k.shell.addRequest(&queuedRequest{peerRequest: r, execute: &e, answer: k.answerExecute, replied: make(chan struct{})})
}

// answerExecute runs a request and answers it. A request that fails takes along those that were made before its
// reply: all that are here by then, and so the reply waits for them, and a late one.
func (k *kernel) answerExecute(ctx context.Context, j *queuedRequest) {
	defer close(j.replied)
	began := time.Now()
	content, failed := k.executeReply(ctx, j)
	if k.ctx.Err() != nil {
		return // Nobody waits for an answer any more.
	}
	metadata, _ := json.Marshal(map[string]any{
		"started": began.UTC().Format(time.RFC3339Nano), "dependencies_met": true,
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

// reportUnable tells the front ends that a request cannot have its turn, or has lost it.
func (k *kernel) reportUnable(j *queuedRequest, err error) map[string]any {
	f := notRunContent(err)
	if errors.Is(err, context.Canceled) {
		f["ename"], f["evalue"] = "KeyboardInterrupt", "interrupted before its turn came"
		f["traceback"] = []string{"KeyboardInterrupt: interrupted before its turn came"}
	}
	if !j.isAnnounced() {
		k.announceBusy(j)
		k.subs.publish(&j.Header, "execute_input", map[string]any{"code": j.execute.Code, "execution_count": 0})
	}
	k.subs.publish(&j.Header, "error", map[string]any{"ename": f["ename"], "evalue": f["evalue"], "traceback": f["traceback"]})
	j.turnless = true
	return f
}

// notRunContent is the content of a reply for a request that did not run.
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
	for said := false; ; {
		l, err := k.sessions.ensureSession(ctx)
		if err != nil {
			return nil, 0, err
		}
		if err := k.reportLoss(j); err != nil {
			return nil, 0, err
		}
		_, _, changed, _ := l.turnState(0)
		// An interrupt that comes now finds no turn: it cancels ctx, but the start goes on, so that
		// nobody has to guess whether there is a turn.
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
		if !said {
			said = true
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

// reportLoss tells the first cell after it that the variables were lost. A cell counts on those of the
// ones before, so it does not run, unless somebody has asked for the loss.
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
	return fmt.Errorf("%w. This cell was not run; the next one starts anew", how)
}

// isTemporary reports whether a later try may succeed, once what is under way is over.
func isTemporary(err error) bool {
	switch session.KindOf(err) {
	case session.KindBusy, session.KindWaiting, client.KindLocked:
		return true
	}
	return false
}

// isSessionGone reports whether an error may mean that the session is there no more.
func isSessionGone(err error) bool {
	kind := session.KindOf(err)
	return kind == session.KindClosed || kind == client.KindUnreachable || kind == client.KindShuttingDown
}

// runningAuthor names the turn that is in the way.
func runningAuthor(l *attachedSession, err error) string {
	t, ok := l.activeTurn()
	switch {
	case !ok && session.KindOf(err) == client.KindLocked:
		return "the keyboard: " + err.Error()
	case !ok:
		return "the session: " + err.Error()
	case t.author == "":
		return fmt.Sprintf("turn %d", t.number)
	}
	return fmt.Sprintf("%s's turn %d", t.author, t.number)
}

// announceBusy tells the front ends that a request is under way.
func (k *kernel) announceBusy(j *queuedRequest) {
	if !j.busyPublished.Swap(true) {
		k.publishBusy(&j.Header)
	}
}

func (j *queuedRequest) isAnnounced() bool { return j.busyPublished.Load() }

// attendTurn waits for the end of a turn of ours, and asks for the input that it wants.
func (k *kernel) attendTurn(j *queuedRequest, l *attachedSession, n uint64) (sessionTurn, error) {
	var asked timeline.Seq
	defer func() { k.inputs.dropQuestion() }()
	for ends := 0; ; {
		t, ok, changed, over := l.turnState(n)
		switch {
		case ok && t.isOver():
			return t, nil
		case over != nil:
			return sessionTurn{}, over
		case ok && t.inputRequestID != asked:
			if asked = t.inputRequestID; asked != 0 {
				ends = k.requestInput(j, l, &t, ends)
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

// requestInput asks the front end of a request for the input that its turn waits for. ends counts how
// often the turn was told that there is none.
func (k *kernel) requestInput(j *queuedRequest, l *attachedSession, t *sessionTurn, ends int) int {
	if t.inputRequest.Kind == timeline.InputKindPermission {
		text := "[held until a person decides: " + t.inputRequest.Prompt + "]"
		if k.options.PermissionHint != "" {
			text += " " + k.options.PermissionHint
		}
		k.subs.publish(&j.Header, "stream", streamContent("stderr", text+"\n"))
		return ends
	}
	if j.execute.AllowStdin && k.inputs.sendQuestion(j, l, t) {
		return ends
	}
	if ends == 0 {
		k.subs.publish(&j.Header, "stream", streamContent("stderr", "[this front end does not answer questions: the input is at its end]\n"))
		if _, err := l.session.Answer(k.ctx, t.inputRequestID, session.Input{EOF: true}); err == nil {
			return 1
		}
	}
	_, _ = l.session.Interrupt(k.ctx, t.number) // It asks again and again, or takes no end of input.
	return ends + 1
}

// evaluateExpressions evaluates the user expressions of a request, each in a silent turn.
func (k *kernel) evaluateExpressions(ctx context.Context, l *attachedSession, j *queuedRequest) map[string]any {
	values := make(map[string]any)
	for name, code := range j.execute.Expressions {
		if len(values) == maxExpressions {
			break
		}
		values[name] = k.evaluateExpression(ctx, l, j, code)
	}
	return values
}

func (k *kernel) evaluateExpression(ctx context.Context, l *attachedSession, j *queuedRequest, code string) map[string]any {
	if info, err := l.session.Info(ctx); err == nil {
		if show := k.options.Language(info.Language).DisplayName; show != "" {
			code = fmt.Sprintf(show, code) // A silent turn echoes nothing by itself.
		}
	}
	n, err := l.submitTurn(ctx, nil, code, true) // It is nobody's cell.
	if err != nil {
		return failedExpression(&errorContent{Name: "NotExecuted", Value: err.Error(), Traceback: []string{}})
	}
	k.shell.mu.Lock()
	j.turn = n
	k.shell.mu.Unlock()
	reply, err := l.session.Wait(ctx, n, nil)
	if err == nil && reply.InputRequest != nil { // An expression has nobody to ask.
		_, _ = l.session.Interrupt(k.ctx, n)
		reply, err = l.session.Wait(ctx, n, nil)
	}
	if err != nil {
		_, _ = l.session.Interrupt(k.ctx, n)
		return failedExpression(&errorContent{Name: "NotExecuted", Value: err.Error(), Traceback: []string{}})
	}
	return expressionValue(reply.Events)
}

// expressionValue returns the value or the failure among the events of a turn.
func expressionValue(events []timeline.Event) map[string]any {
	var echo []byte
	data := make(map[string]any)
	meta := json.RawMessage("{}")
	for _, e := range events {
		switch b := e.Body.(type) {
		case timeline.Text:
			if b.Kind != timeline.TextTraceback && b.Stream == timeline.Stdout {
				echo = append(echo, b.Data...)
			}
		case timeline.Display:
			data, meta = mimeBundle(b), displayMetadata(b)
		case timeline.TurnEnded:
			if f := newErrorContent(b, nil, nil); f != nil { // the traceback has code of ours
				return failedExpression(f)
			}
		}
	}
	if _, ok := data["text/plain"]; !ok {
		data["text/plain"] = strings.TrimSuffix(string(echo), "\n")
	}
	return map[string]any{"status": "ok", "data": data, "metadata": meta}
}

func failedExpression(f *errorContent) map[string]any {
	return map[string]any{"status": "error", "ename": f.Name, "evalue": f.Value, "traceback": f.Traceback}
}
