package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestTurn(t *testing.T) {
	t.Parallel()

	t.Run("ends when the worker says so", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runTurn(t, s, "print hello")
		if got, want := outputText(r.Events), "hello\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if turn != 1 || r.Turn != 1 || r.Outcome != "ok" || r.State != session.StateIdle || r.Generation != 1 {
			t.Errorf("got %+v", r)
		}
	})

	t.Run("does not end at output that looks like a prompt", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		_, r := runTurn(t, s, "print >>> \nraw >>> \nprint last")
		got := outputText(r.Events) // a pseudo console draws raw text itself, so its position varies
		if strings.Count(got, ">>>") != 2 || !strings.Contains(got, "last\n") || r.Outcome != "ok" {
			t.Errorf("got %q, %q, want both prompts and the last line", got, r.Outcome)
		}
	})

	t.Run("an error in the code is an outcome", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		_, r := runTurn(t, s, "err oops\nerror ValueError bad value")
		ended := findBody[timeline.TurnEnded](t, r.Events)
		if r.Outcome != "error" || ended.Name != "ValueError" || ended.Message != "bad value" {
			t.Errorf("got %q, %+v", r.Outcome, ended)
		}
	})

	t.Run("the reply counts lines that an error skipped", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		for _, c := range []struct{ code, want string }{
			{"print a\nerror E no\nprint b\nprint c", "a\nE: no\n[2 lines after the error were not run]\n"},
			{"error E no\nprint b", "E: no\n[1 line after the error was not run]\n"},
			{"print a\nerror E no", "a\nE: no\n"},
			{"print a\nprint b", "a\nb\n"},
		} {
			if _, r := runTurn(t, s, c.code); r.Text() != c.want {
				t.Errorf("%q: got %q, want %q", c.code, r.Text(), c.want)
			}
		}
	})

	t.Run("the reply counts lines that an interrupt skipped", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		turn, err := s.Submit(t.Context(), "sleep\nprint a\nprint b\nprint c")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Interrupt(deadlineContext(t), turn); err != nil {
			t.Fatal(err)
		}
		r := waitReply(t, s, turn)
		if n := strings.Count(r.Text(), "3 lines after the interrupt were not run"); n != 1 || r.Outcome != "interrupted" {
			t.Errorf("got %q, %q", r.Outcome, r.Text())
		}
	})

	t.Run("a second input is refused at once", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		turn, err := s.Submit(t.Context(), "sleep")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Submit(t.Context(), "print no")
		var busy *session.Error
		if !errors.Is(err, session.ErrBusy) || !errors.As(err, &busy) || busy.Turn != turn {
			t.Errorf("got %v, want busy with turn %d", err, turn)
		}
		interruptTurn(t, s, turn)
		if r := waitReply(t, s, turn); r.Outcome != "interrupted" || strings.Contains(outputText(r.Events), "no") {
			t.Errorf("got %q, %q", r.Outcome, outputText(r.Events))
		}
	})

	t.Run("output between turns is marked", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		runTurn(t, s, "late afterwards")
		e := waitForEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.Text); return ok })
		if !e.BetweenTurns || e.Turn != 1 {
			t.Errorf("got %+v", e)
		}
	})

	t.Run("is complete from a worker without markers", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{NoMarkers: true}))
		for range 100 {
			if _, r := runTurn(t, s, "print a\nraw b\nprint c"); !strings.Contains(outputText(r.Events), "c\n") || !strings.Contains(outputText(r.Events), "b") {
				t.Fatalf("got %q", outputText(r.Events))
			}
		}
	})

	t.Run("a huge input arrives whole, a larger one is refused", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		_, r := runTurn(t, s, " "+strings.Repeat("x", 50<<20)+"\nprint ok") // the first line has no command
		if r.Outcome != "ok" || outputText(r.Events) != "ok\n" {
			t.Errorf("got %q %q", r.Outcome, outputText(r.Events))
		}
		if _, err := s.Submit(t.Context(), strings.Repeat("x", supervisor.MaxInputBytes+1)); !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPreparation(t *testing.T) {
	t.Parallel()

	t.Run("does not delay Open, and its failure lasts until a reset", func(t *testing.T) {
		t.Parallel()
		spec := fakeSpec(nil)
		fail := make(chan struct{})
		make := func(ctx context.Context, _ func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			select {
			case <-fail:
				return workers.PreparationResult{}, errors.New("no compiler")
			case <-ctx.Done():
				return workers.PreparationResult{}, ctx.Err()
			}
		}
		spec.Preparations = []workers.Preparation{{Key: "compiler", Run: make}}
		s := openSession(t, nil, spec)
		if i := sessionInfo(s); i.State != session.StatePreparing || i.PreparationError != "" {
			t.Errorf("got %+v", i)
		}
		close(fail)
		if err := s.WaitPrepared(deadlineContext(t)); !errors.Is(err, session.ErrStart) || err.Error() != "no compiler" {
			t.Errorf("got %v", err)
		}
		if i := sessionInfo(s); i.State != session.StateEnded || i.PreparationError != "no compiler" {
			t.Errorf("got %+v", i)
		}
		if _, err := s.Submit(t.Context(), "print never"); !errors.Is(err, session.ErrStart) || err.Error() != "no compiler" || sessionInfo(s).Generation != 1 {
			t.Errorf("an input retried it: %v, %+v", err, sessionInfo(s))
		}
		if err := s.Reset(deadlineContext(t)); !errors.Is(err, session.ErrStart) || sessionInfo(s).Generation != 2 {
			t.Errorf("a reset did not retry it: %v, %+v", err, sessionInfo(s))
		}
		if err := s.Close(deadlineContext(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), "print never"); !errors.Is(err, session.ErrClosed) {
			t.Errorf("once it is closed: %v", err)
		}
		spec.Preparations[0].Run = nil
		if err := spec.Validate(); err == nil {
			t.Error("got a preparation with nothing to do")
		}
	})

	// A reset that is abandoned for the next one prepares nothing: only the last start is needed.
	t.Run("is not started by an abandoned start", func(t *testing.T) {
		t.Parallel()
		spec := fakeSpec(nil)
		started, proceed := make(chan struct{}, 9), make(chan struct{})
		spec.Preparations = []workers.Preparation{{Key: t.Name(), Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			started <- struct{}{}
			<-proceed // a preparation that stops late
			return workers.PreparationResult{}, nil
		}}}
		s := openSession(t, nil, spec)
		<-started
		resets := make(chan error, 3)
		for range cap(resets) {
			go func() { resets <- s.Reset(deadlineContext(t)) }()
		}
		for e := range s.Events(deadlineContext(t), 0) {
			if _, started := e.Body.(timeline.WorkerStarted); started && e.Generation == 4 {
				break
			}
		}
		close(proceed)
		for range cap(resets) {
			if err := <-resets; err != nil {
				t.Error(err)
			}
		}
		if n := len(started); n != 1 {
			t.Errorf("%d preparations were started after the first, want only the last", n)
		}
	})

	// A preparation without its own timeout has the start timeout.
	t.Run("ends with the start timeout", func(t *testing.T) {
		t.Parallel()
		spec := fakeSpec(nil)
		spec.Preparations = []workers.Preparation{{Key: "slow", Run: func(ctx context.Context, _ func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			<-ctx.Done()
			return workers.PreparationResult{}, ctx.Err()
		}}}
		s := openSession(t, &supervisor.Options{StartTimeout: 10 * time.Millisecond}, spec)
		if err := s.WaitPrepared(deadlineContext(t)); err == nil || err.Error() != "preparation took longer than 10ms" {
			t.Errorf("got %v", err)
		}
	})

	// A long start does not block callers longer than their contexts allow.
	t.Run("outlives the context of the call that waits for it", func(t *testing.T) {
		t.Parallel()
		spec := fakeSpec(nil)
		preparing, ready := make(chan struct{}, 2), make(chan struct{})
		spec.Preparations = []workers.Preparation{{Key: "x", Run: func(ctx context.Context, _ func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			preparing <- struct{}{}
			select {
			case <-ready:
				return workers.PreparationResult{}, nil
			case <-ctx.Done():
				return workers.PreparationResult{}, ctx.Err()
			}
		}}}
		s := openSession(t, nil, spec)
		submitting := func(ctx context.Context) error {
			_, err := s.Submit(ctx, "print never")
			return err
		}
		for i, call := range []func(context.Context) error{submitting, s.Reset} {
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() { result <- call(ctx) }()
			if i == 0 {
				<-preparing
			}
			cancel()
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Errorf("call %d: got %v", i, err)
			}
		}
		close(ready)
		turn, err := s.Submit(t.Context(), "print next")
		if err != nil {
			t.Fatal(err)
		}
		if r := waitReply(t, s, turn); r.Turn != 1 || outputText(r.Events) != "next\n" {
			t.Errorf("got turn %d %q", r.Turn, outputText(r.Events))
		}
	})
}

// If no client asks for the session again, the log must be enough to explain the failure.
func TestLog_StartFailure(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	sup := newSupervisor(t, &supervisor.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	spec := fakeSpec(nil)
	spec.Preparations = []workers.Preparation{{Key: t.Name(), Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
		return workers.PreparationResult{}, errors.New("no compiler\noutput of the tool")
	}}}
	s, err := sup.Open(t.Context(), "unprepared", spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitPrepared(deadlineContext(t)); err == nil {
		t.Fatal("the session was prepared")
	}
	spec = fakeSpec(nil)
	spec.Path = t.TempDir() // no program
	if _, err := sup.Open(t.Context(), "missing", spec); err == nil {
		t.Fatal("the session was started")
	}
	for _, line := range []string{`msg="worker start failed" session=unprepared generation=1 why="no compiler"`, `msg="worker start failed" session=missing generation=1 why=`} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("%s is missing", line)
		}
	}
	if strings.Contains(log.String(), "output of the tool") {
		t.Error("the output of the tool is in the log")
	}
}

func TestInputRequest(t *testing.T) {
	t.Parallel()

	t.Run("is answered, and the turn continues", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runTurn(t, s, "wait name? \nprint bye")
		if r.State != session.StateWaiting || r.InputRequest == nil || r.InputRequest.Prompt != "name? " || r.InputRequest.Turn != 1 {
			t.Fatalf("got %+v, input request %+v", r, r.InputRequest)
		}
		if _, err := s.Submit(t.Context(), "print no"); !errors.Is(err, session.ErrWaiting) {
			t.Errorf("submit while waiting: got %v", err)
		}
		// A poll returns the input request again.
		if again, err := s.Wait(t.Context(), 0, &session.WaitOptions{Poll: true}); err != nil || again.InputRequest == nil || again.InputRequest.ID != r.InputRequest.ID {
			t.Errorf("poll: got %+v, %v", again.InputRequest, err)
		}
		if _, err := s.As("me").Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("Ann\n")}); err != nil {
			t.Fatal(err)
		}
		end := waitReply(t, s, turn)
		if end.Outcome != "ok" || end.Turn != 1 || !strings.Contains(outputText(end.Events), "Ann") {
			t.Errorf("got %q %q", end.Outcome, outputText(end.Events))
		}
		if line := findBody[timeline.InputLine](t, end.Events); line.Text != "Ann" {
			t.Errorf("got %+v", line)
		}
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("x\n")}); !errors.Is(err, session.ErrStale) {
			t.Errorf("answer to a request that is over: got %v", err)
		}
	})

	t.Run("surplus input answers later ones, and the rest is reported", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runTurn(t, s, "wait a? \nwait b? ")
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("1\n2\n345\n")}); err != nil {
			t.Fatal(err)
		}
		r = waitReply(t, s, turn)
		if r.Outcome != "ok" || !strings.Contains(noticeText(r.Events), "4 bytes of unread input") {
			t.Errorf("got %q, notices %q", r.Outcome, noticeText(r.Events))
		}
		turn, r = runTurn(t, s, "wait c? ")
		if r.State != session.StateWaiting {
			t.Errorf("surplus input answered the next turn: %q", outputText(r.Events))
		}
		_, _ = s.Interrupt(t.Context(), turn)
	})

	t.Run("an end of file is given once", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runTurn(t, s, "all everything\nwait next? ")
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("a\nb"), EOF: true}); err != nil {
			t.Fatal(err)
		}
		r = waitReply(t, s, turn)
		if r.InputRequest == nil || r.InputRequest.Prompt != "next? " {
			t.Fatalf("got %+v, want the next input request", r.InputRequest)
		}
		_, _ = s.Interrupt(t.Context(), 0)
	})

	// The reply names lines of an input that answered prompts, because they did not run as code.
	t.Run("the reply names lines of code that answered it", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		_, r := runTurn(t, s, "took 2 n?\nprint a\ntook 4 1:\ntook 5 2:\ntook 6 3:\nprint b\ntook 7 last?")
		var got strings.Builder
		for _, e := range r.Events {
			switch b := e.Body.(type) {
			case timeline.Text:
				got.Write(b.Data)
			case timeline.Notice:
				got.WriteString(b.Message + "\n")
			}
		}
		want := "line 2 of the input answered \"n?\"\na\nlines 4 to 6 of the input answered \"1:\"\nb\nline 7 of the input answered \"last?\"\n"
		if got.String() != want {
			t.Errorf("got %q, want %q", got.String(), want)
		}
	})

	t.Run("a start-up can ask for input", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "prompt"}))
		r := waitUntilReady(t, s)
		if r.State != session.StateWaiting || r.InputRequest == nil || r.InputRequest.Turn != 0 {
			t.Fatalf("got %v, %+v", r.State, r.InputRequest)
		}
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("y\n")}); err != nil {
			t.Fatal(err)
		}
		if r := waitUntilReady(t, s); r.State != session.StateIdle {
			t.Errorf("got %v", r.State)
		}
	})
}

func TestSecret(t *testing.T) {
	t.Parallel()

	t.Run("is in no reply and in no file", func(t *testing.T) {
		t.Parallel()
		const secret = "hunter2"
		dir := t.TempDir()
		sup, err := supervisor.New(&supervisor.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer sup.Close()
		s, err := sup.Open(t.Context(), "main", fakeSpec(nil))
		if err != nil {
			t.Fatal(err)
		}
		turn, r := runTurn(t, s, "secret Password: ")
		if r.InputRequest == nil || !r.InputRequest.Secret {
			t.Fatalf("got %+v, want a secret input request", r.InputRequest)
		}
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte(secret + "\n")}); err != nil {
			t.Fatal(err)
		}
		r = waitReply(t, s, turn)
		s.Log().Sync()
		if strings.Contains(r.Text(), secret) {
			t.Errorf("the reply holds the secret: %q", r.Text())
		}
		for _, e := range s.Log().EventsSince(0) {
			if line, ok := e.Body.(timeline.InputLine); ok && (line.Text != "" || !line.Secret) {
				t.Errorf("the log holds %+v", line)
			}
		}
		err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if info != nil && info.Mode().Perm() == 0 { // masks of a sandbox, which cannot be opened
				return nil
			}
			if err != nil || info.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if strings.Contains(string(b), secret) {
				t.Errorf("%s holds the secret", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})

	t.Run("is redacted where it reappears", func(t *testing.T) {
		t.Parallel()
		const secret = "S3CRETpw"
		s := openSession(t, nil, fakeSpec(nil))
		shown := func(code string) string {
			t.Helper()
			_, r := runTurn(t, s, code)
			return r.Text()
		}
		if got := shown("print " + secret); got != secret+"\n" {
			t.Errorf("before it was typed: got %q", got)
		}
		turn, r := runTurn(t, s, "secret Password: ")
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte(secret + "\n")}); err != nil {
			t.Fatal(err)
		}
		waitReply(t, s, turn)
		for _, code := range []string{"print a " + secret + "!", "err " + secret, "error " + secret, "progress 1 2 " + secret} {
			if got := shown(code); strings.Contains(got, secret) || !strings.Contains(got, "[secret]") && !strings.HasPrefix(code, "progress") {
				t.Errorf("%s: %q", code, got)
			}
		}
		turn, r = runTurn(t, s, "wait "+secret+"? ")
		if r.InputRequest == nil || r.InputRequest.Prompt != "[secret]? " || sessionInfo(s).InputRequest.Prompt != "[secret]? " {
			t.Errorf("got input request %+v", r.InputRequest)
		}
		if _, err := s.Submit(t.Context(), "print"); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte(secret + "\n")}); err != nil {
			t.Fatal(err)
		}
		waitReply(t, s, turn)
		if err := s.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := shown("print " + secret); got != "[session restarted: reset, state lost]\n[secret]\n" {
			t.Errorf("after a reset: got %q", got)
		}
		turn, r = runTurn(t, s, "secret PIN: ")
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("1234\n")}); err != nil {
			t.Fatal(err)
		}
		if r = waitReply(t, s, turn); !strings.Contains(noticeText(r.Events), "fewer than 6 bytes") {
			t.Errorf("a short secret is not redacted, and no notice says so: %q", r.Text())
		}
		past := false
		for _, e := range s.Log().EventsSince(0) {
			if l, ok := e.Body.(timeline.InputLine); ok && l.Secret {
				past = true
			} else if past && strings.Contains(fmt.Sprintf("%s", e.Body), secret) {
				t.Errorf("the log holds %s", e.Body)
			}
		}
	})

	t.Run("is shown with ShowSecrets", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, &supervisor.Options{ShowSecrets: true}, fakeSpec(nil))
		turn, r := runTurn(t, s, "secret Password: \nprint S3CRETpw")
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("S3CRETpw\n")}); err != nil {
			t.Fatal(err)
		}
		if r := waitReply(t, s, turn); !strings.Contains(r.Text(), "S3CRETpw") {
			t.Errorf("got %q", r.Text())
		}
	})
}

func TestStartUpInput(t *testing.T) {
	t.Parallel()

	t.Run("is queued and runs once", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, err := s.Submit(t.Context(), "print queued") // the worker cannot be ready yet
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), "print second"); err != nil && !errors.Is(err, session.ErrBusy) {
			t.Errorf("second input: got %v", err)
		}
		if r := waitReply(t, s, turn); outputText(r.Events) != "queued\n" || r.Turn != 1 {
			t.Errorf("got turn %d %q", r.Turn, outputText(r.Events))
		}
	})

	t.Run("answers a start-up that asks", func(t *testing.T) {
		t.Parallel()
		starts := []string{"prompt"}
		if len(terminalReaderCode) > 0 {
			starts = append(starts, "ttyprompt")
		}
		for _, start := range starts {
			t.Run(start, func(t *testing.T) {
				s, turn := submitEarly(t, start, "yes")
				r := waitReply(t, s, turn)
				if r.Outcome != "ok" || turn != 1 || r.Turn != 0 {
					t.Fatalf("got turn %d, now %d, outcome %q", turn, r.Turn, r.Outcome)
				}
				if !strings.Contains(noticeText(r.Events), "answered a prompt of the start-up") {
					t.Errorf("no notice reports it: %q", noticeText(r.Events))
				}
				if turn, r := runTurn(t, s, "print next"); turn != 2 || outputText(r.Events) != "next\n" {
					t.Errorf("got turn %d, %q", turn, outputText(r.Events))
				}
			})
		}
	})

	t.Run("answers only one question of a start-up", func(t *testing.T) {
		t.Parallel()
		s, first := submitEarly(t, "prompt", "yes")
		// Each input submitted during the start is refused, queued or run, and each turn ends.
		second, err := s.Submit(t.Context(), "print second")
		if err != nil && !errors.Is(err, session.ErrBusy) {
			t.Fatal(err)
		}
		waitReply(t, s, first)
		if second != 0 {
			waitReply(t, s, second)
		}
	})
}

// submitEarly opens sessions until an input is submitted before the first question of a start-up.
func submitEarly(t *testing.T, start, input string) (*supervisor.Session, uint64) {
	t.Helper()
	for {
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: start}))
		turn, err := s.Submit(t.Context(), input)
		if err == nil {
			return s, turn
		}
		if !errors.Is(err, session.ErrWaiting) {
			t.Fatal(err)
		}
	}
}

func TestClose_EndedContext(t *testing.T) {
	t.Parallel()
	for range 10 {
		s := openSession(t, nil, fakeSpec(nil))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Submit(t.Context(), "print x"); !errors.Is(err, session.ErrClosed) {
			t.Fatalf("got %v", err)
		}
	}
}

func TestWait_Timeout(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	waitUntilReady(t, s)
	turn, err := s.Submit(t.Context(), "print first\nsleep")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Wait(t.Context(), turn, session.WaitAtMost(50*time.Millisecond))
	if err != nil || r.State != session.StateRunning || r.Outcome != "" {
		t.Errorf("got %v %q, %v", r.State, r.Outcome, err)
	}
	interruptTurn(t, s, turn)
	// A cursor continues where the last reply stopped.
	rest, err := s.Wait(t.Context(), turn, &session.WaitOptions{After: r.Next})
	if all := outputText(r.Events) + outputText(rest.Events); err != nil || strings.Count(all, "first\n") != 1 {
		t.Errorf("got %q, %v", all, err)
	}
}

func TestEvents_SnapshotThenLive(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	runTurn(t, s, "print one")
	next := timeline.Seq(1)
	done := false
	for e := range s.Events(deadlineContext(t), 0) {
		if e.Seq != next {
			t.Fatalf("got event %d, want %d", e.Seq, next)
		}
		next++
		if _, ok := e.Body.(timeline.TurnEnded); !ok {
			continue
		}
		if done {
			break
		}
		done = true
		go func() { _, _ = s.Submit(t.Context(), "print two") }()
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()

	t.Run("is answered only while the session is idle", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		if _, err := s.Parse(t.Context(), "print x"); err != nil && !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		want := session.Variables{List: []session.Variable{{Name: "answer", Type: "number", Shape: "1", Bytes: 8}}, More: 1}
		var got session.Variables
		var err error
		wait.Until(t, "the query is answered", func() bool { // on a busy machine it may time out
			got, err = s.Variables(t.Context())
			return session.KindOf(err) != session.KindNoAnswer
		})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		turn, _ := s.Submit(t.Context(), "sleep")
		if _, err := s.Variables(t.Context()); !errors.Is(err, session.ErrBusy) {
			t.Errorf("while running: got %v", err)
		}
		if _, err := s.Complete(t.Context(), "pr", 2); !errors.Is(err, session.ErrBusy) {
			t.Errorf("while running: got %v", err)
		}
		_, _ = s.Interrupt(t.Context(), turn)
	})

	t.Run("is not sent to a worker that cannot answer", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{NoQuery: true}))
		waitUntilReady(t, s)
		if _, err := s.Variables(t.Context()); !errors.Is(err, session.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		if _, r := runTurn(t, s, "print ok"); outputText(r.Events) != "ok\n" {
			t.Errorf("got %q", outputText(r.Events))
		}
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("refuses bad names, missing programs and too many sessions", func(t *testing.T) {
		t.Parallel()
		sup := newSupervisor(t, &supervisor.Options{MaxSessions: 1})
		for name, want := range map[string]string{"": "session name", "a b": "session name", "../x": "session name"} {
			if _, err := sup.Open(t.Context(), name, fakeSpec(nil)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v", name, err)
			}
		}
		missing := fakeSpec(nil)
		missing.Path = filepath.Join(t.TempDir(), "python3.exe")
		_, err := sup.Open(t.Context(), "a", missing)
		var start *session.Error
		if !errors.As(err, &start) || !strings.Contains(err.Error(), filepath.Base(missing.Path)) {
			t.Errorf("missing interpreter: got %v", err)
		}
		if _, err := sup.Open(t.Context(), "a", fakeSpec(nil)); err != nil {
			t.Fatalf("after a failed start: %v", err)
		}
		if _, err := sup.Open(t.Context(), "a", fakeSpec(nil)); !errors.Is(err, session.ErrExists) {
			t.Errorf("got %v", err)
		}
		if _, err := sup.Open(t.Context(), "b", fakeSpec(nil)); !errors.Is(err, session.ErrLimit) {
			t.Errorf("got %v", err)
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
		if _, err := sup.Open(t.Context(), "c", fakeSpec(nil)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})

	// On Windows, CON.x and the like are devices, regardless of what follows the first dot.
	t.Run("accepts names of Windows devices", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		sup, err := supervisor.New(&supervisor.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		for _, name := range []string{"CON.x", "nul.1", "com1.a", "aux.", "prn...", "LPT9", "nul"} {
			if _, err := sup.Open(t.Context(), name, fakeworker.NewSpec(testexec.OwnPath(), nil)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if dirs, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(dirs) > 0 {
			t.Errorf("directories whose stem may be a device name: %q", dirs)
		}
	})

	t.Run("applies or refuses a memory limit", func(t *testing.T) {
		t.Parallel()
		sup := newSupervisor(t, nil)
		limited := fakeSpec(nil)
		limited.Limits.Memory = workers.MinMemoryBytes - 1
		if _, err := sup.Open(t.Context(), "a", limited); err == nil || !strings.Contains(err.Error(), "use at least 64 MiB") {
			t.Errorf("too little: got %v", err)
		}
		limited.Limits.Memory = 1 << 30
		s, err := sup.Open(t.Context(), "a", limited)
		if !hasMemoryLimits {
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "leave it out") {
				t.Errorf("got %v, want an error that this system has no memory limits", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, r := runTurn(t, s, "print here"); !strings.Contains(outputText(r.Events), "here") {
			t.Errorf("got %q", outputText(r.Events))
		}
	})
}

// A killed program left one directory with its lock, and one that it was about to remove. A third
// is being created.
func TestNew_RemovesLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"killed-1/lock", "removing-2.discarded/output.txt", "new-3/files"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer sup.Close()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "new-3" {
		t.Errorf("left over: %q, %v", left, err)
	}
}
