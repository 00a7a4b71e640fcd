package filestate

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

func writeTestFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A turn checks files again after any event that could change them or the meaning of their paths.
func TestChangeEvents(t *testing.T) {
	t.Parallel()
	rename := func(from, to string) func(dir string) error {
		return func(dir string) error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
	}
	for _, c := range []struct {
		name   string
		change func(dir string) error
		quiet  bool
	}{
		{"nothing", func(string) error { return nil }, true},
		{"another directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "other/new"), 0o700) }, true},
		{"a file is written in place", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/b/file"), []byte("two"), 0o600) }, false},
		{"by another name", func(dir string) error { return os.WriteFile(filepath.Join(dir, "other/linked"), []byte("two"), 0o600) }, false},
		{"a file is replaced", rename("a/b/new", "a/b/file"), false},
		{"a file is removed", func(dir string) error { return os.Remove(filepath.Join(dir, "a/b/file")) }, false},
		{"a missing file is created", func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/absent"), nil, 0o600) }, false},
		{"a missing directory is created", func(dir string) error { return os.MkdirAll(filepath.Join(dir, "none/below"), 0o700) }, false},
		{"a link comes", func(dir string) error { return os.Symlink("b", filepath.Join(dir, "a/absent")) }, false},
		{"the directory is replaced", func(dir string) error {
			return unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "a/b"), unix.AT_FDCWD, filepath.Join(dir, "other"), unix.RENAME_EXCHANGE)
		}, false},
		{"a parent directory is moved away", rename("a", "x"), false},
		{"a mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "a"), 0o500) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := paths.RealOrEmpty(t.TempDir())
			for _, name := range []string{"a/b/file", "a/b/new", "other/x"} {
				writeTestFile(t, filepath.Join(dir, name), "one")
			}
			if err := os.Link(filepath.Join(dir, "a/b/file"), filepath.Join(dir, "other/linked")); err != nil {
				t.Fatal(err)
			}
			var e ChangeEvents
			t.Cleanup(e.Close)
			m := e.WatchPaths([]string{filepath.Join(dir, "a/b/file"), filepath.Join(dir, "a/absent"), filepath.Join(dir, "none/below/file"), filepath.Join(dir, "a/b")})
			if m.events == nil {
				return // the temporary filesystem does not report all changes
			}
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			quiet := m.AreQuiet()
			for tries := 0; c.quiet && !quiet && tries < 1000; tries++ { // other tests create names next to this directory
				if m = m.RenewedMarks(); m == nil {
					t.Fatal("a directory above was replaced")
				}
				quiet = m.AreQuiet()
			}
			if quiet != c.quiet {
				t.Errorf("quiet: got %t, want %t", quiet, c.quiet)
			}
		})
	}
	t.Run("a path with a link is not watched", func(t *testing.T) {
		t.Parallel()
		dir := paths.RealOrEmpty(t.TempDir())
		writeTestFile(t, dir+"/a/file", "")
		if err := os.Symlink("a", dir+"/link"); err != nil {
			t.Fatal(err)
		}
		var e ChangeEvents
		t.Cleanup(e.Close)
		if m := e.WatchPaths([]string{dir + "/link/file"}); m.events != nil {
			t.Error("the path is watched")
		}
		if len(e.watchUsers) > 0 {
			t.Errorf("%d watches remain", len(e.watchUsers))
		}
	})
	t.Run("more events than the kernel keeps", func(t *testing.T) {
		t.Parallel()
		dir := paths.RealOrEmpty(t.TempDir())
		writeTestFile(t, dir+"/a/file", "")
		text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
		limit, _ := strconv.Atoi(string(text[:max(len(text)-1, 0)]))
		if err != nil || limit == 0 || limit > 1<<17 {
			return // the queue is too long for a test
		}
		var e ChangeEvents
		t.Cleanup(e.Close)
		m, other := e.WatchPaths([]string{dir + "/a/file"}), e.WatchPaths([]string{dir + "/b"})
		if m.events == nil || other.events == nil {
			return // the temporary filesystem does not report all changes
		}
		for i := range limit + 1 { // the kernel merges equal successive events
			if err := os.Chmod(dir+"/a/file", 0o600+os.FileMode(i&1)); err != nil {
				t.Fatal(err)
			}
		}
		if other.AreQuiet() {
			t.Error("lost events are not reported")
		}
	})
	t.Run("watches end with their marks", func(t *testing.T) {
		t.Parallel()
		dir := paths.RealOrEmpty(t.TempDir())
		writeTestFile(t, dir+"/file", "")
		var e ChangeEvents
		t.Cleanup(e.Close)
		one, two := e.WatchPaths([]string{dir + "/file"}), e.WatchPaths([]string{dir + "/file"})
		if one.events == nil || two.events == nil {
			return // the temporary filesystem does not report all changes
		}
		one.Unwatch()
		writeTestFile(t, dir+"/file", "two")
		if two.AreQuiet() {
			t.Error("a watch that others use has ended")
		}
		two.Unwatch()
		if len(e.watchUsers)+len(e.eventCounts) > 0 {
			t.Errorf("%d watches remain", len(e.watchUsers))
		}
	})
}
