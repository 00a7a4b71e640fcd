package python_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestFind_Requires(t *testing.T) {
	t.Parallel()
	if homeEnvVar != "HOME" {
		t.Skip("Wine has no pyenv")
	}
	p := newFindFixture(t)
	p.writePython(filepath.Join(p.bin, "python3.9"))
	p.writeLink("python3.9", filepath.Join(p.bin, "python3"))
	versions := filepath.Join(p.home, ".pyenv", "versions")
	for _, version := range []string{"3.10.4", "3.12.1", "3.12.11", "3.14.0"} {
		p.writePython(filepath.Join(versions, version, "bin", "python3"))
	}
	p.writePython(filepath.Join(p.project, ".venv", "bin", "python3"))
	p.writeFile(filepath.Join(p.project, ".venv", "pyvenv.cfg"), "version = 3.11.2\n", 0o644)
	find := func(named, requires string) (python.Interpreter, error) {
		found, _, err := python.Find(python.FindOptions{Path: named, Dir: p.project, Requires: requires, Env: p.env})
		return found, err
	}
	for requires, want := range map[string]string{
		"":             filepath.Join(p.project, ".venv", "bin", "python3"),
		">=3.11":       filepath.Join(p.project, ".venv", "bin", "python3"),
		"<3.10":        filepath.Join(p.bin, "python3"),
		">=3.12":       filepath.Join(versions, "3.14.0", "bin", "python3"), // the newest
		">=3.12,<3.13": filepath.Join(versions, "3.12.11", "bin", "python3"),
		"==3.10.*":     filepath.Join(versions, "3.10.4", "bin", "python3"),
	} {
		found, err := find("", requires)
		if err != nil || found.Path != want {
			t.Errorf("%q: got %+v, %v; want %s", requires, found, err, want)
		}
		if uses := strings.Contains(want, ".venv"); uses != (found.Mismatch == "") {
			t.Errorf("%q: the mismatch is %q", requires, found.Mismatch) // the environment of the project is not used
		}
	}
	if _, err := find("", ">=3.15"); err == nil || !strings.Contains(err.Error(), "no Python >=3.15 found") || !strings.Contains(err.Error(), "is Python 3.11.2, not >=3.15") {
		t.Errorf("got %v", err)
	}
	if _, err := find("3.12", ">=3.13"); err == nil || !strings.Contains(err.Error(), "is Python 3.12.11, not >=3.13") {
		t.Errorf("a named one: got %v", err)
	}
	if found, err := find("3.12", ">=3.12"); err != nil || found.Version != "3.12.11" {
		t.Errorf("a named one: got %+v, %v", found, err)
	}
	p.writePython(filepath.Join(p.bin, "python3.15"))
	if found, err := find("", ">=3.15"); err != nil || found.Path != filepath.Join(p.bin, "python3.15") {
		t.Errorf("on PATH only: got %+v, %v", found, err)
	}
}
