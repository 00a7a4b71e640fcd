//go:build !windows

package plan

import (
	"os"
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/workers"
)

func makeSymlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// The kernel follows a link before a ".." that comes after it.
func TestLinkChain(t *testing.T) {
	t.Parallel()
	dir := paths.RealOrEmpty(t.TempDir())
	makeTestDir(t, dir+"/a/deep")
	writeText(t, dir+"/a/file", "")
	makeSymlink(t, "a/deep", dir+"/deep")
	makeSymlink(t, "deep/../file", dir+"/dots")
	makeSymlink(t, dir+"/dots", dir+"/twice")
	makeSymlink(t, "circle", dir+"/circle")
	for path, want := range map[string][]string{
		"a/file": {"a/file"}, "a/none/x": {"a/none/x"}, "deep": {"deep", "a/deep"}, "deep/none": {"deep", "a/deep/none"},
		"dots": {"dots", "deep", "a/file"}, "twice": {"twice", "dots", "deep", "a/file"},
	} {
		for i := range want {
			want[i] = dir + "/" + want[i]
		}
		if got := linkChain(dir + "/" + path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if got := linkChain(dir + "/circle/x"); got[len(got)-1] != "" {
		t.Errorf("a loop leads to %q", got[len(got)-1])
	}
}

// Files that say where packages come from do not count if the session may write them, or may have
// written them at another level.
func TestReadUserSettings(t *testing.T) {
	t.Parallel()
	w := newHomeFixture(t)
	makeTestDir(t, w.home+"/dotfiles")
	makeTestDir(t, w.home+"/named")
	for _, name := range []string{".npmrc", "dotfiles/pip.conf", "work/pip.conf", "named/pip.conf"} {
		writeText(t, w.home+"/"+name, "text")
	}
	for name, to := range map[string]string{".linked": "dotfiles/pip.conf", ".into": "work/pip.conf", ".through": "work/link", "work/link": "../.npmrc", ".over": "dotfiles/again", "dotfiles/again": "../work/link", ".named": "named/pip.conf"} {
		makeSymlink(t, to, w.home+"/"+name)
	}
	for _, s := range []*workers.Sandbox{{Level: workers.Workspace}, {Level: workers.ReadOnly}, {Level: workers.Workspace, Workspace: w.work}} {
		s.Writable = []string{w.home + "/named"}
		o := Origin{Home: w.home, Dir: w.work}
		for name, want := range map[string]string{".npmrc": "text", ".linked": "text", ".into": "", ".through": "", ".over": "", "work/pip.conf": "", "work/link": "", ".named": "", "none": ""} {
			if got := string(ReadUserSettings(s, o, w.home+"/"+name)); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		o.Dir, s.Workspace = w.home, "" // the home directory is not writable
		if got := string(ReadUserSettings(s, o, w.home+"/.npmrc")); got != "text" {
			t.Errorf("of a session in the home directory: got %q", got)
		}
	}
	if got := ReadUserSettings(workspaceSandbox(), Origin{Home: w.home, Dir: w.work}, ""); got != nil {
		t.Errorf("without a name: got %q", got)
	}
}

// A session can make its workspace a directory in which the user makes no names.
func TestIsBelowUserDir(t *testing.T) {
	t.Parallel()
	dir := paths.RealOrEmpty(t.TempDir()) + "/shut"
	makeTestDir(t, dir)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if !isBelowUserDir(dir + "/link") {
		t.Error("a directory that the user owns but cannot write counts as another user's")
	}
	if os.Geteuid() != 0 && isBelowUserDir("/usr/bin/link") {
		t.Error("a system directory counts as the user's")
	}
}
