package escapes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/timeline"
)

// readDenials returns the denials and notices of a turn.
func readDenials(res sessionkit.TurnResult) (all []timeline.Body) {
	for _, e := range res.Events {
		switch e.Body.(type) {
		case timeline.AccessDenied, timeline.Notice:
			all = append(all, e.Body)
		}
	}
	return all
}

func wantDenials(t *testing.T, res sessionkit.TurnResult, want ...timeline.Body) {
	t.Helper()
	got := readDenials(res)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("got nothing, want %+v", want[i])
		case i >= len(want):
			t.Errorf("got %+v, want nothing more", got[i])
		case got[i] != want[i]:
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

func TestDenials(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if err := os.WriteFile(filepath.Join(m.outside, "module.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := openSession(t, m, newSandbox(m))
	r.RunCode(t, `
import os
def tries(*calls):
    for f in calls:
        try: f()
        except OSError as e: print(e.errno)
`)
	outside, allow := func(name string) string { return filepath.Join(m.outside, name) }, "repl grant main --write "+m.outside
	for _, row := range []struct {
		what, code string
		want       []timeline.Body
	}{
		{"opening a file, again and again", "tries(*[lambda: open('" + outside("file") + "', 'a')] * 3)",
			[]timeline.Body{timeline.AccessDenied{Op: "write", Path: outside("file"), Hint: allow}}},
		{"the same in a later turn", "tries(lambda: open('" + outside("file") + "', 'w'))",
			[]timeline.Body{timeline.AccessDenied{Op: "write", Path: outside("file"), Hint: allow}}},
		{"a new file", "tries(lambda: open('" + outside("new") + "', 'w'))",
			[]timeline.Body{timeline.AccessDenied{Op: "create", Path: outside("new"), Hint: allow}}},
		{"a directory, through a symbolic link and a relative path", "os.symlink('" + m.outside + "', 'link'); tries(lambda: os.mkdir('./link/dir/'))",
			[]timeline.Body{timeline.AccessDenied{Op: "create", Path: outside("dir"), Hint: allow}}},
		{"by a directory's descriptor", "d = os.open('" + m.outside + "', os.O_RDONLY); tries(lambda: os.unlink('file', dir_fd=d)); os.close(d)",
			[]timeline.Body{timeline.AccessDenied{Op: "remove", Path: outside("file"), Hint: allow}}},
		{"renaming out of it", "tries(lambda: os.rename('" + outside("file") + "', 'here'))",
			[]timeline.Body{timeline.AccessDenied{Op: "rename", Path: outside("file"), Hint: allow}}},
		{"renaming into it", "open('mine', 'w').close(); tries(lambda: os.rename('mine', '" + outside("mine") + "'))",
			[]timeline.Body{timeline.AccessDenied{Op: "create", Path: outside("mine"), Hint: allow}}},
		{"links", "tries(lambda: os.symlink('x', '" + outside("s") + "'), lambda: os.link('mine', '" + outside("l") + "'))",
			[]timeline.Body{timeline.AccessDenied{Op: "create", Path: outside("s"), Hint: allow}, timeline.AccessDenied{Op: "create", Path: outside("l"), Hint: allow}}},
		{"a child", "import subprocess; _ = subprocess.run(['touch', '" + outside("child") + "'], stderr=subprocess.DEVNULL)",
			[]timeline.Body{timeline.AccessDenied{Op: "create", Path: outside("child"), ChildProgram: "touch", Hint: allow}}},
		{"a path that nobody can grant", "tries(lambda: open('" + filepath.Join(m.home, "new") + "', 'w'), lambda: open('.vscode/settings.json', 'w'))",
			[]timeline.Body{timeline.AccessDenied{Op: "create", Path: filepath.Join(m.home, "new")}, timeline.AccessDenied{Op: "write", Path: filepath.Join(m.work, ".vscode/settings.json")}}},
		{"a protected file at the top", "tries(lambda: open('.mcp.json', 'a'))",
			[]timeline.Body{timeline.AccessDenied{Op: "write", Path: filepath.Join(m.work, ".mcp.json")}}},
		{"replacing what is protected, as git config does", "import subprocess; _ = subprocess.run(['git', 'config', 'core.pager', 'x'], stderr=subprocess.DEVNULL)",
			[]timeline.Body{timeline.AccessDenied{Op: "set", Detail: "core.pager", Path: filepath.Join(m.work, ".git/config"), ChildProgram: "git"}}},
		{"removing what is protected", "tries(lambda: os.unlink('.mcp.json'), lambda: os.rmdir('.vscode'))",
			[]timeline.Body{timeline.AccessDenied{Op: "remove", Path: filepath.Join(m.work, ".mcp.json")}, timeline.AccessDenied{Op: "remove", Path: filepath.Join(m.work, ".vscode")}}},
		{"moving what is protected", "tries(lambda: os.rename('.git', 'away'), lambda: os.rename('.vscode/', 'away'))",
			[]timeline.Body{timeline.AccessDenied{Op: "rename", Path: filepath.Join(m.work, ".git")}, timeline.AccessDenied{Op: "rename", Path: filepath.Join(m.work, ".vscode")}}},
		{"a call that fails for another reason", "open('plain', 'w').close(); tries(lambda: os.unlink('.vscode'), lambda: os.rmdir('.mcp.json'), lambda: os.mkdir('.vscode'), lambda: os.rename('plain', '.vscode'))", nil},
		{"the cache of a module that is only read", "import sys; sys.dont_write_bytecode = False; sys.path.append('" + m.outside + "'); import module", nil},
		{"an action that is refused to the user, too", "tries(lambda: open('/etc/passwd', 'a'), lambda: os.mkdir('/usr/new'), lambda: os.unlink('" + outside("nothing") + "'), lambda: os.mkdir('/proc/self/x'))", nil},
		{"what works", "open('mine', 'w').close(); os.unlink('mine'); os.mkdir('d'); os.rename('d', 'e'); os.rmdir('e'); open('/dev/null', 'w').close()", nil},
		{"more than five", "tries(*[lambda i=i: os.mkdir('" + m.outside + "/%d' % i) for i in range(100)])",
			[]timeline.Body{
				timeline.AccessDenied{Op: "create", Path: outside("0"), Hint: allow}, timeline.AccessDenied{Op: "create", Path: outside("1"), Hint: allow},
				timeline.AccessDenied{Op: "create", Path: outside("2"), Hint: allow}, timeline.AccessDenied{Op: "create", Path: outside("3"), Hint: allow},
				timeline.AccessDenied{Op: "create", Path: outside("4"), Hint: allow}, timeline.Notice{Message: "the sandbox refused at least 59 more calls"},
			}},
	} {
		t.Run(row.what, func(t *testing.T) { wantDenials(t, r.RunCode(t, row.code), row.want...) })
	}
}
