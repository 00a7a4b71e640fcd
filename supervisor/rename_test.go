package supervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

func TestRename(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sup, err := supervisor.New(&supervisor.Options{Dir: dir, RecoverCommand: "program recover"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(t.Context(), "before", fakeworker.NewSpec(executablePath(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sup.Open(t.Context(), "other", fakeworker.NewSpec(executablePath(), nil)); err != nil {
		t.Fatal(err)
	}
	if err := sup.Rename(s, "other"); !errors.Is(err, session.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := sup.Rename(s, "no name"); session.KindOf(err) != session.KindName {
		t.Errorf("no name: %v", err)
	}
	if err := sup.Rename(s, "after"); err != nil {
		t.Fatal(err)
	}
	if i, _ := s.Info(t.Context()); i.Name != "after" || s.Name() != "after" {
		t.Errorf("its name is %s", i.Name)
	}
	// The lock file says whose transcript is kept if the program is killed.
	locks, _ := filepath.Glob(filepath.Join(dir, "before-*", "lock"))
	if text, err := os.ReadFile(strings.Join(locks, "")); err != nil || !strings.Contains(string(text), `"name":"after"`) {
		t.Errorf("the lock file has %q, %v", text, err)
	}
	if _, ok := sup.Session("before"); ok {
		t.Error("the old name leads to it")
	}
	if found, _ := sup.Session("after"); found != s {
		t.Error("the new name does not lead to it")
	}
	if _, err := sup.Open(t.Context(), "before", fakeworker.NewSpec(executablePath(), nil)); err != nil {
		t.Errorf("the old name is not free: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sup.Rename(s, "again"); !errors.Is(err, session.ErrClosed) {
		t.Errorf("a closed session: %v", err)
	}
	if len(sup.Sessions()) != 2 {
		t.Errorf("%d sessions are open, want 2", len(sup.Sessions()))
	}
}
