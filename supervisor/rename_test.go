package supervisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
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
	s, err := sup.Open(t.Context(), "before", fakeworker.NewSpec(testexec.OwnPath(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sup.Open(t.Context(), "other", fakeworker.NewSpec(testexec.OwnPath(), nil)); err != nil {
		t.Fatal(err)
	}
	if err := sup.Rename(s, "other"); !errors.Is(err, session.ErrExists) {
		t.Errorf("an existing name: %v", err)
	}
	if err := sup.Rename(s, "no name"); session.KindOf(err) != session.KindName {
		t.Errorf("an invalid name: %v", err)
	}
	if err := sup.Rename(s, "after"); err != nil {
		t.Fatal(err)
	}
	if i, _ := s.Info(t.Context()); i.Name != "after" || s.Name() != "after" {
		t.Errorf("got the name %s", i.Name)
	}
	// The lock file identifies the session whose transcript is saved if the program is killed.
	locks, _ := filepath.Glob(filepath.Join(dir, "before-*", "lock"))
	if text, err := os.ReadFile(strings.Join(locks, "")); err != nil || !strings.Contains(string(text), `"name":"after"`) {
		t.Errorf("the lock file has %q, %v", text, err)
	}
	if _, ok := sup.Session("before"); ok {
		t.Error("the old name still finds the session")
	}
	if found, _ := sup.Session("after"); found != s {
		t.Error("the new name does not find the session")
	}
	if _, err := sup.Open(t.Context(), "before", fakeworker.NewSpec(testexec.OwnPath(), nil)); err != nil {
		t.Errorf("the old name is still taken: %v", err)
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
