//go:build unix

package supervisor

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// Code may have created a link with any name, and a user reads the error.
func TestCheckPath_QuotesNames(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link, gone := filepath.Join(dir, "a\x1b[8m"), filepath.Join(dir, "b\u2800c")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		link: strconv.Quote(link) + " leads to " + text.QuoteName(dir) + "; a user must confirm that",
		gone: `"` + filepath.Join(dir, `b\u2800c`) + `" cannot be allowed: no such file or directory`,
	} {
		spec := workers.Spec{Dir: dir, Sandbox: &sandbox.Policy{Level: sandbox.Workspace}}
		if _, err := new(Options).CheckPath(&spec, session.Grant{Write: path}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
