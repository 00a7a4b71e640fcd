package nameguard

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// newTestGuard returns the guard of a session that writes a directory, and that directory.
func newTestGuard(t *testing.T) (g *Guard, work string) {
	t.Helper()
	work = t.TempDir()
	g = New(nil)
	g.GuardMore([]mountlist.Path{mountlist.Path(work)}, nil)
	return g, work
}

func TestGuardUnknown(t *testing.T) {
	t.Parallel()

	// A directory that the monitor cannot read counts as a foreign repository.
	t.Run("protects a directory that it cannot read", func(t *testing.T) {
		t.Parallel()
		g, work := newTestGuard(t)
		long := work + "/" + strings.Repeat("a", 256)
		for _, name := range []string{".git", "HEAD", "config", "hooks/x", ".envrc", ".hg/hgrc", ".github/hooks/x"} {
			if !g.IsRestricted(long + "/" + name) {
				t.Errorf("%s may be created", name)
			}
		}
		if g.IsRestricted(long + "/plain") {
			t.Error("an ordinary name must not be created")
		}
		for name, may := range map[string]bool{"objects": false, "HEAD": false, "plain": true} {
			if got := !g.isRepositoryPart(long + "/" + name); got != may {
				t.Errorf("%s: may be removed: got %v", name, got)
			}
		}
	})

	// A directory with more names than the search limit counts as one with a repository.
	t.Run("takes an unsearched directory for a repository", func(t *testing.T) {
		t.Parallel()
		g, work := newTestGuard(t)
		for i := range 20 {
			writeTestFile(t, work+"/big/"+strconv.Itoa(i)+"/file", "")
			writeTestFile(t, work+"/big/node_modules/"+strconv.Itoa(i)+"/file", "")
		}
		for limit, want := range map[int]bool{30: true, 50: false} {
			if got := g.hasForeignRepo(work+"/big", limit); got != want {
				t.Errorf("with %d names: got %v, want %v", limit, got, want)
			}
		}
		makeTestDirs(t, work+"/big/7/x/.git")
		if !g.hasForeignRepo(work+"/big", 100) {
			t.Error("the repository was not found")
		}
	})

	// A directory that only another user can read contains no repository of this user, except that
	// root can read it.
	t.Run("ignores a directory only another user can read", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		user := os.Getuid()
		for _, c := range []struct {
			mode   os.FileMode
			user   int
			closed bool
		}{{0o700, user + 1, true}, {0, user + 1, true}, {0o750, user + 1, false}, {0o701, user + 1, false}, {0o700, user, false}, {0o700, 0, false}} {
			if err := os.Chmod(dir, c.mode); err != nil {
				t.Fatal(err)
			}
			if got := isInaccessible(c.user, dir); got != c.closed {
				t.Errorf("mode %o, user %d: got %v", c.mode, c.user-user, got)
			}
		}
	})
}

func TestGuardFolding(t *testing.T) {
	t.Parallel()

	// The guard compares folded names, both in a repository and next to one.
	t.Run("protects names a filesystem takes for protected ones", func(t *testing.T) {
		t.Parallel()
		g, work := newTestGuard(t)
		makeTestDirs(t, work+"/sub/.git/objects")
		writeTestFile(t, work+"/sub/.git/HEAD", "")
		for _, name := range []string{
			".envrc.", ".v\u017fcode/x", "sub/.envrc ", "sub/.g\u200dit/config", "sub/.git./hooks./x", "sub/.git/hoo\u212as/x", "sub/.git/con\ufb01g",
		} {
			if !g.IsRestricted(work + "/" + name) {
				t.Errorf("%q may be created", name)
			}
		}
		for _, name := range []string{"a.", "sub/é", "sub/x~1", "sub/backup~1.txt"} {
			writeTestFile(t, work+"/"+name, "")
			if g.IsRestricted(work + "/" + name) {
				t.Errorf("%q must not be created", name)
			}
		}
	})
}
