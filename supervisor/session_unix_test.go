//go:build unix

package supervisor_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestOutput_InOrder(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	var code, want strings.Builder
	for range 50 {
		code.WriteString("print A\nchild B\nraw C\nerr D\nbulk 70000\nchild E\n")
		want.WriteString("A\nB\nC\nD\n" + "#" + "E\n")
	}
	_, r := runTurn(t, s, code.String())
	var got strings.Builder
	for e := range s.Events(deadlineContext(t), 0) {
		if x, ok := e.Body.(timeline.Text); ok {
			got.Write(x.Data)
		}
		if e.Seq >= r.Next {
			break
		}
	}
	out := got.String()
	for _, part := range strings.Split(strings.TrimSuffix(want.String(), "E\n"), "#") {
		i := strings.Index(out, part)
		if i < 0 {
			t.Fatalf("%q is not in order: %.200q", part, out)
		}
		out = out[i+len(part):]
	}
}

func TestTerminalRead(t *testing.T) {
	t.Parallel()

	t.Run("is an input request and gets its answer", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runTurn(t, s, "readtty\nprint done")
		if r.InputRequest == nil || !r.InputRequest.Terminal {
			t.Skip("needs /proc/<pid>/syscall: this system does not show who reads the terminal")
		}
		if _, err := s.Answer(t.Context(), r.InputRequest.ID, session.Input{Data: []byte("to the child\n")}); err != nil {
			t.Fatal(err)
		}
		if r := waitReply(t, s, turn); r.Outcome != "ok" || !strings.Contains(outputText(r.Events), "to the child\ndone\n") {
			t.Errorf("got %q %q", r.Outcome, outputText(r.Events))
		}
	})

	t.Run("is ignored if an earlier turn left the reader behind", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		turn, r := runTurn(t, s, "sh exec 3<&0; cat <&3 >/dev/null &\nsleep")
		if r.InputRequest == nil || !r.InputRequest.Terminal || r.InputRequest.Reader != "cat" {
			t.Fatalf("got %+v, want cat to be seen in its own turn", r.InputRequest)
		}
		// Only the interrupted turn ends: programs in the background ignore SIGINT. On a busy
		// machine, cat may be seen reading again before the turn has ended.
		if _, err := s.Interrupt(deadlineContext(t), turn); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, s, 0, func(e timeline.Event) bool {
			_, over := e.Body.(timeline.TurnEnded)
			return over && e.Turn == turn
		})
		for range 5 {
			if _, r := runTurn(t, s, "sleep 60ms\nprint quiet"); r.InputRequest != nil || outputText(r.Events) != "quiet\n" {
				t.Fatalf("got %+v, %q", r.InputRequest, outputText(r.Events))
			}
		}
	})
}

func TestNew_UnsafeDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := supervisor.New(&supervisor.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory that others may write to: got %v", err)
	}
}

func TestWorkerFiles(t *testing.T) {
	t.Parallel()

	t.Run("prepared files exist at each start", func(t *testing.T) {
		t.Parallel()
		spec := fakeSpec(nil)
		spec.Preparations = []workers.Preparation{
			{Key: "first", Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				return workers.PreparationResult{Files: map[string][]byte{"made": []byte("by hand\n")}}, nil
			}},
			{Key: "second", Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				return workers.PreparationResult{Env: []string{"SECOND=too"}}, nil
			}},
		}
		spec.Files = map[string][]byte{"given": []byte("before\n")}
		spec.Env = append(spec.Env, "FILES="+workers.FilesDir)
		s := openSession(t, nil, spec)
		for start := 1; start <= 2; start++ {
			_, r := runTurn(t, s, `sh cat "$FILES/given" "$FILES/made"; echo $SECOND`)
			if got := outputText(r.Events); got != "before\nby hand\ntoo\n" {
				t.Errorf("start %d: got %q", start, got)
			}
			if err := s.Reset(deadlineContext(t)); err != nil {
				t.Fatal(err)
			}
		}
	})

	// A worker's private directory is removed with the worker, write-protected or not. The
	// directory of another generation stays.
	t.Run("the directory is removed with its worker", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"plain", "white space"} {
			dir := filepath.Join(t.TempDir(), name)
			sup, err := supervisor.New(&supervisor.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer sup.Close()
			spec := fakeSpec(nil)
			spec.Files = map[string][]byte{"given": nil}
			spec.Env = append(spec.Env, "TMPDIR=elsewhere", "FILES="+workers.FilesDir)
			spec.PlainEnv = []string{"TMPDIR=" + workers.FilesDir}
			s, err := sup.Open(t.Context(), "main", spec)
			if err != nil {
				t.Fatal(err)
			}
			waitUntilReady(t, s)
			_, r := runTurn(t, s, `sh [ "$TMPDIR" = "$FILES" ] && echo own || echo "$TMPDIR"`)
			if got, want := outputText(r.Events), map[string]string{"plain": "own\n", "white space": "elsewhere\n"}[name]; got != want {
				t.Errorf("%s: TMPDIR is %q, want %q", name, got, want)
			}
			_, r = runTurn(t, s, `sh mkdir "$FILES/sub"; touch "$FILES/sub/file"; chmod 500 "$FILES/sub"; printf %s "$FILES"`)
			first := outputText(r.Events)
			if err := s.Reset(deadlineContext(t)); err != nil {
				t.Fatal(err)
			}
			waitUntilReady(t, s)
			if _, err := os.Lstat(first); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %q still exists: %v", name, first, err)
			}
			if _, r = runTurn(t, s, `sh ls "$FILES"`); outputText(r.Events) != "given\n" {
				t.Errorf("%s: the next worker has %q", name, outputText(r.Events))
			}
			if err := sup.Close(); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
				t.Errorf("%s: left over: %v, %v", name, left, err)
			}
		}
	})
}

func TestTurnEnd(t *testing.T) {
	t.Parallel()
	t.Run("reports the signal that ended the worker", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, &supervisor.Options{StopGrace: testTimeout}, fakeSpec(nil))
		turn, err := s.Submit(t.Context(), "crash KILL")
		if err != nil {
			t.Fatal(err)
		}
		end, err := session.CopyOutput(deadlineContext(t), s, turn, nil, nil)
		if err != nil || end.Outcome != timeline.OutcomeEnded || !strings.Contains(end.Message, "SIGKILL") {
			t.Errorf("got %+v, %v", end, err)
		}
	})
	t.Run("includes the output of a worker that did not start", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, workers.Spec{Name: "broken", Path: "/bin/sh", Args: []string{"-c", "echo oops; exit 4"}})
		if _, err := s.Wait(deadlineContext(t), 0, nil); err != nil { // the start may fail before or after the input
			t.Fatal(err)
		}
		for range 3 {
			turn, err := s.Submit(t.Context(), "1")
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Wait(deadlineContext(t), turn, nil)
			if err != nil || r.Outcome != timeline.OutcomeEnded || !strings.Contains(r.Text(), "oops") || !strings.Contains(r.Text(), "exit status 4") {
				t.Errorf("got %q, %+v, %v", r.Text(), r, err)
			}
			_, err = session.CopyOutput(deadlineContext(t), s, turn, nil, nil)
			if !errors.Is(err, session.ErrStale) || !strings.Contains(err.Error(), "it did not run") {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestRun_StartText(t *testing.T) {
	t.Parallel()
	spec := fakeSpec(nil)
	spec.Path, spec.Args = "/bin/sh", []string{"-c", "echo no library found; exit 7"}
	r, err := session.Run(deadlineContext(t), openSession(t, nil, spec), "print no", nil)
	if err != nil || r.Error == nil || !strings.Contains(r.Error.Message, "exit status 7") || !strings.Contains(r.Error.Traceback, "no library found") || r.Text != "" {
		t.Errorf("got %+v, %v", r, err)
	}
}
