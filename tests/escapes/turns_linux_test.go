package escapes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// A turnStep is a change that a program outside makes in the home directory, with the output of the
// session's next turn.
type turnStep struct{ what, outside, code, want string }

const atHomeCode = tryToReadCode + `
import os, subprocess
os.chdir(os.environ['HOME'])
def git(*args): return subprocess.run(['git', 'config', *args], capture_output=True, text=True).stdout.strip()
mounts = lambda: len(open('/proc/self/mountinfo').readlines())
def puts(path):
    try:
        with open(path, 'w') as f: f.write('from inside')
        return 'written'
    except OSError as e: return e.strerror
before = mounts()
`

// runSteps runs the steps one after the other.
func (m *machine) runSteps(t *testing.T, r *sessionkit.TestSession, steps []turnStep) {
	t.Helper()
	for _, s := range steps {
		t.Run(s.what, func(t *testing.T) {
			m.outsideDoes(t, m.home, s.outside)
			res := r.RunCode(t, s.code)
			if output := res.OutputText(timeline.Stdout, timeline.Stderr); strings.TrimSpace(output) != s.want || strings.Contains(output, secret) {
				t.Errorf("got %q, want %q; full transcript: %s", output, s.want, res.Transcript())
			}
		})
	}
}

// resetSession resets a session, and defines the functions that its code needs.
func resetSession(t *testing.T, r *sessionkit.TestSession) {
	t.Helper()
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.WaitUntilReady(t)
	r.RunCode(t, atHomeCode)
}

const goneOutput = "held: [Errno 2] No such file or directory: "

func TestTurn(t *testing.T) {
	t.Parallel()

	// From the turn after a replacement on, the session sees the new file, of any kind, and no
	// removed file. Only listed names appear automatically.
	t.Run("shows what outside programs have replaced", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for name, text := range map[string]string{"data/file": "old", "kind": "a file", ".Rprofile": "old"} {
			writeFile(t, filepath.Join(m.home, name), text)
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+"held = open('note.txt')")
		m.runSteps(t, r, []turnStep{
			{"nothing yet", "true", "print(readable('note.txt'))", "open: a note"},
			{"a file by a rename", "echo new > n && mv n note.txt", "print(readable('note.txt'), held.read())", "open: new\n a note"},
			{"again", "echo newer > n && mv n note.txt", "print(readable('note.txt'))", "open: newer"},
			{"in place", "echo newest > note.txt", "print(readable('note.txt'))", "open: newest"},
			{"a setting", "echo new > n && mv n .Rprofile", "print(readable('.Rprofile'))", "open: new"},
			{"a directory", "mv data was && mkdir data && echo new > data/file", "print(readable('data/file'))", "open: new"},
			{"a moved directory", "true", "print(os.path.exists('was'))", "False"},
			{"keys under a new name", "mv .ssh keys", "print(os.path.exists('keys'), os.path.exists('.ssh'))", "False False"},
			{"a removal", "rm note.txt", "print(readable('note.txt'))", goneOutput + "'note.txt'"},
			{"a new file under the old name", "echo back > note.txt", "print(readable('note.txt'))", "open: back"},
			{"a removal and a new file at once", "rm note.txt && echo again > note.txt", "print(readable('note.txt'))", "open: again"},
			{"a directory in the place of a file", "rm kind && mkdir kind && echo x > kind/x", "print(readable('kind/x'))", "open: x"},
			{"a link in the place of a directory", "rm -r kind && ln -s data kind", "print(os.readlink('kind'), readable('kind/file'))", "data open: new"},
			{"a link that leads elsewhere", "ln -sfn note.txt kind", "print(readable('kind'))", "open: again"},
			{"a link to keys", "ln -sfn keys kind", "print(readable('kind/id_ed25519'))", goneOutput + "'kind/id_ed25519'"},
			{"a directory in the place of a link", "rm kind && mkdir kind && echo y > kind/y", "print(readable('kind/y'))", "open: y"},
			{"a pipe in its place", "rm -r kind && mkfifo kind", "print(os.path.exists('kind'))", "False"},
			{"a file in the place of a pipe", "rm kind && echo z > kind", "print(readable('kind'))", "open: z"},
			{"it is still read-only", "true", "print(puts('note.txt'), '|', puts('kind'), '|', puts('data/file'), '|', puts('new'))", "Read-only file system | Read-only file system | Read-only file system | Read-only file system"},
			{"no mounts add up", "true", "print(mounts() - before)", "0"},
			{"a listed name", "mkdir -p .pyenv .local/share/fonts && echo 3.14 > .pyenv/version && echo x > .local/share/fonts/x", "print(readable('.pyenv/version'))", "open: 3.14"},
			{"an unlisted name", "mkdir .newtool && echo \"$SECRET\" > .newtool/token && echo \"$SECRET\" > later", "print(os.path.exists('.newtool'), os.path.exists('later'))", "False False"},
		})
		resetSession(t, r)
		m.runSteps(t, r, []turnStep{
			{"after a reset", "true", "print(readable('note.txt'), readable('kind'), readable('.pyenv/version'), os.path.exists('.newtool'), os.path.exists('was'))", "open: again\n open: z\n open: 3.14\n False True"},
			{"a replacement after it", "echo last > n && mv n note.txt", "print(readable('note.txt'))", "open: last"},
		})
	})

	// The session never sees the machine's files in a settings directory that a variable names
	// elsewhere, either.
	t.Run("never shows the machine's directory elsewhere", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.outside, "share/unlisted"), secret)
		m.env = append(m.env, "XDG_CONFIG_HOME="+m.outside+"/conf", "XDG_DATA_HOME="+m.outside+"/share")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+"os.chdir("+strconv.Quote(m.outside)+"); own = puts('share/own')")
		m.runSteps(t, r, []turnStep{
			{"it is missing", "true", "print(own, os.path.exists('conf'), os.listdir('share'), os.path.exists('file'))", "written False ['own'] True"},
			{"it comes", "cd ../outside && mkdir -p conf/new && echo \"$SECRET\" > conf/new/token", "print('Permission denied' in readable('conf/new/token'))", "True"},
			{"it is replaced", "cd ../outside && mv share old && mkdir share && echo \"$SECRET\" > share/unlisted", "print(os.listdir('share'), os.listdir('old'))", "['own'] ['own']"},
			{"it is removed", "cd ../outside && rm -r share", "print(os.path.exists('share'))", "False"},
			{"it is there again", "cd ../outside && mkdir share && echo \"$SECRET\" > share/unlisted", "print(os.listdir('share'))", "['own']"},
		})
	})

	// Until the turn ends, code sees the files that existed when it started.
	t.Run("shows the old file until it ends", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		turn := r.StartTurn(t, "print('began', flush=True)\nwhile not os.path.exists('project/go'): pass\nprint(readable('note.txt'))")
		r.WaitEvent(t, "the turn to begin", sessionkit.IsText("began"))
		m.outsideDoes(t, m.home, `printf '%s' "$SECRET" > n && mv n note.txt && mv .ssh note && touch project/go`)
		if output := r.FinishTurn(t, turn).OutputText(timeline.Stdout, timeline.Stderr); output != "open: a note\n" {
			t.Errorf("got %q", output)
		}
	})

	// The session gets new settings when one of their sources has changed.
	t.Run("writes settings again after a change", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		pip := ".config/pip/pip.conf"
		m.runSteps(t, r, []turnStep{
			{"git's", "git config --global user.name Ada && git config --global credential.helper \"!echo $SECRET\"", "print(git('user.name'), git('credential.helper'))", "Ada"},
			{"again", "git config --global user.name Grace", "print(git('user.name'))", "Grace"},
			{"an included file that is not there yet", "git config --global include.path .gitmore", "print(git('init.defaultBranch'))", ""},
			{"and then is", "printf '[init]\\n\\tdefaultBranch = trunk\\n' > .gitmore", "print(git('init.defaultBranch'))", "trunk"},
			{"and changes in place", "printf '[init]\\n\\tdefaultBranch = other\\n' > .gitmore", "print(git('init.defaultBranch'))", "other"},
			{"pip's for the first time", "mkdir -p .config/pip && printf '[global]\\nindex-url = https://me:%s@a.example.org/\\n' \"$SECRET\" > " + pip, "print(readable('" + pip + "'))", "open: [global]\nindex-url = https://a.example.org/"},
			{"pip's by a rename", "printf '[global]\\nindex-url = https://me:%s@b.example.org/\\n' \"$SECRET\" > n && mv n " + pip, "print(readable('" + pip + "'))", "open: [global]\nindex-url = https://b.example.org/"},
			{"pip's are removed", "rm " + pip, "print(readable('" + pip + "'))", goneOutput + "'" + pip + "'"},
			{"what the session writes there is its own", "true", "print(puts('" + pip + "'), readable('" + pip + "'))", "written open: from inside"},
			{"also when there is one outside", "mkdir -p .config/pip && printf '[global]\\n' > " + pip, "print(readable('" + pip + "'))", "open: from inside"},
			{"variables of R", "printf 'R_LIBS_SITE=/opt/r\\nGITHUB_PAT=%s\\n' \"$SECRET\" > .Renviron", "print(readable('.Renviron'), puts('.Renviron'))", "open: R_LIBS_SITE=/opt/r\n Read-only file system"},
			{"git's are removed", "rm .gitconfig", "print(git('user.name'), os.path.exists('.gitconfig'))", "False"},
		})
		resetSession(t, r)
		m.runSteps(t, r, []turnStep{
			{"after a reset the settings outside count", "git config --global user.name Ada", "print(git('user.name'), readable('" + pip + "'))", "Ada open: [global]"},
		})
	})

	// A shown directory reveals no file that the user hides in it, whatever programs outside do.
	t.Run("keeps what is hidden in a directory hidden", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for name, text := range map[string]string{"home/papers/private.txt": secret, "home/papers/open.txt": "open", "home/papers/deep/x": "deep", "outside/keys/key": secret} {
			writeFile(t, filepath.Join(m.base, name), text)
		}
		box := newSandbox(m)
		box.Hidden = append(box.Hidden, filepath.Join(m.home, "papers/private.txt"), filepath.Join(m.home, "papers/later.txt"), filepath.Join(m.outside, "keys"), filepath.Join(m.outside, "later"))
		r := openSession(t, m, box)
		r.RunCode(t, atHomeCode)
		none := "print('open' in readable('papers/private.txt'), 'open' in readable('papers/later.txt'))"
		m.runSteps(t, r, []turnStep{
			{"at first", "true", "print(readable('papers/open.txt'), readable('papers/deep/x'))", "open: open open: deep"},
			{"it is not there", "true", none, "False False"},
			{"a rename over it", "printf '%s' \"$SECRET\" > papers/n && mv papers/n papers/private.txt", none, "False False"},
			{"one that comes", "printf '%s' \"$SECRET\" > papers/later.txt", none, "False False"},
			{"the directory around it", "mv papers old && cp -r old papers", none, "False False"},
			{"and a file next to it", "printf new > papers/open.txt", "print(readable('papers/open.txt'), readable('papers/deep/x'))", "open: new open: deep"},
			{"another name of it", "mv papers/private.txt papers/other.txt", "print(os.path.exists('papers/other.txt'))", "False"},
			{"elsewhere, when it was replaced", "cp -r ../outside/keys ../outside/n && rm -r ../outside/keys && mv ../outside/n ../outside/keys", "print('open' in readable('../outside/keys/key'))", "False"},
			{"elsewhere, when it comes", "mkdir ../outside/later && printf '%s' \"$SECRET\" > ../outside/later/key", "print('open' in readable('../outside/later/key'))", "False"},
		})
		resetSession(t, r)
		m.runSteps(t, r, []turnStep{{"after a reset", "true", none, "False False"}})
	})

	// Variables and files say where an interpreter finds packages. Those of an environment in the
	// workspace do not count.
	t.Run("shows what the interpreter names", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		site := filepath.Join(m.home, ".local/lib/python3.99/site-packages")
		own := filepath.Join(m.work, ".venv/lib/python3.99/site-packages")
		writeFile(t, filepath.Join(m.work, ".venv/bin/python"), "")
		for _, name := range []string{"named", "edited", "listed", "later", "mine", "mine2", "mine3", "mapped", "single", "first", "unnamed"} {
			writeFile(t, filepath.Join(m.home, ".src", name, "code.py"), name)
		}
		writeFile(t, filepath.Join(site, "listed.pth"), "# a comment\nimport os\n"+m.home+"/.src/listed\n"+m.home+"/.config\n"+m.home+"/.ssh\n"+m.home+"\n")
		editable := func(site, name string) {
			writeFile(t, filepath.Join(site, name+"-1.0.dist-info/direct_url.json"), `{"url": "file://`+m.home+`/.src/`+name+`", "dir_info": {"editable": true}}`)
		}
		src := m.home + "/.src/" // as setuptools and hatchling name a package, a module and a package's first file
		writeFile(t, filepath.Join(site, "__editable___mapped_1_finder.py"), "MAPPING = {'mapped': '"+src+"mapped', 'code': '"+src+"single/code', 'gone': '/gone/x'}\nNAMESPACES = {}\nHOME = '"+m.home+"'\n")
		writeFile(t, filepath.Join(site, "_editable_impl_first.py"), "map_module(\"first\", \""+src+"first/code.py\")\n")
		writeFile(t, filepath.Join(own, "__editable___mine3_1_finder.py"), "MAPPING = {'mine3': '"+src+"mine3'}\n")
		editable(site, "edited")
		editable(own, "mine")
		writeFile(t, filepath.Join(own, "x.pth"), m.home+"/.src/mine2\n")
		m.env = append(m.env, "PYTHONPATH="+m.home+"/.src/named:"+m.work+"/linked", "PYTHONUSERBASE=", "PATH="+m.work+"/.venv/bin:/usr/local/bin:/usr/bin:/bin")
		m.outsideDoes(t, m.work, "ln -s ../.src/unnamed linked")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		shown := "print([n for n in ('named', 'edited', 'listed', 'mapped', 'single', 'first', 'later', 'mine', 'mine2', 'mine3', 'unnamed') if os.path.exists('.src/' + n + '/code.py')])"
		wantOutput(t, r, shown, "['named', 'edited', 'listed', 'mapped', 'single', 'first']")
		wantOutput(t, r, "print(os.path.exists('.ssh'), os.listdir('.config'), puts('.src/named/code.py'))", "False [] Read-only file system")
		editable(site, "later")
		wantOutput(t, r, shown, "['named', 'edited', 'listed', 'mapped', 'single', 'first', 'later']")
		wantOutput(t, r, "import shutil; shutil.rmtree('project/.venv'); os.symlink('../.src/unnamed', 'project/.venv')", "")
		writeFile(t, filepath.Join(m.home, ".src/unnamed/bin/tool"), "")
		resetSession(t, r)
		wantOutput(t, r, shown, "['named', 'edited', 'listed', 'mapped', 'single', 'first', 'later']")
	})

	// Caches and settings that were moved elsewhere, with a link in their place, are visible as far
	// as they are listed, even if a program outside moves them while the session runs.
	t.Run("shows what is listed behind links", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for name, text := range map[string]string{
			"outside/hf/hub/model": "a model", "outside/hf/stored_tokens": secret, "outside/share/fonts/x": "a font", "outside/share/tool/token": secret,
			"home/dotfiles/pip/pip.conf": "[global]\nindex-url = https://me:" + secret + "@pypi.example.org/\n", "home/dotfiles/pip/token": secret, "home/dotfiles/vimrc": "plain",
		} {
			writeFile(t, filepath.Join(m.base, name), text)
		}
		m.outsideDoes(t, m.home, "rm -rf .local/share && ln -s "+quoteShell(m.outside)+"/hf .cache/huggingface && mkdir -p .local && ln -s "+quoteShell(m.outside)+"/share .local/share && ln -s ../dotfiles/pip .config/pip")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+`
outside = os.path.dirname(os.getcwd()) + '/outside/'
def sees(*names): return [readable(n)[:15] for n in names]
`)
		tokens := "sees('.cache/huggingface/stored_tokens', outside + 'hf/stored_tokens', '.local/share/tool/token', outside + 'share/tool/token', '.config/pip/token', 'dotfiles/pip/token')"
		none := strings.TrimSuffix(strings.Repeat("'held: [Errno 2]', ", 6), ", ")
		m.runSteps(t, r, []turnStep{
			{"a cache", "true", "print(readable('.cache/huggingface/hub/model'), puts('.cache/huggingface/hub/mine'))", "open: a model written"},
			{"libraries", "true", "print(readable('.local/share/fonts/x'))", "open: a font"},
			{"settings", "true", "print(readable('.config/pip/pip.conf'), readable('dotfiles/vimrc'))", "open: [global]\nindex-url = https://pypi.example.org/\n open: plain"},
			{"nothing next to them", "true", "print(" + tokens + ")", "[" + none + "]"},
			{"another cache in its place", "mv ../outside/hf ../outside/was && cp -r ../outside/was ../outside/hf && printf new > ../outside/hf/hub/model", "print(readable('.cache/huggingface/hub/model'), *" + tokens + "[:2])", "open: new held: [Errno 2] held: [Errno 2]"},
			{"a new link", "rm .local/share && mkdir .local/share && mkdir -p ../outside/poetry/artifacts && ln -s ../../outside/poetry .cache/pypoetry && printf '%s' \"$SECRET\" > ../outside/poetry/token", "print(os.path.isdir('.cache/pypoetry/artifacts'), readable('.cache/pypoetry/token')[:15], *" + tokens + "[4:])", "True held: [Errno 2] held: [Errno 2] held: [Errno 2]"},
		})
		resetSession(t, r)
		wantOutput(t, r, "print(readable('.cache/huggingface/hub/model'), puts('.cache/huggingface/hub/mine'), readable('.cache/huggingface/stored_tokens')[:15])", "open: new written held: [Errno 2]")
	})

	// A directory that contains one of the session's writable directories stays mounted, and the
	// user is notified once.
	t.Run("keeps a written directory and reports it once", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		given := filepath.Join(m.home, "data/out")
		writeFile(t, filepath.Join(given, "file"), "old")
		writeFile(t, filepath.Join(m.home, "data/read"), "old")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		if err := r.Session.Allow(t.Context(), session.Grant{Write: given}); err != nil {
			t.Fatal(err)
		}
		m.outsideDoes(t, m.home, "mv data was && mkdir -p data/out && echo new > data/read && mv project p && cp -r p project")
		for i, want := range []int{1, 0} {
			res := r.RunCode(t, "print(puts('data/out/file'), readable('data/read'), puts('project/file'))")
			if got := res.OutputText(timeline.Stdout, timeline.Stderr); got != "written open: old written\n" {
				t.Errorf("turn %d: got %q", i, got)
			}
			for _, path := range []string{"data", "data/out", "project"} {
				if got := strings.Count(res.Transcript(), filepath.Join(m.home, path)+" was replaced by a program outside the sandbox; until a reset, this session"); got != want {
					t.Errorf("turn %d reports %d times that %s was replaced, want %d", i, got, path, want)
				}
			}
		}
		if got := readText(filepath.Join(m.home, "was/out/file")) + readText(filepath.Join(m.home, "p/file")); got != "from insidefrom inside" {
			t.Errorf("the session's file contains %q", got)
		}
		resetSession(t, r)
		wantOutput(t, r, "print(puts('data/out/file'), readable('data/read'))", "written open: new")
	})

	// The session sees a file that another session writes like any other file. A granted directory stays the same.
	t.Run("shows what another session writes", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for _, name := range []string{"other/file", "data/file"} {
			writeFile(t, filepath.Join(m.home, name), "old")
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		spec := python.Spec(python.Options{Path: interpreter})
		spec.Dir, spec.Sandbox = filepath.Join(m.home, "other"), &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
		another := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, GrantHint: newHint}, spec)
		another.WaitUntilReady(t)
		another.RunCode(t, atHomeCode)
		wantOutput(t, another, "puts('other/n'); os.rename('other/n', 'other/file')\ntry: os.rename('other', 'else')\nexcept OSError as e: print(e.strerror)", "Read-only file system")
		m.runSteps(t, r, []turnStep{
			{"a file of another session", "true", "print(readable('other/file'))", "open: from inside"},
			{"a directory in which it writes, replaced", "mv other o && mkdir other && echo new > other/file", "print(readable('other/file'))", "open: new"},
		})
		wantOutput(t, another, "print(puts('other/mine'), readable('other/mine'))", "written open: from inside")
		if err := r.Session.Allow(t.Context(), session.Grant{Write: filepath.Join(m.home, "data")}); err != nil {
			t.Fatal(err)
		}
		m.runSteps(t, r, []turnStep{
			{"a file in the granted directory", "echo new > n && mv n data/file", "print(readable('data/file'), puts('data/file'))", "open: new\n written"},
			{"the granted directory, replaced", "mv data was && mkdir data && printf '%s' \"$SECRET\" > data/key", "print(readable('data/key'), puts('data/late'))", goneOutput + "'data/key' written"},
		})
		if readText(filepath.Join(m.home, "was/late")) != "from inside" {
			t.Error("the session wrote to another directory than the granted one")
		}
		resetSession(t, r)
		wantOutput(t, r, "print(puts('data/late'))", "written")
	})

	// Two thousand names are more than a session sees, and each turn processes as many as it can.
	t.Run("processes two thousand names step by step", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for i := range 2000 {
			writeFile(t, filepath.Join(m.home, fmt.Sprintf("n%04d", i)), "old")
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+"count = lambda what: sum(readable(n) == 'open: ' + what for n in os.listdir() if n[0] == 'n' and n[1:].isdigit())")
		wantOutput(t, r, "n = count('old'); print(900 < n <= 1000)", "True")
		m.outsideDoes(t, m.home, "for n in n0*; do echo new > x && mv x $n; done")
		for range 11 { // a hundred at a time
			r.RunCode(t, "None")
		}
		wantOutput(t, r, "print(n - count('new\\n'))", "0")
	})
}

func TestTurnCopies(t *testing.T) {
	t.Parallel()

	// A copy of a cache or library is a copy of the current directory, with the files that the
	// session has written.
	t.Run("contain the current directory", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sandboxcheck.RequireLayers(t, m.base)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+"print(puts('.cache/ruff/before'))")
		m.runSteps(t, r, []turnStep{
			{"a directory that was replaced", "mv .cache/ruff old && mkdir .cache/ruff && echo new > .cache/ruff/fresh", "print(readable('.cache/ruff/fresh'), readable('.cache/ruff/before'), os.path.exists('.cache/ruff/existing'))", "open: new\n open: from inside False"},
			{"is written as a copy", "true", "print(puts('.cache/ruff/mine'), puts('.cache/ruff/fresh'), readable('.cache/ruff/fresh'))", "written written open: from inside"},
			{"and not outside", "test ! -e .cache/ruff/mine && grep -q new .cache/ruff/fresh", "print()", ""},
			{"once more", "rm -r .cache/ruff && mkdir .cache/ruff && echo newer > .cache/ruff/other", "print(readable('.cache/ruff/other'), readable('.cache/ruff/mine'))", "open: newer\n open: from inside"},
			{"one that comes", "mkdir -p .cache/uv && echo x > .cache/uv/x", "print(readable('.cache/uv/x'), puts('.cache/uv/y'))", "open: x\n written"},
			{"one that goes", "rm -r .cache/uv", "print(os.path.exists('.cache/uv'))", "False"},
			{"is then the session's own", "true", "os.mkdir('.cache/uv'); print(puts('.cache/uv/own'))", "written"},
			{"and stays the session's own", "mkdir .cache/uv && echo x > .cache/uv/x", "print(os.listdir('.cache/uv'))", "['own']"},
			{"a link in its place", "rm -r .cache/ruff && mkdir elsewhere && ln -s ~/.ssh .cache/ruff", "print(os.path.exists('.cache/ruff/id_ed25519'))", "False"},
			{"no mounts add up", "rm .cache/ruff && mkdir .cache/ruff", "print(mounts() - before)", "0"},
		})
		resetSession(t, r)
		m.runSteps(t, r, []turnStep{
			{"after a reset", "true", "print(readable('.cache/uv/x'), readable('.cache/ruff/mine'))", "open: x\n open: from inside"},
		})
	})

	// Copies of directories with similar paths, or with paths longer than a file name, are kept
	// separate.
	t.Run("are kept apart", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		long := strings.Repeat("d", 120)
		box := newSandbox(m)
		for _, name := range []string{"d/go-x", "d/go/x", long + "/" + long + "/go"} {
			writeFile(t, filepath.Join(m.outside, name, "file"), name)
			box.Layered = append(box.Layered, filepath.Join(m.outside, name))
		}
		for _, name := range []string{"conda-envs-e/conda-meta", "conda/envs/e/conda-meta", "conda/envs/" + long + long + "/etc/conda/activate.d"} {
			writeFile(t, filepath.Join(m.home, name, "state"), `{"name":"`+name+`","env_vars":{"API_KEY":"`+secret+`"}}`)
			writeFile(t, filepath.Join(m.home, name, "env_vars.sh"), "export API_KEY="+secret+"\n")
		}
		m.env = append(m.env, "XDG_DATA_HOME="+filepath.Join(m.outside, long, long, "share"))
		writeFile(t, filepath.Join(m.outside, long, long, "share/fonts/x"), "")
		r := openSession(t, m, box)
		r.RunCode(t, atHomeCode+"os.chdir("+quoteShell(m.outside)+")\n")
		wantOutput(t, r, "print(puts('d/go-x/mine'), os.listdir('d/go/x'), puts('d/go/x/file'), readable('d/go-x/file'))", "written ['file'] written open: d/go-x")
		wantOutput(t, r, "import glob; print(readable(glob.glob('d*/d*/go/file')[0])[-8:])", "ddddd/go")
		r.RunCode(t, "os.chdir(os.environ['HOME'])")
		wantOutput(t, r, "print('conda/envs' in readable('conda/envs/e/conda-meta/state'), 'conda-envs' in readable('conda-envs-e/conda-meta/state'))", "True True")
		wantOutput(t, r, "print('secret' in readable(glob.glob('conda/envs/ddd*/etc/conda/activate.d/env_vars.sh')[0]))", "False")
	})

	// A session with a disk limit has its copies in memory, even of a directory that was replaced.
	t.Run("stay within the disk limit", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		sandboxcheck.RequireLayers(t, m.base)
		spec := python.Spec(python.Options{Path: interpreter})
		spec.Dir, spec.Sandbox, spec.Limits.Disk = m.work, newSandbox(m), 32<<20
		r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, GrantHint: newHint}, spec)
		r.WaitUntilReady(t)
		r.RunCode(t, atHomeCode+"print(puts('.cache/ruff/before'))")
		m.runSteps(t, r, []turnStep{
			{"a directory that was replaced", "mv .cache/ruff old && mkdir .cache/ruff && echo new > .cache/ruff/fresh", "print(readable('.cache/ruff/fresh'), readable('.cache/ruff/before'), puts('.cache/ruff/fresh'))", "open: new\n open: from inside written"},
			{"a directory that comes", "mkdir -p .cargo/bin && echo x > .cargo/bin/x", "print(readable('.cargo/bin/x'), puts('.cargo/bin/y'), puts('.cargo/own'))", "open: x\n written written"},
			{"it is bounded", "true", "\ntry: open('.cache/ruff/large', 'wb').write(bytes(64 << 20))\nexcept OSError as e: print(type(e).__name__)", "OSError"},
		})
		if _, err := os.Stat(filepath.Join(m.home, ".cargo/bin/y")); err == nil {
			t.Error("a copy is outside")
		}
	})
}

func TestSessionStart(t *testing.T) {
	t.Parallel()

	// Settings are often links, and a session may leave anything in their place. It can still be
	// started again.
	t.Run("finds links and files of an earlier worker", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.home, "dotfiles/matplotlibrc"), "rc")
		writeFile(t, filepath.Join(m.home, ".config/pip/pip.conf"), "[global]\n")
		writeFile(t, filepath.Join(m.home, ".config/git/ignore"), "*.o")
		m.outsideDoes(t, m.home, "ln -s ../dotfiles .config/matplotlib")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		for i := range 2 {
			wantOutput(t, r, "print(readable('.config/matplotlib/matplotlibrc'), readable('.config/pip/pip.conf'))", "open: rc open: [global]")
			if i == 0 {
				m.outsideDoes(t, m.home, "rm -r .config/pip .config/git/ignore")
				wantOutput(t, r, "os.unlink('.config/matplotlib'); os.makedirs('.config/matplotlib/x'); os.rmdir('.config/pip'); os.symlink('../project', '.config/pip'); os.makedirs('.config/git/ignore/x'); print(sorted(os.listdir('.config')))", "['git', 'matplotlib', 'pip']")
				m.outsideDoes(t, m.home, "mkdir .config/pip && printf '[global]\\n' > .config/pip/pip.conf && echo x > .config/git/ignore")
			}
			resetSession(t, r)
			if i == 0 {
				wantOutput(t, r, "import shutil; print(os.listdir('.config/matplotlib'), os.path.exists('project/pip.conf'), os.listdir('.config/git/ignore')); shutil.rmtree('.config/matplotlib')", "['x'] False ['x']")
				resetSession(t, r)
			}
		}
	})

	// A file of a tool may be a link, or something else that an earlier worker of the session has
	// made in its copy. A session can still be started, and sees no login.
	t.Run("succeeds where a file of a tool is a link", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.home, `mkdir -p .virtualenvs/x/bin dotfiles .conda/envs/e && printf 'export GITHUB_TOKEN=%s\nexport PLAIN=1\n' "$SECRET" > dotfiles/pa && ln -s ../dotfiles/pa .virtualenvs/postactivate
printf 'index-url = https://me:%s@example.org/\n' "$SECRET" > .condarc && ln -s ../../../.condarc .conda/envs/e/pip.conf && printf 'index-url = https://me:%s@example.org/\n' "$SECRET" > project/pip.conf && ln -s ../../project/pip.conf .virtualenvs/x/pip.conf`)
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		wantOutput(t, r, "print(readable('.virtualenvs/postactivate'), readable('dotfiles/pa'), readable('.conda/envs/e/pip.conf'))", "open: export PLAIN=1\n\n open: export PLAIN=1\n\n open: index-url = https://example.org/")
		for i, made := range []string{"os.symlink('/etc/hosts', p)", "os.mkdir(p)", "open(p, 'w').close()"} {
			name := fmt.Sprintf(".virtualenvs/made%d", i)
			m.outsideDoes(t, m.home, "mkdir -p "+name+"/bin")
			wantOutput(t, r, "p = "+quoteShell(name+"/bin/activate")+"\n"+made, "")
			m.outsideDoes(t, m.home, "printf 'export API_KEY=%s\n' \"$SECRET\" > "+name+"/bin/activate")
		}
		resetSession(t, r)
		wantOutput(t, r, "print(os.readlink('.virtualenvs/made0/bin/activate'), os.listdir('.virtualenvs/made1/bin/activate'), any('secret' in readable(f'.virtualenvs/made{i}/bin/activate') for i in range(3)))", "/etc/hosts [] False")
	})

	// Programs make and remove files in a home directory at any moment, even while a session
	// starts.
	t.Run("succeeds while names come and go", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		cmd := exec.Command(interpreter, "-c", `
import os, time
while os.getppid() == `+strconv.Itoa(os.Getpid())+`:
    for i in range(20): os.mkdir('d%d' % i); open('f%d' % i, 'w').close()
    time.sleep(0.02)
    for i in range(20): os.rmdir('d%d' % i); os.unlink('f%d' % i)
`)
		cmd.Dir = m.home
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		for range 10 {
			if err := r.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.WaitUntilReady(t)
		}
		wantOutput(t, r, "6 * 7", "42")
	})

	// No kind of home directory opens a way out of the sandbox.
	t.Run("succeeds with any home directory", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		keys := "mkdir -p \"$H/.ssh\" \"$H/.config/tool\" && printf '%s' \"$SECRET\" > \"$H/.ssh/key\" && printf '%s' \"$SECRET\" > \"$H/.config/tool/token\" && printf '%s' \"$SECRET\" > \"$H/.token\""
		for _, c := range []struct{ what, before, home, dir, after string }{
			{"a link", "mkdir real && ln -s real linked", "linked", "project", "echo > real/n && mv real/n real/.token2"},
			{"a link that leads elsewhere later", "mkdir one two && ln -s one linked", "linked", "project", "ln -sfn two linked"},
			{"a missing home directory", "true", "later", "project", "true"},
			{"one that is replaced", "mkdir there", "there", "project", "mv there was && mkdir there && printf '%s' \"$SECRET\" > there/.other"},
			{"the directory of the workspace", "mkdir there", "there", "there", "true"},
			{"with temporary files", "mkdir -p there/tmp", "there", "project", "touch there/tmp/x"},
		} {
			t.Run(c.what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				m.outsideDoes(t, m.base, "mkdir -p project && "+c.before)
				home := filepath.Join(m.base, c.home)
				m.env = append(m.env, "HOME="+home)
				if c.what == "with temporary files" {
					m.env = append(m.env, "TMPDIR="+home+"/tmp")
					m.sessions = filepath.Join(home, "tmp/turnstone/sessions")
				}
				spec := python.Spec(python.Options{Path: interpreter})
				spec.Dir, spec.Sandbox = filepath.Join(m.base, c.dir), &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
				r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, GrantHint: newHint}, spec)
				r.WaitUntilReady(t)
				r.RunCode(t, tryToReadCode+"import os")
				look := "print([n for d in (os.environ['HOME'], os.path.realpath(os.environ['HOME'])) for n in ('.ssh/key', '.config/tool/token', '.token', '.token2', '.other') if 'open' in readable(d + '/' + n)])"
				for range 2 {
					m.outsideDoes(t, m.base, "H="+quoteShell(home)+"; "+keys)
					wantOutput(t, r, look, "[]")
					m.outsideDoes(t, m.base, c.after+"; H="+quoteShell(home)+"; "+keys)
					wantOutput(t, r, look, "[]")
					if err := r.Reset(t.Context()); err != nil {
						t.Fatal(err)
					}
					r.WaitUntilReady(t)
					r.RunCode(t, tryToReadCode+"import os")
					c.after = "true"
				}
			})
		}
	})
}

func TestTurnAttacks(t *testing.T) {
	t.Parallel()

	// A directory that was granted to a running session has the same protection as its workspace.
	t.Run("repositories of a grant are protected", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		other := filepath.Join(m.outside, "other")
		m.outsideDoes(t, m.outside, "git init -q other/lib && mkdir other/lib/tools && touch other/lib/tools/a other/lib/tools/b other/lib/tools/c")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, writeCode)
		if err := r.Session.Allow(t.Context(), session.Grant{Write: other}); err != nil {
			t.Fatal(err)
		}
		lib := filepath.Join(other, "lib")
		puts := func(name string) string { return "puts(" + quoteShell(filepath.Join(lib, "tools", name)) + ")" }
		wantOutput(t, r, puts("a"), "written")
		m.outsideDoes(t, lib, "git config core.fsmonitor tools/a")
		wantOutput(t, r, puts("a"), "Read-only file system")
		wantOutput(t, r, puts("b"), "written")
		resetSession(t, r)
		r.RunCode(t, writeCode)
		wantOutput(t, r, puts("a"), "Read-only file system")
		m.outsideDoes(t, lib, "git config core.editor tools/b")
		wantOutput(t, r, puts("b"), "Read-only file system")
		wantOutput(t, r, puts("c"), "written")
	})

	// A session puts links where new mounts will go. Nothing is made or mounted at their targets.
	t.Run("no link of the session is followed", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.home, "rm -rf .config/git .config/pip .local/share")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+"os.symlink('../project', '.config/git'); os.symlink('../project/.git', '.config/pip'); os.symlink('../../project', '.local/share'); os.mkdir('project/fonts'); open('project/fonts/mine', 'w').close()")
		m.runSteps(t, r, []turnStep{
			{"listed names", "mkdir -p .config/git .config/pip .local/share/fonts && echo '*.o' > .config/git/ignore && printf '[global]\\n' > .config/pip/pip.conf && echo x > .local/share/fonts/x", "print(sorted(os.listdir('.config')), os.listdir('project/fonts'), mounts() - before)", "['git', 'pip'] ['mine'] 0"},
			{"and what was made", "ls project/ignore project/.git/pip.conf project/fonts/x 2> /dev/null && exit 1 || true", "print(os.readlink('.config/git'))", "../project"},
			{"they go", "rm -r .config/git .config/pip .local/share", "print(os.path.exists('project/fonts/mine'), os.path.exists('project/.git/config'))", "True True"},
		})
		resetSession(t, r)
		wantOutput(t, r, "print(os.path.exists('project/fonts/mine'), os.path.exists('project/.git/config'), os.path.exists('project/ignore'))", "True True False")
	})

	// Programs of a session change what they can while programs outside replace what it sees.
	// Nothing changes outside, and nothing becomes visible that is not shown.
	t.Run("a storm of changes opens nothing", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.home, "data/file"), "x")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode+`
import threading, shutil
stop, seen = False, set()
def change():
    while not stop:
        for name in '.config/pip', '.config/git', '.cache/uv', '.local/share':
            for do in (lambda: os.symlink('../project', name), lambda: os.unlink(name), lambda: os.makedirs(name + '/x'), lambda: os.rmdir(name + '/x'), lambda: os.rmdir(name), lambda: os.symlink('/', name), lambda: os.rename(name, name + '2'), lambda: os.rename(name + '2', name)):
                try: do()
                except OSError: pass
def look():
    while not stop:
        for name in '.ssh/id_ed25519', 'data/key', '.config/gh/hosts.yml', '.newtool/token', '.config/pip/token', '.cache/uv2/token', 'note.txt/key':
            try:
                with open(name) as f: seen.add(name + ': ' + f.read())
            except OSError: pass
threads = [threading.Thread(target=f) for f in (change, change, look)]
for t in threads: t.start()
`)
		for i := range 30 {
			m.outsideDoes(t, m.home, `
rm -rf .config/pip .config/git/ignore .cache/uv .local/share data was kind
mkdir -p .newtool .config/gh data .cache/uv2
for f in .newtool/token .config/gh/hosts.yml .cache/uv2/token; do printf '%s' "$SECRET" > $f; done
if test `+fmt.Sprint(i%2)+` = 0; then
  mkdir -p .config/pip .config/git .cache/uv .local/share/fonts; echo '*.o' > .config/git/ignore
  printf '[global]\n' > .config/pip/pip.conf; printf '%s' "$SECRET" > .config/pip/token; echo x > .cache/uv/x; echo x > data/file
  rm -rf note.txt; echo note > note.txt
else
  rm -rf note.txt; ln -s .ssh note.txt
fi`)
			r.RunCode(t, "None")
		}
		wantOutput(t, r, "stop = True\nfor t in threads: t.join()\nprint(seen)", "set()")
		for _, name := range []string{"ignore", "pip.conf", "fonts", "share"} {
			if _, err := os.Lstat(filepath.Join(m.work, name)); err == nil {
				t.Errorf("%s was made in the workspace", name)
			}
		}
		for path, want := range map[string]string{".config/gh/hosts.yml": secret, ".newtool/token": secret, ".bashrc": ""} {
			if got := readText(filepath.Join(m.home, path)); got != want {
				t.Errorf("outside, %s is %q", path, got)
			}
		}
		resetSession(t, r)
		wantOutput(t, r, "print(os.path.exists('data'), os.path.exists('.newtool'))", "True False")
	})
}

// Caches are read-only on a filesystem that does not support overlays, such as that of a container,
// but they are visible.
func TestTurn_CachesWithoutOverlays(t *testing.T) {
	if !sandboxcheck.RerunInNamespaces(t, "ESCAPES_WITHOUT_LAYERS=1", unix.CLONE_NEWNS, unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN) {
		return
	}
	m := newMachine(t)
	if sandboxcheck.WhyNoLayers(m.base) == "" {
		m.outsideDoes(t, m.base, "mkdir upper work")
		if err := unix.Mount("overlay", m.sessions, "overlay", 0, "userxattr,lowerdir="+m.sessions+",upperdir="+m.base+"/upper,workdir="+m.base+"/work"); err != nil {
			t.Skip("cannot mount an overlay: " + err.Error())
		}
		t.Cleanup(func() { _ = unix.Unmount(m.sessions, unix.MNT_DETACH) })
	}
	r := openSession(t, m, newSandbox(m))
	r.RunCode(t, atHomeCode)
	m.runSteps(t, r, []turnStep{
		{"at first", "true", "print(readable('.cache/ruff/existing'), puts('.cache/ruff/existing'))", "open: cached  Read-only file system"},
		{"one that was replaced", "mv .cache/ruff old && mkdir .cache/ruff && echo new > .cache/ruff/fresh", "print(readable('.cache/ruff/fresh'), puts('.cache/ruff/fresh'))", "open: new\n Read-only file system"},
		{"one that comes", "mkdir -p .cache/uv && echo x > .cache/uv/x", "print(readable('.cache/uv/x'))", "open: x"},
	})
	resetSession(t, r)
	m.runSteps(t, r, []turnStep{{"after a reset", "true", "print(readable('.cache/ruff/fresh'), readable('.cache/uv/x'))", "open: new\n open: x"}})
}

func TestOtherMounts(t *testing.T) {
	t.Parallel()

	// A bind mount of the home directory, or of a directory above it, shows it at another path.
	t.Run("of the home directory are hidden", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		for what, c := range map[string]struct {
			prepare, hidden string
		}{
			"the home directory":     {`mkdir again && mount --bind "$HOME" again`, "again"},
			"one above it":           {`mkdir again && mount --bind . again`, "again"},
			"the other way round":    {`mkdir -p disk && mount --bind "$HOME" disk && mount --bind disk "$HOME"`, "disk"},
			"one that is mounted on": {`mkdir again && mount --bind . again && mount -t tmpfs t again/home`, ""},
			"another directory":      {`mkdir again && mount --bind outside again`, ""},
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				attributes := rootAttributes()
				attributes.Cloneflags |= 0x20000 // CLONE_NEWNS
				m.env = append(m.env, "TMPDIR="+m.sessions)
				got := m.runTry(t, "cd "+quoteShell(m.base)+" && "+c.prepare, attributes)
				isReported := strings.Contains(got, filepath.Join(m.base, c.hidden)+" shows your home directory at another path")
				if !strings.HasPrefix(got, "started: ") || isReported != (c.hidden != "") || c.hidden == "" && strings.Contains(got, "at another path") {
					t.Errorf("got %q, want a start and a notice about %q", got, c.hidden)
				}
			})
		}
	})

	// A mount shows a hidden path, or a file in it, at another path.
	t.Run("of hidden files are hidden", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		for what, c := range map[string]struct {
			prepare string
			hidden  string // its name, "" for none
		}{
			"a directory":            {`mkdir again && mount --bind "$HOME/.ssh" again`, "again"},
			"a file":                 {`touch again && mount --bind "$HOME/.netrc" again`, "again"},
			"something in it":        {`touch again && mount --bind "$HOME/.ssh/id_ed25519" again`, "again"},
			"a disk that has it":     {`mv "$HOME/.aws" outside/aws && mkdir "$HOME/.aws" disk && mount --bind outside disk && mount --bind disk/aws "$HOME/.aws"`, "disk/aws"},
			"in the home directory":  {`mkdir "$HOME/keys" && mount --bind "$HOME/.ssh" "$HOME/keys"`, "home/keys"},
			"one that is mounted on": {`mkdir again && mount --bind "$HOME/.ssh" again && mount -t tmpfs t again`, ""},
			"another of that name":   {`mkdir -p again/.ssh other/.ssh && mount --bind other again`, ""},
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				attributes := rootAttributes()
				attributes.Cloneflags |= unix.CLONE_NEWNS
				m.env = append(m.env, "TMPDIR="+m.sessions)
				got := m.runTry(t, "cd "+quoteShell(m.base)+" && "+c.prepare, attributes)
				isReported := strings.Contains(got, ", such as "+filepath.Join(m.base, c.hidden)+"); these")
				if !strings.HasPrefix(got, "started: ") || isReported != (c.hidden != "") || c.hidden == "" && strings.Contains(got, "mounts show hidden files") {
					t.Errorf("got %q, want a start and a notice about %q", got, c.hidden)
				}
			})
		}
	})
}
