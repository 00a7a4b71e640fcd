package escapes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// openProgram opens a session in a directory of the home directory, with its own Python.
func (m *machine) openProgram(t *testing.T, dir, program string, box *sandbox.Policy) *sessionkit.TestSession {
	t.Helper()
	spec := python.Spec(python.Options{Path: program})
	spec.Dir, spec.Sandbox = filepath.Join(m.home, dir), box
	r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: m.sessions, Env: m.env, GrantHint: newHint}, spec)
	r.WaitUntilReady(t)
	r.RunCode(t, atHomeCode)
	return r
}

func newSandboxAt(level sandbox.Level) *sandbox.Policy {
	return &sandbox.Policy{Level: level, Network: sandbox.NetworkNone}
}

// wantNoSecret fails if a session can read the secret at a path below the home directory.
func wantNoSecret(t *testing.T, r *sessionkit.TestSession, paths ...string) {
	t.Helper()
	for _, path := range paths {
		output := r.RunCode(t, "print(readable("+quoteShell(path)+"))").OutputText(timeline.Stdout, timeline.Stderr)
		if output == "" || strings.Contains(output, secret) {
			t.Errorf("%s: got %q, want no content", path, output)
		}
	}
}

func TestTrust(t *testing.T) {
	t.Parallel()

	// The settings of many users are links into one of their directories, which may be a workspace.
	t.Run("reads settings through no link of a session", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		for _, c := range []struct{ what, outside, inside, path, before string }{
			{"a link is made another", "echo '1 + 1' > dotfiles/Rprofile && ln -sf dotfiles/Rprofile .Rprofile", "os.remove('dotfiles/Rprofile'); os.symlink(H + '/.token', 'dotfiles/Rprofile')", ".Rprofile", "open: 1 + 1"},
			{"a link to what is hidden", "echo '[global]' > dotfiles/condarc && ln -s dotfiles/condarc .condarc", "os.remove('dotfiles/condarc'); os.symlink('../.netrc', 'dotfiles/condarc')", ".condarc", "open: [global]"},
			{"a directory", "mkdir -p dotfiles/pip .config/pip && echo '[global]' > dotfiles/pip/pip.conf && ln -s ../../dotfiles/pip/pip.conf .config/pip", "shutil.rmtree('dotfiles/pip'); os.symlink('../.keys', 'dotfiles/pip')", ".config/pip/pip.conf", "open: [global]"},
			{"a link on the way, by two dots", "mkdir -p dotfiles/a && echo '[global]' > dotfiles/condarc && ln -s dotfiles/a/../condarc .condarc", "os.rmdir('dotfiles/a'); os.symlink('../.keys/below', 'dotfiles/a')", ".condarc", "open: [global]"},
			{"a list of git's", "echo '*.o' > dotfiles/ignore && ln -s dotfiles/ignore .gitignore_global && git config --global core.excludesFile '~/.gitignore_global'", "os.remove('dotfiles/ignore'); os.symlink(H + '/.token', 'dotfiles/ignore')", ".config/git/ignore", "open: *.o"},
			{"git's settings, with a list", "rm .gitconfig && echo '*.o' > .gitignore && printf '[core]\\n\\texcludesFile = ~/.gitignore\\n' > dotfiles/gitconfig && ln -s dotfiles/gitconfig .gitconfig", "open('dotfiles/gitconfig', 'w').write('[core]\\n\\texcludesFile = ~/.token\\n')", ".config/git/ignore", "open: *.o"},
			{"git's settings, with others", "rm .gitconfig && printf '[core]\\n\\texcludesFile = ~/dotfiles/ignore\\n' > dotfiles/gitconfig && echo '*.o' > dotfiles/ignore && ln -s dotfiles/gitconfig .gitconfig", "open('dotfiles/gitconfig', 'w').write('[include]\\n\\tpath = ~/dotfiles/more\\n'); open('dotfiles/more', 'w').write('[core]\\n\\texcludesFile = ~/.token\\n')", ".config/git/ignore", "open: *.o"},
		} {
			t.Run(c.what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				for _, name := range []string{".token", ".keys/pip.conf", ".keys/condarc", ".netrc"} {
					writeFile(t, filepath.Join(m.home, name), secret)
				}
				m.outsideDoes(t, m.home, "rm -f .Rprofile .config/git/config && mkdir -p .keys/below dotfiles other && "+c.outside)
				r := m.openProgram(t, "dotfiles", interpreter, newSandboxAt(sandbox.Workspace))
				wantOutput(t, r, "import shutil; H = os.environ['HOME']; print(readable("+quoteShell(c.path)+"))", c.before)
				r.RunCode(t, c.inside)
				wantNoSecret(t, r, c.path)
				resetSession(t, r)
				wantNoSecret(t, r, c.path)
				wantNoSecret(t, m.openProgram(t, "dotfiles", interpreter, newSandboxAt(sandbox.ReadOnly)), c.path)
				wantNoSecret(t, m.openProgram(t, "other", interpreter, newSandboxAt(sandbox.Workspace)), c.path)
			})
		}
	})

	// Settings that the user has linked are visible, even if their directory has a dot or is the
	// workspace.
	t.Run("shows settings that are links", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.home, `
rm .Rprofile .gitconfig .config/git/config && mkdir -p .dotfiles .config/pip && echo '1 + 1' > .dotfiles/Rprofile && ln -s .dotfiles/Rprofile .Rprofile
printf '[global]\n' > .dotfiles/pip.conf && ln -s ../../.dotfiles/pip.conf .config/pip
printf '[user]\n\tname = Ada\n[include]\n\tpath = ~/.gitmore\n[core]\n\texcludesFile = ~/.gitignore_global\n' > .dotfiles/gitconfig && ln -s .dotfiles/gitconfig .gitconfig
printf '[init]\n\tdefaultBranch = trunk\n' > .gitmore && echo '*.o' > .dotfiles/ignore && ln -s .dotfiles/ignore .gitignore_global
mkdir other`)
		for _, dir := range []string{".dotfiles", "other"} {
			r := m.openProgram(t, dir, interpreter, newSandboxAt(sandbox.Workspace))
			wantOutput(t, r, "print(readable('.Rprofile'), readable('.config/pip/pip.conf'), git('user.name'), git('init.defaultBranch'), readable('.config/git/ignore'))", "open: 1 + 1\n open: [global]\n Ada trunk open: *.o")
		}
	})

	// The workspace of an earlier session may be read-only for a later one, or another directory
	// than its start.
	t.Run("shows nothing through what an earlier session made", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		const site = ".venv/lib/python3.99/site-packages"
		for _, c := range []struct {
			what, outside, inside string
			path                  []string
			env                   string
		}{
			{"a list of paths names a file", "true", "open('project/" + site + "/x.pth', 'w').write(H + '/.token\\n')", []string{".token"}, ""},
			{"by a path that is relative", "true", "open('project/" + site + "/x.pth', 'w').write('../../../../../.token\\n')", []string{".token"}, ""},
			{"a directory", "true", "open('project/" + site + "/x.pth', 'w').write(H + '/.keys\\n' + H + '/.config/cloud\\n')", []string{".keys/token", ".config/cloud/token"}, ""},
			{"a link in the list's place", "true", "os.symlink('../../../../../.keys', 'project/" + site + "/x'); open('project/" + site + "/x.pth', 'w').write('x\\n')", []string{".keys/token"}, ""},
			{"a package to be edited", "true", "os.mkdir('project/" + site + "/x-1.dist-info'); open('project/" + site + "/x-1.dist-info/direct_url.json', 'w').write('{\"url\": \"file://%s/.keys\", \"dir_info\": {\"editable\": true}}' % H)", []string{".keys/token"}, ""},
			{"a module that is found", "mv .keys/token .keys/token.py", "open('project/" + site + "/__editable___x_finder.py', 'w').write('M = {\"x\": \"%s/.keys/token\"}' % H)", []string{".keys/token.py"}, ""},
			{"a directory of shared files of programs", "true", "os.symlink('../../.keys', 'project/.venv/share')", []string{".keys/token"}, "PATH=$HOME/project/.venv/bin:/usr/bin:/bin"},
			{"the directory of programs", "mkdir project/commands", "os.rmdir('project/commands'); os.symlink('../.keys', 'project/commands')", []string{".keys/token"}, "PATH=$HOME/project/commands:/usr/bin:/bin"},
			{"what the user edits", "mkdir -p project/src .local/lib/python3.99/site-packages && echo ~/project/src > .local/lib/python3.99/site-packages/x.pth", "os.rmdir('project/src'); os.symlink('../.keys', 'project/src')", []string{".keys/token"}, ""},
			{"a module that the user edits", "mkdir -p .local/lib/python3.99/site-packages && touch project/x.py && echo \"M = {'x': '$HOME/project/x'}\" > .local/lib/python3.99/site-packages/__editable___x_finder.py", "os.remove('project/x.py'); os.symlink('../.token', 'project/x.py')", []string{".token"}, ""},
			{"a variable", "mkdir project/src", "os.rmdir('project/src'); os.symlink('../.keys', 'project/src')", []string{".keys/token"}, "PYTHONPATH=$HOME/project/src"},
			{"a setting that names libraries", "echo R_LIBS=/x > project/Renviron && ln -s project/Renviron .Renviron", "open('project/Renviron', 'w').write('R_LIBS=~/.keys\\n')", []string{".keys/token"}, ""},
			{"a cache that is elsewhere", "rm -r .cache/ruff && mkdir project/ruff && ln -s ../project/ruff .cache/ruff", "os.rmdir('project/ruff'); os.symlink('../.keys', 'project/ruff')", []string{".keys/token", ".cache/ruff/token"}, ""},
		} {
			t.Run(c.what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				for _, name := range []string{".token", ".keys/token", ".config/cloud/token"} {
					writeFile(t, filepath.Join(m.home, name), secret)
				}
				m.outsideDoes(t, m.home, "mkdir -p other project/below project/.venv/bin project/"+site+" && ln -s "+interpreter+" project/.venv/bin/python && "+c.outside)
				if c.env != "" {
					m.env = append(m.env, strings.ReplaceAll(c.env, "$HOME", m.home))
				}
				program := filepath.Join(m.work, ".venv/bin/python")
				r := m.openProgram(t, "project", program, newSandboxAt(sandbox.Workspace))
				r.RunCode(t, "H = os.environ['HOME']")
				wantOutput(t, r, c.inside+"; print('done')", "done")
				wantNoSecret(t, m.openProgram(t, "project", program, newSandboxAt(sandbox.ReadOnly)), c.path...)
				wantNoSecret(t, m.openProgram(t, "project/below", program, newSandboxAt(sandbox.Workspace)), c.path...)
				wantNoSecret(t, m.openProgram(t, "other", program, newSandboxAt(sandbox.Workspace)), c.path...)
			})
		}
	})

	// Without documents, packages that a user has installed in editable mode are shown, but nothing
	// that a project's own environment names.
	t.Run("shows editable packages but no documents", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.home, "letters/token"), secret)
		writeFile(t, filepath.Join(m.home, "library/code.py"), "code")
		m.outsideDoes(t, m.home, "mkdir -p other .local/lib/python3.99/site-packages project/.venv/bin project/.venv/lib/python3.99/site-packages && ln -s "+interpreter+" project/.venv/bin/python && echo ~/library > .local/lib/python3.99/site-packages/x.pth && echo ~/letters > project/.venv/lib/python3.99/site-packages/x.pth")
		box := newSandboxAt(sandbox.Workspace)
		box.Home = sandbox.HomeTools
		r := m.openProgram(t, "other", filepath.Join(m.work, ".venv/bin/python"), box)
		wantOutput(t, r, "print(readable('library/code.py'))", "open: code")
		wantNoSecret(t, r, "letters/token")
	})
}
