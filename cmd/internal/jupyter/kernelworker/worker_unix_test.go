//go:build unix

package kernelworker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor: supervisor.MonitorMain,
		Commands: map[string]func([]string) int{
			"fake-kernel": func(args []string) (status int) { return runFakeKernel(args[0], args[1:]...) },
			"kernel-worker": func(args []string) (status int) {
				s, err := kernelspec.Read(args[0])
				if err != nil {
					panic(err)
				}
				return Run(Options{Spec: s, Dir: args[1]})
			},
		},
		Serial: true,
	})
}

// A testSession is a session whose worker runs a fake kernel.
type testSession struct {
	*testing.T
	*supervisor.Session
}

// openFakeKernel starts a fake kernel with these words after its command.
func openFakeKernel(t *testing.T, flags ...string) testSession {
	t.Helper()
	program := testexec.OwnPath()
	spec, err := json.Marshal(map[string]any{
		"argv": append([]string{program, "fake-kernel", "{connection_file}"}, flags...), "display_name": "Fake", "language": "fake",
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kernel.json"), spec, 0o600); err != nil {
		t.Fatal(err)
	}
	sup, err := supervisor.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(t.Context(), "main", workers.Spec{
		Name: "jupyter:fake", Path: program, Args: []string{"kernel-worker", dir, workers.FilesDir},
		Files: map[string][]byte{"kernel": nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	return testSession{t, s}
}

// runInput runs an input until its turn is over or waits, and returns its events as text.
func (s testSession) runInput(code string) (string, session.Reply) {
	s.Helper()
	turn, err := s.Submit(s.Context(), code)
	if err != nil {
		s.Fatal(err)
	}
	return s.describeRest(turn, 0)
}

func (s testSession) describeRest(turn uint64, after timeline.Seq) (string, session.Reply) {
	s.Helper()
	reply, err := s.Wait(s.Context(), turn, &session.WaitOptions{After: after})
	if err != nil {
		s.Fatal(err)
	}
	isEarlier := func(e timeline.Event) bool { return e.Generation < reply.Generation } // a reply may start with the end of the last worker
	return describeEvents(slices.DeleteFunc(slices.Clone(reply.Events), isEarlier)), reply
}

// describeEvents renders events: text unchanged, the rest in brackets.
func describeEvents(events []timeline.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch body := e.Body.(type) {
		case timeline.Text:
			if body.Kind != "" {
				fmt.Fprintf(&b, "[%s]", body.Kind)
			}
			b.Write(body.Data)
		case timeline.Display:
			fmt.Fprintf(&b, "[display %v %v %s]", body.Update, body.Result, body.Data["text/html"])
		case timeline.WorkerExited:
			fmt.Fprintf(&b, "[ended %d %s: %s]", body.ExitCode, body.Reason, body.Message)
		}
	}
	return b.String()
}

func (s testSession) wantTurn(code, text string, outcome timeline.Outcome) session.Reply {
	s.Helper()
	got, reply := s.runInput(code)
	if got != text || reply.Outcome != outcome {
		s.Errorf("%s: got %q, %s; want %q, %s", code, got, reply.Outcome, text, outcome)
	}
	return reply
}

// wantRestart resets the session and waits for the new kernel. The kernel may be ready before the next
// input or after it. Only in the latter case is the text of its start in the reply to that input.
func (s testSession) wantRestart() {
	s.Helper()
	before := s.Log().LastSeq()
	if err := s.Reset(s.Context()); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Wait(s.Context(), 0, nil); err != nil {
		s.Fatal(err)
	}
	if got := describeEvents(s.Log().EventsSince(before)); !strings.HasSuffix(got, "noise of the start\n") {
		s.Errorf("the start of the new kernel: %q", got)
	}
	s.wantTurn("print=new", "new\n", timeline.OutcomeOK)
}

func TestTurn(t *testing.T) {
	t.Parallel()

	t.Run("ends after reply and idle in either order", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		for range 20 {
			r.wantTurn("print=one", "one\n", timeline.OutcomeOK)
			r.wantTurn("idle-first print=two", "two\n", timeline.OutcomeOK)
		}
		r.wantTurn("print=a others print=b", "a\nof another parent\nb\n", timeline.OutcomeOK)
		r.wantTurn("fail", "[traceback]where\nFailure: no\n", timeline.OutcomeError)
		r.wantTurn("result", "[result]42\n[display false true <b>42</b>]", timeline.OutcomeOK)
		r.wantTurn("page", "a page\n", timeline.OutcomeOK)
	})

	t.Run("attributes startup output to turn 0", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		if got := describeEvents(r.Log().EventsSince(0)); !strings.Contains(got, "noise of the start\n") {
			t.Errorf("got %q", got)
		}
		r.wantTurn("print=one", "one\n", timeline.OutcomeOK)
		info, err := r.Info(t.Context())
		if err != nil || info.RuntimeVersion != "Fake 1.2" && info.RuntimeVersion != "1.2" {
			t.Errorf("%+v, %v", info, err)
		}
	})

	t.Run("ignores a message with a wrong signature", func(t *testing.T) {
		t.Parallel()
		openFakeKernel(t).wantTurn("forged print=ours", "ours\n", timeline.OutcomeOK)
	})

	t.Run("delivers every display update", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		_, reply := r.runInput("updates=10000 print=done")
		updates := 0
		for _, e := range r.Log().EventsSince(0) {
			if d, ok := e.Body.(timeline.Display); ok && d.Update {
				updates++
			}
		}
		if reply.Outcome != timeline.OutcomeOK || updates != 9999 {
			t.Errorf("got %d updates, %s", updates, reply.Outcome)
		}
	})

	t.Run("turns a kernel question into an input request", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		_, reply := r.runInput("ask=name")
		if reply.InputRequest == nil || reply.InputRequest.Prompt != "name?" || reply.InputRequest.Kind == timeline.InputKindSecret {
			t.Fatalf("%+v", reply)
		}
		turn, err := r.Answer(t.Context(), reply.InputRequest.ID, session.Input{Data: []byte("Ada é\n")})
		if err != nil {
			t.Fatal(err)
		}
		if got, reply := r.describeRest(turn, reply.Next); got != "got \"Ada é\"\n" || reply.Outcome != timeline.OutcomeOK {
			t.Errorf("%q, %s", got, reply.Outcome)
		}
		if _, reply = r.runInput("secret=pass"); reply.InputRequest == nil || reply.InputRequest.Kind != timeline.InputKindSecret {
			t.Fatalf("%+v", reply.InputRequest)
		}
		if turn, err = r.Answer(t.Context(), reply.InputRequest.ID, session.Input{EOF: true}); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.describeRest(turn, reply.Next); got != "got \"\\x04\"\n" {
			t.Errorf("got %q for the end of file", got)
		}
	})
}

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends a loop and a question", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		for _, code := range []string{"loop", "ask=name"} {
			turn, err := r.Submit(t.Context(), code)
			if err != nil {
				t.Fatal(err)
			}
			if result, err := r.Interrupt(t.Context(), turn); err != nil || result != session.InterruptIdle {
				t.Fatalf("%s: %s, %v", code, result, err)
			}
		}
		r.wantTurn("print=on", "on\n", timeline.OutcomeOK)
	})

	t.Run("allows a reset when the kernel ignores it", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		turn, err := r.Submit(t.Context(), "stubborn")
		if err != nil {
			t.Fatal(err)
		}
		if result, err := r.Interrupt(t.Context(), turn); err != nil || result == session.InterruptIdle {
			t.Fatalf("%s, %v", result, err)
		}
		r.wantRestart()
	})

	t.Run("allows a reset when the kernel never turns idle", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		turn, err := r.Submit(t.Context(), "print=one no-idle")
		if err != nil {
			t.Fatal(err)
		}
		if result, err := r.Interrupt(t.Context(), turn); err != nil || result == session.InterruptIdle {
			t.Fatalf("%s, %v", result, err)
		}
		r.wantRestart()
	})
}

func TestKernelExit(t *testing.T) {
	t.Parallel()

	t.Run("is reported and the next input starts a new kernel", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string][]string{
			"print=before exit=3": {"before\n", "last words", "[ended 3", "exit status 3"},
			"killed":              {"the kernel's process died: killed"},
			"ask-and-die":         {"[ended 9"},
			"print=x hang-up":     {"closed a connection"},
		} {
			t.Run(code, func(t *testing.T) {
				t.Parallel()
				r := openFakeKernel(t)
				turn, err := r.Submit(t.Context(), code)
				if err != nil {
					t.Fatal(err)
				}
				reply, err := r.Wait(t.Context(), turn, nil)
				if err == nil && reply.InputRequest != nil { // a kernel that asks may be seen waiting before it dies
					_, _ = r.Answer(t.Context(), reply.InputRequest.ID, session.Input{Data: []byte("x\n")})
					_, err = r.Wait(t.Context(), turn, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				got := describeEvents(r.Log().EventsSince(0))
				for _, part := range want {
					if !strings.Contains(got, part) {
						t.Errorf("got %q, want %q in it", got, part)
					}
				}
				r.wantTurn("print=new", "noise of the start\nnew\n", timeline.OutcomeOK)
			})
		}
	})

	t.Run("quotes the kernel when it exits during startup", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t, "dies")
		got := describeEvents(r.Log().EventsSince(0))
		for _, part := range []string{"no language today\n", "ended during its start (exit status 7)", "[ended 7"} {
			if !strings.Contains(got, part) {
				t.Errorf("got %q, want %q in it", got, part)
			}
		}
	})
}

func TestExit(t *testing.T) {
	t.Parallel()
	t.Run("is an error if the kernel asks for it", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		reply := r.wantTurn("ask_exit", "[traceback]SystemExit\n[an exit ends the input, not the session: all variables are there]\n", timeline.OutcomeError)
		if end, _ := reply.End(); end.Name != "SystemExit" {
			t.Errorf("got the end %+v", end)
		}
		if after := r.wantTurn("print=on", "on\n", timeline.OutcomeOK); after.Generation != 1 {
			t.Errorf("got worker generation %d", after.Generation)
		}
	})
	t.Run("ends the session if the turn may exit", func(t *testing.T) {
		t.Parallel()
		r := openFakeKernel(t)
		turn, err := r.SubmitMayExit(t.Context(), "ask_exit")
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := r.Wait(t.Context(), turn, nil); err != nil || reply.Outcome != timeline.OutcomeEnded {
			t.Errorf("got %+v, %v", reply, err)
		}
	})
}

func TestQueries(t *testing.T) {
	t.Parallel()
	r := openFakeKernel(t)
	r.wantTurn("print=on", "on\n", timeline.OutcomeOK)
	var c session.Completion
	var err error
	wait.Until(t, "a completion arrives", func() bool { // a busy machine may take longer than a query
		c, err = r.Complete(t.Context(), "é.pri", len("é.pri"))
		return err != nil || len(c.Matches) > 0
	})
	if err != nil || c.Start != len("é.") || len(c.Matches) != 1 || c.Matches[0] != "print" {
		t.Errorf("%+v, %v", c, err)
	}
	var i session.Inspection
	wait.Until(t, "help arrives", func() bool {
		i, err = r.Inspect(t.Context(), "x", 1)
		return session.KindOf(err) != session.KindNoAnswer
	})
	if err != nil || !i.Found || i.Data["text/plain"] != "help" {
		t.Errorf("%+v, %v", i, err)
	}
}
