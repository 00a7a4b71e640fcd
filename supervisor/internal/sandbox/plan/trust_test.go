//go:build !windows

package plan

import (
	"os"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
)

func makeSymlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
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
	for _, s := range []*sandbox.Policy{{Level: sandbox.Workspace}, {Level: sandbox.ReadOnly}, {Level: sandbox.Workspace, Workspace: w.work}} {
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
