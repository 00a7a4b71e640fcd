package escapes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/session"
)

// The documentation of the sandbox makes these promises, which no other test checks.

func TestDocumented(t *testing.T) {
	t.Parallel()

	t.Run("copies belong to one session and are removed with it", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sandboxcheck.RequireLayers(t, m.base)
		one, other := openSession(t, m, newSandbox(m)), openSession(t, m, newSandbox(m))
		one.RunCode(t, atHomeCode)
		other.RunCode(t, atHomeCode)
		wantOutput(t, one, "print(puts('go/copy'), puts('.config/made'), puts('/tmp/made'))", "written written written")
		seen := "print([os.path.exists(p) for p in ('go/copy', '.config/made', '/tmp/made')])"
		wantOutput(t, one, seen, "[True, True, True]")
		wantOutput(t, other, seen, "[False, False, False]")
		if err := one.Session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = filepath.WalkDir(m.base, func(path string, _ os.DirEntry, _ error) error {
			if base := filepath.Base(path); base == "copy" || base == "made" {
				t.Errorf("%s remains", path)
			}
			return nil
		})
	})

	t.Run("some files are not protected", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.work, ".env"), "KEY=1")
		writeFile(t, filepath.Join(m.home, "letter.txt"), "dear")
		if err := os.Link(filepath.Join(m.home, "letter.txt"), filepath.Join(m.work, "linked")); err != nil {
			t.Fatal(err)
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		for _, c := range []struct{ code, want string }{
			{"print(readable('project/.env'), readable('letter.txt'))", "open: KEY=1 open: dear"},
			{"print(readable('../outside/file'))", "open: outside"},
			{"print(puts('letter.txt'), puts('project/linked'))", "Read-only file system written"},
			{"import shutil; shutil.rmtree('project/.git/refs/heads'); print(os.path.exists('project/.git/refs/heads'))", "False"},
		} {
			wantOutput(t, r, c.code, c.want)
		}
		if got := readText(filepath.Join(m.home, "letter.txt")); got != "from inside" {
			t.Errorf("the other name of the file has %q", got)
		}
	})

	t.Run("protected names stay even if made writable", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		for _, place := range []string{".vscode", ".git/hooks"} {
			box.Writable = append(box.Writable, filepath.Join(m.work, place))
		}
		r := openSession(t, m, box)
		r.RunCode(t, atHomeCode)
		wantOutput(t, r, "print(puts('project/.vscode/x'), '|', puts('project/.git/hooks/pre-push'))", "Read-only file system | Read-only file system")
	})

	t.Run("at most twenty missing names are explained", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for i := range 25 {
			writeFile(t, filepath.Join(m.home, ".data"+strconv.Itoa(i), "x"), "old")
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		count := 0
		for i := range 25 {
			count += strings.Count(r.RunCode(t, "open(os.environ['HOME'] + '/.data"+strconv.Itoa(i)+"/x')").Transcript(), "the sandbox does not show")
		}
		if count != 20 {
			t.Errorf("got %d lines, want 20", count)
		}
	})

	t.Run("no host is added without a list", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		wantGrant(t, r, session.Grant{Host: "example.org"}, "its network is none")
	})
}
