package sessiontest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A fakePreparation finishes the preparation of a session when its test says so.
type fakePreparation struct {
	started  chan struct{}
	reports  chan workers.PreparationProgress
	result   chan error
	canceled chan error // why it was cancelled
}

func (f *fakePreparation) awaitResult(ctx context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
	f.started <- struct{}{}
	for {
		select {
		case p := <-f.reports:
			report(p)
		case err := <-f.result:
			return workers.PreparationResult{Env: []string{"PREPARED=yes"}, Notice: "prepared"}, err
		case <-ctx.Done():
			f.canceled <- context.Cause(ctx)
			return workers.PreparationResult{}, ctx.Err()
		}
	}
}

// runPreparing tests the promises about a session that is being prepared.
func runPreparing(t *testing.T, open func(t *testing.T, prepare ...workers.Preparation) session.Session) {
	for _, promise := range []struct {
		name string
		test func(*testing.T, session.Session, *fakePreparation)
	}{
		{"a preparation reports its progress, and the worker has its result", testPreparationProgress},
		{"the result of a preparation is there for every worker", testPreparationReused},
		{"an input waits for a preparation no longer than its context", testPreparationContexts},
		{"an interrupt drops the input that waits for a preparation", testPreparationInterrupt},
		{"the first reply begins with the notices of the start", testFirstReply},
		{"followers of a turn that never ran get an error", testNeverRan},
		{"the first run has the notices of the start", testRunFirst},
		{"a run waits for a preparation no longer than its context", testRunPreparing},
		{"a run whose input is dropped during a preparation says so", testRunDropped},
		{"a run during a preparation that fails is refused with its error", testRunNotPrepared},
		{"a failed preparation refuses the input with its own error", testPreparationFails},
		{"reset restarts a preparation at once", testPreparationReset},
		{"close ends a preparation at once", testPreparationClosed},
	} {
		t.Run(promise.name, func(t *testing.T) {
			w := &fakePreparation{make(chan struct{}, 9), make(chan workers.PreparationProgress), make(chan error), make(chan error, 9)}
			s := open(t, workers.Preparation{Key: t.Name(), Name: "numpy", Timeout: time.Hour, Run: w.awaitResult}) // others may run in the meantime
			t.Parallel()
			<-w.started
			promise.test(t, s, w)
		})
	}
}

func hasPreparationMessage(message string) func(timeline.Event) bool {
	return func(e timeline.Event) bool {
		p, ok := e.Body.(timeline.Preparation)
		return ok && p.Message == message
	}
}

func testPreparationProgress(t *testing.T, s session.Session, w *fakePreparation) {
	if i := readInfo(t, s); i.State != session.StatePreparing || i.PID != 0 {
		t.Errorf("got %+v", i)
	}
	first := waitEvent(t, s, 0, hasPreparationMessage("")).Body.(timeline.Preparation)
	if first.Name != "numpy" || first.IsDone() {
		t.Errorf("got %+v", first)
	}
	w.reports <- workers.PreparationProgress{Done: 10, Total: 10, Message: "unpacking"}
	if p := waitEvent(t, s, 0, hasPreparationMessage("unpacking")).Body.(timeline.Preparation); p.Done != 10 || p.Total <= 10 {
		t.Errorf("the preparation is not over yet: got %+v", p)
	}
	w.reports <- workers.PreparationProgress{Done: 3, Message: "a step back"}
	if p := waitEvent(t, s, 0, hasPreparationMessage("a step back")).Body.(timeline.Preparation); p.Done != 10 {
		t.Errorf("got %+v", p)
	}
	for _, o := range []*session.WaitOptions{{Poll: true}, session.WaitAtMost(20 * time.Millisecond)} {
		if r, err := s.Wait(withTimeout(t), 0, o); err != nil || r.State != session.StatePreparing {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	w.result <- nil
	waitEvent(t, s, 0, func(e timeline.Event) bool {
		p, ok := e.Body.(timeline.Preparation)
		return ok && p.IsDone()
	})
	waitEvent(t, s, 0, func(e timeline.Event) bool { return e.Body == timeline.Notice{Message: "prepared"} })
	if r := runCode(t, s, "env PREPARED"); !strings.Contains(r.Text(), "yes") || r.Generation != 1 {
		t.Errorf("got %+v", r)
	}
}

func testPreparationReused(t *testing.T, s session.Session, w *fakePreparation) {
	w.result <- nil
	runCode(t, s, "exit 3")
	if r := runCode(t, s, "env PREPARED"); !strings.Contains(r.Text(), "yes") || r.Generation != 2 {
		t.Errorf("got %+v", r)
	}
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if r := runCode(t, s, "env PREPARED"); !strings.Contains(r.Text(), "yes") {
		t.Errorf("got %+v", r)
	}
	select {
	case <-w.started:
		t.Error("the session was prepared again")
	default:
	}
}

func testPreparationContexts(t *testing.T, s session.Session, w *fakePreparation) {
	for name, call := range map[string]func(context.Context) error{
		"submit": func(ctx context.Context) error { _, err := s.Submit(ctx, "print never"); return err },
		"wait":   func(ctx context.Context) error { _, err := s.Wait(ctx, 0, nil); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
		cancel()
	}
	result := make(chan error, 1)
	var turn uint64
	go func() {
		var err error
		turn, err = s.Submit(withTimeout(t), "print next")
		result <- err
	}()
	w.result <- nil
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); !strings.Contains(r.Text(), "next") || strings.Contains(r.Text(), "never") {
		t.Errorf("got %q", r.Text())
	}
}

func testPreparationInterrupt(t *testing.T, s session.Session, w *fakePreparation) {
	if result, err := s.Interrupt(withTimeout(t), 0); err != nil || result != session.InterruptNotRunning {
		t.Errorf("nothing waits: got %q, %v", result, err)
	}
	type submitted struct {
		turn uint64
		err  error
	}
	result := make(chan submitted, 1)
	go func() {
		turn, err := s.Submit(withTimeout(t), "print never")
		result <- submitted{turn, err}
	}()
	for {
		if result, err := s.Interrupt(withTimeout(t), 0); err != nil {
			t.Fatal(err)
		} else if result == session.InterruptIdle {
			break
		}
	}
	got := <-result
	if got.err != nil {
		t.Fatal(got.err)
	}
	if r := waitTurn(t, s, got.turn); r.Outcome != timeline.OutcomeInterrupted || r.State != session.StatePreparing {
		t.Errorf("got %+v", r)
	}
	w.result <- nil
	if r := runCode(t, s, "print next"); strings.Contains(r.Text(), "never") {
		t.Errorf("got %q", r.Text())
	}
}

func testPreparationFails(t *testing.T, s session.Session, w *fakePreparation) {
	result := make(chan error, 1)
	go func() {
		_, err := s.Submit(withTimeout(t), "print never")
		result <- err
	}()
	why := errors.New("numpy cannot be prepared: no such thing\nthe last line of the tool")
	w.result <- why // possibly before the input: it is not tried again
	if err := <-result; !errors.Is(err, session.ErrStart) || !strings.Contains(err.Error(), "no such thing\nthe last line of the tool") {
		t.Errorf("got %v", err)
	}
}

func testPreparationReset(t *testing.T, s session.Session, w *fakePreparation) {
	result := make(chan error, 1)
	go func() { result <- s.Reset(withTimeout(t)) }()
	<-w.started
	if err := <-w.canceled; err == nil {
		t.Error("the first preparation was not cancelled")
	}
	w.result <- nil
	if err := <-result; err != nil {
		t.Error(err)
	}
	if r := runCode(t, s, "env PREPARED"); !strings.Contains(r.Text(), "yes") || r.Generation != 2 {
		t.Errorf("got %+v", r)
	}
}

func testPreparationClosed(t *testing.T, s session.Session, w *fakePreparation) {
	result := make(chan error, 1)
	go func() {
		_, err := s.Submit(withTimeout(t), "print never")
		result <- err
	}()
	if err := s.Close(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := <-w.canceled; err == nil {
		t.Error("the preparation continues without a session")
	}
}

func testFirstReply(t *testing.T, s session.Session, w *fakePreparation) {
	w.result <- nil
	if r := runCode(t, s, "print a"); r.Text() != "[prepared]\na\n" || r.Turn != 1 {
		t.Errorf("the first reply: got %q", r.Text())
	}
	if r := runCode(t, s, "print b"); r.Text() != "b\n" {
		t.Errorf("the second one: got %q", r.Text())
	}
}

func testRunFirst(t *testing.T, s session.Session, w *fakePreparation) {
	first := make(chan *session.Result, 1)
	go func() {
		r, err := session.Run(withTimeout(t), s, "print a", &session.RunOptions{Timeout: time.Minute})
		if err != nil {
			t.Error(err)
		}
		first <- r
	}()
	w.result <- nil
	if r := <-first; r == nil || r.Text != "a\n" || !slices.Equal(r.Notices, []string{"prepared"}) {
		t.Errorf("the first run: got %+v", r)
	}
	if r := run(t, s, "print b", nil); r.Text != "b\n" || len(r.Notices) > 0 {
		t.Errorf("the second one: got %+v", r)
	}
}

func testRunPreparing(t *testing.T, s session.Session, w *fakePreparation) {
	ctx, cancel := context.WithTimeout(withTimeout(t), 50*time.Millisecond)
	defer cancel()
	if r, err := session.Run(ctx, s, "print no", &session.RunOptions{Timeout: time.Nanosecond}); r != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, %v", r, err)
	}
	w.result <- nil
	for { // a daemon may still be taking the input back
		r, err := session.Run(withTimeout(t), s, "print a", nil)
		if errors.Is(err, session.ErrBusy) {
			continue
		}
		if err != nil || r.Text != "a\n" {
			t.Errorf("got %+v, %v", r, err)
		}
		return
	}
}

func testRunDropped(t *testing.T, s session.Session, w *fakePreparation) {
	dropped := make(chan *session.Result, 1)
	go func() {
		r, err := session.Run(withTimeout(t), s, "print never", nil)
		if err != nil {
			t.Error(err)
		}
		dropped <- r
	}()
	for {
		if result, err := s.Interrupt(withTimeout(t), 1); err != nil || result == session.InterruptIdle {
			break
		}
	}
	if r := <-dropped; r == nil || r.Outcome != timeline.OutcomeInterrupted || r.Error == nil || r.Text != "" {
		t.Errorf("got %+v", r)
	}
	w.result <- nil
	wantFree(t, s)
}

func testRunNotPrepared(t *testing.T, s session.Session, w *fakePreparation) {
	refused := make(chan error, 1)
	go func() {
		r, err := session.Run(withTimeout(t), s, "print no", nil)
		if r != nil {
			t.Errorf("got %+v", r)
		}
		refused <- err
	}()
	for i := readInfo(t, s); i.Turn == 0; i = readInfo(t, s) { // the run waits for the preparation
		if _, err := s.Wait(withTimeout(t), 0, session.WaitAtMost(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Wait(withTimeout(t), 1, &session.WaitOptions{Poll: true}); err == nil && r.Turn == 1 {
			break
		}
	}
	w.result <- errors.New("no such package")
	if err := <-refused; !errors.Is(err, session.ErrStart) || !strings.Contains(err.Error(), "no such package") {
		t.Errorf("got %v", err)
	}
}

// testNeverRan follows a turn whose input is dropped while the session is being prepared.
func testNeverRan(t *testing.T, s session.Session, w *fakePreparation) {
	turn := make(chan uint64, 1)
	go func() {
		n, err := s.Submit(withTimeout(t), "print never")
		if err != nil {
			t.Error(err)
		}
		turn <- n
	}()
	copied := make(chan error, 1)
	go func() { // the number is known before it is reported
		_, err := session.CopyOutput(withTimeout(t), s, 1, nil, nil)
		for err != nil && strings.Contains(err.Error(), "not started") && t.Context().Err() == nil { // it is not submitted yet
			_, err = session.CopyOutput(withTimeout(t), s, 1, nil, nil)
		}
		copied <- err
	}()
	seenHeld := func() bool {
		r, err := s.Wait(withTimeout(t), 1, &session.WaitOptions{Poll: true})
		return err == nil && r.Turn == 1
	}
	for !seenHeld() {
	}
	if _, err := s.Interrupt(withTimeout(t), 1); err != nil {
		t.Fatal(err)
	}
	if err := <-copied; !errors.Is(err, session.ErrStale) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
	if n := <-turn; n != 1 {
		t.Errorf("got turn %d", n)
	}
	w.result <- nil
	if r := runCode(t, s, "print again"); r.Outcome != timeline.OutcomeOK {
		t.Errorf("got %+v", r)
	}
}
