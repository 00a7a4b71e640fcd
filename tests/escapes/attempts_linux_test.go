package escapes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A changeAttempt is a change that a session tries, after programs outside have done something.
type changeAttempt struct{ what, outside, inside, path string }

// wantDenied checks that each change is refused, and that its path is unchanged.
func wantDenied(t *testing.T, m *machine, r *sessionkit.TestSession, changes []changeAttempt) {
	for _, c := range changes {
		t.Run(c.what, func(t *testing.T) {
			m.outsideDoes(t, m.work, c.outside)
			before, _ := os.Stat(filepath.Join(m.work, c.path))
			code := "top = " + quoteShell(m.work) + "; os.chdir(top); print(changes(" + quoteShell(c.inside) + ")); os.chdir(top)"
			if output := r.RunCode(t, code).OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
				t.Errorf("got %q, want it held", output)
			}
			after, _ := os.Stat(filepath.Join(m.work, c.path))
			if (before == nil) != (after == nil) || before != nil && (before.Size() != after.Size() || before.ModTime() != after.ModTime() || before.Mode() != after.Mode()) {
				t.Errorf("%s changed", c.path)
			}
		})
	}
}

func TestGuardBypass(t *testing.T) {
	t.Parallel()

	// The names that a session may create or remove must not give it access to names that it must
	// not write.
	t.Run("fails for every name that can be made or removed", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.outsideDoes(t, m.work, "mkdir elsewhere && ln -s elsewhere .claude && ln -s nowhere .envrc && ln -s .zed .idea && ln -s .idea .zed")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, tryToChangeCode+"os.makedirs('.git/modules/ahead')")
		wantDenied(t, m, r, []changeAttempt{
			{"a protected link to a directory", "true", "puts('elsewhere/settings.json')", "elsewhere/settings.json"},
			{"a directory made again behind a link", "mv elsewhere x && mkdir elsewhere && rm -r x", "puts('elsewhere/settings.json')", "elsewhere/settings.json"},
			{"a protected link to nothing", "true", "puts('nowhere')", "nowhere"},
			{"a protected link", "true", "os.unlink('.envrc')", ""},
			{"hooks of a submodule, made again", "git init -q --bare .git/modules/late", "shutil.rmtree('.git/modules/late/hooks', ignore_errors=True); puts('.git/modules/late/hooks/post-checkout')", ".git/modules/late/hooks/post-checkout"},
			{"hooks of a submodule that had none", "git init -q --bare --template= .git/modules/plain", "puts('.git/modules/plain/hooks/post-checkout')", ".git/modules/plain/hooks/post-checkout"},
			{"attributes of a submodule that had none", "true", "puts('.git/modules/plain/info/attributes')", ".git/modules/plain/info/attributes"},
			{"a submodule in a directory that the session made", "git init -q --bare .git/modules/ahead/late", "puts('.git/modules/ahead/late/hooks/post-checkout')", ".git/modules/ahead/late/hooks/post-checkout"},
			{"its settings", "true", "puts('.git/modules/ahead/late/config')", ".git/modules/ahead/late/config"},
			{"the directory of a later work tree", "git -c user.name=T -c user.email=t@example.org worktree add -q ../beside 2>/dev/null; true", "puts('.git/worktrees/beside/commondir')", ".git/worktrees/beside/commondir"},
			{"Mercurial's directory moved away", "mkdir -p made/hg/.hg", "os.rename('made/hg/.hg', 'made/hg/x')", "made/hg/x"},
			{"Mercurial's directory removed", "true", "os.rmdir('made/hg/.hg')", "made/hg/.hg"},
			{"a directory above Mercurial's", "true", "os.rename('made/hg', 'made/gone')", "made/gone"},
			{"a filled directory in Jujutsu's", "mkdir -p made/jj/.jj", "puts('filled/config.toml'); os.rename('filled', 'made/jj/.jj/repo')", "made/jj/.jj/repo"},
			{"a filled directory of settings", "git init -q made/gh", "puts('filled2/hooks/x.json'); os.rename('filled2', 'made/gh/.github')", "made/gh/.github"},
			{"a link to a directory of settings", "true", "os.symlink(top + '/filled2', 'made/gh/.github')", "made/gh/.github"},
			{"a directory in the place of an empty .git", "mkdir -p made/empty/.git", "os.mkdir('made/empty/x'); puts('made/empty/x/y'); os.rename('made/empty/x', 'made/empty/.git')", "made/empty/.git/y"},
			{"a directory in the place of an empty one of work trees", "git init -q --bare made/worked.git && mkdir made/worked.git/worktrees", "os.mkdir('made/empty/z'); os.rename('made/empty/z', 'made/worked.git/worktrees')", "made/worked.git/worktrees"},
			{"an unreadable directory with a repository", "git init -q made/shut/in/repo", "unreadable('made/shut', lambda: os.rename('made/shut', 'made/other'))", "made/other"},
			{"the same, one level below", "true", "unreadable('made/shut/in', lambda: os.rename('made/shut', 'made/other'))", "made/other"},
			{"a repository above an unreadable directory", "true", "unreadable('made/shut/in', lambda: os.mkdir('made/shut/.git'))", "made/shut/.git"},
			{"a repository above another", "git init -q made/deep/er", "puts('made/deep/HEAD')", "made/deep/HEAD"},
			{"a repository far above another", "true", "puts('made/HEAD')", "made/HEAD"},
			{"a repository above another, by a rename", "true", "puts('head'); os.rename('head', 'made/HEAD')", "made/HEAD"},
			{"an old remote", "true", "puts('.git/remotes/old')", ".git/remotes/old"},
			{"an old branch of a remote", "mkdir -p .git/branches", "puts('.git/branches/old')", ".git/branches/old"},
			{"an old remote of a submodule", "true", "puts('.git/modules/plain/remotes/old')", ".git/modules/plain/remotes/old"},
			{"an old remote of a bare repository", "git init -q --bare made/olden.git", "puts('made/olden.git/remotes/old')", "made/olden.git/remotes/old"},
			{"a filled directory of old remotes", "true", "puts('made/old/x'); os.rmdir('made/olden.git/remotes'); os.rename('made/old', 'made/olden.git/remotes')", "made/olden.git/remotes/x"},
			{"an old remote in a repository of the session", "true", "os.mkdir('made/own'); subprocess.run(['git', 'init', '-q', 'made/own']); puts('made/own/.git/remotes/old')", "made/own/.git/remotes/old"},
			{"a submodule that is added to this repository", "git init -q --bare made/own/.git/modules/theirs", "os.unlink('made/own/.git/modules/theirs/config')", "made/own/.git/modules/theirs/config"},
			{"a missing part of a repository", "mkdir -p made/half/.git && echo 'ref: refs/heads/main' > made/half/.git/HEAD", "os.mkdir('made/half/.git/objects'); puts('made/half/.envrc')", "made/half/.envrc"},
			{"a missing part of a bare repository", "mkdir made/half.git && echo 'ref: refs/heads/main' > made/half.git/HEAD", "os.mkdir('made/half.git/objects'); os.rename('made/half.git', 'made/other')", "made/other"},
			{"a missing part of a submodule", "mkdir .git/modules/half && echo 'ref: refs/heads/main' > .git/modules/half/HEAD", "os.mkdir('.git/modules/half/objects'); os.rename('.git/modules/half', 'made/other')", "made/other"},
			{"hooks of a client of models", "true", "puts('.github/hooks/x.json')", ".github/hooks/x.json"},
			{"what a shell runs", "echo > mise.toml", "puts('mise.toml')", "mise.toml"},
			{"hooks that are a link now", "cd vendor/lib && mkdir scripts && mv .git/hooks .git/old && ln -s ../scripts .git/hooks", "puts('vendor/lib/scripts/pre-push')", "vendor/lib/scripts/pre-push"},
			{"that link", "true", "os.unlink('vendor/lib/.git/hooks')", "vendor/lib/.git/hooks"},
			{"a hook that is a link now", "mkdir -p scripts && touch scripts/pre-push && rm -f .husky/_/pre-push && ln -s ../../scripts/pre-push .husky/_/pre-push", "puts('scripts/pre-push')", "scripts/pre-push"},
			{"hooks behind a link to a directory", "mkdir -p real/hooks && ln -s real link && git -C vendor/lib config core.hooksPath ../../link/hooks", "puts('real/hooks/pre-push')", "real/hooks/pre-push"},
			{"hooks behind a link, the link", "git -C vendor/lib config core.hooksPath link/hooks && cd vendor/lib && mkdir -p real/hooks && ln -s real link", "os.unlink('vendor/lib/link')", "vendor/lib/link"},
			{"hooks behind a link, where it leads", "true", "puts('vendor/lib/real/hooks/pre-push')", "vendor/lib/real/hooks/pre-push"},
			{"a program without a slash", "cd vendor/lib && touch clean.py && git config filter.a.clean 'python3 clean.py'", "puts('vendor/lib/clean.py')", "vendor/lib/clean.py"},
			{"a program behind a command", "git -C vendor/lib config filter.b.clean '\"$(git rev-parse --show-toplevel)/tools/b\"'", "puts('vendor/lib/tools/b')", "vendor/lib/tools/b"},
			{"a program behind a variable", "git -C vendor/lib config filter.c.clean '$PWD/tools/c'", "puts('vendor/lib/tools/c')", "vendor/lib/tools/c"},
			{"a program behind an option", "git -C vendor/lib config filter.d.clean 'sh --rcfile=./tools/d'", "puts('vendor/lib/tools/d')", "vendor/lib/tools/d"},
			{"a program that is not there yet", "git -C vendor/lib config core.fsmonitor ./tools/e", "puts('vendor/lib/tools/e')", "vendor/lib/tools/e"},
		})
		if output := r.RunCode(t, "print(changes("+quoteShell("puts('vendor/lib/tools/other'); puts('made/deep/file'); puts('made/gh/.github/workflows/x.yml')")+"))").OutputText(timeline.Stdout, timeline.Stderr); output != "open\n" {
			t.Errorf("next to them: got %q", output)
		}
	})

	// Variables may say where git settings are.
	t.Run("fails for git settings that variables name", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			what string
			env  []string
		}{
			{"XDG_CONFIG_HOME", []string{"XDG_CONFIG_HOME=@/settings"}},
			{"GIT_CONFIG_GLOBAL", []string{"GIT_CONFIG_GLOBAL=@/settings/git/config"}},
			{"GIT_CONFIG_COUNT", []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=filter.g.clean", "GIT_CONFIG_VALUE_0=./tools/g"}},
		} {
			t.Run(c.what, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				writeFile(t, filepath.Join(m.home, "settings/git/config"), "[filter \"g\"]\n\tclean = ./tools/g\n")
				for _, entry := range c.env {
					m.env = append(m.env, strings.Replace(entry, "@", m.home, 1))
				}
				r := openSession(t, m, newSandbox(m))
				r.RunCode(t, tryToChangeCode)
				if output := r.RunCode(t, "print(changes(\"puts('tools/g')\"))").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
					t.Errorf("got %q, want it held", output)
				}
			})
		}
	})
}
