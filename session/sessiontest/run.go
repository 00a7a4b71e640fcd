package sessiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// runPromises are the promises of session.Run.
func runPromises() []promise {
	return []promise{
		{"a run returns the text, the value and the displays, and how the code ended", testRunResult},
		{"a run returns an error of the code as data", testRunError},
		{"the value of a run is the last echo, and earlier ones are text", testRunEchoes},
		{"a run counts what is beyond its bound", testRunBound},
		{"a run fetches data that an event leaves out", testRunBlobs},
		{"an update replaces the display in the result", testRunUpdates},
		{"a run passes text, displays and events on as they arrive", testRunLive},
		{"a time limit interrupts the code and keeps the session", testRunTimeout},
		{"the end of a context interrupts the code, and Run returns when the session is free", testRunContext},
		{"code that catches the first interrupt is ended by the second", testRunSecondInterrupt},
		{"code that no interrupt ends is an error, and a reset ends it", testRunStillRunning},
		{"code that reads input reads an end of file or the answers", testRunInput},
		{"an answer that fails, and a writer that fails, end the code", testRunCallerFails},
		{"a panic of the caller's function ends the code and reaches the caller", testRunPanics},
		{"a function of the caller that blocks does not keep the code from being interrupted", testRunBlockedCaller},
		{"a run after the end of a worker says why the previous worker ended", testRunAfterDeath},
		{"a run during a run is refused, and a run during a reset starts in the new worker", testRunRefused},
		{"a run whose worker ends with a reset or a close says so", testRunEndedFromOutside},
		{"runs that are cancelled at any moment leave the session free", testRunCancelled},
	}
}

// run runs code, and fails the test if that is an error.
func run(t *testing.T, s session.Session, code string, o *session.RunOptions) *session.Result {
	t.Helper()
	r, err := session.Run(withTimeout(t), s, code, o)
	if err != nil {
		t.Fatalf("%.40q: %v", code, err)
	}
	return r
}

// wantFree checks that the session accepts an input at once.
func wantFree(t *testing.T, s session.Session) {
	t.Helper()
	if r := run(t, s, "print free", nil); r.Text != "free\n" || r.Err() != nil {
		t.Errorf("the session is not free: %+v", r)
	}
}

func testRunResult(t *testing.T, s session.Session) {
	r := run(t, s, "print hello\nerr oops\nresult 42\ndisplay d chart", nil)
	if r.Turn != 1 || r.Outcome != timeline.OutcomeOK || r.Err() != nil || r.TimedOut || r.LeftOut != (session.LeftOut{}) {
		t.Errorf("got %+v", r)
	}
	if r.Text != "hello\noops\n" || r.Stderr != "oops\n" || r.Value != "42" {
		t.Errorf("got text %q, standard error %q, value %q", r.Text, r.Stderr, r.Value)
	}
	if len(r.Displays) != 2 || !r.Displays[0].Result || string(r.Displays[1].Data["text/plain"]) != "chart" {
		t.Errorf("got displays %+v", r.Displays)
	}
	for _, part := range []string{"hello", "oops", "42"} {
		if !strings.Contains(r.String(), part) {
			t.Errorf("%q is missing in %q", part, r.String())
		}
	}
	if empty := run(t, s, "", nil); empty.Outcome != timeline.OutcomeOK || empty.Text != "" || empty.Value != "" || empty.String() != "" {
		t.Errorf("empty code: got %+v", empty)
	}
	if _, err := session.Run(withTimeout(t), s, "", &session.RunOptions{MaxText: -1}); session.KindOf(err) != session.KindInvalid {
		t.Errorf("a negative bound: got %v", err)
	}
}

func testRunError(t *testing.T, s session.Session) {
	r := run(t, s, "print before\ntrace Traceback: bad\nerror ValueError bad", nil)
	e := r.Error
	if r.Outcome != timeline.OutcomeError || e == nil || e.Name != "ValueError" || e.Message != "bad" || e.Traceback != "Traceback: bad\n" || e.Ended {
		t.Fatalf("got %+v, %+v", r, e)
	}
	if !strings.HasPrefix(r.Text, "before\n") || r.Err().Error() != "ValueError: bad" {
		t.Errorf("got %q, %v", r.Text, r.Err())
	}
	r = run(t, s, "print last\ndie 3", nil)
	e = r.Error
	if r.Outcome != timeline.OutcomeEnded || e == nil || e.Name != "WorkerEnded" || !strings.HasPrefix(e.Message, "exit status 3") || !e.Ended || !strings.Contains(r.Text, "last\n") {
		t.Errorf("a death: got %+v, %+v", r, e)
	}
	wantFree(t, s)
}

func testRunEchoes(t *testing.T, s session.Session) {
	for code, want := range map[string][2]string{
		"result a\nresult b":                 {"a\n", "b"},
		"result a\nmore 2":                   {"", "a\n2"},
		"result a\nerr in between\nmore 2":   {"in between\n", "a\n2"},
		"result a\nprint x\nresult b\nerr y": {"a\nx\ny\n", "b"},
		"more a\nmore b":                     {"", "a\nb"}, // a worker that marks no beginnings
		"more a\nprint x\nmore b":            {"a\nx\n", "b"},
	} {
		if r := run(t, s, code, nil); r.Text != want[0] || r.Value != want[1] {
			t.Errorf("%q: got text %q and value %q, want %q", code, r.Text, r.Value, want)
		}
		live := run(t, s, code, &session.RunOptions{Stdout: io.Discard})
		if live.Text != want[0] || live.Value != want[1] {
			t.Errorf("%q, live: got text %q and value %q, want %q", code, live.Text, live.Value, want)
		}
	}
}

func testRunBound(t *testing.T, s session.Session) {
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		for _, most := range []int{n - 1, n, n + 1} {
			if most <= 0 {
				continue
			}
			r := run(t, s, fmt.Sprintf("bulk %d", n), &session.RunOptions{MaxText: most})
			if kept := min(n, most); len(r.Text) != kept || r.LeftOut.TextBytes != int64(n-kept) {
				t.Errorf("%d bytes with a bound of %d: got %d, left out %+v", n, most, len(r.Text), r.LeftOut)
			}
		}
	}
	if r := run(t, s, "print a語語", &session.RunOptions{MaxText: 5}); r.Text != "a語" || r.LeftOut.TextBytes != 4 {
		t.Errorf("a bound inside a character: got %q, %+v", r.Text, r.LeftOut)
	}
	r := run(t, s, "bulk 100000\nresult value\ntrace report\nerror E m", &session.RunOptions{MaxText: 1000})
	if len(r.Text) != 1000 || r.Value != "value" || r.Error.Traceback != "report\n" || r.LeftOut.TextBytes < 99000 || r.LeftOut.Displays != 0 {
		t.Errorf("the value and the traceback have bounds of their own: got %d bytes, %q, %+v, %+v", len(r.Text), r.Value, r.Error, r.LeftOut)
	}
	if shown := r.String(); len(shown) > 20_000 || !strings.Contains(shown, "99 KB of text") {
		t.Errorf("got %d characters: %q", len(shown), shown)
	}
	r = run(t, s, "bulk 3000000", nil)
	if shown := r.String(); len([]rune(shown)) > 20_000 || len(shown) < 10_000 {
		t.Errorf("a model gets %d characters", len(shown))
	}
}

func testRunBlobs(t *testing.T, s session.Session) {
	const size = 12_000_000 // more than a daemon puts into an event
	code := fmt.Sprintf("display d *%d", size)
	var lines strings.Builder
	for i := range size / 64 {
		fmt.Fprintf(&lines, "%063d\n", i)
	}
	large := lines.String()
	r := run(t, s, code, nil)
	if len(r.Displays) != 1 || r.LeftOut != (session.LeftOut{}) || string(r.Displays[0].Data["text/plain"]) != large || len(r.Displays[0].Omitted) > 0 {
		t.Fatalf("got %d displays, left out %+v", len(r.Displays), r.LeftOut)
	}
	var whole []int64
	r = run(t, s, code+"\ndisplay e small", &session.RunOptions{
		MaxText:   1 << 20,
		OnDisplay: func(d timeline.Display) { whole = append(whole, d.TotalBytes()) },
	})
	lost := int64(2*len(large) + len("<b></b>"))
	if r.LeftOut != (session.LeftOut{Displays: 1, DisplayBytes: lost}) || len(r.Displays) != 2 || string(r.Displays[1].Data["text/plain"]) != "small" {
		t.Errorf("beyond the bound: left out %+v, want %d bytes; %d displays", r.LeftOut, lost, len(r.Displays))
	}
	if len(whole) != 2 || whole[0] != lost {
		t.Errorf("OnDisplay gets whole displays: got %d", whole)
	}
	if shown := r.String(); !strings.Contains(shown, "left out") {
		t.Errorf("got %q", shown)
	}
}

func testRunUpdates(t *testing.T, s session.Session) {
	shown := 0
	r := run(t, s, "display a one\ndisplay b two\ndisplay +a three\ndisplay +a four", &session.RunOptions{OnDisplay: func(timeline.Display) { shown++ }})
	if len(r.Displays) != 2 || string(r.Displays[0].Data["text/plain"]) != "four" || shown != 4 || r.LeftOut != (session.LeftOut{}) {
		t.Errorf("got %+v, %d shown", r.Displays, shown)
	}
}

func testRunLive(t *testing.T, s session.Session) {
	var out, errs bytes.Buffer
	var seen []string
	arrived := make(chan string, 100)
	r := run(t, s, "print one\nwait go? \nerr two\nresult 3", &session.RunOptions{
		Stdout: io.MultiWriter(&out, writerFunc(func(b []byte) (int, error) { arrived <- string(b); return len(b), nil })), Stderr: &errs,
		OnEvent: func(e timeline.Event) { seen = append(seen, fmt.Sprintf("%T", e.Body)) },
		Answer: func(ctx context.Context, _ session.InputRequest) (session.Input, error) {
			select {
			case <-arrived: // before the turn is over
			case <-ctx.Done():
				t.Error("the text did not arrive before the end")
			}
			return session.Input{Data: []byte("yes\n")}, nil
		},
	})
	if out.String() != "one\nyes\n" || errs.String() != "two\n" || r.Value != "3" || r.Text != "one\nyes\ntwo\n" {
		t.Errorf("got %q, %q, %+v", &out, &errs, r)
	}
	for _, kind := range []string{"timeline.TurnStarted", "event.TurnStarted", "event.TurnEnded"} {
		if strings.HasPrefix(kind, "event.") && !slices.Contains(seen, kind) {
			t.Errorf("no event %s in %q", kind, seen)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func testRunTimeout(t *testing.T, s session.Session) {
	wantFree(t, s)
	r := run(t, s, "print before\nsleep\nprint after", &session.RunOptions{Timeout: 200 * time.Millisecond})
	if !r.TimedOut || r.Outcome != timeline.OutcomeInterrupted || r.Error == nil || !strings.HasPrefix(r.Text, "before\n") || strings.Contains(r.Text, "after") {
		t.Errorf("got %+v", r)
	}
	if r.Elapsed < 200*time.Millisecond || !strings.Contains(r.String(), "time limit") {
		t.Errorf("got %s, %q", r.Elapsed, r)
	}
	if r := run(t, s, "wait name? ", &session.RunOptions{
		Timeout: 200 * time.Millisecond,
		Answer: func(ctx context.Context, _ session.InputRequest) (session.Input, error) {
			<-ctx.Done()
			return session.Input{}, ctx.Err()
		},
	}); !r.TimedOut || r.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("while the caller thinks about an answer: got %+v", r)
	}
	if r := run(t, s, "print quick", &session.RunOptions{Timeout: time.Minute}); r.TimedOut || r.Text != "quick\n" {
		t.Errorf("got %+v", r)
	}
}

func testRunContext(t *testing.T, s session.Session) {
	ctx, cancel := context.WithCancel(withTimeout(t))
	r, err := session.Run(ctx, s, "print ready\nsleep", &session.RunOptions{Stdout: writerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })})
	if !errors.Is(err, context.Canceled) || r == nil || r.Outcome != timeline.OutcomeInterrupted || r.TimedOut || !strings.HasPrefix(r.Text, "ready\n") {
		t.Errorf("got %+v, %v", r, err)
	}
	wantFree(t, s)
	if r, err := session.Run(ctx, s, "print no", nil); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: got %+v, %v", r, err)
	}
}

func testRunSecondInterrupt(t *testing.T, s session.Session) {
	r := run(t, s, "busy", &session.RunOptions{Timeout: 50 * time.Millisecond, Grace: time.Second})
	if !r.TimedOut || r.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("got %+v", r)
	}
	wantFree(t, s)
}

func testRunStillRunning(t *testing.T, s session.Session) {
	r, err := session.Run(withTimeout(t), s, "stuck", &session.RunOptions{Timeout: 50 * time.Millisecond, Grace: time.Second})
	refused, ok := errors.AsType[*session.Error](err)
	if !ok || refused.Kind != session.KindStillRunning || !errors.Is(err, session.ErrStillRunning) || r == nil || refused.Turn != r.Turn || r.Outcome != "" || r.Text != "stuck\n" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := session.Run(withTimeout(t), s, "print no", nil); !errors.Is(err, session.ErrBusy) {
		t.Errorf("it still runs: got %v", err)
	}
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	wantFree(t, s)
}

func testRunInput(t *testing.T, s session.Session) {
	if r := run(t, s, "wait name? \nprint bye", nil); r.Text != "<eof>\nbye\n" {
		t.Errorf("got %q", r.Text)
	}
	var asked []session.InputRequest
	r := run(t, s, "wait name? \nsecret word? ", &session.RunOptions{Answer: func(_ context.Context, q session.InputRequest) (session.Input, error) {
		asked = append(asked, q)
		return session.Input{Data: []byte("Ada!!!\n")}, nil
	}})
	if r.Text != "Ada!!!\n6 bytes\n" && r.Text != "[secret]\n6 bytes\n" {
		t.Errorf("got %q", r.Text)
	}
	if len(asked) != 2 || asked[0].Prompt != "name? " || asked[0].Turn != r.Turn || asked[0].Secret || !asked[1].Secret {
		t.Errorf("got %+v", asked)
	}
}

func testRunCallerFails(t *testing.T, s session.Session) {
	broken := errors.New("broken")
	r, err := session.Run(withTimeout(t), s, "wait name? \nsleep", &session.RunOptions{Answer: func(context.Context, session.InputRequest) (session.Input, error) { return session.Input{}, broken }})
	if !errors.Is(err, broken) || r == nil || r.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("an answer: got %+v, %v", r, err)
	}
	writes := 0
	r, err = session.Run(withTimeout(t), s, "print ready\nsleep", &session.RunOptions{Stdout: writerFunc(func([]byte) (int, error) { writes++; return 0, broken })})
	if !errors.Is(err, broken) || r == nil || r.Outcome != timeline.OutcomeInterrupted || !strings.HasPrefix(r.Text, "ready\n") || writes != 1 {
		t.Errorf("a writer: got %+v, %v after %d writes", r, err, writes)
	}
	wantFree(t, s)
}

func testRunPanics(t *testing.T, s session.Session) {
	defer wantFree(t, s)
	defer func() {
		if p := recover(); p != "callback" {
			t.Errorf("got panic %v", p)
		}
	}()
	r, err := session.Run(withTimeout(t), s, "print ready\nsleep", &session.RunOptions{OnEvent: func(e timeline.Event) {
		if hasText("ready")(e) {
			panic("callback")
		}
	}})
	t.Errorf("no panic: got %+v, %v", r, err)
}

func testRunBlockedCaller(t *testing.T, s session.Session) {
	blocked, release := make(chan struct{}), make(chan struct{})
	ended := make(chan *session.Result, 1)
	go func() {
		r, err := session.Run(withTimeout(t), s, "print ready\nsleep", &session.RunOptions{Timeout: 200 * time.Millisecond, Grace: time.Second, OnEvent: func(e timeline.Event) {
			if hasText("ready")(e) {
				close(blocked)
				<-release
			}
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	<-blocked
	if r := waitTurn(t, s, 1); r.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("the code goes on: %+v", r)
	}
	wantFree(t, s) // by another call, while this one is blocked
	close(release)
	if r := <-ended; r == nil || !r.TimedOut || !strings.HasPrefix(r.Text, "ready\n") || r.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("got %+v", r)
	}
}

func testRunAfterDeath(t *testing.T, s session.Session) {
	if r := run(t, s, "print first", nil); len(r.Notices) > 0 && strings.Contains(strings.Join(r.Notices, "\n"), "restarted") {
		t.Errorf("got notices %q", r.Notices)
	}
	run(t, s, "die 3", nil)
	for _, want := range []bool{true, false} {
		r := run(t, s, "print again", nil)
		if told := strings.Contains(strings.Join(r.Notices, "\n"), "exit status 3"); r.Text != "again\n" || told != want {
			t.Errorf("got %q with notices %q", r.Text, r.Notices)
		}
	}
}

func testRunRefused(t *testing.T, s session.Session) {
	turn := submitCode(t, s, "sleep")
	for _, code := range []string{"print a", "print b"} {
		if r, err := session.Run(withTimeout(t), s, code, nil); r != nil || !errors.Is(err, session.ErrBusy) {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	reset := make(chan error, 1)
	go func() { reset <- s.Reset(withTimeout(t)) }()
	waitTurn(t, s, turn)
	r := run(t, s, "print new", &session.RunOptions{Queue: true})
	if err := <-reset; err != nil {
		t.Fatal(err)
	}
	if r.Outcome != timeline.OutcomeEnded && r.Text != "new\n" { // it ended if the reset came after it had started
		t.Errorf("got %+v", r)
	}
}

func testRunEndedFromOutside(t *testing.T, s session.Session) {
	for _, end := range []struct {
		name string
		by   func(context.Context) error
	}{{"reset", s.Reset}, {"closed", s.Close}} {
		ended := make(chan error, 1)
		r, err := session.Run(withTimeout(t), s, "print ready\nsleep", &session.RunOptions{Stdout: writerFunc(func(b []byte) (int, error) {
			go func() { ended <- end.by(withTimeout(t)) }()
			return len(b), nil
		})})
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if r == nil || err != nil && !errors.Is(err, session.ErrClosed) {
			t.Fatalf("%s: got %+v, %v", end.name, r, err)
		}
		if err == nil && (r.Outcome != timeline.OutcomeEnded || !r.Error.Ended || !strings.Contains(r.Error.Message, end.name)) {
			t.Errorf("%s: got %+v, %+v", end.name, r, r.Error)
		}
	}
	if r, err := session.Run(withTimeout(t), s, "print no", nil); r != nil || !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func testRunCancelled(t *testing.T, s session.Session) {
	wantFree(t, s)
	var last uint64
	for i := range 60 {
		ctx, cancel := context.WithTimeout(withTimeout(t), time.Duration(rand.Int64N(int64(4*time.Millisecond))))
		word := fmt.Sprintf("word-%d", i)
		r, err := session.Run(ctx, s, "print "+word+"\nsleep 2ms", nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if r != nil && (r.Outcome == "" || r.Turn <= last || r.Text != "" && !strings.HasPrefix(r.Text, word+"\n")) {
			t.Errorf("run %d: got %+v, %v", i, r, err)
		}
		if r != nil {
			last = r.Turn
		}
		next := run(t, s, "print next", nil)
		if next.Text != "next\n" || next.Turn <= last {
			t.Fatalf("after run %d: got %+v", i, next)
		}
		last = next.Turn
	}
}
