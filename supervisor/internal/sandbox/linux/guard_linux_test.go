package linux

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// newGuardedSandbox returns a sandbox that writes a directory, and that directory.
func newGuardedSandbox(t *testing.T) (b *ActiveSandbox, work string) {
	t.Helper()
	work = t.TempDir()
	b = newSandboxAt(t, "/")
	b.guardMore([]plan.Path{plan.Path(work)}, nil)
	return b, work
}

func TestGuardUnknown(t *testing.T) {
	t.Parallel()

	// A directory that the monitor cannot read counts as a foreign repository.
	t.Run("protects a directory that it cannot read", func(t *testing.T) {
		t.Parallel()
		b, work := newGuardedSandbox(t)
		long := work + "/" + strings.Repeat("a", 256)
		for _, name := range []string{".git", "HEAD", "config", "hooks/x", ".envrc", ".hg/hgrc", ".github/hooks/x"} {
			if !b.isRestricted(long + "/" + name) {
				t.Errorf("%s may be made", name)
			}
		}
		if b.isRestricted(long + "/plain") {
			t.Error("an ordinary name must not be made")
		}
		for name, may := range map[string]bool{"objects": false, "HEAD": false, "plain": true} {
			if got := !b.isRepositoryPart(long + "/" + name); got != may {
				t.Errorf("%s: may be removed: got %v", name, got)
			}
		}
	})

	// A directory with more names than the search limit counts as one with a repository.
	t.Run("takes an unsearched directory for a repository", func(t *testing.T) {
		t.Parallel()
		b, work := newGuardedSandbox(t)
		for i := range 20 {
			writeTestFile(t, work+"/big/"+strconv.Itoa(i)+"/file", "")
			writeTestFile(t, work+"/big/node_modules/"+strconv.Itoa(i)+"/file", "")
		}
		for limit, want := range map[int]bool{30: true, 50: false} {
			if got := b.hasForeignRepo(work+"/big", limit); got != want {
				t.Errorf("with %d names: got %v, want %v", limit, got, want)
			}
		}
		makeTestDirs(t, work+"/big/7/x/.git")
		if !b.hasForeignRepo(work+"/big", 100) {
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
