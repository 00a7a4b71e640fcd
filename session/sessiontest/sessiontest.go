// Package sessiontest proves that an implementation of session.Session keeps its
// promises. Each implementation runs the same suite:
//
//	func TestSession(t *testing.T) {
//		sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session { … })
//	}
//
// Sessions run the worker of internal/testkit/fakeworker, whose commands stand in the tests.
//
// It has no goroutines but those of a test.
package sessiontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// waitTimeout bounds each wait for a real process.
const waitTimeout = 60 * time.Second

// Run runs the suite. open makes a session of its own for each test, of a worker
// that may still be starting, and sees to its end. Its Spec has these preparations.
func Run(t *testing.T, open func(t *testing.T, prepare ...workers.Preparation) session.Session) {
	for _, promise := range []struct {
		name string
		test func(*testing.T, session.Session)
	}{
		{"a turn ends when the worker says so, and its reply has its text", testTurnEnds},
		{"turns are known by number, and the last ones stay known", testTurnNumbers},
		{"a second input is refused at once, and says what runs", testBusy},
		{"a wait is shown until it is answered, and a late answer is stale", testInputRequest},
		{"end of file and more input than asked for reach later waits", testEndOfFile},
		{"an interrupt ends its turn and no other", testInterrupt},
		{"authors are recorded with what they write", testAuthors},
		{"a wait that is too short leaves the turn alone, and a cursor goes on", testPollAndCursor},
		{"a context that ends is an error, and the turn goes on", testContexts},
		{"events are a snapshot and then live, without holes", testEvents},
		{"events end with an error when the session is closed", testEventsEnd},
		{"a worker that dies ends its turn, and the next input starts another", testWorkerExit},
		{"the first turn of another worker tells once why the one before ended", testRestartNotice},
		{"reset starts a new generation whatever runs", testReset},
		{"the rendered output can be searched and read by line", testOutput},
		{"windows of any size are together the whole timeline, in both directions", testReadWindows},
		{"the outline says of each turn what it was, also while it runs", testTurnSummaries},
		{"a result comes with its echo, a display with its id", testDisplays},
		{"code may exit only where that was said", testExit},
		{"a silent turn runs, and readers are not shown it", testSilentTurns},
		{"data that a window leaves out is had in pieces by its digest", testBlobs},
		{"a search finds lines of output and of inputs, in parts, and no secret", testSearch},
		{"the text of a turn is copied as it comes, and its end tells the error", testCopy},
		{"a turn is followed before it has begun: after the start, a death, a reset", testFollowBeforeStart},
		{"the end of a turn tells why its worker ended", testExitReason},
		{"a turn begins also when nobody wants to be told", testStartWithoutCallback},
		{"queries are refused while a turn runs", testQueries},
		{"rights are given only to a session with a sandbox, and only an open question is answered", testGrants},
		{"a closed session says so", testClosed},
		{"values survive their JSON form", testJSON},
	} {
		t.Run(promise.name, func(t *testing.T) {
			s := open(t)
			t.Parallel()
			promise.test(t, s)
		})
	}
	runPreparing(t, open)
}

// withTimeout returns a context with a bound that only a hang reaches.
func withTimeout(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

func submitCode(t *testing.T, s session.Session, code string) uint64 {
	t.Helper()
	ctx := withTimeout(t)
	if _, err := s.Wait(ctx, 0, nil); err != nil { // the start-up
		t.Fatal(err)
	}
	turn, err := s.Submit(ctx, code)
	if err != nil {
		t.Fatalf("submit %q: %v", code, err)
	}
	return turn
}

func waitTurn(t *testing.T, s session.Session, turn uint64) session.Reply {
	t.Helper()
	r, err := s.Wait(withTimeout(t), turn, nil)
	if err != nil {
		t.Fatalf("turn %d: %v", turn, err)
	}
	return r
}

func runCode(t *testing.T, s session.Session, code string) session.Reply {
	t.Helper()
	return waitTurn(t, s, submitCode(t, s, code))
}

func readInfo(t *testing.T, s session.Session) session.Info {
	t.Helper()
	i, err := s.Info(withTimeout(t))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// waitEvent waits for an event that satisfies ok.
func waitEvent(t *testing.T, s session.Session, after timeline.Seq, ok func(timeline.Event) bool) timeline.Event {
	t.Helper()
	for e, err := range s.Events(withTimeout(t), after) {
		if err != nil {
			t.Fatalf("the event did not come: %v", err)
		}
		if ok(e) {
			return e
		}
	}
	t.Fatal("the events ended without an error")
	return timeline.Event{}
}

func hasText(text string) func(timeline.Event) bool {
	return func(e timeline.Event) bool {
		b, ok := e.Body.(timeline.Text)
		return ok && strings.Contains(string(b.Data), text)
	}
}

func testTurnEnds(t *testing.T, s session.Session) {
	r := runCode(t, s, "print hello")
	if r.Text() != "hello" && r.Text() != "hello\n" {
		t.Errorf("got %q", r.Text())
	}
	if r.Turn != 1 || r.Outcome != timeline.OutcomeOK || r.State != session.StateIdle || r.Generation != 1 || r.OutputBytes != 6 {
		t.Errorf("got %+v", r)
	}
	if r := runCode(t, s, "error ValueError bad"); r.Outcome != timeline.OutcomeError {
		t.Errorf("got %+v", r)
	}
	if i := readInfo(t, s); i.Name != s.Name() || i.State != session.StateIdle || i.Turn != 2 || i.PID == 0 {
		t.Errorf("got %+v", i)
	}
}

func testTurnNumbers(t *testing.T, s session.Session) {
	first, second := submitCode(t, s, "print one"), uint64(0)
	waitTurn(t, s, first)
	second = submitCode(t, s, "print two")
	waitTurn(t, s, second)
	if second <= first {
		t.Errorf("turn %d came after turn %d", second, first)
	}
	for turn, text := range map[uint64]string{first: "one", second: "two"} {
		if r := waitTurn(t, s, turn); r.Turn != turn || r.Outcome != timeline.OutcomeOK || !strings.Contains(r.Text(), text) {
			t.Errorf("turn %d: got %+v", turn, r)
		}
	}
	if _, err := s.Wait(withTimeout(t), second+100, nil); !errors.Is(err, session.ErrStale) {
		t.Errorf("a turn that never was: got %v", err)
	}
}

func testBusy(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	_, err := s.Submit(withTimeout(t), "print no")
	refused, ok := errors.AsType[*session.Error](err)
	if !errors.Is(err, session.ErrBusy) || !ok || refused.Turn != turn || refused.State == nil || *refused.State != session.StateRunning {
		t.Errorf("got %v", err)
	}
	if _, err := s.Interrupt(withTimeout(t), turn); err != nil {
		t.Error(err)
	}
	if r := waitTurn(t, s, turn); strings.Contains(r.Text(), "no") {
		t.Errorf("got %q", r.Text())
	}
}

func testInputRequest(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "wait name? \nprint bye")
	r := waitTurn(t, s, turn)
	if r.State != session.StateWaiting || r.InputRequest == nil || r.InputRequest.Prompt != "name? " || r.InputRequest.Turn != turn || r.InputRequest.Kind != timeline.InputKindLine {
		t.Fatalf("got %+v, %+v", r, r.InputRequest)
	}
	_, err := s.Submit(withTimeout(t), "print no")
	if refused, ok := errors.AsType[*session.Error](err); !errors.Is(err, session.ErrWaiting) || !ok || refused.InputRequest == nil || refused.InputRequest.ID != r.InputRequest.ID {
		t.Errorf("submit while it waits: got %v", err)
	}
	again, err := s.Wait(withTimeout(t), 0, &session.WaitOptions{Poll: true})
	if err != nil || again.InputRequest == nil || *again.InputRequest != *r.InputRequest {
		t.Errorf("a poll: got %+v, %v", again.InputRequest, err)
	}
	if i := readInfo(t, s); i.InputRequest == nil || i.InputRequest.ID != r.InputRequest.ID {
		t.Errorf("info: got %+v", i.InputRequest)
	}
	fed, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Ada\n")})
	if err != nil || fed != turn {
		t.Fatalf("got turn %d, %v", fed, err)
	}
	if end := waitTurn(t, s, turn); end.Outcome != timeline.OutcomeOK || !strings.Contains(end.Text(), "Ada") {
		t.Errorf("got %+v", end)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("late\n")}); !errors.Is(err, session.ErrStale) {
		t.Errorf("a late answer: got %v", err)
	}
}

func testEndOfFile(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "all everything\nprint end")
	r := waitTurn(t, s, turn)
	if r.InputRequest == nil {
		t.Fatalf("got %+v", r)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("a\nb"), EOF: true}); err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeOK || !strings.Contains(r.Text(), "end") {
		t.Errorf("got %+v %q", r, r.Text())
	}
	turn = submitCode(t, s, "wait a? \nwait b? ")
	r = waitTurn(t, s, turn)
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("1\n2\n")}); err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeOK {
		t.Errorf("the second line did not reach the second wait: %+v", r)
	}
}

func testInterrupt(t *testing.T, s session.Session) {
	if result, err := s.Interrupt(withTimeout(t), 0); err == nil && readInfo(t, s).State == session.StateIdle && result != session.InterruptNotRunning && result != session.InterruptIdle {
		t.Errorf("nothing runs: got %q", result)
	}
	for _, code := range []string{"sleep", "wait name? "} {
		turn := submitCode(t, s, "print up\n"+code)
		waitEvent(t, s, 0, func(e timeline.Event) bool { return e.Turn == turn && hasText("up")(e) })
		for _, number := range []uint64{turn, 0} { // the second finds nothing
			if _, err := s.Interrupt(withTimeout(t), number); err != nil {
				t.Error(err)
			}
		}
		if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeInterrupted {
			t.Errorf("%s: got %+v", code, r)
		}
		next := submitCode(t, s, "sleep")
		if result, err := s.Interrupt(withTimeout(t), turn); err != nil || result != session.InterruptStale {
			t.Errorf("an old turn: got %q, %v", result, err)
		}
		if r, err := s.Wait(withTimeout(t), next, &session.WaitOptions{Poll: true}); err != nil || r.State != session.StateRunning {
			t.Errorf("the next turn was hit: %+v, %v", r, err)
		}
		if _, err := s.Interrupt(withTimeout(t), 0); err != nil {
			t.Error(err)
		}
		waitTurn(t, s, next)
	}
}

func testAuthors(t *testing.T, s session.Session) {
	ada, ben := s.As("ada"), s.As("ben")
	if ada.Author() != "ada" || ada.Name() != s.Name() {
		t.Errorf("got %q of %q", ada.Author(), ada.Name())
	}
	turn := submitCode(t, ada, "wait name? \nprint up\nsleep")
	r := waitTurn(t, s, turn)
	if _, err := ben.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("Ben\n")}); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, s, 0, hasText("up"))
	if _, err := ben.Interrupt(withTimeout(t), turn); err != nil {
		t.Fatal(err)
	}
	waitTurn(t, s, turn)
	all, err := s.Wait(withTimeout(t), turn, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all.Events {
		switch b := e.Body.(type) {
		case timeline.TurnStarted:
			got = append(got, "started by "+b.Author)
		case timeline.InputLine:
			got = append(got, b.Text+" by "+b.Author)
		case timeline.Interrupt:
			got = append(got, "interrupted by "+b.Author)
		}
	}
	if want := []string{"started by ada", "Ben by ben", "interrupted by ben"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func testPollAndCursor(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "print first\nwait go? \nprint second")
	waitEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.InputRequested); return ok })
	r, err := s.Wait(withTimeout(t), turn, session.WaitAtMost(time.Minute))
	if err != nil || !strings.Contains(r.Text(), "first") || r.Outcome != "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := s.Answer(withTimeout(t), r.InputRequest.ID, session.Input{Data: []byte("\n")}); err != nil {
		t.Fatal(err)
	}
	rest, err := s.Wait(withTimeout(t), turn, &session.WaitOptions{After: r.Next})
	if err != nil || strings.Contains(rest.Text(), "first") || !strings.Contains(rest.Text(), "second") {
		t.Errorf("got %q, %v", rest.Text(), err)
	}
	slow := submitCode(t, s, "sleep")
	if r, err := s.Wait(withTimeout(t), slow, session.WaitAtMost(20*time.Millisecond)); err != nil || r.Outcome != "" || r.State != session.StateRunning {
		t.Errorf("got %+v, %v", r, err)
	}
	_, _ = s.Interrupt(withTimeout(t), slow)
	waitTurn(t, s, slow)
}

func testContexts(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Wait(ctx, turn, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if i := readInfo(t, s); i.State != session.StateRunning || i.Turn != turn {
		t.Errorf("the turn is not running: %+v", i)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Submit(ended, "print no"); err == nil {
		t.Error("an ended context submits")
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
}

func testEvents(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	next := timeline.Seq(1)
	for e, err := range s.Events(withTimeout(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != next {
			t.Fatalf("got event %d, want %d", e.Seq, next)
		}
		next++
		if b, ok := e.Body.(timeline.TurnEnded); ok && b.Outcome != "" {
			if e.Turn == 2 {
				break
			}
			if _, err := s.Submit(withTimeout(t), "print two"); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for e, err := range s.Events(ctx, next-1) { // no more events come, so only the context ends this
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", e, err)
		}
	}
}

func testEventsEnd(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	var last error
	ended := make(chan struct{})
	began := make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for _, err := range s.Events(withTimeout(t), 0) {
			last = err
			select {
			case began <- struct{}{}:
			default:
			}
		}
	}()
	<-began
	if err := s.Close(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	<-ended
	if !errors.Is(last, session.ErrClosed) {
		t.Errorf("got %v", last)
	}
}

func testWorkerExit(t *testing.T, s session.Session) {
	r := runCode(t, s, "exit 3")
	if r.Outcome != timeline.OutcomeEnded {
		t.Errorf("got %+v", r)
	}
	ended := waitEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.WorkerExited); return ok })
	if b := ended.Body.(timeline.WorkerExited); b.ExitCode != 3 {
		t.Errorf("got %+v", b)
	}
	if r := runCode(t, s, "print again"); r.Generation != 2 || r.Outcome != timeline.OutcomeOK {
		t.Errorf("got %+v", r)
	}
}

func testRestartNotice(t *testing.T, s session.Session) {
	runCode(t, s, "exit 3")
	silent, err := s.As("tool").SubmitSilent(withTimeout(t), "print unseen") // which tells nobody
	if err != nil {
		t.Fatal(err)
	}
	waitTurn(t, s, silent)
	for _, want := range []string{"exit status 3", ""} {
		if got := lostWorkerReason(runCode(t, s, "print 1")); got != want {
			t.Errorf("after a death: got %q, want %q", got, want)
		}
	}
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"reset", ""} {
		r := runCode(t, s, "print 2")
		if got := lostWorkerReason(r); got != want {
			t.Errorf("after a reset: got %q, want %q", got, want)
		}
		if text := r.Text(); !strings.HasSuffix(text, "2\n") || strings.Contains(text, "[session restarted: reset") != (want != "") {
			t.Errorf("a model reads %q", text)
		}
	}
}

// lostWorkerReason returns why the worker before that of a reply has ended, if the reply begins with that.
func lostWorkerReason(r session.Reply) string {
	if end, ok := r.Events[0].Body.(timeline.WorkerExited); ok && r.Events[0].Generation < r.Generation {
		return end.Reason
	}
	return ""
}

func testReset(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if r := waitTurn(t, s, turn); r.Outcome != timeline.OutcomeEnded {
		t.Errorf("got %+v", r)
	}
	if r := runCode(t, s, "print fresh"); r.Generation != 2 || !strings.Contains(r.Text(), "fresh") {
		t.Errorf("got %+v", r)
	}
}

func testOutput(t *testing.T, s session.Session) {
	runCode(t, s, "print apple\nprint pear\nprint apricot")
	found, err := s.Output(withTimeout(t), session.OutputQuery{Grep: "^ap"})
	if err != nil || len(found.Lines) != 2 || found.Lines[1].Text != "apricot" || found.Total < 3 {
		t.Fatalf("got %+v, %v", found, err)
	}
	at := found.Lines[0].Number
	lines, err := s.Output(withTimeout(t), session.OutputQuery{From: at, To: at + 1})
	if err != nil || len(lines.Lines) != 2 || lines.Lines[1] != (timeline.Line{Number: at + 1, Text: "pear"}) {
		t.Errorf("got %+v, %v", lines, err)
	}
	if count, err := s.Output(withTimeout(t), session.OutputQuery{}); err != nil || count.Total != found.Total {
		t.Errorf("got %+v, %v", count, err)
	}
	var whole strings.Builder
	err = session.CopyFile(&whole, func(offset int64) (session.FilePart, error) {
		return s.File(withTimeout(t), timeline.OutputName, offset, 7)
	})
	if err != nil || !strings.Contains(whole.String(), "apple\npear\napricot\n") {
		t.Errorf("its file: %q, %v", &whole, err)
	}
	for _, bad := range []session.OutputQuery{{Grep: "("}, {Grep: "a", Max: session.MaxMatches + 1}, {From: 3, To: 2}} {
		if _, err := s.Output(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

func testQueries(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	if _, err := s.Complete(withTimeout(t), "pr", 2); !errors.Is(err, session.ErrBusy) {
		t.Errorf("complete: got %v", err)
	}
	if _, err := s.Inspect(withTimeout(t), "print", 0); !errors.Is(err, session.ErrBusy) {
		t.Errorf("inspect: got %v", err)
	}
	if _, err := s.Parse(withTimeout(t), "print"); !errors.Is(err, session.ErrBusy) {
		t.Errorf("parse: got %v", err)
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
	found, err := s.Inspect(withTimeout(t), "print", 5)
	if err != nil || !found.Found || found.Data["text/plain"] != "the command print" {
		t.Errorf("inspect: got %+v, %v", found, err)
	}
	if none, err := s.Inspect(withTimeout(t), "nothing", 0); err != nil || none.Found {
		t.Errorf("inspect of nothing: got %+v, %v", none, err)
	}
	if c, err := s.Complete(withTimeout(t), "pri", 3); err != nil || len(c.Matches) == 0 || c.Matches[0] != "print" {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := s.Complete(withTimeout(t), "hang", 4); session.KindOf(err) != session.KindNoAnswer {
		t.Errorf("a completion that takes too long: got %+v, %v", c, err)
	}
}

func testDisplays(t *testing.T, s session.Session) {
	r := runCode(t, s, "result 42\ndisplay bar 10%\ndisplay +bar 20%\nclear\ntrace boom")
	var got []timeline.Body
	for _, e := range r.Events {
		switch b := e.Body.(type) {
		case timeline.Text, timeline.Display, timeline.OutputCleared:
			got = append(got, b)
		}
	}
	bundle := func(text string) map[string][]byte {
		return map[string][]byte{"text/plain": []byte(text), "text/html": []byte("<b>" + text + "</b>")}
	}
	want := []timeline.Body{
		timeline.Text{Data: []byte("42\r\n"), Kind: timeline.TextResult},
		timeline.Display{Data: bundle("42"), Result: true},
		timeline.Display{Data: bundle("10%"), ID: "bar"},
		timeline.Display{Data: bundle("20%"), ID: "bar", Update: true},
		timeline.OutputCleared{},
		timeline.Text{Stream: timeline.Stderr, Data: []byte("boom\r\n"), Kind: timeline.TextTraceback},
	}
	for i := range got {
		if text, ok := got[i].(timeline.Text); ok && bytes.HasSuffix(text.Data, []byte("\n")) && !bytes.HasSuffix(text.Data, []byte("\r\n")) {
			text.Data = append(bytes.TrimSuffix(text.Data, []byte("\n")), "\r\n"...) // without a terminal's newline
			got[i] = text
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if text := r.Text(); text != "42\n20%\nboom" {
		t.Errorf("a model reads %q", text)
	}
}

func testSilentTurns(t *testing.T, s session.Session) {
	before := runCode(t, s, "silent\nprint seen").Next
	turn, err := s.As("tool").SubmitSilent(withTimeout(t), "silent\nresult 1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(withTimeout(t), turn, &session.WaitOptions{After: before})
	if err != nil || r.Outcome != timeline.OutcomeOK {
		t.Fatalf("got %+v, %v", r, err)
	}
	var text strings.Builder
	for _, e := range r.Events {
		if !e.IsUnseen() || e.Turn != turn {
			t.Errorf("%s is seen: %+v", e.Type(), e)
		}
		if b, ok := e.Body.(timeline.Text); ok {
			text.Write(b.Data)
		}
	}
	if got := strings.Fields(text.String()); !slices.Equal(got, []string{"true", "1"}) || r.Text() != "" {
		t.Errorf("it printed %q, and a model reads %q", got, r.Text())
	}
	if r := runCode(t, s, "silent"); r.Text() != "false\n" {
		t.Errorf("the turn behind it: got %q", r.Text())
	}
}

func testExit(t *testing.T, s session.Session) {
	ctx := withTimeout(t)
	for _, c := range []struct {
		name   string
		submit func(context.Context, string) (uint64, error)
		want   string
	}{
		{"Submit", s.Submit, "true"},
		{"SubmitMayExit", s.SubmitMayExit, "false"},
		{"As, SubmitMayExit", s.As("ada").SubmitMayExit, "false"},
		{"As, Submit", s.As("ada").Submit, "true"},
		{"SubmitSilent", s.SubmitSilent, "true"},
	} {
		if _, err := s.Wait(ctx, 0, nil); err != nil { // the start-up
			t.Fatal(err)
		}
		turn, err := c.submit(ctx, "noexit")
		if err != nil {
			t.Fatal(err)
		}
		r := waitTurn(t, s, turn)
		var text strings.Builder
		for _, e := range r.Events {
			if b, ok := e.Body.(timeline.Text); ok {
				text.Write(b.Data)
			}
		}
		if got := strings.TrimSpace(text.String()); got != c.want {
			t.Errorf("%s: the worker was told %q, want %q", c.name, got, c.want)
		}
	}
}

func testGrants(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "wait name? ")
	r := waitTurn(t, s, turn)
	for _, bad := range []session.Grant{{}, {Always: true}, {Write: "/data", Host: "example.org"}, {Read: "/data", Write: "/data"}} {
		if err := s.Allow(withTimeout(t), bad); session.KindOf(err) != session.KindInvalid {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
	without := []session.Grant{{Write: "/"}, {Read: "/data"}, {Host: "example.org"}, {Write: "/data", Always: true}}
	if readInfo(t, s).Sandbox != "" {
		without = nil // it can be given more
	}
	for _, g := range without {
		if err := s.As("ada").Allow(withTimeout(t), g); !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("%+v: got %v", g, err)
		}
	}
	if places, err := s.Destinations(withTimeout(t)); err != nil || places == nil || len(places) > 0 {
		t.Errorf("reached: got %v, %v", places, err)
	}
	if shown, err := s.Visibility(withTimeout(t)); err != nil || shown.Paths == nil || shown.WithheldVariables == nil || len(shown.Paths) > 0 && readInfo(t, s).Sandbox == "" {
		t.Errorf("shown: got %+v, %v", shown, err)
	}
	for _, ok := range []bool{true, false} { // the id of a wait for input is not that of a permission
		if err := s.As("ada").AnswerPermission(withTimeout(t), uint64(r.InputRequest.ID), ok); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v", err)
		}
	}
	if i := readInfo(t, s); i.InputRequest == nil || i.InputRequest.ID != r.InputRequest.ID || len(i.Grants) > 0 {
		t.Errorf("got %+v", i)
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
}

func testClosed(t *testing.T, s session.Session) {
	runCode(t, s, "print one")
	if err := s.Close(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(withTimeout(t), "print x"); !errors.Is(err, session.ErrClosed) {
		t.Errorf("submit: got %v", err)
	}
	if _, err := s.Answer(withTimeout(t), 1, session.Input{EOF: true}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("answer: got %v", err)
	}
	if err := s.Allow(withTimeout(t), session.Grant{Write: "/data"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("allow: got %v", err)
	}
	if err := s.AnswerPermission(withTimeout(t), 1, false); !errors.Is(err, session.ErrClosed) {
		t.Errorf("permit: got %v", err)
	}
	if err := s.Reset(withTimeout(t)); !errors.Is(err, session.ErrClosed) {
		t.Errorf("reset: got %v", err)
	}
}

func testJSON(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "print one\nerr two\nimage\nwait name? ")
	r := waitTurn(t, s, turn)
	i := readInfo(t, s)
	for _, v := range []any{&r, &i} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(v).Elem())
		if err := json.Unmarshal(text, again.Interface()); err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(again.Interface())
		if err != nil || string(twice) != string(text) {
			t.Errorf("%v: got %s, want %s", err, twice, text)
		}
	}
	_, _ = s.Interrupt(withTimeout(t), turn)
	waitTurn(t, s, turn)
}
