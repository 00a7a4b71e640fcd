package cmdflags

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
)

func TestScriptFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a := write("a.py", "# /// script\n# dependencies = [\"a\"]\n# requires-python = \">=3.9\"\n# ///\n")
	b := write("b.py", "# /// script\n# dependencies = [\"b\"]\n# requires-python = \"<4\"\n# ///\n")

	t.Run("joins what a file and a program ask for", func(t *testing.T) {
		t.Parallel()
		n, err := (&ScriptFlags{File: a}).ReadScripts(io.Discard, b, true)
		if err != nil || !slices.Equal(n.Packages, []string{"a", "b"}) || n.RequiresPython != ">=3.9, <4" {
			t.Errorf("got %+v, %v", n, err)
		}
		if err := n.CheckConfined(b, true); err == nil || !strings.Contains(err.Error(), "(b)") {
			t.Errorf("in a sandbox: got %v", err)
		}
		n, err = (&ScriptFlags{File: a}).ReadScripts(io.Discard, a, true)
		if err != nil || !slices.Equal(n.Packages, []string{"a"}) || n.CheckConfined(a, true) != nil {
			t.Errorf("the same file: got %+v, %v", n, err)
		}
		if n, err := new(ScriptFlags).ReadScripts(io.Discard, b, false); err != nil || len(n.Packages) > 0 {
			t.Errorf("a program in R: got %+v, %v", n, err)
		}
	})

	t.Run("protects the file from sandboxed sessions, also behind a link", func(t *testing.T) {
		t.Parallel()
		link := filepath.Join(t.TempDir(), "link.py")
		err := os.Symlink(a, link)
		if err == nil {
			_, err = os.Readlink(link)
		}
		if err != nil {
			t.Skipf("symbolic links need a privilege on Windows, and Wine cannot read them: %v", err)
		}
		policy := &sandbox.Policy{Level: sandbox.Workspace}
		if err := (&ScriptFlags{File: link}).ProtectFile(policy); err != nil || !slices.Contains(policy.Protected, link) || !slices.Contains(policy.Protected, paths.RealOrSame(a)) {
			t.Errorf("got %q, %v", policy.Protected, err)
		}
		if err := (&ScriptFlags{File: a}).ProtectFile(nil); err != nil {
			t.Error(err)
		}
	})

	t.Run("checks the conditions of a client", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			requires, language string
			ok                 bool
		}{{"", "r", true}, {">=3.9", "python", true}, {">=3.9", "r", false}, {"3.9", "python", false}} {
			if err := CheckRequiresPython(c.requires, c.language); (err == nil) != c.ok || err != nil && session.KindOf(err) != session.KindInvalid {
				t.Errorf("%+v: got %v", c, err)
			}
		}
	})
}
