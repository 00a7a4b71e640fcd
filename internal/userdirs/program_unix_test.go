//go:build unix

package userdirs_test

import (
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func TestProgramState(t *testing.T) {
	usual := userdirs.ProgramState(environment{}.get)
	for name, v := range map[string]environment{
		"a relative path":  {"XDG_STATE_HOME": "state"},
		"no home":          {"HOME": "/nonexistent"},
		"a relative home":  {"HOME": "home"},
		"no absolute path": {"XDG_STATE_HOME": "./x", "HOME": ""},
	} {
		if got := userdirs.ProgramState(v.get); got != usual || got != "" && !filepath.IsAbs(got) {
			t.Errorf("%s: %q, not %q", name, got, usual)
		}
	}
	home, state := t.TempDir(), t.TempDir()
	if got, want := userdirs.ProgramState(environment{"HOME": home}.get), filepath.Join(home, ".local", "state", "turnstone"); got != want {
		t.Errorf("an own home: %q, not %q", got, want)
	}
	if got, want := userdirs.ProgramState(environment{"HOME": home, "XDG_STATE_HOME": state}.get), filepath.Join(state, "turnstone"); got != want {
		t.Errorf("a variable: %q, not %q", got, want)
	}
	t.Run("another's home", func(t *testing.T) {
		owners.GiveAway(t, home)
		if got := userdirs.ProgramState(environment{"HOME": home}.get); got != usual {
			t.Errorf("%q, not %q", got, usual)
		}
	})
}
