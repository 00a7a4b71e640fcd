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

// readAttackCode tries to read the content of a file in many ways, and prints the result of each
// that succeeded.
const readAttackCode = tryToReadCode + `
import ctypes, mmap, os, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def by_link(p):
    os.symlink(p, 'a-link')
    try: return open('a-link').read()
    finally: os.unlink('a-link')
def by_links(p):
    os.symlink(os.path.dirname(p), 'a-link')
    try: return open('a-link/./' + os.path.basename(p)).read()
    finally: os.unlink('a-link')
def by_directory(p):
    d = os.open(os.path.dirname(p), os.O_RDONLY | os.O_DIRECTORY)
    try: return os.read(os.open(os.path.basename(p), os.O_RDONLY, dir_fd=d), 99)
    finally: os.close(d)
def by_working_directory(p):
    was = os.getcwd()
    os.chdir(os.path.dirname(p))
    try: return open(os.path.basename(p)).read() + open('/proc/self/cwd/' + os.path.basename(p)).read()
    finally: os.chdir(was)
def by_rename(p):
    os.rename(p, 'moved')
    try: return open('moved').read()
    finally: os.rename('moved', p)
def by_rename_of_its_directory(p):
    if os.path.dirname(p) == os.getcwd(): raise OSError
    os.rename(os.path.dirname(p), 'moved')
    try: return open('moved/' + os.path.basename(p)).read()
    finally: os.rename('moved', os.path.dirname(p))
def by_exchange(p):
    open('other', 'w').close()
    if libc.renameat2(-100, p.encode(), -100, b'other', 2): raise OSError
    try: return open('other').read()
    finally: libc.renameat2(-100, p.encode(), -100, b'other', 2)
def by_hard_link(p):
    os.link(p, 'linked')
    try: return open('linked').read()
    finally: os.unlink('linked')
held = []
def by_path_alone(p):
    try: held.append(os.open(p, os.O_PATH))
    except OSError: pass
    found = ''
    for f in held[-30:]:
        for name in f'/proc/self/fd/{f}', f'/dev/fd/{f}', f'/proc/{os.getpid()}/task/{os.getpid()}/fd/{f}':
            for flags in os.O_RDONLY, os.O_RDWR:
                try: found += str(os.read(os.open(name, flags), 99))
                except OSError: pass
    return found
def by_map(p):
    with open(p, 'rb') as f: return mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:]
def by_script(p): return subprocess.run([p], capture_output=True, text=True).stdout
def by_shell(p): return subprocess.run(['sh', '-c', 'read x < "$0" && echo "$x"; cat "$0"; . "$0"', p], capture_output=True, text=True).stdout
def by_other_letters(p): return open(os.path.dirname(p) + '/' + os.path.basename(p).upper()).read()
def to_write(p): return os.read(os.open(p, os.O_RDWR), 99)
def to_make(p): return os.read(os.open(p, os.O_RDONLY | os.O_CREAT), 99)
every_way = [f for n, f in sorted(globals().items()) if n.startswith(('by_', 'to_'))]
def seen(*paths):
    found = []
    for p in paths:
        for root in ('', '/proc/self/root', '/proc/self/cwd/' + '../' * 20, '/proc/thread-self/root'):
            if (output := readable(root + p)).startswith('open: '): found.append((root + p, output))
        for way in every_way:
            try: output = way(p)
            except OSError: continue
            if output: found.append((way.__name__, p, output))
    return found
`

// hiddenFileChanges are changes that programs outside make to hidden files in a workspace.
var hiddenFileChanges = []turnStep{
	{what: "nothing", outside: "true"},
	{what: "a rename over a file", outside: `printf '%s' "$SECRET" > .n && chmod 755 .n && mv .n .env`},
	{what: "a removal and a new file", outside: `rm .env && printf '%s' "$SECRET" > .env`},
	{what: "a removal and a new directory", outside: `rm -r docs/private && mkdir docs/private && printf '%s' "$SECRET" > docs/private/key`},
	{what: "a rename over a directory", outside: `mkdir d && printf '%s' "$SECRET" > d/key && rm -r docs/private && mv d docs/private`},
	{what: "the directory around it, made again", outside: `cp -r docs d && rm -r docs && mv d docs`},
	{what: "a name that comes", outside: `printf '%s' "$SECRET" > later.env`},
	{what: "a directory that comes", outside: `mkdir -p made/deep && printf '%s' "$SECRET" > made/deep/key`},
	{what: "a link in its place", outside: `mkdir ../.hoard && printf '%s' "$SECRET" > ../.hoard/real && ln -sf ../.hoard/real .env`},
	{what: "a file in the place of a link", outside: `rm .env && printf '%s' "$SECRET" > .env`},
	{what: "what is hidden elsewhere, replaced", outside: `printf '%s' "$SECRET" > ../../outside/n && mv ../../outside/n ../../outside/single && cp -r ../../outside/keys ../../outside/n && rm -r ../../outside/keys && mv ../../outside/n ../../outside/keys`},
	{what: "a document of a link from the home directory, replaced", outside: `printf '%s' "$SECRET" > ../dotfiles/n && mv ../dotfiles/n ../dotfiles/netrc`},
	{what: "another name, where a session sees nothing", outside: `mv .env ../.hoard/env && mv docs/private ../.hoard/ && mkdir docs/private && printf '%s' "$SECRET" > docs/private/key && printf '%s' "$SECRET" > .env`},
	{what: "one that is removed", outside: `rm -r docs/private .env`},
	{what: "and made again", outside: `mkdir docs/private && printf '%s' "$SECRET" > docs/private/key && printf '%s' "$SECRET" > .env`},
}

func newHiddenFixture(t *testing.T) (m *machine, box *sandbox.Policy, code string) {
	t.Helper()
	m = newMachine(t)
	for name, text := range map[string]string{
		"home/project/.env": secret, "home/project/docs/private/key": secret, "home/project/docs/open": "open", "outside/keys/key": secret, "outside/single": secret, "home/dotfiles/netrc": secret, "home/dotfiles/vimrc": "open",
	} {
		writeFile(t, filepath.Join(m.base, name), text)
	}
	m.outsideDoes(t, m.home, "rm .netrc && ln -s dotfiles/netrc .netrc")
	box = newSandbox(m)
	var paths []string
	for _, name := range []string{"home/project/.env", "home/project/docs/private", "home/project/later.env", "home/project/made/deep", "outside/keys", "outside/single"} {
		box.Hidden = append(box.Hidden, filepath.Join(m.base, name))
	}
	for _, name := range []string{"home/project/.env", "home/project/docs/private/key", "home/project/later.env", "home/project/made/deep/key", "outside/keys/key", "outside/single", "home/dotfiles/netrc", "home/.netrc"} {
		paths = append(paths, quoteShell(filepath.Join(m.base, name)))
	}
	return m, box, "seen(" + strings.Join(paths, ", ") + ")"
}

func TestHidden(t *testing.T) {
	t.Parallel()

	// Hidden names in a directory that a session writes, or anywhere on the machine, stay
	// unreadable, however programs outside change them.
	t.Run("stays hidden whatever outside programs replace", func(t *testing.T) {
		t.Parallel()
		t.Run("when a turn begins", func(t *testing.T) {
			t.Parallel()
			m, box, seen := newHiddenFixture(t)
			r := openSession(t, m, box)
			r.RunCode(t, readAttackCode)
			for _, s := range hiddenFileChanges {
				m.outsideDoes(t, m.work, s.outside)
				if output := r.RunCode(t, "print("+seen+")").OutputText(timeline.Stdout, timeline.Stderr); output != "[]\n" {
					t.Errorf("%s: got %s", s.what, strings.ReplaceAll(output, m.base, ""))
				}
			}
			real := filepath.Join(m.outside, "real")
			writeFile(t, real, secret)
			m.outsideDoes(t, m.work, "ln -sf "+real+" .env")
			wantOutput(t, r, "print(seen("+quoteShell(real)+"))", "[]")
			resetSession(t, r)
			r.RunCode(t, readAttackCode+"\nos.chdir("+quoteShell(m.work)+")")
			wantOutput(t, r, "print("+seen+")", "[]")
		})
		t.Run("in a turn", func(t *testing.T) {
			t.Parallel()
			m, box, seen := newHiddenFixture(t)
			r := openSession(t, m, box)
			r.RunCode(t, readAttackCode)
			turn := r.StartTurn(t, fmt.Sprintf(`
import time
for i in range(%d):
    while not os.path.exists(f'go{i}'): time.sleep(0.01)
    print(i, %s, flush=True)
`, len(hiddenFileChanges), seen))
			for i, s := range hiddenFileChanges {
				m.outsideDoes(t, m.work, s.outside)
				writeFile(t, filepath.Join(m.work, fmt.Sprint("go", i)), "")
				output := ""
				r.WaitEvent(t, s.what, func(e timeline.Event) bool {
					if text, ok := e.Body.(timeline.Text); ok {
						output += string(text.Data)
					}
					return strings.HasSuffix(output, "]\n")
				})
				if !strings.HasSuffix(output, fmt.Sprintln(i, "[]")) {
					t.Errorf("%s: got %s", s.what, strings.ReplaceAll(output, m.base, ""))
				}
			}
			r.FinishTurn(t, turn)
		})
	})

	// A session has no other name for a hidden file, and cannot redirect its name.
	t.Run("keeps its names", func(t *testing.T) {
		t.Parallel()
		m, box, _ := newHiddenFixture(t)
		r := openSession(t, m, box)
		r.RunCode(t, atHomeCode+`
import socket
os.chdir('project')
def tries(f, *a):
    try: f(*a)
    except OSError as e: return e.strerror
    return 'done'
`)
		before := m.readState(t)
		for _, code := range []string{
			"tries(os.rename, '.env', 'x')", "tries(os.unlink, '.env')", "tries(os.link, '.env', 'x')", "tries(os.rename, 'docs', 'x')", "tries(os.rename, 'docs/private', 'x')", "tries(os.rmdir, 'docs/private')",
			"tries(os.rename, 'README', '.env')", "tries(os.symlink, 'docs', 'later.env')", "tries(os.symlink, 'docs', 'made')", "tries(os.mkdir, 'later.env')", "tries(os.mkfifo, 'later.env')", "tries(os.truncate, '.env', 0)", "tries(os.chmod, '.env', 0o777)",
			"tries(socket.socket(socket.AF_UNIX).bind, 'later.env')", "tries(open, 'later.env', 'w')",
		} {
			if output := strings.TrimSpace(r.RunCode(t, "print("+code+")").OutputText(timeline.Stdout, timeline.Stderr)); output == "done" || output == "" {
				t.Errorf("%s: got %q, want it refused", code, output)
			}
		}
		m.wantUnchanged(t, before)
	})

	// Threads change the path in memory, and the target of a link, while the call is made.
	t.Run("withstands an exchange during a call", func(t *testing.T) {
		t.Parallel()
		m, box, _ := newHiddenFixture(t)
		r := openSession(t, m, box)
		m.outsideDoes(t, m.work, `printf '%s' "$SECRET" > .n && mv .n .env`)
		r.RunCode(t, `
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
path, over = ctypes.create_string_buffer(b'docs/open', 16), False
def in_memory():
    while not over: path.value = b'.env'; path.value = b'docs/open'
def on_disk():
    while not over:
        for to in '.env', 'docs/open': os.symlink(to, 'next'); os.rename('next', 'led')
def found(name):
    got = {}
    for _ in range(500):
        f = libc.open(name, 0)
        what = os.read(f, 99) if f >= 0 else ctypes.get_errno()
        got[what] = got.get(what, 0) + 1
        if f >= 0: os.close(f)
    return got
threads = [threading.Thread(target=f) for f in (in_memory, on_disk)]
for t in threads: t.start()
got = [found(path), found(b'led')]
over = True
for t in threads: t.join()
`)
		wantOutput(t, r, "print([b'open' in g for g in got], [w for g in got for w in g if b'secret' in str(w).encode()])", "[True, True] []")
	})

	// A session with hidden files in its workspace reads all other files as before.
	t.Run("leaves reading other files working", func(t *testing.T) {
		t.Parallel()
		m, box, _ := newHiddenFixture(t)
		m.outsideDoes(t, m.work, "ln -s docs/open to-open && ln -s docs to-docs && mkdir many && for i in 1 2 3 4 5 6 7 8 9; do echo $i > many/$i; done && mkfifo pipe && printf '#!/bin/sh\\necho ran\\n' > script && chmod +x script")
		r := openSession(t, m, box)
		r.RunCode(t, atHomeCode+`
import errno, shutil, sys, threading
os.chdir('project')
def sh(text): return subprocess.run(['sh', '-c', text], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout.strip()
def fails(f, *a):
    try: f(*a)
    except OSError as e: return errno.errorcode[e.errno]
`)
		for _, c := range []struct{ what, code, want string }{
			{"a file", "open('docs/open').read()", "open"},
			{"a link", "open('to-open').read(), open('to-docs/open').read(), open('to-docs/../README').read()", "open|open|read me"},
			{"a link that is not followed", "fails(os.open, 'to-open', os.O_RDONLY | os.O_NOFOLLOW)", "ELOOP"},
			{"a directory", "sorted(os.listdir('many')), fails(os.open, 'README', os.O_RDONLY | os.O_DIRECTORY), fails(os.open, 'README/', os.O_RDONLY)", "['1', '2', '3', '4', '5', '6', '7', '8', '9']|ENOTDIR|ENOTDIR"},
			{"what is not there", "fails(open, 'none'), fails(open, 'none/none'), fails(open, '')", "ENOENT|ENOENT|ENOENT"},
			{"what is hidden", "fails(open, '.env'), fails(os.listdir, 'docs/private')", "EACCES|EACCES"},
			{"its size", "os.stat('docs/open').st_size", "4"},
			{"a path alone", "os.fstat(os.open('docs/open', os.O_PATH)).st_size", "4"},
			{"a pipe that is written later", "[threading.Timer(0.1, lambda: open('pipe', 'w').write('sent')).start(), open('pipe').read()][1]", "sent"},
			{"two pipes", "sh('mkfifo back; (read x < pipe; echo got $x > back) & echo x > pipe; cat back; rm back')", "got x"},
			{"a pipe that never waits", "os.read(os.open('pipe', os.O_RDONLY | os.O_NONBLOCK), 9)", "b''"},
			{"a pipe of a shell", "subprocess.run(['bash', '-c', 'cat <(echo in) <(exit)'], capture_output=True, text=True).stdout.strip() if shutil.which('bash') else 'in'", "in"},
			{"a script", "sh('./script')", "ran"},
			{"programs", "sh('ls -R docs 2>/dev/null; cat README; grep -l 7 many/*; find many -name 3; head -c 3 /dev/zero | wc -c')", "docs:\nopen\nprivate\nread memany/7\nmany/3\n3"},
			{"modules", "sh(sys.executable + ' -c \"import json, ssl, sqlite3, xml.dom; print(1)\"')", "1"},
			{"R", "subprocess.run(['Rscript', '-e', 'cat(readLines(\"README\", warn = FALSE))'], capture_output=True, text=True).stdout if shutil.which('Rscript') else 'read me'", "read me"},
			{"git", "sh('git status --porcelain --untracked-files=no; git log --format=%s')", "first"},
			{"a removal of all", "shutil.copytree('many', 'copy') and shutil.rmtree('copy') or os.path.exists('copy')", "False"},
			{"its own process", "open('/proc/self/comm').read() == open(f'/proc/{os.getpid()}/comm').read() and open('/proc/self/status').read().split()[1] == open('/proc/thread-self/comm').read().strip()", "True"},
			{"its environment and maps", "len(open('/proc/self/environ').read()) > 10, len(open('/proc/self/maps').read()) > 100, 'Uid' in open('/proc/self/task/' + str(os.getpid()) + '/status').read()", "True|True|True"},
			{"its open files", "len(os.listdir('/proc/self/fd')) > 2, open('/proc/self/fd/' + str(os.open('docs/open', os.O_RDONLY))).read()", "True|open"},
			{"its directory", "open('/proc/self/cwd/docs/open').read(), open('/proc/self/root' + os.getcwd() + '/README').read()", "open|read me"},
			{"its program", "open('/proc/self/exe', 'rb').read(4)", `b'\x7fELF'`},
			{"a child", "sh('cat /proc/$$/comm /proc/$PPID/comm | wc -l')", "2"},
			{"the machine", "'MemTotal' in open('/proc/meminfo').read(), open('/proc/sys/kernel/ostype').read().strip(), len(open('/proc/net/route').read()) > 0, str(os.getpid()) in os.listdir('/proc')", "True|Linux|True|True"},
			{"mounts by a link", "len(open('/etc/mtab').readlines()) > 3 if os.path.lexists('/etc/mtab') else True", "True"},
			{"not the monitor", "fails(open, '/proc/1/environ'), fails(open, '/proc/1/maps'), fails(os.listdir, '/proc/1/fd'), open('/proc/1/stat').read()[:2]", "EACCES|EACCES|EACCES|1 "},
			{"devices", "len(os.urandom(3)), open('/dev/null').read(), open('/dev/zero', 'rb').read(2), sh('echo x | cat /dev/stdin')", `3||b'\x00\x00'|x`},
			{"shared memory", "open('/dev/shm/x', 'w').write('abc'), open('/dev/shm/x').read(), open('/tmp/y', 'w').write('z'), open('/tmp/y').read()", "3|abc|1|z"},
			{"a terminal", "__import__('pty').openpty()[1] > 0", "True"},
			{"next to hidden files", "open('../dotfiles/vimrc').read(), open('../note.txt').read()", "open|a note"},
		} {
			t.Run(c.what, func(t *testing.T) {
				if output := r.RunCode(t, "print("+c.code+", sep='|')").OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSuffix(output, "\n") != c.want {
					t.Errorf("got %q, want %q", output, c.want)
				}
			})
		}
		if _, err := os.Stat(filepath.Join(m.work, "copy")); err == nil {
			t.Error("the copy still exists")
		}
	})
}
