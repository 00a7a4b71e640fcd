package escapes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// saveScripts are the ways in which programs save a file $F, as scripts. If an editor is not
// installed, a shell imitates it.
var saveScripts = []struct{ by, script string }{
	{"a rename", `cp "$F" "$F.new" && mv "$F.new" "$F"`},
	{"sed", `sed -i 's/^//' "$F"`},
	{"vim", `if command -v vim > /dev/null; then vim -es -u NONE -c 'set backupcopy=no writebackup' -c 'normal o' -c wq "$F" < /dev/null; else mv "$F" "$F~" && cat "$F~" > "$F" && rm "$F~"; fi`},
	{"Python", `python3 -c 'import os, sys, tempfile; f = sys.argv[1]; t = tempfile.NamedTemporaryFile("wb", dir=os.path.dirname(f), delete=False); t.write(open(f, "rb").read()); t.close(); os.replace(t.name, f)' "$F"`},
	{"a removal and a new file", `cat "$F" > "$F.new" && rm "$F" && cat "$F.new" > "$F" && rm "$F.new"`},
	{"writing in place", `cat "$F" > "$F.new" && cat "$F.new" > "$F" && rm "$F.new"`},
	{"a new directory", `D=$(dirname "$F") && cp -a "$D" "$D.new" && case $D in "$W"|"$HOME") rm -r "$D.new";; *) mv "$D" "$D.old" && mv "$D.new" "$D" && rm -rf "$D.old";; esac`},
	{"a link", `test -L "$F" || { mv "$F" "$F.real" && ln -s "$(basename "$F").real" "$F"; }`},
}

// protectedFiles are files of a workspace that its sessions must not change. secretFiles are files
// of a home directory that they must not see.
var (
	protectedFiles = []string{".git/config", ".git/hooks/post-commit", ".git/info/attributes", ".mcp.json", ".vscode/settings.json", ".husky/pre-commit", ".husky/_/pre-commit", ".pre-commit-config.yaml", "tools/clean.sh", "vendor/lib/.git/config", "vendor/lib/.git/hooks/post-commit"}
	secretFiles    = []string{".netrc", ".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".git-credentials", ".docker/config.json", ".bash_history", ".config/tool/token"}
)

// attackAllCode defines functions that attack all of these files in a session.
func attackAllCode(m *machine) string {
	list := func(names []string) string { return "'''" + strings.Join(names, "\n") + "'''.split('\\n')" }
	return tryToChangeCode + tryToReadCode + `
W, H, S = ` + strconv.Quote(m.work) + `, ` + strconv.Quote(m.home) + `, ` + strconv.Quote(secret) + `
kept, private = ` + list(protectedFiles) + `, ` + list(secretFiles) + `
def moved(path):
    with open(W + '/moved', 'w') as f: f.write('from inside')
    os.rename(W + '/moved', path)
tries = {
    'append': lambda p: open(p, 'a').write('from inside'), 'rename': moved, 'remove': os.unlink, 'truncate': lambda p: os.truncate(p, 0),
    'move': lambda p: os.rename(p, W + '/away'), 'link': lambda p: os.link(p, W + '/hard'), 'above': lambda p: os.rename(os.path.dirname(p), W + '/above'),
    'swap': lambda p: os.symlink(W + '/moved', p), 'mode': lambda p: open(os.open(p, os.O_RDWR | os.O_CREAT), 'w').write('from inside'),
}
def all_tries():
    opened = []
    for name in kept:
        for what, do in tries.items():
            if what == 'above' and '/' not in name: continue
            try: do(W + '/' + name)
            except OSError: continue
            opened.append(what + ' ' + name)
    for name in private:
        if S in readable(H + '/' + name): opened.append('read ' + name)
    return opened
`
}

// saveFiles makes a program outside save all the files.
func (m *machine) saveFiles(t *testing.T, script string) {
	t.Helper()
	for _, name := range protectedFiles {
		m.outsideDoes(t, m.work, "W="+m.work+"; F="+filepath.Join(m.work, name)+"; "+script)
	}
	for _, name := range secretFiles {
		m.outsideDoes(t, m.home, "W="+m.work+"; F="+filepath.Join(m.home, name)+"; "+script)
	}
}

// protectedContents returns the contents of the protected files.
func (m *machine) protectedContents() string {
	var all strings.Builder
	for _, name := range protectedFiles {
		all.WriteString(name + "\x00" + strings.ReplaceAll(readText(filepath.Join(m.work, name)), "\n", "") + "\x00")
	}
	return all.String()
}

func TestOutsidePrograms(t *testing.T) {
	t.Parallel()

	// A session lives while programs outside save protected and hidden files: between turns, during
	// one, after a reset, after a grant, and next to another session of the same workspace.
	t.Run("keeps what they save protected and hidden", func(t *testing.T) {
		t.Parallel()
		for _, save := range saveScripts {
			t.Run(save.by, func(t *testing.T) {
				t.Parallel()
				m := newMachine(t)
				for _, name := range secretFiles {
					writeFile(t, filepath.Join(m.home, name), secret)
				}
				before := m.protectedContents()
				r, other := openSession(t, m, newSandbox(m)), openSession(t, m, newSandbox(m))
				wantNone := func(when, opened string) {
					t.Helper()
					if opened != "[]\n" {
						t.Errorf("%s: the session opened %s", when, opened)
					}
					if after := m.protectedContents(); after != before {
						t.Errorf("%s: the files are %q, want %q", when, after, before)
					}
				}
				for _, s := range []*sessionkit.TestSession{r, other} {
					s.RunCode(t, attackAllCode(m))
				}
				const try = "print(all_tries())"
				run := func(s *sessionkit.TestSession) string {
					return s.RunCode(t, try).OutputText(timeline.Stdout, timeline.Stderr)
				}
				m.saveFiles(t, save.script)
				wantNone("between turns", run(r))
				wantNone("in another session", run(other))

				m.outsideDoes(t, m.work, "mkfifo go")
				turn := r.StartTurn(t, "print('ready'); open(W + '/go').read()\n"+try)
				r.WaitEvent(t, "ready", sessionkit.IsText("ready"))
				m.saveFiles(t, save.script)
				m.outsideDoes(t, m.work, "echo > go")
				wantNone("in a turn", strings.TrimPrefix(r.FinishTurn(t, turn).OutputText(timeline.Stdout, timeline.Stderr), "ready\n"))

				if err := r.Session.Allow(t.Context(), session.Grant{Write: m.outside}); err != nil {
					t.Fatal(err)
				}
				wantNone("after a grant", run(r))
				m.saveFiles(t, save.script)
				wantNone("after a grant and a save", run(r))

				if err := r.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.WaitUntilReady(t)
				r.RunCode(t, attackAllCode(m))
				wantNone("after a reset", run(r))
				m.saveFiles(t, save.script)
				wantNone("after a reset and a save", run(r))
			})
		}
	})

	// A user works in the directory of a session that attacks everything all the time. The user's
	// programs work, and the session gets nothing.
	t.Run("work normally while a session tries everything", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for _, name := range secretFiles {
			writeFile(t, filepath.Join(m.home, name), secret)
		}
		m.outsideDoes(t, m.work, "git config user.name T && git config user.email t@example.org && git -C vendor/lib -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m first && git config core.hooksPath .husky/_ && rm .husky/_/pre-commit")
		sandbox := newSandbox(m)
		r := openSession(t, m, sandbox)
		r.RunCode(t, attackAllCode(m)+`
import threading
kept.remove('.husky/_/pre-commit'); kept += ['fresh/.git/config', 'fresh/.git/hooks/pre-push', 'cloned/.git/config', 'cloned/.git/hooks/post-checkout', '.git/modules/submodule-beside/config', '.git/modules/submodule-beside/hooks/post-checkout']
private += ['.ssh/new', '.ssh/new.pub']
opened, rounds, stop = set(), 0, False
def attack():
    global rounds
    while not stop:
        opened.update(all_tries()); rounds += 1
thread = threading.Thread(target=attack); thread.start()
`)
		for range testmain.Rounds(1) {
			for _, chore := range userChores {
				m.outsideDoes(t, m.work, "export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@example.org; "+chore)
				wantOutput(t, r, "print(sorted(opened), all_tries())", "[] []")
			}
		}
		wantOutput(t, r, "stop = True; thread.join(); print(sorted(opened), rounds > 0)", "[] True")
		for _, name := range protectedFiles {
			if strings.Contains(readText(filepath.Join(m.work, name)), "from inside") {
				t.Errorf("%s was written", name)
			}
		}
	})

	// A file may be created between the check of its name and the removal.
	t.Run("make a file that a session removes all the time", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		m.outsideDoes(t, m.work, "git init -q later")
		r.RunCode(t, `
import os, threading
removed, tries, stop = 0, 0, False
def attack():
    global removed, tries
    while not stop:
        tries += 1
        try: os.unlink('later/.git/hooks/made')
        except OSError: pass
        else: removed += 1
thread = threading.Thread(target=attack); thread.start()
`)
		made := filepath.Join(m.work, "later", ".git", "hooks", "made")
		for range testmain.Rounds(2000) {
			writeFile(t, made, "")
			if err := os.Remove(made); err != nil {
				t.Errorf("%v: the session has removed it", err)
				break
			}
		}
		wantOutput(t, r, "stop = True; thread.join(); print(removed, tries > 10)", "0 True")
	})

	// A directory may be moved between the check of its path and the write. The written file is
	// checked by its new path.
	t.Run("may move a repository while a call is checked", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		r := openSession(t, m, newSandbox(m))
		m.outsideDoes(t, m.work, "git init -q --bare lib && git init -q tree && rm -r lib/hooks/* tree/.git/hooks/*") // files that exist at the start have mounts
		r.RunCode(t, `
import os, threading
stop, tries = False, 0
def attack(do):
    global tries
    while not stop:
        for top in ('lib', 'lib.away', 'tree/.git', 'tree/.bak'):
            try: do(top)
            except OSError: pass
            tries += 1
def makes(top): os.close(os.open(top + '/hooks/made', os.O_WRONLY | os.O_CREAT, 0o755))
def moves(top):
    if not os.path.exists('own'): open('own', 'w').close()
    os.rename('own', top + '/hooks/moved')
def adds(top): open(top + '/config', 'a').write('[core]\n\tfsmonitor = false\n')
def removes(top): os.rename(top + '/HEAD', 'gone'); open(top + '/HEAD', 'w').write('ref: refs/heads/gone\n')
threads = [threading.Thread(target=attack, args=(f,)) for f in (makes, moves, adds, removes)]
for thread in threads: thread.start()
`)
		for range testmain.Rounds(1) {
			m.outsideDoes(t, m.work, `i=0; while [ $i -lt 150 ]; do i=$((i+1)); mv lib lib.away; mv tree/.git tree/.bak; mv tree/.bak tree/.git; mv lib.away lib; done`)
		}
		wantOutput(t, r, "stop = True\nfor thread in threads: thread.join()\nprint(tries > 100)", "True")
		for _, name := range []string{"gone", "lib/hooks/made", "lib/hooks/moved", "tree/.git/hooks/made", "tree/.git/hooks/moved"} {
			if _, err := os.Lstat(filepath.Join(m.work, name)); err == nil {
				t.Errorf("%s was made", name)
			}
		}
		for _, git := range []string{"lib", "tree/.git"} {
			if config, head := readText(filepath.Join(m.work, git, "config")), readText(filepath.Join(m.work, git, "HEAD")); strings.Contains(config, "fsmonitor") || strings.Contains(head, "gone") {
				t.Errorf("%s was written: %s%s", git, config, head)
			}
		}
	})
}

// userChores are commands that a user runs in a project, over and over.
var userChores = []string{
	`echo x >> notes && git add notes && git commit -q -m notes`,
	`git checkout -q -b side && echo y >> side && git add side && git commit -q -m side && git checkout -q - && echo z >> notes && git commit -q -am z && git rebase -q side && git branch -q -D side`,
	`git config user.signingkey x && git config --unset user.signingkey && git config --add remote.origin.fetch x && git config --unset remote.origin.fetch`,
	`echo w >> notes && git stash -q && git stash pop -q && git commit -q -am w`,
	`git worktree add -q ../tree-beside && git worktree remove ../tree-beside && git branch -q -D tree-beside`,
	`git tag -f t > /dev/null && git gc -q && git repack -q -a -d`,
	`git checkout -q -b merged && git commit -q --allow-empty -m m && git checkout -q - && git merge -q --no-ff -m merge merged && git branch -q -d merged`,
	`rm -rf fresh && git init -q fresh && cd fresh && git commit -q --allow-empty -m first && printf '#!/bin/sh\n' > .git/hooks/pre-push && git config core.editor true`,
	`rm -rf cloned && git clone -q . cloned && git -C cloned config core.fsmonitor false`,
	`printf 'protocol=https\nhost=example.org\nusername=me\npassword=%s\n' "$SECRET" | git credential-store store`,
	`git config --global user.name Me && git config --global --unset user.name`,
	`rm -f ~/.ssh/new ~/.ssh/new.pub; ssh-keygen -q -t ed25519 -N '' -C "$SECRET" -f ~/.ssh/new 2> /dev/null || printf %s "$SECRET" > ~/.ssh/new`,
	`mkdir -p ~/.docker && printf '{"auths":{"x":{"auth":"%s"}}}' "$SECRET" > ~/.docker/config.json.new && mv ~/.docker/config.json.new ~/.docker/config.json`,
	`printf 'export KEY=%s\n' "$SECRET" >> ~/.bash_history`,
	`rm -rf .vscode.new && cp -r .vscode .vscode.new && rm -r .vscode && mv .vscode.new .vscode`,
	`mkdir -p package && cd package && printf '{"name":"a","version":"1.0.0"}' > package.json && if command -v npm > /dev/null; then npm install --offline --silent --no-audit --no-fund; fi`,
	`python3 -m venv --without-pip env-beside && rm -r env-beside`,
	`git -c protocol.file.allow=always submodule --quiet add ./vendor/lib submodule-beside && git commit -q -m submodule && git rm -q -f submodule-beside && git commit -q -m none && rm -rf .git/modules/submodule-beside`,
}
