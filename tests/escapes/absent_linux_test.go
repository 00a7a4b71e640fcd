package escapes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/timeline"
)

// nameAttacks are ways to create a name. The code of each uses p, the path.
var nameAttacks = map[string]string{
	"open":                             `os.open(p, os.O_CREAT | os.O_WRONLY)`,
	"open to read":                     `os.open(p, os.O_CREAT | os.O_RDONLY)`,
	"open exclusively":                 `os.open(p, os.O_CREAT | os.O_EXCL | os.O_RDWR)`,
	"open by a directory's descriptor": `os.open(os.path.basename(p), os.O_CREAT | os.O_WRONLY, dir_fd=os.open(os.path.dirname(p), os.O_RDONLY))`,
	"a path with dots":                 `os.open(os.path.dirname(p) + '/../' + os.path.basename(os.path.dirname(p)) + '/./' + os.path.basename(p), os.O_CREAT | os.O_WRONLY)`,
	"a path with slashes":              `os.mkdir(p + '//')`,
	"through /proc/self/cwd":           `os.chdir(os.path.dirname(p)); os.open('/proc/self/cwd/' + os.path.basename(p), os.O_CREAT | os.O_WRONLY)`,
	"through /proc/self/root":          `os.open('/proc/self/root' + p, os.O_CREAT | os.O_WRONLY)`,
	"mkdir":                            `os.mkdir(p)`,
	"a pipe":                           `os.mkfifo(p)`,
	"mknod":                            `os.mknod(p)`,
	"a symbolic link":                  `os.symlink('/tmp/x', p)`,
	"through a dangling symbolic link": `os.symlink(p, W + '/dangling'); os.open(W + '/dangling', os.O_CREAT | os.O_WRONLY)`,
	"through a linked directory":       `os.symlink(os.path.dirname(p), W + '/linked'); os.open(W + '/linked/' + os.path.basename(p), os.O_CREAT | os.O_WRONLY)`,
	"a hard link":                      `os.link(made(), p)`,
	"rename":                           `os.rename(made(), p)`,
	"rename of a directory":            `os.mkdir(W + '/d'); os.rename(W + '/d', p)`,
	"exchange":                         `libc.renameat2(-100, made().encode(), -100, p.encode(), 2) and fail()`,
	"the name of an open file":         `libc.linkat(-100, b'/proc/self/fd/%d' % os.open(W, os.O_TMPFILE | os.O_RDWR), -100, p.encode(), 0x400) < 0 and fail()`,
	"openat2":                          `libc.syscall(437, -100, p.encode(), struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o644, 0), 24) < 0 and fail()`,
	"by a child":                       `subprocess.run(['touch', p], check=True, stderr=subprocess.DEVNULL)`,
}

const attackCode = `
import ctypes, os, struct, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
W = os.getcwd()
def fail(): raise OSError(ctypes.get_errno(), 'refused')
def made():
    with open(W + '/made', 'w') as f: f.write('#!/bin/sh\n')
    return W + '/made'
def attack(p, code):
    pid = os.fork()
    if pid == 0:
        try: exec(code, dict(globals(), p=p)); os._exit(0)
        except BaseException as e: os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0: print('open')
    for rest in 'made', 'd', 'dangling', 'linked':
        if os.path.lexists(rest): (os.rmdir if os.path.isdir(rest) and not os.path.islink(rest) else os.unlink)(rest)
`

func absentNames(m *machine) []string {
	return []string{
		filepath.Join(m.work, ".envrc"), filepath.Join(m.work, ".claude"), filepath.Join(m.work, ".git/config.worktree"),
		filepath.Join(m.work, "vendor/lib/.mcp.json"), filepath.Join(m.work, "vendor/lib/.git/commondir"),
	}
}

func TestProtectedNames(t *testing.T) {
	t.Parallel()

	t.Run("cannot be made by any call", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, attackCode)
		for what, code := range nameAttacks {
			t.Run(what, func(t *testing.T) {
				for _, path := range absentNames(m) {
					if got := r.RunCode(t, fmt.Sprintf("attack(%q, %q)", path, code)).OutputText(timeline.Stdout, timeline.Stderr); strings.HasSuffix(got, "open\n") {
						t.Errorf("%s: got %q", path, got)
					}
					if _, err := os.Lstat(path); err == nil {
						t.Errorf("%s exists", path)
						_ = os.RemoveAll(path)
					}
				}
			})
		}
	})

	// The attacks must be able to succeed: without a sandbox all of them do, except one that the
	// kernel refuses for other reasons.
	t.Run("can be made without a sandbox", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, &sandbox.Policy{Level: sandbox.Full})
		r.RunCode(t, attackCode)
		path := absentNames(m)[0]
		for what, code := range nameAttacks {
			if what == "exchange" { // an exchange needs an existing name
				continue
			}
			if got := r.RunCode(t, fmt.Sprintf("attack(%q, %q)", path, code)).OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSpace(got) != "open" {
				t.Errorf("%s: got %q", what, got)
			}
			_ = os.RemoveAll(path)
		}
	})

	// A second thread changes the path while the call is read.
	t.Run("cannot be made by changing a path during the call", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, attackCode)
		r.RunCode(t, `
names = ctypes.create_string_buffer(8)
stop = False
def exchange():
    while not stop:
        ctypes.memmove(names, b'.envrc\0', 7); ctypes.memmove(names, b'.xxxxx\0', 7)
t = threading.Thread(target=exchange); t.start()
for i in range(3000):
    fd = libc.open(names, os.O_CREAT | os.O_WRONLY, 0o644)
    if fd >= 0: os.close(fd)
    libc.mkdir(names, 0o755); libc.rmdir(b'.xxxxx'); libc.unlink(b'.xxxxx')
    open('made', 'w').close(); libc.rename(b'made', names); libc.link(b'made', names); libc.symlink(b'made', names)
    libc.unlink(b'.xxxxx')
stop = True; t.join()
`)
		if _, err := os.Lstat(filepath.Join(m.work, ".envrc")); err == nil {
			t.Error("a protected name was made")
		}
	})

	// A directory above a protected name may be created. A directory that contains the name must
	// not be moved there.
	t.Run("cannot be made by moving a directory above them", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		info := filepath.Join(m.work, "vendor/lib/.git/info")
		if err := os.RemoveAll(info); err != nil {
			t.Fatal(err)
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, attackCode+"os.chdir('vendor/lib/.git')")
		for _, code := range []string{
			"os.mkdir('x'); open('x/attributes', 'w').close(); os.rename('x', 'info')",
			"os.symlink('x', 'info')",
			"os.mkdir('info'); os.rename('info', 'y'); os.rename('x', 'info')",
			"os.mkdir('info'); open('info/attributes', 'w')",
			"os.open('info/ATTRIBUTES', os.O_CREAT)",
		} {
			r.RunCode(t, code)
			if _, err := os.Stat(filepath.Join(info, "attributes")); err == nil {
				t.Errorf("%s made the protected name", code)
			}
		}
		if got := r.RunCode(t, "open('info/exclude', 'w').close(); print('works')").OutputText(timeline.Stdout, timeline.Stderr); !strings.Contains(got, "works") {
			t.Errorf("next to a protected name: %s", got)
		}
	})
}
