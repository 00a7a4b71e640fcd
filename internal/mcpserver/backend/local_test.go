package backend_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// newLocal returns the sessions of a client in a supervisor with room for two.
func newLocal(t *testing.T) *backend.Local {
	t.Helper()
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), MaxSessions: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	return &backend.Local{
		Supervisor: sup,
		Specs: map[string]func(string) workers.Spec{
			"fake": func(dir string) workers.Spec {
				spec := fakeworker.NewSpec(testexec.OwnPath(), nil)
				spec.Dir = dir
				return spec
			},
			"none": func(string) workers.Spec { return workers.Spec{Err: errors.New("no runtime is installed")} },
		},
		Author:     "agent",
		NamePrefix: "c1-",
		MakeRoom:   func() bool { return false },
	}
}

// open opens a session without a limit on its sandbox.
func open(t *testing.T, b backend.Backend, name, lang string) (*backend.SessionHandle, error) {
	t.Helper()
	return b.Open(t.Context(), name, lang, t.TempDir(), func(s *sandbox.Policy) *sandbox.Policy { return s }, func(string) {})
}

func TestLocal_Open(t *testing.T) {
	t.Parallel()

	t.Run("opens a new session of the client", func(t *testing.T) {
		t.Parallel()
		b := newLocal(t)
		h, err := open(t, b, "main", "fake")
		if err != nil {
			t.Fatal(err)
		}
		if h.Name() != "c1-main" || h.Author() != "agent" || !h.IsNew || h.IsRemote || h.Link != nil || h.SaveCursor != nil || h.AttachCommand != "" {
			t.Errorf("got %+v", h)
		}
		if h.OutputPath() == "" || h.TranscriptName() != h.OutputPath() {
			t.Errorf("got the transcript %q, named %q", h.OutputPath(), h.TranscriptName())
		}
		if err := h.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := h.InfoOrEnded(t.Context()); now.State != session.StateEnded {
			t.Errorf("got the state %s after the client left", now.State)
		}
	})

	t.Run("gives the session what narrow leaves of the sandbox", func(t *testing.T) {
		t.Parallel()
		var left *sandbox.Policy
		h, err := newLocal(t).Open(t.Context(), "main", "fake", t.TempDir(), func(s *sandbox.Policy) *sandbox.Policy {
			left = s
			return left
		}, func(string) {})
		if err != nil || h.Sandbox != left {
			t.Errorf("got %v, want the sandbox %v", err, left)
		}
	})

	t.Run("says in the caller's words why it fails", func(t *testing.T) {
		t.Parallel()
		b := newLocal(t)
		for _, row := range []struct{ name, lang, want string }{
			{"main", "none", `session "main" did not start: no runtime is installed`},
			{"a/b", "fake", `"a/b" is not a session name`},
		} {
			if _, err := open(t, b, row.name, row.lang); err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "c1-") {
				t.Errorf("%s: got %v, want %s", row.name, err, row.want)
			}
		}
	})

	t.Run("reports preparation, and closes what was not prepared", func(t *testing.T) {
		t.Parallel()
		b := newLocal(t)
		plain := b.Specs["fake"]
		b.Prepares, b.Specs["fake"] = true, func(dir string) workers.Spec {
			spec := plain(dir)
			spec.Preparations = []workers.Preparation{{Key: "1", Name: "numpy", Run: func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
				return workers.PreparationResult{}, errors.New("no network")
			}}}
			return spec
		}
		var reported []string
		_, err := b.Open(t.Context(), "main", "fake", t.TempDir(), func(s *sandbox.Policy) *sandbox.Policy { return s }, func(line string) { reported = append(reported, line) })
		if _, ok := errors.AsType[*backend.PrepareError](err); !ok || !strings.Contains(err.Error(), "no network") {
			t.Errorf("got %v, want failed preparation", err)
		}
		if len(reported) == 0 || !strings.Contains(reported[0], "numpy") {
			t.Errorf("got the progress %q", reported)
		}
		if left := b.Supervisor.Sessions(); len(left) > 0 {
			t.Errorf("%d sessions are left", len(left))
		}
	})

	t.Run("makes room once", func(t *testing.T) {
		t.Parallel()
		b := newLocal(t)
		first, err := open(t, b, "a", "fake")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, b, "b", "fake"); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, b, "c", "fake"); !errors.Is(err, session.ErrLimit) {
			t.Errorf("got %v, want the limit", err)
		}
		b.MakeRoom = func() bool { return first.Leave(context.Background()) == nil }
		if _, err := open(t, b, "c", "fake"); err != nil {
			t.Errorf("got %v with room", err)
		}
	})
}
