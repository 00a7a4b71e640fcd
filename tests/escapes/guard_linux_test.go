package escapes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const tryToChangeCode = `
import ctypes, os, shutil, socket, struct, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def renames(flags, a, b):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), flags) < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def changes(code):
    try: exec(code, globals())
    except OSError as e: return 'held: ' + str(e)
    return 'open'
def puts(path):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'a') as f: f.write('from inside')
def unreadable(dir, do):
    fd = os.open(dir, os.O_RDONLY); os.fchmod(fd, 0)
    try: do()
    finally: os.fchmod(fd, 0o755)
`

func TestGuard(t *testing.T) {
	t.Parallel()

	// Programs outside make and replace files that they run or trust while the session runs. These
	// are protected from that moment on.
	t.Run("protects what outside programs make or replace", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToChangeCode)
		const repository = "git init -q %s && cd %s && git -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m first"
		later := strings.ReplaceAll(repository, "%s", "made/later")
		wantDenied(t, m, r, []changeAttempt{
			{"settings of git by git itself", "git config user.signingkey x", "puts('.git/config')", ".git/config"},
			{"settings replaced by a rename", "cp .git/config .c && mv .c .git/config", "puts('.git/config')", ".git/config"},
			{"hooks made again", "mv .git/hooks .git/old && mkdir .git/hooks", "puts('.git/hooks/post-commit')", ".git/hooks/post-commit"},
			{"hooks that were moved away", "true", "os.rename('.git/hooks', '.git/older')", ".git/older"},
			{"a file of servers", "echo '{}' > .m && mv .m .mcp.json", "puts('.mcp.json')", ".mcp.json"},
			{"settings of hooks", "echo 'repos: []' > .m && mv .m .pre-commit-config.yaml", "puts('.pre-commit-config.yaml')", ".pre-commit-config.yaml"},
			{"a directory of settings made again", "rm -r .vscode; mkdir .vscode; echo '{}' > .vscode/settings.json", "puts('.vscode/settings.json')", ".vscode/settings.json"},
			{"a new file in it", "true", "puts('.vscode/tasks.json')", ".vscode/tasks.json"},
			{"a directory that was not there", "mkdir .claude; echo '{}' > .claude/settings.local.json", "puts('.claude/settings.local.json')", ".claude/settings.local.json"},
			{"a new file in the new directory", "true", "puts('.claude/settings.json')", ".claude/settings.json"},
			{"a file that was not there", "echo 'export A=1' > .envrc", "puts('.envrc')", ".envrc"},
			{"a nested repository replaced", "rm -rf vendor/lib/.git && git init -q vendor/lib", "puts('vendor/lib/.git/config')", "vendor/lib/.git/config"},
			{"its hooks", "true", "puts('vendor/lib/.git/hooks/pre-push')", "vendor/lib/.git/hooks/pre-push"},
			{"a repository made later: hooks", later, "puts('made/later/.git/hooks/post-commit')", "made/later/.git/hooks/post-commit"},
			{"a repository made later: settings", "true", "puts('made/later/.git/config')", "made/later/.git/config"},
			{"a repository made later: attributes", "true", "puts('made/later/.git/info/attributes')", "made/later/.git/info/attributes"},
			{"a repository made later: a work tree's settings", "true", "puts('made/later/.git/config.worktree')", "made/later/.git/config.worktree"},
			{"a repository made later: names that editors run", "true", "puts('made/later/.vscode/tasks.json')", "made/later/.vscode/tasks.json"},
			{"a repository made later: in other letters", "true", "puts('made/later/.GIT/config')", "made/later/.git/config"},
			{"a repository made later: another in its place", "true", "puts('made/later/HEAD')", "made/later/HEAD"},
			{"a repository made later: moved away", "true", "os.rename('made', 'moved')", "moved"},
			{"a repository made later: its .git moved away", "true", "os.rename('made/later/.git', 'made/later/x')", "made/later/x"},
			{"a repository made later: removed", "true", "shutil.rmtree('made/later/.git')", ""},
			{"a repository made later: one above it", "true", "os.mkdir('made/.git')", "made/.git"},
			{"a repository made later: a linked directory", "true", "os.symlink('made/later/.git', 'l'); puts('l/config')", "made/later/.git/config"},
			{"a repository made later: a hard link", "true", "os.link('made/later/.git/config', 'hard')", "hard"},
			{"a repository made later: a socket", "true", "socket.socket(socket.AF_UNIX).bind('made/later/.envrc')", "made/later/.envrc"},
			{"a repository made later: cut to nothing", "true", "os.truncate('made/later/.git/config', 0)", "made/later/.git/config"},
			{"a repository made later: by the directory's descriptor", "true", "os.open('config', os.O_WRONLY | os.O_APPEND, dir_fd=os.open('made/later/.git', os.O_RDONLY))", "made/later/.git/config"},
			{"a repository made later: by a directory of /proc", "true", "os.chdir('made/later/.git'); puts('/proc/self/cwd/config')", "made/later/.git/config"},
			{"a repository made later: by the name of an open file", "true", "fd = os.open(top + '/made/later/.git/config', os.O_RDONLY); open('/proc/self/fd/%d' % fd, 'a')", "made/later/.git/config"},
			{"a repository made later: a name with a slash", "mkdir made/later/.github", "puts('made/later/.github/mcp.json')", "made/later/.github/mcp.json"},
			{"a repository made later: its .git exchanged with a directory", "true", "os.makedirs('mine/config', exist_ok=True); renames(2, 'mine', 'made/later/.git')", "made/later/.git"},
			{"a repository made later: its directory exchanged", "true", "renames(2, 'mine', 'made')", "made"},
			{"a repository made later: a whiteout", "true", "renames(4, 'made/later/.git/config', 'mine/w')", "mine/w"},
			{"a repository made later: the mode of its settings", "true", "os.chmod('made/later/.git/config', 0o666)", "made/later/.git/config"},
			{"a repository made later: the mode of its .git", "true", "os.chmod('made/later/.git', 0)", "made/later/.git"},
			{"a repository made later: a hook that was switched off", "mkdir -p made/later/.git/hooks; cp .git/old/post-commit made/later/.git/hooks/pre-push; chmod 644 made/later/.git/hooks/pre-push", "os.chmod('made/later/.git/hooks/pre-push', 0o755)", "made/later/.git/hooks/pre-push"},
			{"a repository made later: the same by a directory", "true", "os.chmod('pre-push', 0o755, dir_fd=os.open('made/later/.git/hooks', os.O_RDONLY))", "made/later/.git/hooks/pre-push"},
			{"a repository made later: the same by a descriptor", "true", "os.fchmod(os.open('made/later/.git/hooks/pre-push', os.O_RDONLY), 0o755)", "made/later/.git/hooks/pre-push"},
			{"a repository made later: the same by the name of an open file", "true", "os.chmod('/proc/self/fd/%d' % os.open('made/later/.git/hooks/pre-push', os.O_PATH), 0o755)", "made/later/.git/hooks/pre-push"},
			{"a repository made later: the same by an access control list", "true", "os.setxattr('made/later/.git/hooks/pre-push', 'system.posix_acl_access', struct.pack('<I' + 'HHI' * 3, 2, 1, 7, 2**32 - 1, 4, 4, 2**32 - 1, 32, 4, 2**32 - 1))", "made/later/.git/hooks/pre-push"},
			{"a repository made later: hooks that cannot be read", "true", "os.chmod('made/later/.git/hooks', 0)", "made/later/.git/hooks"},
			{"a repository made later: an attribute by a descriptor", "true", "os.setxattr(os.open('made/later/.git/config', os.O_RDONLY), 'user.x', b'1')", "made/later/.git/config"},
			{"a repository made later: an attribute is removed", "true", "os.removexattr('made/later/.git/hooks/pre-push', 'system.posix_acl_access')", "made/later/.git/hooks/pre-push"},
			{"a repository made later: another group", "true", "os.chown('made/later/.git/config', -1, os.getgid() + 1)", "made/later/.git/config"},
			{"a repository of Mercurial made later", "mkdir -p made/hg/.hg", "puts('made/hg/.hg/hgrc')", "made/hg/.hg/hgrc"},
			{"a container's settings", "true", "puts('.devcontainer/devcontainer.json')", ".devcontainer"},
			{"a bare repository made later", "git init -q --bare made/bare.git", "puts('made/bare.git/hooks/post-receive')", "made/bare.git/hooks/post-receive"},
			{"a bare repository made later: without its head", "true", "os.rename('made/bare.git/HEAD', 'made/bare.git/H')", "made/bare.git/H"},
			{"a submodule made later", "git -c protocol.file.allow=always -c user.name=T submodule --quiet add ./vendor/lib made/sub 2>/dev/null || git init -q --bare .git/modules/made", "puts('.git/modules/made/hooks/post-checkout')", ".git/modules/made/hooks/post-checkout"},
		})
	})

	// The session may change repositories that it made, except for hooks and programs, and git
	// works in the other ones.
	t.Run("leaves git working", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "git init -q --bare other.git && git config user.name T && git config user.email t@example.org")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToChangeCode)
		for _, c := range []struct{ what, script string }{
			{"init and settings", "git init -q mine && cd mine && git config user.name T && git config user.email t@example.org && git config commit.gpgsign false && git commit -q --allow-empty -m first"},
			{"a bare repository", "git init -q --bare mine.git && git -C mine.git config user.name T"},
			{"a clone with settings of editors", "mkdir mine/.vscode && echo '{}' > mine/.vscode/x && cd mine && git add . && git commit -q -m x && cd .. && git clone -q mine copy && test -f copy/.vscode/x"},
			{"plain settings of the user's repository", "git config user.name U && git config --unset user.name && git config user.name T && git config pull.rebase true && test \"$(git config user.name)\" = T"},
			{"a remote and a branch that follows one", "git remote add other ./other.git && git push -q -u other HEAD:refs/heads/followed && git fetch -q other && git branch -q --track side2 other/followed && git config branch.side2.remote && git branch -q -D side2"},
			{"a submodule of the session", "git -c protocol.file.allow=always submodule --quiet add \"$PWD/mine\" added && git -C added config user.name T && git commit -q -m submodule && git rm -q -f added && git commit -q -m none"},
			{"no program in settings", "! git config core.fsmonitor x && ! git config --global core.pager x && ! git config remote.other.url ext::x && test -z \"$(git config core.fsmonitor)\""},
			{"a remote that the session made", "git init -q --bare mine2.git && git remote add own ./mine2.git && git push -q own HEAD && git fetch -q own"},
			{"a repository is moved from another filesystem", "git clone -q mine /tmp/apart && mv /tmp/apart . && git -C apart status -s && rm -rf apart"},
			{"a push to a bare repository", "git -C mine push -q ../other.git HEAD:refs/heads/main"},
			{"a repository of the session is moved and removed", "mv copy moved && git -C moved config user.name U && rm -rf moved"},
			{"a commit, a branch, a tag and a merge", "echo x >> README && git commit -q -am x && git checkout -q -b side && git commit -q --allow-empty -m y && git checkout -q - && git merge -q side && git tag t && git branch -d -q side"},
			{"a branch whose name has hooks in it", "git checkout -q -b hooks/config && git checkout -q - && git branch -q -D hooks/config"},
			{"stash, gc and rebase", "echo y >> README && git stash -q && git stash pop -q && git checkout -q README && git gc -q && git rebase -q HEAD~1"},
			{"a work tree, added and removed", "git worktree add -q ../tree 2>/dev/null || git worktree add -q tree && git -C tree status -s && git worktree remove tree"},
			{"a Mercurial repository of the session", "mkdir -p own/.hg own/.github && echo x > own/.hg/hgrc && echo x > own/.github/mcp.json && rm -r own"},
			{"directories are moved", "mkdir -p a/b/c && touch a/b/c/f && mv a z && rm -r z"},
			{"a file in the place of another", "echo 1 > f && echo 2 > g && mv g f && ln f h && rm f h"},
			{"a file without a name", "python3 -c \"import os; fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, b'x'); os.link('/proc/self/fd/%d' % fd, 'named', src_dir_fd=0, follow_symlinks=True)\" && rm named"},
			{"a pipe", "mkfifo p && (cat p > q & echo x > p; wait) && grep -q x q && rm p q"},
			{"devices", "echo x > /dev/null && : > /dev/stdout && printf x | tee /dev/stderr > /dev/null 2>&1"},
			{"settings of a process", "echo 500 > /proc/self/oom_score_adj && python3 -c \"import threading; t = threading.Event(); open('/proc/self/task/%d/comm' % threading.get_native_id(), 'w').write('name')\""},
			{"the terminal of a program in its own terminal", "script -qec 'printf hello > /dev/tty' /dev/null | grep -q hello"},
			{"a terminal of the program's own, opened to read and write", "python3 -c \"import pty, os; pid, fd = pty.fork()\nif pid == 0:\n    t = os.open('/dev/tty', os.O_RDWR); os.write(t, b'hel' + b'lo'); os._exit(0)\nassert b'hello' in os.read(fd, 100)\""},
		} {
			t.Run(c.what, func(t *testing.T) {
				if strings.HasPrefix(c.script, "script") {
					m.requireTools(t, "script")
				}
				code := "ran = subprocess.run(['sh', '-ec', " + quoteLines(c.script) + "], cwd=" + quoteShell(m.work) + ", capture_output=True, text=True, stdin=subprocess.DEVNULL); print(ran.returncode, ran.stderr)"
				if output := r.RunCode(t, code).OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "0 ") {
					t.Errorf("got %q, want it to work", output)
				}
			})
		}
		if err := r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.WaitUntilReady(t)
		wantOutput(t, r, "import subprocess; print(subprocess.run('git config user.name U && cd .. && rm -rf mine', shell=True, cwd="+quoteShell(m.work+"/mine")+").returncode)", "0") // still a repository of the session
	})

	// Threads change a directory and the text of a path while calls are read.
	t.Run("withstands an exchange during a call", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "git init -q made")
		config := filepath.Join(m.work, "made/.git/config")
		before := readText(config)
		r := openSession(t, m, newSandbox(m))
		output := r.RunCode(t, attackCode+`
os.chdir('made')
os.mkdir('dir'); os.mkdir('plain'); os.symlink('.git', 'link')
for d in 'dir', 'plain': open(d + '/config', 'w').close()
text = ctypes.create_string_buffer(16)
stop = False
def exchange():
    while not stop: libc.renameat2(-100, b'dir', -100, b'link', 2)
def rewrite():
    while not stop:
        ctypes.memmove(text, b'plain/config\0', 13); ctypes.memmove(text, b'.git/config\0', 12)
threads = [threading.Thread(target=f) for f in (exchange, rewrite)]
for t in threads: t.start()
wrote = 0
for i in range(500):
    for path in b'dir/config', text:
        for flags in os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND | os.O_CREAT:
            fd = libc.open(path, flags, 0o644)
            if fd >= 0: wrote += 1; os.write(fd, b'# from inside\n'); os.close(fd)
    libc.truncate(b'dir/config', ctypes.c_long(0)); libc.truncate(text, ctypes.c_long(0))
stop = True
for t in threads: t.join()
print('wrote' if wrote else 'never wrote')
`).OutputText(timeline.Stdout)
		if output != "wrote\n" {
			t.Errorf("got %q, want the allowed write to succeed", output)
		}
		if after := readText(config); after != before {
			t.Errorf("the settings are %q, want %q", after, before)
		}
	})

	// If the directory for temporary files is in the workspace, the daemon's socket is there as
	// well.
	t.Run("protects the daemon's socket in a workspace", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		dir := filepath.Join(m.work, "tmp/turnstone-"+strconv.Itoa(os.Getuid()))
		writeFile(t, filepath.Join(dir, "daemon.sock"), "")
		m.env = append(m.env, "TMPDIR="+filepath.Join(m.work, "tmp"))
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToChangeCode+"dir = "+quoteShell(dir)+"\nos.mkdir('mine')")
		for _, replaced := range []string{"true", "cp -r tmp/t* tmp/x && mv tmp/turnstone-* tmp/old && mv tmp/x " + dir} { // also when it was replaced
			m.outsideDoes(t, m.work, replaced)
			for _, code := range []string{
				"os.rename('tmp', 'other')", "os.rename(dir, 'tmp/y')", "os.unlink(dir + '/daemon.sock')", "puts(dir + '/daemon.sock')", "os.rename('mine', dir)",
				"socket.socket(socket.AF_UNIX).bind(dir + '/daemon.sock')", "socket.socket(socket.AF_UNIX).bind(dir + '/other.sock')", "os.symlink('/x', dir + '/x')",
			} {
				if output := r.RunCode(t, "print(changes("+quoteShell(code)+"))").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
					t.Errorf("%s after %s: got %q, want it held", code, replaced, output)
				}
			}
		}
		if output := r.RunCode(t, "print(changes("+quoteShell("puts('tmp/mine')")+"))").OutputText(timeline.Stdout, timeline.Stderr); output != "open\n" {
			t.Errorf("next to it: got %q", output)
		}
	})

	// The socket may be in a directory that is granted to a running session.
	t.Run("protects the daemon's socket in a granted directory", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		given := filepath.Join(m.outside, "other")
		dir := filepath.Join(given, "tmp/turnstone-"+strconv.Itoa(os.Getuid()))
		writeFile(t, filepath.Join(dir, "daemon.sock"), "")
		m.env = append(m.env, "TMPDIR="+filepath.Join(given, "tmp"))
		r := openSession(t, m, newSandbox(m))
		if err := r.Session.Allow(t.Context(), session.Grant{Write: given}); err != nil {
			t.Fatal(err)
		}
		r.RunCode(t, tryToChangeCode+"dir = "+quoteShell(dir)+"\ntop = "+quoteShell(given)+"\nos.mkdir(top + '/mine')")
		for _, code := range []string{
			"os.rename(top + '/tmp', top + '/other')", "os.rename(dir, top + '/tmp/y')", "os.unlink(dir + '/daemon.sock')", "puts(dir + '/daemon.sock')", "os.rename(top + '/mine', dir)",
			"socket.socket(socket.AF_UNIX).bind(dir + '/other.sock')",
		} {
			if output := r.RunCode(t, "print(changes("+quoteShell(code)+"))").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
				t.Errorf("%s: got %q, want it held", code, output)
			}
		}
		if output := r.RunCode(t, "print(changes("+quoteShell("puts(top + '/mine/x')")+"))").OutputText(timeline.Stdout, timeline.Stderr); output != "open\n" {
			t.Errorf("next to it: got %q", output)
		}
	})

	// A repository of one session is protected from another session of the same workspace, like the
	// user's.
	t.Run("protects a repository of another session", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		box := newSandbox(m)
		one, other := openSession(t, m, box), openSession(t, m, box)
		for _, r := range []*sessionkit.TestSession{one, other} {
			r.RunCode(t, tryToChangeCode)
		}
		wantOutput(t, one, "print(subprocess.run('git init -q mine && git -C mine remote add there x', shell=True).returncode)", "0")
		wantOutput(t, other, "print(subprocess.run('git -C mine remote set-url there y', shell=True, stderr=subprocess.DEVNULL).returncode)", "128")
		wantOutput(t, other, "print(changes(\"puts('mine/.git/hooks/pre-commit')\"))", "held: [Errno 30] Read-only file system: 'mine/.git/hooks/pre-commit'")
		wantOutput(t, other, "print(subprocess.run('git init -q yours && git -C yours remote add there y && echo x > mine/file', shell=True).returncode)", "0")
		wantOutput(t, one, "print(subprocess.run('git -C mine remote set-url there z && ! git -C yours remote set-url there z', shell=True, stderr=subprocess.DEVNULL).returncode)", "0")
	})

	// Modes and attributes of other files can be changed as without a sandbox.
	t.Run("leaves modes working", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		wantOutput(t, r, `
import os, stat
def mode(path): return oct(os.stat(path).st_mode & 0o7777)
open('run.sh', 'w').close(); os.mkdir('shared')
os.chmod('run.sh', 0o755); print(mode('run.sh'))
with open('run.sh') as f: os.fchmod(f.fileno(), 0o640)
print(mode('run.sh'))
os.chmod('run.sh', 0o700, dir_fd=os.open('.', os.O_RDONLY)); print(mode('run.sh'))
os.symlink('run.sh', 'link'); os.chmod('link', 0o711); print(mode('run.sh'))
os.chmod('shared', 0o2775); print(mode('shared'))
os.chmod('/proc/self/fd/%d' % os.open('run.sh', os.O_PATH), 0o755); print(mode('run.sh'))
try: os.fchmod(os.open('run.sh', os.O_PATH), 0o700)
except OSError as e: print(e.strerror)
try: os.chmod('nothing', 0o700)
except OSError as e: print(e.strerror)
try: os.chmod('run.sh/', 0o700)
except OSError as e: print(e.strerror)
os.chown('run.sh', os.getuid(), os.getgid()); os.utime('run.sh', (1, 1))
`, "0o755\n0o640\n0o700\n0o711\n0o2775\n0o755\nBad file descriptor\nNo such file or directory\nNot a directory")
		wantOutput(t, r, "import subprocess; print(subprocess.run('git init -q && git init -q --shared=group common && tar cf a.tar run.sh shared && mkdir x && tar xpf a.tar -C x && cp -a run.sh copy && install -m 750 run.sh installed', shell=True, capture_output=True, text=True))",
			"CompletedProcess(args='git init -q && git init -q --shared=group common && tar cf a.tar run.sh shared && mkdir x && tar xpf a.tar -C x && cp -a run.sh copy && install -m 750 run.sh installed', returncode=0, stdout='', stderr='')")
	})
}

func quoteShell(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\"`) + `"` }

func quoteLines(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

func TestGuardGitSettings(t *testing.T) {
	t.Parallel()

	// Git settings have many legal forms. Git itself resolves them.
	t.Run("are read as git reads them", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		forms := []struct{ what, settings, reached string }{
			{"a comment after a value", "[core]\n\thooksPath = .githooks # ours\n", ".githooks/post-checkout"},
			{"a value that goes on in the next line", "[core]\n\thooksPath = .git\\\nhooks\n", ".githooks/post-checkout"},
			{"an included file with a comment", "[include] path = ../shared.gitconfig ; ours\n", "shared.gitconfig"},
			{"a program with a space in its path", "[core]\n\tfsmonitor = \"\\\"./my tools/fs.sh\\\"\"\n", "my tools/fs.sh"},
			{"escapes and quotes inside a value", "[core]\n\thooksPath = .git\"hoo\"ks\n", ".githooks/post-checkout"},
			{"the old form of a section", "[filter.x]\n\tsmudge = sh tools/smudge\n", "tools/smudge"},
			{"a condition that does not hold now", "[includeIf \"onbranch:never\"]\n\tpath = ../some.gitconfig\n", "some.gitconfig"},
			{"a hook that is a link", "", "scripts/pre-push"},
			{"an odd form in a file that another one includes, under a condition", "[includeIf \"onbranch:never\"]\n\tpath = ../some.gitconfig\n", "tools/monitor"},
			{"a directory and a program in it", "[filter \"x\"]\n\tclean = cd tools && ./clean\n", "tools/clean"},
		}
		for i, f := range forms {
			dir := "forms/" + string(rune('a'+i))
			m.outsideDoes(t, m.work, "git init -q "+dir)
			writeFile(t, filepath.Join(m.work, dir, ".git/more"), f.settings)
			writeFile(t, filepath.Join(m.work, dir, "some.gitconfig"), "[include] path = other.gitconfig\n")
			writeFile(t, filepath.Join(m.work, dir, "other.gitconfig"), "[core]\n\tfsmonitor = \"tools/mon\\\nitor\" ; ours\n")
			writeFile(t, filepath.Join(m.work, dir, f.reached), "")
			m.outsideDoes(t, filepath.Join(m.work, dir), "cat .git/more >> .git/config && rm .git/more && ln -s ../../scripts/pre-push .git/hooks/pre-push")
		}
		m.outsideDoes(t, filepath.Join(m.work, "forms/a"), "ln -s ../../scripts/later .git/hooks/post-merge")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToChangeCode)
		if output := r.RunCode(t, "print(changes("+quoteShell("puts('forms/a/scripts/later')")+"))").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
			t.Errorf("a hook that leads to a missing file: got %q, want it held", output)
		}
		for i, f := range forms {
			t.Run(f.what, func(t *testing.T) {
				path := "forms/" + string(rune('a'+i)) + "/" + f.reached
				for _, outside := range []string{"true", "cp '" + path + "' .x && mv .x '" + path + "'"} { // also when it was replaced
					m.outsideDoes(t, m.work, outside)
					if output := r.RunCode(t, "print(changes("+quoteShell("puts('"+path+"')")+"))").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
						t.Errorf("after %s: got %q, want it held", outside, output)
					}
				}
			})
		}
		// From the next turn on, the paths to which they lead after a change outside are protected
		// as well.
		m.outsideDoes(t, filepath.Join(m.work, "forms/h"), "git config core.fsmonitor scripts/watch && git config include.path ../more && touch scripts/watch")
		r.RunCode(t, "None")
		for _, path := range []string{"forms/h/scripts/watch", "forms/h/more"} {
			if output := r.RunCode(t, "print(changes("+quoteShell("puts('"+path+"')")+"))").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
				t.Errorf("%s: got %q, want it held", path, output)
			}
		}
		if output := r.RunCode(t, "print(changes("+quoteShell("puts('forms/h/scripts/other')")+"))").OutputText(timeline.Stdout, timeline.Stderr); output != "open\n" {
			t.Errorf("next to the paths that git reaches: got %q", output)
		}
	})

	// A program that is named in git settings outside is protected in the same turn, while the
	// session writes.
	t.Run("checks them again while code runs", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToChangeCode)
		turn := r.StartTurn(t, `
import time
for _ in range(6000):
    if changes("puts('scripts/watch')") != 'open': print('held'); break
    time.sleep(0.01)
`)
		m.outsideDoes(t, m.work, "until test -e scripts/watch; do sleep 0.01; done; git config core.fsmonitor ./scripts/watch")
		if output := r.FinishTurn(t, turn).OutputText(timeline.Stdout, timeline.Stderr); output != "held\n" {
			t.Errorf("got %q, want it held", output)
		}
	})

	// A program may keep its new settings open after git's rename. It cannot change the settings through this descriptor.
	t.Run("are copied when they are new", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		wantOutput(t, r, `
import os
text = open('.git/config').read() + '[user]\n\tname = T\n'
new = open('.git/config.lock', 'w'); new.write(text); new.flush()
os.link('.git/config.lock', '.git/hard')
os.rename('.git/config.lock', '.git/config')
new.write('[core]\n\tfsmonitor = x\n'); new.flush()
open('.git/hard', 'a').write('[core]\n\tfsmonitor = x\n')
print(open('.git/config').read() == text, os.path.exists('.git/config.lock'), [n for n in os.listdir('.git') if 'checked' in n])
for name in '.git/config.checked-by-turnstone', 'HEAD':
    try: open(name, 'w')
    except OSError as e: print(e.strerror)
`, "True False []\nRead-only file system\nRead-only file system")
	})

	// Git reports that it could not write, and the denial names the setting.
	t.Run("names a refused setting", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "git remote add there https://example.org/x")
		r := openSession(t, m, newSandbox(m))
		for _, c := range []struct{ command, setting string }{
			{"git config core.fsmonitor x", "core.fsmonitor"},
			{"git config alias.x '!touch y'", "alias.x"},
			{"git config filter.my.clean x", "filter.my.clean"},
			{"git config url.https://user:secret@example.org/.insteadOf x", "url.….insteadof"},
			{"git remote set-url there https://example.org/y", "remote.there.url"},
			{"git remote add new ext::x", "remote.new.url"},
			{"git config --unset filter.clean.clean", "filter.clean.clean"},
		} {
			t.Run(c.setting, func(t *testing.T) {
				res := r.RunCode(t, "import subprocess; print(subprocess.run("+quoteShell(c.command)+", shell=True, capture_output=True, text=True).stderr)")
				if output := res.OutputText(timeline.Stdout, timeline.Stderr); !strings.Contains(output, "Read-only file system") && !strings.Contains(output, "ould not") {
					t.Errorf("git says %q", output)
				}
				wantDenials(t, res, timeline.AccessDenied{Op: "set", Detail: c.setting, Path: filepath.Join(m.work, ".git/config"), ChildProgram: "git"})
			})
		}
	})

	// Settings of a work tree are added to the settings of its repository, even if the session
	// added the work tree.
	t.Run("add no servers for one work tree", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "git config extensions.worktreeConfig true && git config --worktree core.sparseCheckout false && git remote add there https://example.org/x && git -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m first")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, "import subprocess\ndef git(*args): return subprocess.run(('git',) + args, capture_output=True, text=True).returncode")
		wantOutput(t, r, "print(git('worktree', 'add', '-q', 'z'), git('-C', 'z', 'sparse-checkout', 'set', '--no-cone', '/*'))", "0 0")
		for _, setting := range []string{"remote.there.pushurl", "remote.there.url", "remote.pushDefault", "branch.z.pushRemote", "branch.z.remote", "submodule.s.url"} {
			for _, tree := range []string{".", "z"} {
				wantOutput(t, r, "print(git('-C', '"+tree+"', 'config', '--worktree', '"+setting+"', 'x') != 0)", "True")
			}
		}
		wantOutput(t, r, "print(git('init', '-q', 'mine'), git('-C', 'mine', 'config', 'extensions.worktreeConfig', 'true'), git('-C', 'mine', 'config', '--worktree', 'remote.o.pushurl', 'x'))", "0 0 0")
	})
}
