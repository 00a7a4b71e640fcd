package escapes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// makeRepositoryCode makes a repository by hand, with a hook and a program in its settings that
// make the file ran.
const makeRepositoryCode = tryToChangeCode + `
import signal, threading, time
def program(): return 'touch ' + ran + '-program;false'
def evil(): return '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tfsmonitor = "%s"\n\tpager = "%s"\n' % (program(), program())
HOOK = '#!/bin/sh\ntouch %s-hook\nexit 0\n'
PLAIN = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n'
def sh(script): return subprocess.run(['sh', '-c', script], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
def put(path, text='', mode='w'):
    try:
        os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
        with open(path, mode) as f: f.write(text)
    except OSError: return False
    return True
def hooks(dir):
    for name in 'post-checkout', 'pre-commit', 'post-commit', 'post-index-change', 'reference-transaction':
        put(dir + '/' + name, HOOK % ran)
        try: os.chmod(dir + '/' + name, 0o755)
        except OSError: pass
def dirs(*names):
    for name in names: os.makedirs(name, exist_ok=True)
def database(dir): dirs(dir + '/objects/info', dir + '/objects/pack', dir + '/refs/heads')
def head(dir, name='HEAD'): return put(dir + '/' + name, 'ref: refs/heads/main\n')
def prepared(dir): put(dir + '/config', evil() + ('\tworktree = .\n' if dir == '.' else '')); hooks(dir + '/hooks')
def filled(dir): prepared(dir); database(dir); head(dir)
def init(dir='.', more=''): return sh('git init -q %s %s && git -C %s -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m first' % (more, dir, dir))
def prefix(length):
    while (more := length - len(os.getcwd())) > 0:
        name = 'a' * (min(more, 200 if more > 202 else 100 if more > 200 else more) - 1)
        os.mkdir(name); os.chdir(name)
def attempt(*calls):
    for call in calls:
        try: call()
        except (OSError, shutil.Error): pass
`

func TestOwnRepository(t *testing.T) {
	t.Parallel()

	// A repository that a session made runs none of its programs outside, not even through the
	// repository around it.
	t.Run("runs nothing of it outside", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "git config user.name T && git config user.email t@example.org && mkdir -p control && cd control && git init -q && git config core.fsmonitor \"touch $HOME/ran-control-program;false\" && printf '#!/bin/sh\\ntouch $HOME/ran-control-hook\\n' > .git/hooks/post-commit && chmod +x .git/hooks/post-commit")
		asks := func(t *testing.T, dir string) {
			m.outsideDoes(t, m.work, `
set +e; export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@example.org
{ git status; git diff; git submodule status; } > /dev/null 2>&1 || :
find `+dir+` \( -name objects -o -name refs -o -name hooks \) -prune -o -type d -print > ../dirs
while read -r d; do
	if test -e "$d/.git" || test -e "$d/HEAD"; then (cd "$d" && git status; git diff; git log; git commit -q --allow-empty -m x; git checkout -q -b new; git update-ref refs/x/y $(git hash-object -w --stdin < /dev/null); :); fi
done < ../dirs > /dev/null 2>&1; true`)
		}
		ran := func(name string) []string {
			found, _ := filepath.Glob(filepath.Join(m.home, "ran-"+name+"-*"))
			return found
		}
		asks(t, "control")
		if got := ran("control"); len(got) != 2 {
			t.Fatalf("want a program and a hook to run outside, got %q", got)
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, makeRepositoryCode)
		for i, c := range []struct{ what, code string }{
			{"settings by git", "init(); sh('git config core.fsmonitor \"%s\"; git config core.pager \"%s\"; git config alias.status \"!%s\"' % ((program(),) * 3))"},
			{"settings are appended to", "init(); put('.git/config', evil(), 'a')"},
			{"settings are overwritten", "init(); put('.git/config', evil())"},
			{"settings are written to and read", "init(); attempt(lambda: os.write(os.open('.git/config', os.O_RDWR), evil().encode()))"},
			{"a file is renamed to settings", "init(); put('x', evil()); attempt(lambda: os.rename('x', '.git/config'))"},
			{"a file is exchanged with settings", "init(); put('x', evil()); attempt(lambda: renames(2, 'x', '.git/config'))"},
			{"settings are removed, and a link is made", "init(); put('x', evil()); os.unlink('.git/config'); attempt(lambda: os.link('x', '.git/config'), lambda: os.symlink('../x', '.git/config'))"},
			{"a descriptor of new settings is kept", "init(); f = open('.git/config.lock', 'w'); f.write(open('.git/config').read()); f.flush(); os.rename('.git/config.lock', '.git/config'); f.seek(0); f.write(evil()); f.close()"},
			{"a descriptor of read settings is opened again", "init(); fd = os.open('.git/config', os.O_RDONLY); put('/proc/self/fd/%d' % fd, evil())"},
			{"a hard link of settings", "init(); attempt(lambda: os.link('.git/config', 'x')); put('x', evil())"},
			{"a hard link of an open file", "init(); fd = os.open('.git/config', os.O_RDONLY); attempt(lambda: os.link('/proc/self/fd/%d' % fd, 'x', follow_symlinks=True)); put('x', evil())"},
			{"settings are cut, and made again", "init(); attempt(lambda: os.truncate('.git/config', 0)); put('.git/config', evil(), 'a')"},
			{"settings include a file", "init(); put('x', evil()); sh('git config include.path ../x; git config includeIf.gitdir:/.path ../x')"},
			{"settings of a work tree", "init(); sh('git config extensions.worktreeConfig true'); put('.git/config.worktree', evil()); put('x', evil()); attempt(lambda: os.rename('x', '.git/config.worktree'))"},
			{"a directory of hooks elsewhere", "init(); hooks('x'); sh('git config core.hooksPath x'); attempt(lambda: os.symlink('../../x', '.git/hooks/y'))"},
			{"hooks are written", "init(); hooks('.git/hooks')"},
			{"hooks are written by the directory's descriptor", "init(); fd = os.open('.git/hooks', os.O_RDONLY); new = os.open('post-commit', os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=fd); os.write(new, (HOOK % ran).encode()); os.close(new)"},
			{"a sample is renamed to a hook", "init(); hooks('x'); dirs('.git/hooks'); put('.git/hooks/a.sample', open('x/pre-commit').read()); os.chmod('.git/hooks/a.sample', 0o755); attempt(lambda: os.rename('.git/hooks/a.sample', '.git/hooks/post-commit'), lambda: os.link('.git/hooks/a.sample', '.git/hooks/post-commit'), lambda: os.symlink('a.sample', '.git/hooks/post-commit'))"},
			{"a directory of hooks is moved there", "init(); hooks('x'); shutil.rmtree('.git/hooks', ignore_errors=True); attempt(lambda: os.rename('x', '.git/hooks'), lambda: os.symlink('../x', '.git/hooks'))"},
			{"a directory of hooks is exchanged", "init(); hooks('x'); dirs('.git/hooks'); attempt(lambda: renames(2, 'x', '.git/hooks'))"},
			{"prepared before git init", "dirs('.git'); prepared('.git'); init()"},
			{"prepared before its head", "dirs('.git'); put('.git/config', evil()); hooks('.git/hooks'); database('.git'); head('.git')"},
			{"a filled directory is moved to .git", "filled('x'); attempt(lambda: os.rename('x', '.git')); head('.git')"},
			{"a prepared directory is moved to .git", "prepared('x'); attempt(lambda: os.rename('x', '.git')); database('.git'); head('.git')"},
			{"a prepared directory is exchanged with .git", "prepared('x'); dirs('.git'); attempt(lambda: renames(2, 'x', '.git')); database('.git'); head('.git')"},
			{".git is moved, filled and moved back", "init(); os.rename('.git', 'x'); prepared('x'); attempt(lambda: os.unlink('x/HEAD')); prepared('x'); attempt(lambda: os.rename('x', '.git')); head('.git')"},
			{"a link to a filled directory", "filled('x'); attempt(lambda: os.symlink('x', '.git')); head('x')"},
			{"a file that names a filled directory", "filled('x'); put('.git', 'gitdir: x\\n'); head('x')"},
			{"a file that names a prepared directory", "put('.git', 'gitdir: x\\n'); prepared('x'); database('x'); head('x')"},
			{"a file that names a directory is written again", "init('y'); sh('git init -q --separate-git-dir z .'); prepared('x'); database('x'); head('x'); put('.git', 'gitdir: x\\n')"},
			{"git init with a prepared separate directory", "prepared('x'); sh('git init -q --separate-git-dir x .')"},
			{"git init with a template", "hooks('t/hooks'); put('t/config', evil()); sh('git init -q --template=t .')"},
			{"git clone with a template", "init('y'); hooks('t/hooks'); put('t/config', evil()); sh('git clone -q --template=t y z')"},
			{"git clone with settings", "init('y'); sh('git clone -q -c core.fsmonitor=\"%s\" y z' % program())"},
			{"a bare repository", "init('.', '--bare'); prepared('.')"},
			{"a directory becomes one by a made head", "prepared('.'); database('.'); head('.')"},
			{"by a renamed head", "prepared('.'); database('.'); head('.', 'x'); attempt(lambda: os.rename('x', 'HEAD'))"},
			{"by an exchanged head", "prepared('.'); database('.'); head('.', 'x'); dirs('HEAD'); attempt(lambda: renames(2, 'x', 'HEAD'))"},
			{"by a linked head", "prepared('.'); database('.'); head('.', 'x'); attempt(lambda: os.link('x', 'HEAD'))"},
			{"by a link as its head", "prepared('.'); database('.'); put('refs/heads/main'); attempt(lambda: os.symlink('refs/heads/main', 'HEAD'))"},
			{"by an open file as its head", "prepared('.'); database('.'); fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, b'ref: refs/heads/main\\n'); attempt(lambda: os.link('/proc/self/fd/%d' % fd, 'HEAD', follow_symlinks=True))"},
			{"by its database", "prepared('.'); dirs('refs/heads'); head('.'); attempt(lambda: dirs('objects'))"},
			{"by a moved database", "prepared('.'); dirs('refs/heads', 'x'); head('.'); attempt(lambda: os.rename('x', 'objects'))"},
			{"by a linked database", "prepared('.'); dirs('refs/heads'); head('.'); attempt(lambda: os.symlink('../.git/objects', 'objects'))"},
			{"by a socket as its database", "prepared('.'); dirs('refs/heads'); head('.'); os.umask(0); attempt(lambda: socket.socket(socket.AF_UNIX).bind('objects')); attempt(lambda: os.rename('objects', 'x'), lambda: dirs('x'), lambda: os.rename('x', 'objects'))"},
			{"a repository in the database of another", "init('y'); filled('y/.git/objects/x'); dirs('s'); put('s/.git', 'gitdir: ../y/.git/objects/x\\n'); put('y/.git/objects/x/config', evil()); sh('rm y/.git/objects/x/HEAD; rm -r y/.git/objects/x/hooks y/.git/objects/x/config'); head('y/.git/objects/x'); prepared('y/.git/objects/x')"},
			{"a repository in the database of the user's", "dirs(top + '/.git/objects/x/.git'); init(top + '/.git/objects/x'); prepared(top + '/.git/objects/x/.git'); hooks('z'); attempt(lambda: os.rename('z', top + '/.git/objects/x/.git/hooks')); dirs('s'); put('s/.git', 'gitdir: ../../.git/objects/x/.git\\n')"},
			{"by its head, with a descriptor of settings", "put('config', PLAIN); f = open('config', 'a'); database('.'); head('.'); f.write(evil() + '\tworktree = .\\n'); f.close()"},
			{"by its head, with a hard link of settings", "put('x', PLAIN); os.link('x', 'config'); database('.'); head('.'); put('x', evil() + '\tworktree = .\\n')"},
			{"by its head, with links", "put('x', evil()); hooks('y'); os.symlink('x', 'config'); os.symlink('y', 'hooks'); database('.'); head('.')"},
			{"its head is removed and made again", "init('.', '--bare'); os.unlink('HEAD'); prepared('.'); head('.')"},
			{"its database is moved and moved back", "init('.', '--bare'); os.rename('objects', 'x'); prepared('.'); attempt(lambda: os.rename('x', 'objects'))"},
			{"a repository elsewhere", "prepared('x'); database('x'); head('.git'); put('.git/commondir', top + '/x'); put('.git/commondir', '../x')"},
			{"a repository elsewhere, named before", "prepared('x'); database('x'); dirs('y'); put('y/commondir', '../x'); head('y'); put('.git', 'gitdir: y\\n')"},
			{"a repository elsewhere of a work tree", "prepared('x'); database('x'); init('y'); sh('git -C y worktree add -q ../z'); put('y/.git/worktrees/z/commondir', '../../../../x')"},
			{"a work tree's repository, with its descriptor", "prepared('x'); database('x'); dirs('y/worktrees/z'); f = open('y/worktrees/z/commondir', 'w'); f.write('../..\\n'); f.flush(); head('y/worktrees/z'); f.seek(0); f.write('../../../x\\n'); f.close(); put('.git', 'gitdir: y/worktrees/z\\n')"},
			{"a work tree's directory is moved", "prepared('x'); database('x'); dirs('x/y'); init('y'); sh('git -C y worktree add -q ../z'); attempt(lambda: os.rename('y/.git/worktrees/z', 'x/y/z')); put('.git', 'gitdir: x/y/z\\n')"},
			{"the directory of work trees is moved", "prepared('x'); database('x'); init('y'); sh('git -C y worktree add -q ../z'); attempt(lambda: os.rename('y/.git/worktrees', 'x/y')); put('.git', 'gitdir: x/y/z\\n')"},
			{"the same under a name that is a pattern", "prepared('x'); database('x'); init('y[a]'); sh('git -C y[a] worktree add -q ../z'); attempt(lambda: os.rename('y[a]/.git/worktrees', 'x/y')); put('.git', 'gitdir: x/y/z\\n')"},
			{"a repository that needs no head", "dirs('y/worktrees/z', 'y/refs'); put('y/worktrees/z/commondir', '../..\\n'); head('y/worktrees/z'); prepared('y'); attempt(lambda: dirs('y/objects')); put('.git', 'gitdir: y/worktrees/z\\n')"},
			{"a repository of a work tree, without its head", "init('x'); sh('git clone -q --bare x y && git -C y worktree add -q ../z'); attempt(lambda: os.unlink('y/HEAD')); prepared('y')"},
			{"work trees in a directory that cannot be read are moved", "dirs('y/worktrees/z'); put('y/worktrees/z/commondir', '../..\\n'); head('y/worktrees/z'); unreadable('y/worktrees', lambda: attempt(lambda: os.rename('y/worktrees', 'y/x'))); database('y'); prepared('y'); put('.git', 'gitdir: y/x/z\\n')"},
			{"in a directory of settings of others", "dirs('x/.github/hooks'); init('x/.github/hooks/y'); filled('x/.github/hooks/y/.git'); attempt(lambda: os.rename('x/.github/hooks/y', 's'))"},
			{"in a directory of settings of a shell", "dirs('x/.config/mise'); init('x/.config/mise/y'); filled('x/.config/mise/y/.git'); attempt(lambda: os.rename('x/.config/mise/y', 's'))"},
			{"in the settings of Mercurial", "dirs('x/.hg/hgrc'); init('x/.hg/hgrc/y'); filled('x/.hg/hgrc/y/.git'); attempt(lambda: os.rename('x/.hg/hgrc/y', 's'))"},
			{"by its head, with a path too long to ask for", "prepared('x'); database('x'); os.mkdir('d'); os.chdir('d'); prefix(4086); os.rename(top + '/' + name + '/x', 'x'); os.chdir('x'); head('.'); os.chdir('..'); os.rename('x', top + '/' + name + '/s'); os.chdir(top + '/' + name); put('.git', 'gitdir: s\\n')"},
			{"a submodule's directory is prepared", "init('y'); prepared('y/.git/modules/s'); database('y/.git/modules/s'); head('y/.git/modules/s'); put('y/s/.git', 'gitdir: ../.git/modules/s\\n')"},
			{"a submodule's directory is moved there", "init('y'); prepared('x'); dirs('y/.git/modules'); attempt(lambda: os.rename('x', 'y/.git/modules/s')); database('y/.git/modules/s'); head('y/.git/modules/s'); put('y/s/.git', 'gitdir: ../.git/modules/s\\n')"},
			{"a submodule", "init('y'); init('z'); sh('cd y && git -c protocol.file.allow=always submodule add -q ../z s; git -C s config core.fsmonitor \"%s\"; git config submodule.s.update \"!%s\"; git config core.pager \"%s\"' % ((program(),) * 3)); prepared('y/.git/modules/s')"},
			{"a submodule of the user's repository", "init('z'); sh('cd %s && git -c protocol.file.allow=always submodule add -q ./%s/z %s/s; git -C %s/s config core.fsmonitor \"%s\"' % (top, name, name, name, program())); prepared(top + '/.git/modules/' + name + '/s')"},
		} {
			t.Run(c.what, func(t *testing.T) {
				name := "w" + strconv.Itoa(i)
				code := "name = '" + name + "'; top = " + quoteShell(m.work) + "; ran = " + quoteShell(m.home+"/ran-"+name) + "; os.chdir(top); dirs(name); os.chdir(name)\ntry:\n    " + c.code + "\nexcept OSError as e: print(e)\nos.chdir(top); sh('git add -f ' + name + ' ' + name + '/*')"
				output := r.RunCode(t, code).OutputText(timeline.Stdout, timeline.Stderr)
				asks(t, name)
				if got := ran(name); len(got) > 0 {
					t.Errorf("outside, it runs: %q", got)
				}
				if strings.Contains(output, "Traceback") || strings.Contains(output, "SyntaxError") {
					t.Errorf("inside: %s", output)
				}
			})
		}
		if _, err := os.Stat(filepath.Join(m.work, "w0/.git/HEAD")); err != nil {
			t.Errorf("the session cannot make a repository at all: %v", err)
		}
		// A checkout outside must not write where the session must not.
		wantOutput(t, r, "init('y', '--bare'); put('.git/.git', 'gitdir: ../y\\n'); print(sh('git -C y config core.worktree ../.git; git -C y config core.worktree '+os.path.dirname(top)+'; git -C y config core.worktree').stdout)", "")
	})

	// A call that would make a repository is undone, whatever another thread does at the same time.
	t.Run("is removed if it is refused", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, makeRepositoryCode)
		wantOutput(t, r, `
ran = 'ran'; dirs('y/refs/heads', 'q'); head('y'); put('y/config', '[user]\n' + '\tname = x\n' * 90000 + evil())
os.mkfifo('q/x'); os.symlink('q', 'l'); os.symlink('y/objects', 'm')
def waits():
    try: os.close(os.open('l/x', os.O_WRONLY | os.O_CREAT)) # is tried again until the pipe has a reader
    except OSError: pass
waiting = [threading.Thread(target=waits, daemon=True) for _ in range(200)]
for t in waiting: t.start()
time.sleep(0.3) # where they do not wait yet, the test tries less
os.rename('m', 'l')
attempt(lambda: os.mkdir('y/objects'))
os.unlink('l'); os.symlink('q', 'l'); fd = os.open('q/x', os.O_RDONLY | os.O_NONBLOCK)
for t in waiting: t.join()
print(os.path.exists('y/objects'))`, "False")
	})

	// A user's git init completes a directory named .git. Nothing that a session has prepared can
	// get that name.
	t.Run("nothing prepared can become .git", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, makeRepositoryCode+"top = "+quoteShell(m.work))
		for i, c := range []struct{ what, code string }{
			{"in the place of an empty directory", "dirs('.git'); os.rename('x', '.git')"},
			{"by a link", "os.symlink('x', '.git')"},
			{"by a link that is moved", "os.symlink('x', 'l'); os.rename('l', '.git')"},
			{"by a link in the place of a file", "os.symlink('x', 'l'); put('.git', 'gitdir: x\\n'); os.rename('l', '.git')"},
			{"by a link that is exchanged", "os.symlink('x', 'l'); dirs('.git'); renames(2, 'l', '.git')"},
			{"by a link that is exchanged the other way", "os.symlink('x', 'l'); dirs('.git'); renames(2, '.git', 'l')"},
			{"by another name of a link", "os.symlink('x', 'l'); os.link('l', '.git', follow_symlinks=False)"},
		} {
			t.Run(c.what, func(t *testing.T) {
				name := "g" + strconv.Itoa(i)
				ran := filepath.Join(m.home, "ran-"+name)
				wantOutput(t, r, "ran = "+quoteShell(ran)+"; os.chdir(top); dirs('"+name+"'); os.chdir('"+name+"'); prepared('x'); print(changes("+quoteLines(c.code)+").split(':')[0])", "held")
				m.outsideDoes(t, filepath.Join(m.work, name), "rm -f l; if test -f .git; then rm .git; fi; git init -q; git status > /dev/null; git -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m x; true")
				if found, _ := filepath.Glob(ran + "-*"); len(found) > 0 {
					t.Errorf("outside, it runs: %q", found)
				}
			})
		}
		wantOutput(t, r, "os.chdir(top); dirs('kept/.git'); os.chdir('kept'); os.chmod('.git', 0o750); prepared('x'); was = os.listdir('x'); attempt(lambda: os.rename('x', '.git')); print(os.listdir('.git'), oct(os.stat('.git').st_mode & 0o777), os.listdir('x') == was)", "[] 0o750 True")
		wantOutput(t, r, "dirs('a/b', 'c'); os.rename('a', 'c'); print(os.listdir('c'))", "['b']")
	})

	// Git and other programs work in the repositories that a session makes.
	t.Run("works with git and other programs", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "git config user.name T && git config user.email t@example.org && git config protocol.file.allow always")
		writeFile(t, filepath.Join(m.home, ".gitconfig"), "[user]\n\tname = T\n\temail = t@example.org\n")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, makeRepositoryCode)
		for i, c := range []struct{ what, script string }{
			{"init in every way", "git init -q a && git init -q --bare b && git init -q --shared=group c && git init -q --separate-git-dir d e && git -C e status && git init -q a && git init -q --object-format=sha256 f"},
			{"settings", "git init -q a && cd a && git config user.name U && git config user.name V && git config core.autocrlf input && git config commit.gpgsign false && git config pull.rebase true && git config receive.denyCurrentBranch updateInstead && git config --remove-section user && test \"$(git config user.name)\" = T"},
			{"remotes", "git init -q a && git init -q --bare b && cd a && git remote add o ../b && git commit -q --allow-empty -m x && git push -q -u o HEAD && git remote set-url o ../c && git remote rename o p && git remote set-url p ../b && git fetch -q p && git remote remove p && git remote add o https://example.org/x && git config --get remote.o.url"},
			{"clones", "git init -q a && git -C a commit -q --allow-empty -m x && git clone -q a b && git clone -q --bare a c && git clone -q --mirror a d && git clone -q -b $(git -C a branch --show-current) --single-branch --no-local --depth 1 a e && git clone -q --separate-git-dir f a g && git -C g status && git -C b pull -q && git -C d remote update"},
			{"submodules", "git init -q a && git -C a commit -q --allow-empty -m x && git init -q b && cd b && git -c protocol.file.allow=always submodule add -q ../a s/t && git commit -q -m y && git -C s/t config user.name U && cd .. && git -c protocol.file.allow=always clone -q --recurse-submodules b c && git -C c/s/t status && cd c && git submodule deinit -f s/t && git -c protocol.file.allow=always submodule update --init -q && git submodule sync -q && git rm -q s/t"},
			{"work trees", "git init -q a && git -C a commit -q --allow-empty -m x && git -C a worktree add -q ../b && git -C b status && git -C b commit -q --allow-empty -m y && git -C a worktree move ../b ../c && git -C c status && git -C a worktree lock ../c && git -C a worktree unlock ../c && git -C a worktree remove ../c && git -C a worktree prune && git clone -q --bare a d && git -C d worktree add -q ../e && git -C e status && git -C d worktree remove ../e && git init -q --separate-git-dir f g && git -C g commit -q --allow-empty -m x && git -C g worktree add -q ../h && git -C g worktree remove ../h && git -C g -c protocol.file.allow=always submodule add -q ../a s && git -C g/s config user.name U && git -C g commit -q -m y && git -C g rm -q s && rm -r f/modules"},
			{"branches, stash, rebase and gc", "git init -q a && cd a && echo 1 > f && git add f && git commit -q -m x && git checkout -q -b side && git branch -q --track other && git config branch.other.merge && echo 2 > f && git stash -q && git stash pop -q && git commit -q -a -m y && git checkout -q - && git rebase -q side && git branch -q -m other third && git branch -q -d third side && git gc -q && git fsck && git tag t && git checkout -q --detach t && git bisect start && git bisect reset && git notes add -m n"},
			{"moved and removed", "git init -q a && git -C a commit -q --allow-empty -m x && mv a b && git -C b status && git -C b config user.name U && mkdir c && mv b c/d && mv c/d/.git c/g && mv c/g c/d/.git && rm -rf c && git init -q --bare e && mv e f && rm -r f && test -z \"$(ls)\""},
			{"archives and bundles", "git init -q a && git -C a commit -q --allow-empty -m x && git -C a bundle create -q ../b HEAD && git clone -q b c 2>/dev/null && git -C a archive HEAD | tar t && git -C a format-patch -1 --stdout > p"},
			{"sparse checkouts", "git init -q a && cd a && mkdir x y && touch x/1 y/2 && git add . && git commit -q -m x && git sparse-checkout set x && test ! -e y && git sparse-checkout disable && test -e y"},
			{"directories named as git's", "mkdir hooks config info refs worktrees modules && echo x > hooks/useX.ts && echo x > config/config && mv hooks src && mv config worktrees/ && mkdir -p src/hooks && touch src/hooks/a src/HEAD && rm -r src info refs worktrees modules"},
			{"submodules named as git's directories", "git init -q a && git -C a commit -q --allow-empty -m x && git init -q b && cd b && git -c protocol.file.allow=always submodule add -q ../a remotes && git -c protocol.file.allow=always submodule add -q ../a x/branches && git commit -q -m y && git -C x/branches status"},
			{"samples of hooks are removed", "git init -q a && cd a && ls .git/hooks/pre-commit.sample && rm .git/hooks/*.sample && rmdir .git/hooks && mkdir .git/hooks && git commit -q --allow-empty -m x"},
		} {
			t.Run(c.what, func(t *testing.T) {
				code := "os.chdir(top); dirs('o" + strconv.Itoa(i) + "'); ran = subprocess.run(['sh', '-exc', " + quoteLines(c.script) + "], cwd='o" + strconv.Itoa(i) + "', capture_output=True, text=True, stdin=subprocess.DEVNULL); print(ran.returncode, ran.stdout, ran.stderr)"
				if output := r.RunCode(t, "top = "+quoteShell(m.work)+"; "+code).OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "0 ") {
					t.Errorf("got %q, want it to work", output)
				}
			})
		}
		wantOutput(t, r, "sh('git init -q z'); print(sh('cd z && echo x > .git/hooks/pre-commit').stderr.strip().split(': ')[-1])", "Read-only file system")
	})

	// Programs can write settings in place. Settings that are not allowed are reported when the
	// file is closed.
	t.Run("allows settings to be written in place", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, makeRepositoryCode+awaitSettingsCode+"top = "+quoteShell(m.work)+"; dirs('in'); os.chdir('in'); init('a'); init('b', '--bare'); sh('git -C a remote add o https://example.org/x')")
		for _, c := range []struct{ what, code string }{
			{"cp", "sh('cp -r a c')"}, {"cp -a", "sh('cp -a a c')"}, {"tar", "sh('mkdir c && tar c -C a . | tar x -C c')"}, {"copytree", "shutil.copytree('a', 'c')"}, {"rsync's way", "shutil.copytree('a', 'c', ignore=lambda d, n: ['config'] if d == 'a/.git' else []); shutil.copy('a/.git/config', 'c/.git/.config.X'); os.rename('c/.git/.config.X', 'c/.git/config')"},
			{"across", "sh('cp -r a /tmp/c && mv /tmp/c c')"},
		} {
			t.Run(c.what, func(t *testing.T) {
				wantOutput(t, r, c.code+"; awaits(lambda: reads('c/.git/config') == reads('a/.git/config'), 'copied'); print(sh('git -C c remote').stdout + sh('git -C c config user.name V && rm -r c').stderr, end='')", "copied\no")
			})
		}
		wantOutput(t, r, "sh('cp -r b c'); awaits(lambda: reads('c/config') == reads('b/config'), 'copied'); print(sh('git -C c rev-parse --is-bare-repository').stdout)", "copied\ntrue")
		wantOutput(t, r, "put('a/.git/config', '[user]\\n\\tname = W\\n', 'a'); awaits(lambda: 'name = W' in reads('a/.git/config'), 'set')", "set")
		wantOutput(t, r, "f = open('a/.git/config', 'r+'); text = f.read(); f.seek(0); f.write(text.replace('W', 'X')); f.close(); awaits(lambda: 'name = X' in reads('a/.git/config'), 'changed')", "changed")
		wantOutput(t, r, "was = reads('a/.git/config'); f = open('a/.git/config', 'w'); f.write('[user]'); f.flush(); print(reads('a/.git/config') == was); f.write('\\n\\tname = Y\\n'); f.close(); awaits(lambda: 'Y' in reads('a/.git/config'), 'closed')", "True\nclosed")
		wantOutput(t, r, "try: open('a/.git/config', 'x')\nexcept OSError as e: print(e.strerror)", "File exists")
		wantOutput(t, r, "os.unlink('a/.git/config')\ntry: open('a/.git/config', 'r+')\nexcept OSError as e: print(e.strerror)\nput('a/.git/config', PLAIN); awaits(lambda: reads('a/.git/config') == PLAIN, 'made')", "No such file or directory\nmade")

		for git, refused := range map[string]string{"in/a/.git": "core.fsmonitor", ".git": "core.repositoryformatversion"} { // the session's own repository, and the user's
			res := r.RunCode(t, "os.chdir(top); was = reads('"+git+"/config'); put('"+git+"/config', was + '[user]\\n\\tname = Z\\n'); awaits(lambda: 'name = Z' in reads('"+git+"/config'), 'plain')")
			if got := res.OutputText(timeline.Stdout, timeline.Stderr); got != "plain\n" || len(readDenials(res)) > 0 {
				t.Errorf("%s: got %q and %v", git, got, readDenials(res))
			}
			// The next call of the session sees what was written before.
			res = r.RunCode(t, "ran = 'x'; was = reads('"+git+"/config'); put('"+git+"/config', was + evil()); put('next'); print(reads('"+git+"/config') == was)")
			if got := res.OutputText(timeline.Stdout, timeline.Stderr); got != "True\n" {
				t.Errorf("%s: got %q, want no change", git, got)
			}
			wantDenials(t, res, timeline.AccessDenied{Op: "set", Detail: refused, Path: filepath.Join(m.work, git, "config")})
		}
	})

	// The files that programs keep open are limited, and closed with the programs.
	t.Run("bounds settings that stay open", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, makeRepositoryCode+awaitSettingsCode+"dirs('in'); os.chdir('in'); init('a'); was = reads('a/.git/config')")
		wantOutput(t, r, `
many = []
try:
    while len(many) < 1000: many.append(os.open('a/.git/config', os.O_WRONLY))
except OSError as e: print(len(many), e.strerror)
for fd in many: os.close(fd)
put('a/.git/config', PLAIN); awaits(lambda: reads('a/.git/config') == PLAIN, 'free again')
`, "64 Read-only file system\nfree again")
		wantOutput(t, r, "import subprocess; subprocess.run([sys.executable, '-c', 'import os; os.write(os.open(\"a/.git/config\", os.O_WRONLY | os.O_TRUNC), b\"[user]\\\\n\\\\tname = A\\\\n\"); os.kill(os.getpid(), 9)']); awaits(lambda: 'name = A' in reads('a/.git/config'), 'killed')", "killed")
	})
}

// awaitSettingsCode waits for settings, which are applied when a program has closed them.
const awaitSettingsCode = `
import time
def awaits(fact, what):
    for _ in range(3000):
        if fact(): return print(what)
        time.sleep(0.01)
    print('never: ' + what)
def reads(path):
    try: return open(path).read()
    except OSError as e: return e.strerror
`
