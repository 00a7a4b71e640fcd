package escapes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// changeCode reports the access that code has to a file: "old" if it can read it, "changed" if it
// can write it.
const changeCode = tryToReadCode + `
def writes(path):
    try:
        with open(path, 'r+') as f: f.write('new')
    except OSError as e: return 'held: ' + e.strerror
    return 'written'
`

func TestShownFiles(t *testing.T) {
	t.Parallel()

	// A session sees the files and directories that its user names, and nothing next to them.
	t.Run("are the named files and nothing next to them", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for _, name := range []string{".data/deep/table", ".data/other", ".notes", ".other", ".config/tool/settings", "written"} {
			writeFile(t, filepath.Join(m.home, name), "old")
		}
		box := newSandbox(m)
		box.Readable = []string{filepath.Join(m.home, ".data/deep"), filepath.Join(m.home, ".notes"), filepath.Join(m.home, ".config/tool")}
		box.Writable = append(box.Writable, filepath.Join(m.home, "written"))
		r := openSession(t, m, box)
		r.RunCode(t, changeCode+"import os; os.chdir(os.environ['HOME'])")
		for _, c := range []struct{ code, want string }{
			{"readable('.data/deep/table')", "open: old"},
			{"readable('.data/other')", "held: [Errno 2] No such file or directory: '.data/other'"},
			{"readable('.notes')", "open: old"},
			{"readable('.other')", "held: [Errno 2] No such file or directory: '.other'"},
			{"readable('.config/tool/settings')", "open: old"},
			{"writes('.data/deep/table')", "held: Read-only file system"},
			{"writes('.notes')", "held: Read-only file system"},
			{"writes('written')", "written"},
			{"writes('note.txt')", "held: Read-only file system"},
		} {
			wantOutput(t, r, "print("+c.code+")", c.want)
		}
		if got := readText(filepath.Join(m.home, "written")); got != "new" {
			t.Errorf("the writable file contains %q", got)
		}
	})

	// A home directory of tools only contains no documents.
	t.Run("are no documents in a home of tools", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.home, ".pyenv/version"), "3.14")
		box := newSandbox(m)
		box.Home = sandbox.HomeTools
		r := openSession(t, m, box)
		r.RunCode(t, changeCode+"import os; os.chdir(os.environ['HOME'])")
		wantOutput(t, r, "print(readable('note.txt'))", "held: [Errno 2] No such file or directory: 'note.txt'")
		wantOutput(t, r, "print(readable('.pyenv/version'))", "open: 3.14")
		wantOutput(t, r, "print(readable('project/README'))", "open: read me")
		wantGrant(t, r, session.Grant{Read: filepath.Join(m.home, "note.txt")}, "")
		wantOutput(t, r, "print(readable('note.txt'))", "open: a note")
	})

	// A user shows more to a running session: directories and single files, in empty directories,
	// in directories that the session writes, and around its workspace. The session still has them
	// after a reset.
	t.Run("can be added to a running session", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for _, name := range []string{".data/deep/table", ".data/other", ".notes", ".config/tool/settings", ".made/by/it", ".box/project/inner", ".box/beside", ".write/dir/file", ".write/single", ".write/next"} {
			writeFile(t, filepath.Join(m.home, name), "old")
		}
		m.work = filepath.Join(m.home, ".box/project")
		writeFile(t, filepath.Join(m.work, "probes.py"), probes)
		r := openSession(t, m, newSandbox(m))
		in := func(name string) string { return filepath.Join(m.home, name) }
		prepare := changeCode + "import os; os.chdir(os.environ['HOME'])"
		r.RunCode(t, prepare+"\nos.makedirs('.config/made'); open('.config/made/own', 'w').write('its own')")
		for _, g := range []session.Grant{
			{Read: in(".data/deep")}, {Read: in(".notes")}, {Read: in(".config/tool/settings")}, {Read: in(".box")}, {Read: in("note.txt")},
			{Write: in(".write/dir"), Accept: in(".write/dir")}, {Write: in(".write/single"), Accept: in(".write/single")},
		} {
			wantGrant(t, r, g, "")
		}
		for _, when := range []string{"at once", "after a reset"} {
			for _, c := range []struct{ code, want string }{
				{"readable('.data/deep/table')", "open: old"},
				{"os.path.exists('.data/other')", "False"},
				{"readable('.notes')", "open: old"},
				{"writes('.notes')", "held: Read-only file system"},
				{"readable('.config/tool/settings')", "open: old"},
				{"writes('.config/tool/settings')", "held: Read-only file system"},
				{"readable('.box/beside')", "open: old"},
				{"writes('.box/beside')", "held: Read-only file system"},
				{"writes('.box/project/inner')", "written"},
				{"writes('.write/dir/file')", "written"},
				{"writes('.write/single')", "written"},
				{"os.path.exists('.write/next')", "False"},
				{"os.path.exists('.made')", "False"},
			} {
				if got := strings.TrimSpace(r.RunCode(t, "print("+c.code+")").OutputText(timeline.Stdout, timeline.Stderr)); got != c.want {
					t.Errorf("%s, %s: got %q, want %q", when, c.code, got, c.want)
				}
			}
			for _, name := range []string{".write/dir/file", ".write/single"} {
				if got := readText(in(name)); got != "new" {
					t.Errorf("%s: %s contains %q", when, name, got)
				}
				writeFile(t, in(name), "old")
			}
			r.RestartWorker(t)
			r.RunCode(t, prepare)
		}
	})

	// Agents make work trees next to their own settings and logins. A session in one sees the work
	// tree and its repository.
	t.Run("include an agent's work tree, not the logins next to it", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		tree := filepath.Join(m.home, ".cursor/worktrees/p/x")
		m.outsideDoes(t, m.work, `mkdir -p ../.cursor && printf '%s' "$SECRET" > ../.cursor/mcp.json && git worktree add -q `+quoteShell(tree)+` && printf '%s' "$SECRET" > ../.cursor/worktrees/p/other`)
		writeFile(t, filepath.Join(tree, "probes.py"), probes)
		project := m.work
		m.work = tree
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, atHomeCode)
		for range 2 {
			m.runSteps(t, r, []turnStep{
				{"its files", "true", "print(readable('.cursor/worktrees/p/x/README'), puts('.cursor/worktrees/p/x/new'))", "open: read me written"},
				{"nothing around it", "true", "print(os.listdir('.cursor'), os.listdir('.cursor/worktrees/p'), puts('.cursor/worktrees/p/mine'), readable('.cursor/mcp.json'))", "['worktrees'] ['x'] Read-only file system " + goneOutput + "'.cursor/mcp.json'"},
				{"a login that is replaced", `printf '%s' "$SECRET" > .cursor/n && mv .cursor/n .cursor/mcp.json`, "print(os.listdir('.cursor'))", "['worktrees']"},
				{"its hooks", "true", "print(puts('project/.git/hooks/post-checkout'), puts('.cursor/worktrees/p/x/.git'), puts('.cursor/worktrees/p/x/.mcp.json'))", "Read-only file system Read-only file system Read-only file system"},
			})
			resetSession(t, r)
		}
		wantOutput(t, r, `print(subprocess.run('git add new && git -c core.hooksPath=/dev/null -c user.name=T -c user.email=t@example.org commit -qm second && git log --format=%s', shell=True, cwd='.cursor/worktrees/p/x', capture_output=True, text=True).stdout.split())`, "['second', 'first']")
		if got := readText(filepath.Join(project, ".git/refs/heads/x")); got == "" {
			t.Error("the branch is not in the repository")
		}
		for code, want := range map[string]string{"open(os.path.abspath('.cursor/mcp.json'))": "the sandbox hides " + m.home + "/.cursor", "open(os.path.abspath('.cursor/worktrees/p/x/typo'))": ""} {
			if output := r.RunCode(t, code).Transcript(); strings.Contains(output, "the sandbox hides") != (want != "") || !strings.Contains(output, want) {
				t.Errorf("%s: got %s", code, output)
			}
		}
	})

	// The session may have made a file where a grant needs its mount point. No link is followed.
	t.Run("follow no link that the session put there", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for _, name := range []string{".config/linked/x", ".config/tool/x", ".config/other/x"} {
			writeFile(t, filepath.Join(m.home, name), "old")
		}
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, changeCode+`
import os
os.chdir(os.environ['HOME'] + '/.config')
os.symlink(os.environ['HOME'] + '/project', 'linked')
os.mkdir('tool'); open('tool/own', 'w').close()
open('other', 'w').close()
`)
		before := m.readState(t)
		if err := r.Session.Allow(t.Context(), session.Grant{Read: filepath.Join(m.home, ".config/linked/x")}); err == nil {
			t.Error("a link of the session was followed")
		}
		if err := r.Session.Allow(t.Context(), session.Grant{Read: filepath.Join(m.home, ".config/other")}); err == nil {
			t.Error("a directory was shown in place of a file")
		}
		wantGrant(t, r, session.Grant{Read: filepath.Join(m.home, ".config/tool")}, "")
		wantOutput(t, r, "print(readable('tool/x'), os.path.exists('tool/own'))", "open: old False")
		m.wantUnchanged(t, before)
	})

	t.Run("never include some directories", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		writeFile(t, filepath.Join(m.home, ".local/share/tool/x"), "old")
		r := openSession(t, m, newSandbox(m))
		r.RunCode(t, changeCode+"import os; os.symlink(os.environ['HOME'] + '/.local/share/tool', 'link')")
		for path, want := range map[string]string{
			m.home: "is the home directory", filepath.Dir(m.home): "contains the home directory", "/": "is the whole machine",
			filepath.Join(m.home, ".ssh"): "is hidden from sessions", filepath.Join(m.home, ".ssh/id_ed25519"): "is hidden from sessions", filepath.Join(m.home, ".netrc"): "is hidden from sessions",
			filepath.Join(m.home, "mine"): "is hidden from sessions", filepath.Join(m.home, ".config"): "in it is hidden", filepath.Join(m.home, ".config/turnstone"): "is hidden from sessions",
			m.sessions: "is hidden from sessions", filepath.Join(m.sessions, "other-session/transcript"): "is hidden from sessions",
			filepath.Join(m.work, "link"): " leads to " + text.QuoteName(m.home+"/.local/share/tool") + "; a user must confirm that",
			"relative":                    "is not an absolute path", filepath.Join(m.home, "none"): "no such file", "/dev/null": "neither a directory nor a regular file",
			filepath.Join(m.home, ".local/share/tool"): "",
		} {
			wantGrant(t, r, session.Grant{Read: path}, want)
		}
		for name, want := range map[string]string{".bashrc": "is where programs keep", ".profile": "is where programs keep", ".config/git/config": "is where programs keep", ".ssh/authorized_keys": "is hidden from sessions"} {
			wantGrant(t, r, session.Grant{Write: filepath.Join(m.home, name)}, want)
		}
	})

	// A session tracks and lists the paths that its user has shown to it, wherever they are, even
	// after a reset.
	t.Run("are refreshed after a grant", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		temporary, err := os.MkdirTemp("/tmp", "shown-") // a session has its own /tmp
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(temporary) })
		notes, dir, elsewhere, first := filepath.Join(m.home, ".notes"), filepath.Join(m.home, ".data"), filepath.Join(temporary, "table"), filepath.Join(temporary, "first")
		for _, file := range []string{notes, dir + "/x", elsewhere, first} {
			writeFile(t, file, "old")
		}
		box := newSandbox(m)
		box.Readable = []string{first}
		r := openSession(t, m, box)
		for _, path := range []string{notes, dir, elsewhere} {
			wantGrant(t, r, session.Grant{Read: path}, "")
		}
		all := "print([readable(p) for p in " + "('" + strings.Join([]string{notes, dir + "/x", elsewhere, first}, "', '") + "')])"
		sees := func(what string) {
			t.Helper()
			wantOutput(t, r, all, "["+strings.Repeat("'open: "+what+"', ", 3)+"'open: "+what+"']")
		}
		r.RunCode(t, changeCode)
		sees("old")
		for _, text := range []string{"new", "newer"} {
			m.outsideDoes(t, m.home, "for p in .notes "+quoteShell(elsewhere)+" "+quoteShell(first)+"; do printf "+text+" > \"$p.n\" && mv \"$p.n\" \"$p\"; done; mkdir .d && printf "+text+" > .d/x && mv .data .old-"+text+" && mv .d .data")
			sees(text)
			r.RestartWorker(t)
			r.RunCode(t, changeCode)
			sees(text)
		}
		m.outsideDoes(t, m.home, "mkdir .cache/uv") // a listed name causes a check of all mounts
		sees("newer")
		m.outsideDoes(t, m.home, "rm .notes")
		wantOutput(t, r, "print(readable('"+notes+"')[:15])", "held: [Errno 2]")
		shown, err := r.Session.Visibility(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		listed := func(path string) bool {
			return slices.ContainsFunc(shown.Paths, func(place session.VisiblePath) bool { return place.Path == path })
		}
		if listed(notes) || !listed(dir) || !listed(filepath.Join(m.home, ".cache/uv")) {
			t.Errorf("listed: %+v", shown.Paths)
		}
	})

	// If a program misses a file of the home directory, a notice says how the user can show it,
	// once. For a hidden file it says only that the file is hidden.
	t.Run("are suggested once, with a command", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for _, name := range []string{".data/table", ".local/share/tool/x", ".config/known/x"} {
			writeFile(t, filepath.Join(m.home, name), "old")
		}
		r := openSession(t, m, newSandbox(m))
		writeFile(t, filepath.Join(m.home, "later.csv"), "old")
		in := func(name string) string { return filepath.Join(m.home, name) }
		explained := func(name, doubt string) string {
			return "the sandbox does not show " + in(name) + doubt + "; the user can allow it with: repl grant " + r.Name() + " --read " + in(name)
		}
		for _, c := range []struct{ code, want string }{
			{"open('" + in(".data/table") + "')", explained(".data", "")},
			{"open('" + in(".data/table") + "')", ""},
			{"import os; os.system('cat " + in(".local/share/tool/x") + "')", explained(".local/share/tool", "")},
			{"import os; os.listdir('" + in(".config/known") + "')", explained(".config/known", "")},
			{"open('" + in("later.csv") + "')", explained("later.csv", ", if it exists")},
			{"open('" + in("later.csv") + "')", ""},
			{"import os; os.system('echo x > " + in("made.csv") + "')", ""}, // the refusal says so
			{"open('" + in(".ssh/id_ed25519") + "')", "the sandbox hides " + in(".ssh") + " from every session, and no user can allow it"},
			{"open('" + in(".docker/config.json") + "')", "the sandbox hides " + in(".docker") + " from every session, and no user can allow it"}, // the file does not exist
			{"open('" + in("project/typo.csv") + "')", ""},
			{"open('" + in(".bashrc") + "', 'a')", ""}, // reading it would not help
		} {
			got := ""
			for _, e := range r.RunCode(t, c.code).Events {
				if n, ok := e.Body.(timeline.Notice); ok {
					got += n.Message
				}
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.code, got, c.want)
			}
		}
	})

	// The user can list what a session sees of the home directory, why, and which variables are
	// withheld.
	t.Run("are listed with reasons", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		for name, text := range map[string]string{".pyenv/version": "", ".foreign/bin/tool": "", ".gitconfig": "[user]\n\tname = A\n", ".data/x": "", ".notes": ""} {
			writeFile(t, filepath.Join(m.home, name), text)
		}
		for i, kv := range m.env {
			if path, ok := strings.CutPrefix(kv, "PATH="); ok {
				m.env[i] = "PATH=" + filepath.Join(m.home, ".foreign/bin") + ":" + path
			}
		}
		m.env = append(m.env, "GH_PAT="+secret, "PIP_INDEX_URL=https://me:"+secret+"@pypi.example.org/simple")
		box := newSandbox(m)
		box.Readable = []string{filepath.Join(m.home, ".data")}
		r := openSession(t, m, box)
		wantGrant(t, r, session.Grant{Read: filepath.Join(m.home, ".notes")}, "")
		shown, err := r.Session.Visibility(t.Context())
		if err != nil || shown.Home != m.home {
			t.Fatalf("got %+v, %v", shown, err)
		}
		why := map[string]string{}
		for _, place := range shown.Paths {
			name, _ := filepath.Rel(m.home, place.Path)
			why[name] = place.Reason
		}
		for name, want := range map[string]string{
			"note.txt": "document", ".pyenv": "toolchain or library", ".cache/ruff": "cache", ".foreign/bin": "on PATH, or next to it", ".gitconfig": "settings, written without logins",
			".R/Makevars": "plain settings", ".data": "named or allowed", ".notes": "named or allowed", "project": "workspace", ".ssh": "", ".config": "", "mine": "",
		} {
			if why[name] != want {
				t.Errorf("%s: got %q, want %q", name, why[name], want)
			}
		}
		if !slices.Contains(shown.WithheldVariables, "GH_PAT") || !slices.Contains(shown.WithheldVariables, "the login in PIP_INDEX_URL") || strings.Contains(strings.Join(shown.WithheldVariables, " "), secret) {
			t.Errorf("withheld: got %q", shown.WithheldVariables)
		}
		if _, err := os.Stat(filepath.Join(m.home, "mine")); err != nil {
			t.Error(err)
		}
	})
}

// wantGrant grants a session access, and wants an error with this text, or none.
func wantGrant(t *testing.T, r *sessionkit.TestSession, g session.Grant, want string) {
	t.Helper()
	err := r.Session.Allow(t.Context(), g)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: got %v, want %q", g, err, want)
	}
}
