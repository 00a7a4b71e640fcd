package confine

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// guarding returns a sandbox that writes a directory, and that directory.
func guarding(t *testing.T) (b *Box, work string) {
	t.Helper()
	work = t.TempDir()
	b = asRoot(t, "/")
	b.guardMore([]Path{Path(work)}, nil)
	return b, work
}

// An error of the filesystem that a session can bring about does not say that nothing is there.
func TestPresence_OnlyNothingIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	touch(t, dir+"/file", "")
	for link, to := range map[string]string{"link": "nowhere", "circle": "circle"} {
		if err := os.Symlink(to, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]presence{
		"file": present, "link": present, "nothing": missing, "file/x": missing, "link/x": missing, "circle/x": unknown, strings.Repeat("a", 256): unknown,
		strings.Repeat("a/", 2048): unknown,
	} {
		if got := presenceOf(dir + "/" + name); got != want {
			t.Errorf("%.20s: got %d, want %d", name, got, want)
		}
	}
}

// A directory that the stage cannot look into counts as somebody else's repository.
func TestGuard_WhatItCannotAskIsProtected(t *testing.T) {
	t.Parallel()
	b, work := guarding(t)
	long := work + "/" + strings.Repeat("a", 256)
	for _, name := range []string{".git", "HEAD", "config", "hooks/x", ".envrc", ".hg/hgrc", ".github/hooks/x"} {
		if !b.isHeld(long + "/" + name) {
			t.Errorf("%s: got that it may be made", name)
		}
	}
	if b.isHeld(long + "/plain") {
		t.Error("a plain name may not be made")
	}
	for name, may := range map[string]bool{"objects": false, "HEAD": false, "plain": true} {
		if got := !b.makesRepository(long + "/" + name); got != may {
			t.Errorf("%s: got %v that it may be removed", name, got)
		}
	}
}

// A directory with more names than are looked at counts as one with a repository.
func TestGuard_WhatItHasNotLookedAtMayBeARepository(t *testing.T) {
	t.Parallel()
	b, work := guarding(t)
	for i := range 20 {
		touch(t, work+"/big/"+strconv.Itoa(i)+"/file", "")
		touch(t, work+"/big/node_modules/"+strconv.Itoa(i)+"/file", "")
	}
	for most, want := range map[int]bool{30: true, 50: false} {
		if got := b.holdsForeign(work+"/big", most); got != want {
			t.Errorf("with %d names: got %v, want %v", most, got, want)
		}
	}
	mkdir(t, work+"/big/7/x/.git")
	if !b.holdsForeign(work+"/big", 100) {
		t.Error("a repository is not found")
	}
}

// A directory that only another user can read has no repository of this one, but root reads it.
func TestGuard_ADirectoryOfAnotherUserIsPassed(t *testing.T) {
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
		if got := isClosedTo(c.user, dir); got != c.closed {
			t.Errorf("mode %o, user %d: got %v", c.mode, c.user-user, got)
		}
	}
}
