package supervisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	sup := newSupervisor(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("a wrong spec and a failed start are different errors", func(t *testing.T) {
		t.Parallel()
		nowhere := python.Spec(python.Options{Dir: t.TempDir(), Env: []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir(), "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_VERSION", "PYENV_ROOT"}})
		for name, c := range map[string]struct {
			change func(*workers.Spec)
			want   session.Kind
		}{
			"a limit too small to start": {func(s *workers.Spec) { s.Limits.Memory = 5 }, session.KindSpec},
			"a limit on disk alone":      {func(s *workers.Spec) { s.Sandbox, s.Limits.Disk = nil, 1<<30 }, session.KindSpec},
			"an invalid host": {func(s *workers.Spec) {
				s.Sandbox = &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, Hosts: []string{"a b"}}
			}, session.KindSpec},
			"an unknown level":             {func(s *workers.Spec) { s.Sandbox = &sandbox.Policy{Level: "some"} }, session.KindSpec},
			"a relative path":              {func(s *workers.Spec) { s.Path = "python3" }, session.KindSpec},
			"no such program":              {func(s *workers.Spec) { s.Path = filepath.Join(file, "none") }, session.KindSpec},
			"no such directory":            {func(s *workers.Spec) { s.Dir = filepath.Join(filepath.Dir(file), "none") }, session.KindSpec},
			"a file as directory":          {func(s *workers.Spec) { s.Dir = file }, session.KindSpec},
			"a zero byte":                  {func(s *workers.Spec) { s.Args = append(s.Args, "a\x00b") }, session.KindSpec},
			"an option out of bounds":      {func(s *workers.Spec) { *s = python.Spec(python.Options{ImageDPI: -1}) }, session.KindSpec},
			"a missing Python":             {func(s *workers.Spec) { *s = python.Spec(python.Options{Path: "/no/such/python"}) }, session.KindSpec},
			"an empty compilation":         {func(s *workers.Spec) { s.Compilation = &workers.Compilation{} }, session.KindSpec},
			"no Python on this machine":    {func(s *workers.Spec) { *s = nowhere }, session.KindStart},
			"a file that is not a program": {func(s *workers.Spec) { s.Path = file }, session.KindStart},
		} {
			if name == "no Python on this machine" && nowhere.Err == nil {
				continue // a program in a system directory is always found
			}
			spec := fakeSpec(nil)
			c.change(&spec)
			_, err := sup.Open(t.Context(), "main", spec)
			if session.KindOf(err) != c.want {
				t.Errorf("%s: got %q, %v", name, session.KindOf(err), err)
			}
			if err != nil && strings.Contains(err.Error(), " --") {
				t.Errorf("%s: the error names a command-line flag: %v", name, err)
			}
		}
	})
	t.Run("a closed supervisor reports that it is closed", func(t *testing.T) {
		t.Parallel()
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := sup.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := sup.Open(t.Context(), "main", fakeSpec(nil)); !errors.Is(err, session.ErrClosed) || err.Error() != "the supervisor is closed" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("nil is accepted for optional arguments", func(t *testing.T) {
		t.Parallel()
		if _, err := sup.TrySandbox(t.Context(), nil, ""); err != nil {
			t.Error(err)
		}
		var none func(context.Context, struct{}) (int, error)
		if err := supervisor.FunctionOf("none", "", none).Check(); err == nil {
			t.Error("Check accepted a function without a Call")
		}
		spec := fakeSpec(nil)
		spec.Preparations = []workers.Preparation{{Key: "x", Run: func(_ context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			report(workers.PreparationProgress{Done: 1})
			return workers.PreparationResult{}, nil
		}}}
		if _, err := spec.RunPreparations(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestFirstReply(t *testing.T) {
	t.Parallel()
	t.Run("starts with all notices of the start and without its text", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "prompt"}))
		r, err := s.Wait(deadlineContext(t), 0, nil)
		if err != nil || r.InputRequest == nil {
			t.Fatalf("got %+v, %v", r, err)
		}
		s.Notify("the first")
		s.Notify("the second")
		if _, err := s.Answer(deadlineContext(t), r.InputRequest.ID, session.Input{Data: []byte("yes\n")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Wait(deadlineContext(t), 0, nil); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"[the first]\n[the second]\nhi\n", "hi\n"} {
			_, r := runTurn(t, s, "print hi")
			if r.Text() != want {
				t.Errorf("got %q, want %q", r.Text(), want)
			}
		}
	})
}
