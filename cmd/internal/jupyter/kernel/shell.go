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

// retryTime is how long a request waits before it tries again to start its turn, if nothing
// happens in the session meanwhile that it would see.
const retryTime = 500 * time.Millisecond

// A front end that runs several cells sends their requests one after the other. burstTime is the longest
// pause between two of them for which the reply to a failed one waits, and maxBurst bounds that altogether.
const (
	burstTime = 50 * time.Millisecond
	maxBurst  = time.Second
)

var errQueue = fmt.Errorf("more than %d requests wait; the peer was left", maxQueued)

// A shell executes requests in their order.
type shell struct {
	k     *kernel
	ready chan struct{} // holds one when the queue has some

	mu     sync.Mutex
	queue  []*job
	came   time.Time     // the last execute request
	failed failedRequest // the last one that stopped others
	now    *job          // under way; nil when none is
	cancel context.CancelFunc
}

// A job is a request that waits, or is under way.
type job struct {
	*request
	execute *execution // nil for another request
	say     func(context.Context, *job)

	came        time.Time
	told        atomic.Bool   // the front ends know that it is busy
	replied     chan struct{} // closed once its reply is on the way
	turnless    bool          // no turn tells the front ends that it is idle again
	turn        uint64        // guarded by shell.mu: its turn, once it has one
	over        bool          // guarded by shell.mu: nothing of it runs any more
	interrupted bool          // guarded by shell.mu
}

// A failedRequest is what has to be known of one to tell requests that were made before its reply.
type failedRequest struct {
	session string        // of the client
	made    time.Time     // by the clock of the client; zero if that is not known
	took    time.Duration // from its arrival to its reply
}

// An execution is the content of an execute request.
type execution struct {
	Code         string            `json:"code"`
	Silent       bool              `json:"silent"`
	StoreHistory bool              `json:"store_history"`
	Expressions  map[string]string `json:"user_expressions"`
	AllowStdin   bool              `json:"allow_stdin"`
	StopOnError  bool              `json:"stop_on_error"`
}

func (s *shell) init(k *kernel) { s.k, s.ready = k, make(chan struct{}, 1) }

// add queues a request.
func (s *shell) add(j *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= maxQueued {
		return errQueue
	}
	j.came = time.Now()
	if j.execute != nil {
		s.came = j.came
	}
	s.queue = append(s.queue, j)
	select {
	case s.ready <- struct{}{}:
	default:
	}
	return nil
}

// run answers requests until the kernel leaves.
func (s *shell) run() {
	for {
		j := s.next()
		if j == nil {
			select {
			case <-s.ready:
				continue
			case <-s.k.ctx.Done():
				return
			}
		}
		ctx, cancel := context.WithCancel(s.k.ctx)
		s.mu.Lock()
		s.now, s.cancel = j, cancel
		s.mu.Unlock()
		j.say(ctx, j)
		s.mu.Lock()
		s.now, s.cancel = nil, nil
		s.mu.Unlock()
		cancel()
		if s.k.ctx.Err() != nil {
			return
		}
	}
}

func (s *shell) next() *job {
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
func (s *shell) awaitBurst() {
	failed := time.Now()
	for {
		s.mu.Lock()
		last := s.came
		s.mu.Unlock()
		if last.Before(failed) {
			last = failed
		}
		wait := time.Until(last.Add(burstTime))
		if wait = min(wait, time.Until(failed.Add(maxBurst))); wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-s.k.ctx.Done():
			return
		}
	}
}

// giveUp takes everything that waits to be executed out of the queue, since what came before it has
// failed, and notes which requests that are still on their way belong to it.
func (s *shell) giveUp(failed *job) (aborted []*job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = failedRequest{failed.Header.Session, madeAt(failed.request), time.Since(failed.came)}
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

// isLate reports whether its client made a request before it could know that another one had failed,
// though it comes after the reply. The clock of a client may be wrong, but for a client the time from the
// one request to the reply is not shorter than it was here, so a request that it made sooner is a late one.
// Dates have milliseconds at least. A client that dates all its requests alike has no clock.
func (s *shell) isLate(r *request) bool {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	made := madeAt(r)
	if failed.made.IsZero() || made.IsZero() || failed.session != r.Header.Session {
		return false
	}
	after := made.Sub(failed.made)
	return after > 0 && after < failed.took-time.Millisecond
}

// madeAt is when the client says that it made a request; zero if it does not.
func madeAt(r *request) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} { // old clients name no zone
		if t, err := time.Parse(layout, r.Header.Date); err == nil {
			return t
		}
	}
	return time.Time{}
}

// abort answers a request that is given up.
func (k *kernel) abort(r *request) {
	k.answer(r, "execute_reply", map[string]any{"status": "aborted"})
}

// interrupt interrupts our turn, or else gives up the request that waits for its turn, or else
// interrupts the turn that somebody else runs.
func (k *kernel) interrupt() {
	s := &k.shell
	s.mu.Lock()
	j, cancel := s.now, s.cancel
	var turn uint64
	if j != nil && j.execute != nil && !j.over {
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
	if l, _ := k.sessions.current(); l != nil && l.alive() {
		if _, err := l.s.Interrupt(k.ctx, turn); err != nil {
			k.note("cannot interrupt: %v", err)
		}
	}
}

// execute parses an execute request for the queue.
func (k *kernel) execute(r *request) error {
	e := execution{StoreHistory: true, AllowStdin: true, StopOnError: true}
	if err := json.Unmarshal(r.Content, &e); err != nil {
		k.answer(r, "execute_reply", refusal(fmt.Errorf("the request is malformed: %w", err)))
		return nil
	}
	if k.shell.isLate(r) {
		k.abort(r)
		return nil
	}
	return k.shell.add(&job{request: r, execute: &e, say: k.executed, replied: make(chan struct{})})
}

// executed runs a request and answers it. A request that fails takes along those that were made before its
// reply: all that are here by then, and so the reply waits for them, and a late one.
func (k *kernel) executed(ctx context.Context, j *job) {
	defer close(j.replied)
	began := time.Now()
	content, failed := k.outcome(ctx, j)
	if k.ctx.Err() != nil {
		return // Nobody waits for an answer any more.
	}
	metadata, _ := json.Marshal(map[string]any{
		"started": began.UTC().Format(time.RFC3339Nano), "dependencies_met": true,
		"engine": k.id, "status": content["status"],
	})
	var aborted []*job
	if failed && j.execute.StopOnError && !j.execute.Silent {
		k.shell.mu.Lock()
		j.over = true
		k.shell.mu.Unlock()
		k.shell.awaitBurst()
		aborted = k.shell.giveUp(j)
	}
	k.reply(j.request, "execute_reply", content, metadata)
	if j.turnless {
		k.idle(&j.Header)
	}
	for _, a := range aborted {
		k.abort(a.request)
	}
}

// outcome runs a request, and returns the content of its reply.
func (k *kernel) outcome(ctx context.Context, j *job) (content map[string]any, failed bool) {
	t, l, err := k.runTurn(ctx, j)
	if err != nil {
		return k.unable(j, err), true
	}
	content = map[string]any{"status": "ok", "execution_count": t.count, "payload": []any{}, "user_expressions": map[string]any{}}
	if f := failureOf(*t.ended, t.traceback, t.death); f != nil {
		content["status"], content["ename"], content["evalue"], content["traceback"] = "error", f.Name, f.Value, f.Traceback
		return content, true
	}
	if len(j.execute.Expressions) > 0 {
		content["user_expressions"] = k.evaluate(ctx, l, j)
	}
	return content, false
}

// unable tells the front ends that a request cannot have its turn, or has lost it.
func (k *kernel) unable(j *job, err error) map[string]any {
	f := refusal(err)
	if errors.Is(err, context.Canceled) {
		f["ename"], f["evalue"] = "KeyboardInterrupt", "interrupted before its turn came"
		f["traceback"] = []string{"KeyboardInterrupt: interrupted before its turn came"}
	}
	if !j.announced() {
		k.announce(j)
		k.subs.tell(&j.Header, "execute_input", map[string]any{"code": j.execute.Code, "execution_count": 0})
	}
	k.subs.tell(&j.Header, "error", map[string]any{"ename": f["ename"], "evalue": f["evalue"], "traceback": f["traceback"]})
	j.turnless = true
	return f
}

// refusal is the content of a reply for a request that did not run.
func refusal(err error) map[string]any {
	return map[string]any{
		"status": "error", "execution_count": 0, "user_expressions": map[string]any{}, "payload": []any{},
		"ename": "NotExecuted", "evalue": err.Error(), "traceback": []string{"NotExecuted: " + err.Error()},
	}
}

// runTurn starts the turn of a request, and waits until it has ended.
func (k *kernel) runTurn(ctx context.Context, j *job) (turn, *life, error) {
	l, n, err := k.start(ctx, j)
	if err != nil {
		return turn{}, nil, err
	}
	k.shell.mu.Lock()
	j.turn = n
	interrupted := j.interrupted
	k.shell.mu.Unlock()
	if interrupted {
		_, _ = l.s.Interrupt(k.ctx, n)
	}
	t, err := k.attend(j, l, n)
	return t, l, err
}

// start starts the turn of a request. While another one runs, it waits.
func (k *kernel) start(ctx context.Context, j *job) (*life, uint64, error) {
	code := strings.ReplaceAll(j.execute.Code, "\r\n", "\n")
	for said := false; ; {
		l, err := k.sessions.get(ctx)
		if err != nil {
			return nil, 0, err
		}
		if err := k.tellLoss(j); err != nil {
			return nil, 0, err
		}
		_, _, changed, _ := l.state(0)
		// An interrupt that comes now finds no turn: it cancels ctx, but the start goes on, so that
		// nobody has to guess whether there is a turn.
		n, err := l.submit(context.WithoutCancel(ctx), j, code, j.execute.Silent)
		if err == nil {
			return l, n, nil
		}
		if !mayPass(err) {
			if gone(err) && !l.found(err) {
				l.end(err)
				continue
			}
			return nil, 0, err
		}
		if !said {
			said = true
			k.announce(j)
			k.subs.tell(&j.Header, "stream", streamOf("stderr", "[waiting for "+whoRuns(l, err)+"]\n"))
		}
		select {
		case <-changed:
		case <-time.After(retryTime):
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// tellLoss tells the first cell after it that the variables were lost. A cell counts on those of the
// ones before, so it does not run, unless somebody has asked for the loss.
func (k *kernel) tellLoss(j *job) error {
	if j.execute.Silent {
		return nil
	}
	how := k.sessions.takeLoss()
	if how == nil {
		return nil
	}
	if loss, ok := errors.AsType[*lossError](how); ok && loss.onPurpose() {
		k.announce(j)
		k.subs.tell(&j.Header, "stream", streamOf("stderr", "["+how.Error()+"]\n"))
		return nil
	}
	return fmt.Errorf("%w. This cell was not run; the next one starts anew", how)
}

// mayPass reports whether a later try may succeed, once what is under way is over.
func mayPass(err error) bool {
	switch session.KindOf(err) {
	case session.KindBusy, session.KindWaiting, client.KindLocked:
		return true
	}
	return false
}

// gone reports whether an error may mean that the session is there no more.
func gone(err error) bool {
	kind := session.KindOf(err)
	return kind == session.KindClosed || kind == client.KindUnreachable || kind == client.KindShuttingDown
}

// whoRuns names the turn that is in the way.
func whoRuns(l *life, err error) string {
	t, ok := l.active()
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

// announce tells the front ends that a request is under way.
func (k *kernel) announce(j *job) {
	if !j.told.Swap(true) {
		k.busy(&j.Header)
	}
}

func (j *job) announced() bool { return j.told.Load() }

// attend waits for the end of a turn of ours, and asks for the input that it wants.
func (k *kernel) attend(j *job, l *life, n uint64) (turn, error) {
	var asked timeline.Seq
	defer func() { k.inputs.forget() }()
	for ends := 0; ; {
		t, ok, changed, over := l.state(n)
		switch {
		case ok && t.over():
			return t, nil
		case over != nil:
			return turn{}, over
		case ok && t.waitID != asked:
			if asked = t.waitID; asked != 0 {
				ends = k.ask(j, l, &t, ends)
			} else {
				k.inputs.forget()
			}
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return turn{}, k.ctx.Err()
		}
	}
}

// ask asks the front end of a request for the input that its turn waits for. ends counts how
// often the turn was told that there is none.
func (k *kernel) ask(j *job, l *life, t *turn, ends int) int {
	if t.wait.Kind == timeline.InputKindPermission {
		text := "[held until a person decides: " + t.wait.Prompt + "]"
		if k.o.ByHand != "" {
			text += " " + k.o.ByHand
		}
		k.subs.tell(&j.Header, "stream", streamOf("stderr", text+"\n"))
		return ends
	}
	if j.execute.AllowStdin && k.inputs.ask(j, l, t) {
		return ends
	}
	if ends == 0 {
		k.subs.tell(&j.Header, "stream", streamOf("stderr", "[this front end does not answer questions: the input is at its end]\n"))
		if _, err := l.s.Answer(k.ctx, t.waitID, session.Input{EOF: true}); err == nil {
			return 1
		}
	}
	_, _ = l.s.Interrupt(k.ctx, t.number) // It asks again and again, or takes no end of input.
	return ends + 1
}

// evaluate evaluates the user expressions of a request, each in a silent turn.
func (k *kernel) evaluate(ctx context.Context, l *life, j *job) map[string]any {
	values := make(map[string]any)
	for name, code := range j.execute.Expressions {
		if len(values) == maxExpressions {
			break
		}
		values[name] = k.expression(ctx, l, j, code)
	}
	return values
}

func (k *kernel) expression(ctx context.Context, l *life, j *job, code string) map[string]any {
	if info, err := l.s.Info(ctx); err == nil {
		if show := k.o.Language(info.Language).Show; show != "" {
			code = fmt.Sprintf(show, code) // A silent turn echoes nothing by itself.
		}
	}
	n, err := l.submit(ctx, nil, code, true) // It is nobody's cell.
	if err != nil {
		return failed(&failure{Name: "NotExecuted", Value: err.Error(), Traceback: []string{}})
	}
	k.shell.mu.Lock()
	j.turn = n
	k.shell.mu.Unlock()
	reply, err := l.s.Wait(ctx, n, nil)
	if err == nil && reply.InputRequest != nil { // An expression has nobody to ask.
		_, _ = l.s.Interrupt(k.ctx, n)
		reply, err = l.s.Wait(ctx, n, nil)
	}
	if err != nil {
		_, _ = l.s.Interrupt(k.ctx, n)
		return failed(&failure{Name: "NotExecuted", Value: err.Error(), Traceback: []string{}})
	}
	return valueOf(reply.Events)
}

// valueOf returns the value or the failure among the events of a turn.
func valueOf(events []timeline.Event) map[string]any {
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
			data, meta = bundle(b), metadata(b)
		case timeline.TurnEnded:
			if f := failureOf(b, nil, nil); f != nil { // the traceback has code of ours
				return failed(f)
			}
		}
	}
	if _, ok := data["text/plain"]; !ok {
		data["text/plain"] = strings.TrimSuffix(string(echo), "\n")
	}
	return map[string]any{"status": "ok", "data": data, "metadata": meta}
}

func failed(f *failure) map[string]any {
	return map[string]any{"status": "error", "ename": f.Name, "evalue": f.Value, "traceback": f.Traceback}
}
