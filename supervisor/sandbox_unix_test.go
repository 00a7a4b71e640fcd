//go:build unix

package supervisor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/userdirs"
	"github.com/turnstone-repl/turnstone/sandbox"
)

// The state of this program has tokens and histories. It is not below HOME if that is missing.
func TestServiceDirs_ProgramState(t *testing.T) {
	t.Parallel()
	state := userdirs.ProgramState(func(string) string { return "" })
	if state == "" {
		t.Log("this account has no home directory")
		return
	}
	o := &Options{Env: []string{"PATH=/bin"}}
	if got := o.serviceDirs(&sandbox.Policy{}, "/work"); !slices.Contains(got, state) {
		t.Errorf("%q are hidden, and not %q", got, state)
	}
}

func TestCanHide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	needed := []string{"", "/h/me"}
	for path, want := range map[string]bool{
		dir: true, "/h/me/x": true, "/h/meow": true,
		"/h/me": false, "/h": false, "/h/": false, "/": false, link: false,
		"home": false, "": false,
	} {
		if got := canHide(path, needed); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}
