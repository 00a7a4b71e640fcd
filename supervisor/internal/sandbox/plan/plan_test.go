//go:build !windows

package plan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A homeFixture is a home directory with a project.
type homeFixture struct{ home, work, state, sessions, tmp string }

func newHomeFixture(t *testing.T) homeFixture {
	t.Helper()
	base := paths.RealOrEmpty(t.TempDir())
	w := homeFixture{home: base + "/home", work: base + "/home/work", state: base + "/sessions/s/sandbox", sessions: base + "/sessions", tmp: base + "/tmp"}
	for _, dir := range []string{w.work, w.state, w.tmp, w.home + "/.cache", w.home + "/.config/gh", w.home + "/.ssh"} {
		makeTestDir(t, dir)
	}
	return w
}

func makeTestDir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	makeTestDir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (f homeFixture) planInput() Origin {
	return Origin{Home: f.home, Dir: f.work, Program: "/bin/sh", State: f.state, Sessions: f.sessions, Temporary: []string{f.tmp}}
}

func (f homeFixture) wantPlan(t *testing.T, s *sandbox.Policy) (map[string]mountlist.MountKind, []string) {
	t.Helper()
	p, notices, err := NewPlan(s, f.planInput())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]mountlist.MountKind{}
	for i, place := range p.Mounts {
		kinds[string(place.Path)] = place.Kind
		for _, later := range p.Mounts[i+1:] {
			if paths.Contains(string(later.Path), string(place.Path)) {
				t.Errorf("%s comes before its parent %s", place.Path, later.Path)
			}
		}
	}
	return kinds, notices
}

func workspaceSandbox() *sandbox.Policy {
	return &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}
}

func TestNewPlan(t *testing.T) {
	t.Parallel()

	t.Run("writes the workspace and builds the home directory", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		makeTestDir(t, w.home+"/.cache/ruff")
		makeTestDir(t, w.home+"/data")
		kinds, notices := w.wantPlan(t, workspaceSandbox())
		for path, want := range map[string]mountlist.MountKind{
			w.work: mountlist.WritableBind, w.home: mountlist.ReadOnlyParent, w.home + "/data": mountlist.GrantableBind, w.home + "/.config": mountlist.WritableParent, w.home + "/.cache": mountlist.WritableParent, w.home + "/.cache/ruff": mountlist.OverlayMount,
			w.home + "/.ssh": "", w.home + "/.config/gh": "", w.sessions: mountlist.ReadOnlyParent, w.tmp: mountlist.EmptyDir,
		} {
			if got := kinds[path]; got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		if len(notices) != 0 {
			t.Errorf("got the notices %q, want none", notices)
		}
	})

	t.Run("shows a program among temporary files, not its neighbors", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.tmp+"/repl", "")
		writeText(t, w.tmp+"/env/bin/python", "")
		for program, shown := range map[string]string{"/repl": "/repl", "/env/bin/python": "/env"} {
			o := w.planInput()
			o.Program = w.tmp + program
			p, _, err := NewPlan(workspaceSandbox(), o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, place := range p.Mounts {
				if strings.HasPrefix(string(place.Path), w.tmp+"/") {
					got = append(got, string(place.Path)+" "+string(place.Kind))
				}
			}
			if want := []string{w.tmp + shown + " protected"}; !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", program, got, want)
			}
		}
	})

	// Where nothing can be mounted, a private directory of the session would fail the start.
	t.Run("builds a directory only where one can be mounted", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		elsewhere := paths.RealOrEmpty(t.TempDir())
		writeText(t, elsewhere+"/file", "")
		makeTestDir(t, elsewhere+"/there")
		if err := os.Symlink("nothing", elsewhere+"/link"); err != nil {
			t.Fatal(err)
		}
		writeText(t, w.tmp+"/program/bin/python", "")
		for _, c := range []struct {
			what, dir string
			want      mountlist.MountKind
		}{
			{"missing in the home directory", w.home + "/a/b", mountlist.WritableParent},
			{"missing among temporary files", w.tmp + "/a/b", mountlist.WritableParent},
			{"missing next to a program among temporary files", w.tmp + "/program/cache", ""},
			{"missing in the workspace", w.work + "/a", ""},
			{"there, outside", elsewhere + "/there", mountlist.WritableParent},
			{"missing outside", elsewhere + "/a/b", ""},
			{"a link to nothing", elsewhere + "/link", ""},
			{"a file outside", elsewhere + "/file", ""},
			{"below a file outside", elsewhere + "/file/a", ""},
			{"a device", "/dev/null", ""},
		} {
			o := w.planInput()
			o.Program = w.tmp + "/program/bin/python"
			o.Directories = map[string]string{".cache": c.dir}
			p, _, err := NewPlan(workspaceSandbox(), o)
			if err != nil {
				t.Fatal(err)
			}
			got := mountlist.MountKind("")
			for _, place := range p.Mounts {
				if string(place.Path) == c.dir {
					got = place.Kind
				}
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.what, got, c.want)
			}
		}
	})

	t.Run("has no workspace at the read-only level", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		kinds, _ := w.wantPlan(t, &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone, Workspace: w.work})
		if got := kinds[w.work]; got == mountlist.WritableBind {
			t.Errorf("got %q for the workspace", got)
		}
	})

	t.Run("protects what the sandbox names", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.work+"/a/lock", "")
		s := workspaceSandbox()
		s.Protected = []string{w.work + "/a/lock", w.work + "/b", w.home + "/other"}
		p, _, err := NewPlan(s, w.planInput())
		if err != nil {
			t.Fatal(err)
		}
		kinds, _ := w.wantPlan(t, s)
		if kinds[w.work+"/a/lock"] != mountlist.ReadOnlyBind || kinds[w.work+"/a"] != mountlist.PinnedBind {
			t.Errorf("got %q in %q, want it protected in a pinned directory", kinds[w.work+"/a/lock"], kinds[w.work+"/a"])
		}
		if !slices.Contains(p.Absent, mountlist.Path(w.work+"/b")) || slices.Contains(p.Absent, mountlist.Path(w.home+"/other")) {
			t.Errorf("got absent names %q, want %s/b and no path outside the workspace", p.Absent, w.work)
		}
	})

	t.Run("refuses the home directory as a workspace", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		if err := os.Symlink(w.home, w.work+"/link"); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"/", w.home, filepath.Dir(w.home), w.work + "/link", w.tmp} {
			s := workspaceSandbox()
			s.Workspace = dir
			kinds, notices := w.wantPlan(t, s)
			if kinds[dir] == mountlist.WritableBind || kinds[paths.RealOrEmpty(dir)] == mountlist.WritableBind {
				t.Errorf("%s is writable", dir)
			}
			if len(notices) != 1 || !strings.Contains(notices[0], "this session is read-only") {
				t.Errorf("%s: got the notices %q, want one that says that it is read-only", dir, notices)
			}
			s = workspaceSandbox()
			s.Writable = []string{dir}
			if _, _, err := NewPlan(s, w.planInput()); err == nil || !strings.Contains(err.Error(), "name a directory in it") {
				t.Errorf("to write %s: got %v, want a refusal", dir, err)
			}
		}
	})

	t.Run("does not write what is hidden", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		makeTestDir(t, w.home+"/.ssh/below")
		for _, dir := range []string{w.home + "/.ssh", w.home + "/.ssh/below"} {
			s := workspaceSandbox()
			s.Writable = []string{dir}
			if _, _, err := NewPlan(s, w.planInput()); err == nil || !strings.Contains(err.Error(), "is hidden") {
				t.Errorf("%s: got %v, want a refusal", dir, err)
			}
		}
		s := workspaceSandbox()
		s.Writable = []string{w.home + "/missing"}
		if _, _, err := NewPlan(s, w.planInput()); err == nil || !strings.Contains(err.Error(), "cannot make") {
			t.Errorf("got %v for a missing directory", err)
		}
	})
}

func TestNewPlanRepositories(t *testing.T) {
	t.Parallel()

	// Agents create work trees next to their own settings and logins.
	t.Run("writes an agent's work tree and nothing around it", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for _, c := range []struct {
			dir, hidden string
			refused     bool
		}{
			{".cursor/worktrees/p/x", "", false}, {".codex/worktrees/1a2b/p", "", false}, {".claude/projects/p/worktrees/x", "", false},
			{".cursor/worktrees", "", true}, {".cursor/rules", "", true}, {".ssh", "", true}, {".ssh/below", "", true}, {".gemini/worktrees/p/x", ".gemini", true},
		} {
			s := workspaceSandbox()
			s.Workspace = filepath.Join(w.home, c.dir)
			writeText(t, filepath.Join(s.Workspace, "file"), "")
			if c.hidden != "" {
				s.Hidden = []string{filepath.Join(w.home, c.hidden)}
			}
			top, _, _ := strings.Cut(c.dir, "/")
			token := filepath.Join(w.home, top, "auth.json")
			writeText(t, token, "")
			p, _, err := NewPlan(s, w.planInput())
			if (err != nil) != c.refused {
				t.Errorf("%s: got %v", c.dir, err)
			}
			if err != nil {
				continue
			}
			for _, place := range p.Mounts {
				if path := string(place.Path); paths.Contains(filepath.Join(w.home, top), path) && !paths.Contains(s.Workspace, path) || path == s.Workspace && place.Kind != mountlist.WritableBind {
					t.Errorf("%s: %s is %s", c.dir, path, place.Kind)
				}
			}
			if len(p.Unreadable) > 0 {
				t.Errorf("%s: opens for reading of %q are checked, want none", c.dir, p.Unreadable)
			}
			if hidden := p.HiddenPaths(); !slices.Contains(hidden, token) || slices.ContainsFunc(hidden, func(path string) bool { return paths.Contains(path, s.Workspace) }) {
				t.Errorf("%s: got the hidden paths %q, want %s among them and nothing around the workspace", c.dir, hidden, token)
			}
		}
		s := workspaceSandbox()
		s.Writable = []string{w.home + "/.cursor/worktrees/p/x"}
		if _, _, err := NewPlan(s, w.planInput()); err == nil {
			t.Error("a work tree outside the workspace became writable")
		}
	})

	t.Run("protects every repository", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		repository := func(dir string) {
			for _, n := range []string{"HEAD", "config", "hooks/post-commit", "info/attributes", "objects/x"} {
				writeText(t, filepath.Join(dir, n), "")
			}
		}
		repository(w.work + "/.git")
		repository(w.work + "/vendor/deep/lib/.git")
		repository(w.work + "/bare.git")
		repository(w.work + "/.git/modules/a")
		repository(w.work + "/.git/modules/b/c")
		repository(w.work + "/.git/modules/a/modules/inner")
		writeText(t, w.work+"/a/.git", "gitdir: ../.git/modules/a\n")
		writeText(t, w.work+"/.git/config", "[user]\nname = x\n[core]\n\tHooksPath = .husky/_ \n[include]\npath = ../.gitconfig\n")
		writeText(t, w.work+"/.gitconfig", "[includeIf \"gitdir:x\"]\n\tpath = "+w.work+"/settings/more\n")
		writeText(t, w.work+"/settings/more", "[include]\npath = more\n[core]\nhooksPath=\"settings/hooks\"\n") // includes itself
		writeText(t, w.work+"/settings/hooks/pre-push", "")
		writeText(t, w.work+"/.husky/_/pre-commit", "")
		writeText(t, w.work+"/vendor/deep/lib/.git/config", "[filter \"x\"] clean = \"sh ./bin/clean\" %f\n[remote \"o\"]\n\turl = ../other\n[core]fsmonitor=bin/watch\n")
		writeText(t, w.work+"/vendor/deep/lib/.git/config.worktree", "[core] hooksPath = mine\n")
		writeText(t, w.work+"/vendor/deep/lib/mine/pre-push", "")
		for _, n := range []string{"bin/clean", "bin/watch", "lefthook.yml"} {
			writeText(t, w.work+"/vendor/deep/lib/"+n, "")
		}
		writeText(t, w.work+"/.vscode/tasks.json", "")
		writeText(t, w.work+"/vendor/deep/lib/.envrc", "")
		kinds, notices := w.wantPlan(t, workspaceSandbox())
		for _, path := range []string{
			".git/config", ".git/hooks", ".git/info/attributes", "vendor/deep/lib/.git/hooks", "vendor/deep/lib/.git/config", "vendor/deep/lib/.envrc",
			"bare.git/hooks", "bare.git/config", ".git/modules/a/hooks", ".git/modules/b/c/hooks", ".git/modules/b/c/config", ".git/modules/a/modules/inner/hooks",
			"a/.git", ".husky", ".gitconfig", "settings/more", "settings/hooks", ".vscode",
			"vendor/deep/lib/bin/clean", "vendor/deep/lib/bin/watch", "vendor/deep/lib/mine", "vendor/deep/lib/lefthook.yml",
		} {
			if got := kinds[w.work+"/"+path]; got != mountlist.ReadOnlyBind && (got != mountlist.GuardedFile || filepath.Base(path) != "config") {
				t.Errorf("%s: got %q, want it protected", path, got)
			}
		}
		for _, path := range []string{".git", ".git/info", ".git/modules", ".git/modules/b", ".git/modules/b/c", "vendor", "vendor/deep", "vendor/deep/lib", "vendor/deep/lib/.git", "vendor/deep/lib/bin", "a"} {
			if got := kinds[w.work+"/"+path]; got != mountlist.PinnedBind {
				t.Errorf("%s: got %q, want it pinned against renames", path, got)
			}
		}
		if len(notices) != 0 {
			t.Errorf("got the notices %q, want none", notices)
		}
	})

	t.Run("reports that the search stopped", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for _, dir := range []string{"a", "b", "c"} {
			writeText(t, filepath.Join(w.work, dir, "repository/.git/config"), "")
		}
		for entries, want := range map[int]int{5: 1, 50: 0} {
			p := &planner{List: mountlist.List{Mounts: map[string]mountlist.Mount{}}}
			p.protectDirs([]string{w.work}, entries)
			if len(p.Notices) != want {
				t.Errorf("of %d entries: got the notices %q, want %d", entries, p.Notices, want)
			}
		}
	})

	// A commit in a linked work tree writes to its repository. A file in the workspace, which a
	// session may have written, is not enough to allow that.
	t.Run("writes the repository of a work tree that it lists", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		common := w.home + "/main/.git"
		for _, n := range []string{"HEAD", "config", "hooks/x", "objects/x"} {
			writeText(t, filepath.Join(common, n), "")
		}
		writeText(t, common+"/worktrees/tree/HEAD", "")
		writeText(t, common+"/worktrees/tree/commondir", "../..\n")
		writeText(t, w.work+"/.git", "gitdir: "+common+"/worktrees/tree\n")
		if kinds, _ := w.wantPlan(t, workspaceSandbox()); kinds[common] != "" {
			t.Errorf("got %q for a repository that does not know the work tree, want nothing", kinds[common])
		}
		writeText(t, common+"/worktrees/tree/gitdir", w.work+"/.git\n")
		kinds, _ := w.wantPlan(t, workspaceSandbox())
		for path, want := range map[string]mountlist.MountKind{common: mountlist.WritableBind, common + "/hooks": mountlist.ReadOnlyBind, common + "/config": mountlist.GuardedFile, common + "/worktrees/tree/gitdir": mountlist.ReadOnlyBind, w.work + "/.git": mountlist.ReadOnlyBind} {
			if got := kinds[path]; got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
	})

	// A session may create any file in its workspace. The next plan must still succeed.
	t.Run("does not read settings that never end", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for _, dir := range []string{"pipe/.git", "link/.git", "as-file"} {
			makeTestDir(t, filepath.Join(w.work, dir))
		}
		writeText(t, w.work+"/many/.git/config", strings.Repeat("[include]\npath = config\npath = ../../pipe/.git/config\n", 10_000))
		for _, err := range []error{
			syscall.Mkfifo(w.work+"/pipe/.git/config", 0o600),
			syscall.Mkfifo(w.work+"/as-file/.git", 0o600),
			os.Symlink("/dev/zero", w.work+"/link/.git/config"),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		kinds, _ := w.wantPlan(t, workspaceSandbox())
		for _, path := range []string{"pipe/.git/config", "as-file/.git", "many/.git/config"} {
			if got := kinds[filepath.Join(w.work, path)]; got != mountlist.ReadOnlyBind && got != mountlist.GuardedFile {
				t.Errorf("%s is %q, want it protected", path, got)
			}
		}
	})
}

func TestNewPlanHidden(t *testing.T) {
	t.Parallel()

	// Hidden names next to files of the machine are checked by name, even those that are created
	// later. In a private directory of the session they do not exist.
	t.Run("hides by name where a mount could end", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		base := filepath.Dir(w.home)
		writeText(t, w.home+"/dotfiles/netrc", "")
		writeText(t, w.work+"/real/env", "")
		for link, to := range map[string]string{w.home + "/.netrc": "dotfiles/netrc", w.work + "/.env": "real/env"} {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		s := workspaceSandbox()
		s.Hidden = []string{w.work + "/.env", w.work + "/later", base + "/srv/keys", w.home + "/papers", w.tmp + "/x"}
		p, _, err := NewPlan(s, w.planInput())
		if err != nil {
			t.Fatal(err)
		}
		want := []mountlist.Path{mountlist.Path(w.work + "/.env"), mountlist.Path(w.work + "/real/env"), mountlist.Path(w.work + "/later"), mountlist.Path(base + "/srv/keys")}
		if !slices.Equal(p.Unreadable, want) {
			t.Errorf("got %q, want %q", p.Unreadable, want)
		}
		if p, _, err = NewPlan(workspaceSandbox(), w.planInput()); err != nil || len(p.Unreadable) > 0 {
			t.Errorf("got %q, %v, want no checks of opens if nothing is hidden", p.Unreadable, err)
		}
	})

	t.Run("never shows what is hidden or contains it", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.home+"/.ssh/id", "")
		makeTestDir(t, w.home+"/.local/share/x")
		writeText(t, w.home+"/mine/private", "")
		if err := syscall.Mkfifo(w.home+"/.pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		for link, to := range map[string]string{w.home + "/.keys": w.home + "/.ssh", w.work + "/results": w.home + "/.local/share/x"} {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		for path, want := range map[string]string{
			"/": "is the whole machine", w.home: "is the home directory", filepath.Dir(w.home): "contains the home directory", w.tmp: "is for temporary files",
			w.home + "/.ssh": "is hidden from sessions", w.home + "/.ssh/id": "is hidden", w.home + "/.keys": "is hidden", w.home + "/.config/gh": "is hidden",
			w.home + "/.config": "/.config/turnstone in it is hidden", w.home + "/.local/share": "in it is hidden", w.home + "/mine": "is hidden",
			w.sessions: "is hidden", w.sessions + "/s": "is hidden", w.home + "/.pipe": "neither a directory nor a regular file", w.home + "/none": "no such file",
			w.work + "/results": "it leads to " + w.home + "/.local/share/x", w.home + "/.local/share/x": "",
		} {
			s := workspaceSandbox()
			s.Hidden, s.Readable = []string{w.home + "/mine"}, []string{path}
			if _, err := w.planMounts(s); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", path, err, want)
			}
		}
	})

	// HOME may differ from the home directory of the account, as under sudo -E.
	t.Run("hides logins of the account if HOME is another", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		account := filepath.Dir(w.home) + "/account"
		writeText(t, account+"/.ssh/id_rsa", "")
		writeText(t, account+"/.pyenv/version", "")
		o := w.planInput()
		o.Account = account
		p, _, err := NewPlan(workspaceSandbox(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range p.Mounts {
			if path := string(place.Path); paths.Contains(account, path) != (path == account+"/.ssh" && place.Kind == mountlist.MaskedPath) {
				t.Errorf("%s is %s", path, place.Kind)
			}
		}
		if len(p.Unreadable) > 0 {
			t.Errorf("opens for reading of %q are checked, want none", p.Unreadable)
		}
	})

	// HOME may name no home directory, or one that contains that of the account. Tools then use
	// that of the account.
	t.Run("hides logins of the account whatever HOME says", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		account := filepath.Dir(w.home) + "/users/me"
		writeText(t, account+"/.ssh/id_rsa", "")
		writeText(t, account+"/.unlisted", "")
		work := paths.RealOrEmpty(t.TempDir())
		for _, c := range []struct {
			what, home string
			isBuilt    bool // whether the account's home directory is built
		}{
			{"empty", "", true},
			{"relative", "users", true},
			{"the root directory", "/", true},
			{"above it", filepath.Dir(account), false},
		} {
			o := w.planInput()
			o.Home, o.Account, o.Dir = c.home, account, work
			p, _, err := NewPlan(workspaceSandbox(), o)
			if err != nil {
				t.Fatal(err)
			}
			seen := planner{List: mountlist.List{Mounts: map[string]mountlist.Mount{}}}
			for _, place := range p.Mounts {
				seen.Mounts[string(place.Path)] = place
			}
			for path, want := range map[string]bool{account + "/.ssh/id_rsa": false, account + "/.unlisted": !c.isBuilt} {
				k := seen.NearestKind(path + "/.")
				if isOpen := k == "" || k == mountlist.GrantableBind; isOpen != want {
					t.Errorf("HOME is %s: %s is open: %v, want %v", c.what, path, isOpen, want)
				}
			}
			if CheckShow(workspaceSandbox(), o, account+"/.ssh") == nil {
				t.Errorf("HOME is %s: a user could show logins", c.what)
			}
			if _, err := CheckGrantable(workspaceSandbox(), o, account+"/.ssh"); err == nil {
				t.Errorf("HOME is %s: a user could grant access to logins", c.what)
			}
		}
	})

	// Data of programs under names without a dot, and keys saved in the home directory, are not
	// documents. A user can show them.
	t.Run("does not take keys and mail for documents", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		windows := filepath.Dir(w.home) + "/c/Users/Ada"
		keys := []string{
			"id_rsa", "id_ed25519.pub", "Server.PEM", "client_secret_1234.apps.json", "credentials.json", "new_user_credentials.csv", "ada_accessKeys.csv", "rootkey.csv", "service-account-prod.json", "project-firebase-adminsdk-x.json", "Vault.kdbx",
			"work.ovpn", "AuthKey_ABC.p8", "wallet.dat", "kubeconfig", "prod-kubeconfig.yaml", "Chrome Passwords.csv", "bitwarden_export_1.json", "github-recovery-codes.txt", "ada.publishsettings", "terraform.tfstate.backup",
			"Mail/inbox", "Maildir/new/1", "mail/sent", "mbox", "dead.letter", "airflow/airflow.cfg", "Zotero/zotero.sqlite", "Monero/wallets/x", "Postman/files/x", "snap/x",
		}
		documents := []string{"thesis.tex", "data.csv", "keynotes.md", "mailing.txt", "airflow-dags/dag.py", "credentials/readme", "pem.py", "passwordless/login.go"}
		for _, name := range slices.Concat(keys, documents) {
			writeText(t, filepath.Join(w.home, name), "")
			writeText(t, filepath.Join(windows, name), "")
		}
		writeText(t, windows+"/AppData/Roaming/x", "")
		writeText(t, windows+"/.ssh/id_rsa", "")
		writeText(t, windows+"/NTUSER.DAT", "")
		o := w.planInput()
		o.OtherHomes = []string{windows, filepath.Dir(windows) + "/Public"}
		s := workspaceSandbox()
		s.Readable = []string{w.home + "/id_rsa"}
		p, _, err := NewPlan(s, o)
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]bool{}
		for _, place := range p.Mounts {
			shown[string(place.Path)] = place.Kind == mountlist.GrantableBind
		}
		first := func(name string) string { top, _, _ := strings.Cut(name, "/"); return top }
		for _, home := range []string{w.home, windows} {
			for _, name := range append(keys, "AppData", ".ssh", "NTUSER.DAT") {
				if path := filepath.Join(home, first(name)); shown[path] != (path == s.Readable[0]) {
					t.Errorf("%s: shown %t", path, shown[path])
				}
			}
			for _, name := range documents {
				if path := filepath.Join(home, first(name)); !shown[path] {
					t.Errorf("%s is not shown", path)
				}
			}
		}
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()

	t.Run("survives JSON with any file name", func(t *testing.T) {
		t.Parallel()
		sent, got := &Plan{State: "/s\xff", Mounts: []mountlist.Mount{{Path: "/\xfe", Kind: mountlist.OverlayMount, Source: "/"}}, Network: true}, &Plan{}
		text, err := json.Marshal(sent)
		if err == nil {
			err = json.Unmarshal(text, got)
		}
		if err != nil || got.State != sent.State || len(got.Mounts) != 1 || got.Mounts[0] != sent.Mounts[0] || !got.Network {
			t.Errorf("got %+v, %v, want %+v", got, err, sent)
		}
	})

	t.Run("separates what can be shown from what is hidden", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.home+"/.data/x", "")
		writeText(t, w.home+"/.local/share/tool/x", "")
		writeText(t, w.home+"/.netrc", "")
		p, _, err := NewPlan(workspaceSandbox(), w.planInput())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.UnshownPaths(), []string{w.home + "/.data", w.home + "/.local/share/tool"}; !slices.Equal(got, want) {
			t.Errorf("showable: got %q, want %q", got, want)
		}
		for _, path := range []string{w.home + "/.ssh", w.home + "/.netrc", w.home + "/.config/gh"} {
			if !slices.Contains(p.HiddenPaths(), path) {
				t.Errorf("hidden: got %q, want %s in it", p.HiddenPaths(), path)
			}
		}
	})

	t.Run("grants what the home directory lacks", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.home+"/.data/file", "")
		writeText(t, w.home+"/.config/tool/file", "")
		writeText(t, w.home+"/.ssh/id", "")
		makeTestDir(t, w.home+"/data")
		p, _, err := NewPlan(workspaceSandbox(), w.planInput())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			path string
			read bool
			want *MountGrant // without Mounts
			err  string
		}{
			{w.home + "/.data", true, &MountGrant{ParentDir: mountlist.Path(w.home)}, ""},
			{w.home + "/.data/file", true, &MountGrant{ParentDir: mountlist.Path(w.home)}, ""},
			{w.home + "/.data/file", false, &MountGrant{ParentDir: mountlist.Path(w.home)}, ""},
			{w.home + "/.config/tool", true, &MountGrant{ParentDir: mountlist.Path(w.home + "/.config")}, ""},
			{w.home + "/data", true, nil, ""}, // already visible
			{w.home + "/data", false, &MountGrant{}, ""},
			{w.work, true, nil, ""},
			{"/etc", true, nil, ""},
			{w.home + "/.ssh/id", true, nil, "is hidden from sessions"},
			{w.home + "/.ssh/id", false, nil, "is hidden from sessions"},
			{w.home, true, nil, "is the home directory"},
			{w.sessions, false, nil, "is hidden from sessions"},
		} {
			got, err := p.NewGrant(c.path, c.read, "")
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: got %v, want %q", c.path, err, c.err)
				}
			case err != nil || (got == nil) != (c.want == nil):
				t.Errorf("%s: got %+v, %v", c.path, got, err)
			case got != nil && (got.Path != mountlist.Path(c.path) || got.ParentDir != c.want.ParentDir || got.ReadOnly != c.read):
				t.Errorf("%s: got %+v", c.path, got)
			}
		}
		if err := os.Symlink(w.home+"/.data", w.work+"/swapped"); err != nil {
			t.Fatal(err)
		}
		for _, read := range []bool{true, false} {
			if g, err := p.NewGrant(w.work+"/swapped", read, ""); err == nil || !strings.Contains(err.Error(), "it leads to "+w.home+"/.data") {
				t.Errorf("a link made after the question: got %+v, %v", g, err)
			}
		}
		g, err := p.NewGrant(w.home+"/.data", true, "")
		if err != nil {
			t.Fatal(err)
		}
		p.RecordGrant(g)
		if again, err := p.NewGrant(w.home+"/.data/file", true, ""); again != nil || err != nil {
			t.Errorf("a file in a granted directory: got %+v, %v", again, err)
		}
		if more, err := p.NewGrant(w.home+"/.data/file", false, ""); err != nil || more == nil || more.ParentDir != "" {
			t.Errorf("to write in a shown directory: got %+v, %v", more, err)
		}
		if _, shown := p.Home(); !slices.ContainsFunc(shown, func(place mountlist.Mount) bool {
			return string(place.Path) == w.home+"/.data" && place.Reason == mountlist.ReasonNamed
		}) {
			t.Errorf("got %+v", shown)
		}
	})
}

func TestNewPlanLinks(t *testing.T) {
	t.Parallel()

	// A session could create a link in its workspace, and the next session would get access to its
	// target.
	t.Run("follows no link that a session may have made", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		programs := filepath.Dir(w.home) + "/programs/deep"
		makeTestDir(t, programs)
		for link, to := range map[string]string{w.work + "/results": filepath.Dir(programs), filepath.Dir(w.home) + "/linked": filepath.Dir(programs)} {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		for dir, refused := range map[string]bool{w.work + "/results": true, w.work + "/results/deep": true, filepath.Dir(w.home) + "/linked/deep": false, programs: false} {
			s := workspaceSandbox()
			s.Writable = []string{dir}
			_, _, err := NewPlan(s, w.planInput())
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "it leads to "+paths.RealOrEmpty(dir)) {
				t.Errorf("%s: got %v", dir, err)
			}
		}
	})

	// A directory on the PATH may be reached through links, inside the home directory or out of it.
	t.Run("shows links on the way to programs", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		store := filepath.Dir(w.home) + "/store/hash-profile"
		writeText(t, store+"/bin/tool", "")
		writeText(t, w.home+"/.opt/tool-2/bin/tool", "")
		profiles := w.home + "/.local/state/nix/profiles"
		makeTestDir(t, profiles)
		links := map[string]string{w.home + "/.nix-profile": ".local/state/nix/profiles/profile", profiles + "/profile": "profile-1-link", profiles + "/profile-1-link": store, w.home + "/.current": ".opt/tool-2"}
		for link, to := range links {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(w.home+"/.ssh", w.work+"/linked"); err != nil {
			t.Fatal(err)
		}
		o := w.planInput()
		o.Path = strings.Join([]string{w.home + "/.nix-profile/bin", w.home + "/.current/bin", w.work + "/linked"}, ":")
		p, _, err := NewPlan(workspaceSandbox(), o)
		if err != nil {
			t.Fatal(err)
		}
		mounts := map[string]mountlist.Mount{}
		for _, place := range p.Mounts {
			mounts[string(place.Path)] = place
		}
		for link, to := range links {
			if place := mounts[link]; place.Kind != mountlist.SymbolicLink || string(place.Source) != to {
				t.Errorf("%s: got %v, want a link to %s", link, place, to)
			}
		}
		if k := mounts[w.home+"/.opt/tool-2/bin"].Kind; k != mountlist.GrantableBind {
			t.Errorf("got %q for the target of a link", k)
		}
		if k := mounts[w.home+"/.ssh"].Kind; k != "" {
			t.Errorf("got %q for the target of a link in the workspace", k)
		}
	})

	// A cache, settings or libraries may have been moved to another disk, with a link in their
	// place. The session sees the link, and only the listed names in its target.
	t.Run("shows links on the way to listed names", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		top := filepath.Dir(w.home)
		for _, file := range []string{
			top + "/data/hf/hub/model", top + "/data/hf/stored_tokens", top + "/data/share/uv/python/3.14/bin/python3", top + "/data/share/tool/token", top + "/data/share/foreign/bin/tool",
			w.home + "/dotfiles/pip/pip.conf", w.home + "/dotfiles/pip/token", w.home + "/dotfiles/vimrc", w.work + "/uv/uv.toml",
		} {
			writeText(t, file, "")
		}
		writeText(t, w.home+"/dotfiles/pip/pip.conf", "[global]\nindex-url = https://me:s3@pypi.example.org/\n")
		makeTestDir(t, w.home+"/.local")
		links := map[string]string{
			w.home + "/.cache/huggingface": top + "/alias", top + "/alias": "data/hf", w.home + "/.local/share": top + "/data/share", w.home + "/.config/pip": "../dotfiles/pip",
			w.home + "/.config/uv": w.work + "/uv", w.home + "/.cache/R": "/usr/share",
		}
		for link, to := range links {
			if err := os.Symlink(to, link); err != nil {
				t.Fatal(err)
			}
		}
		o := w.planInput()
		o.Path, o.Settings = w.home+"/.local/share/foreign/bin", top+"/settings"
		p, _, err := NewPlan(workspaceSandbox(), o)
		if err != nil {
			t.Fatal(err)
		}
		mounts := map[string]mountlist.Mount{}
		for _, place := range p.Mounts {
			mounts[string(place.Path)] = place
		}
		for path, want := range map[string]mountlist.MountKind{
			w.home + "/.cache/huggingface": mountlist.SymbolicLink, w.home + "/.local/share": mountlist.SymbolicLink, w.home + "/.config/pip": mountlist.SymbolicLink, w.home + "/.config/uv": "", w.home + "/.cache/R": mountlist.SymbolicLink, "/usr/share": "",
			top + "/data/hf": mountlist.ReadOnlyParent, top + "/data/hf/hub": mountlist.OverlayMount, top + "/data/hf/stored_tokens": "", top + "/data": "",
			top + "/data/share": mountlist.ReadOnlyParent, top + "/data/share/uv/python": mountlist.OverlayMount, top + "/data/share/tool": "", top + "/data/share/foreign/bin": mountlist.GrantableBind,
			w.home + "/dotfiles": mountlist.ReadOnlyParent, w.home + "/dotfiles/vimrc": mountlist.GrantableBind, w.home + "/dotfiles/pip": mountlist.ReadOnlyParent, w.home + "/dotfiles/pip/pip.conf": mountlist.ReplacedFile, w.home + "/dotfiles/pip/token": "",
			w.work: mountlist.WritableBind, w.work + "/uv": "",
		} {
			if got := mounts[path].Kind; got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		if from := mounts[w.home+"/.config/pip"].Source; from != "../dotfiles/pip" {
			t.Errorf("the link leads to %q", from)
		}
	})
}

// planMounts returns the mounts of a plan for a sandbox, by path.
func (f homeFixture) planMounts(s *sandbox.Policy) (map[string]mountlist.Mount, error) {
	p, _, err := NewPlan(s, f.planInput())
	mounts := map[string]mountlist.Mount{}
	if err == nil {
		for _, place := range p.Mounts {
			mounts[string(place.Path)] = place
		}
	}
	return mounts, err
}

func TestNewPlanPaths(t *testing.T) {
	t.Parallel()

	t.Run("shows what the user names", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.home+"/.data/deep/table", "")
		writeText(t, w.home+"/.notes", "")
		writeText(t, w.tmp+"/mine", "")
		writeText(t, w.home+"/document", "")
		s := workspaceSandbox()
		s.Readable = []string{w.home + "/.data/deep", w.home + "/.notes", w.tmp + "/mine", w.home + "/document", "/etc"}
		mounts, err := w.planMounts(s)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]mountlist.Mount{
			w.home + "/.data/deep": {Kind: mountlist.GrantableBind, Reason: mountlist.ReasonNamed}, w.home + "/.notes": {Kind: mountlist.GrantableBind, Reason: mountlist.ReasonNamed}, w.tmp + "/mine": {Kind: mountlist.GrantableBind, Reason: mountlist.ReasonNamed},
			w.home + "/document": {Kind: mountlist.GrantableBind, Reason: mountlist.ReasonDocument}, w.home + "/.data": {}, "/etc": {}, w.work: {Kind: mountlist.WritableBind, Reason: mountlist.ReasonWorkspace},
		} {
			if got := mounts[path]; got.Kind != want.Kind || got.Reason != want.Reason {
				t.Errorf("%s: got %q because it is %q, want %q, %q", path, got.Kind, got.Reason, want.Kind, want.Reason)
			}
		}
	})

	t.Run("shows no documents in a home of tools only", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		makeTestDir(t, w.home+"/data")
		makeTestDir(t, w.home+"/.cache/ruff")
		s := workspaceSandbox()
		s.Home = sandbox.HomeTools
		mounts, err := w.planMounts(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := mounts[w.home+"/data"].Kind; got != "" {
			t.Errorf("a document is %q", got)
		}
		if mounts[w.work].Kind != mountlist.WritableBind || mounts[w.home+"/.cache/ruff"].Reason != mountlist.ReasonCache {
			t.Errorf("got %+v", mounts)
		}
		s.Readable = []string{w.home + "/data"}
		if mounts, err = w.planMounts(s); err != nil || mounts[w.home+"/data"].Kind != mountlist.GrantableBind {
			t.Errorf("named: got %+v, %v", mounts[w.home+"/data"], err)
		}
	})

	t.Run("writes a single file", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		writeText(t, w.home+"/notes", "")
		s := workspaceSandbox()
		s.Writable = []string{w.home + "/notes"}
		p, _, err := NewPlan(s, w.planInput())
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(p.Mounts, func(place mountlist.Mount) bool { return string(place.Path) == w.home+"/notes" }); i < 0 || p.Mounts[i].Kind != mountlist.WritableBind {
			t.Errorf("got %+v", p.Mounts)
		}
		for _, path := range p.Absent {
			if strings.HasPrefix(string(path), w.home+"/notes/") {
				t.Errorf("%s is protected, and cannot be made", path)
			}
		}
	})

	// A directory whose files programs outside run or read is writable only if it is named twice,
	// without links.
	t.Run("writes directories of programs only if accepted", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		top := filepath.Dir(w.home)
		for _, dir := range []string{top + "/commands/deep", top + "/env/lib", top + "/mods/node_modules/x", top + "/data", top + "/lib/pkg/Meta", w.home + "/.vim", w.home + "/bin", w.home + "/.cache/own", w.home + "/R/lib", w.home + "/.cache/pre-commit", top + "/p/.vscode", w.work + "/bin", w.work + "/.config"} {
			makeTestDir(t, dir)
		}
		for _, file := range []string{top + "/env/pyvenv.cfg", top + "/lib/pkg/Meta/package.rds", w.home + "/.profile"} {
			writeText(t, file, "")
		}
		makeTestDir(t, top+"/nvm")
		if err := errors.Join(os.Symlink(top+"/commands", top+"/linked"), os.Symlink(top+"/nvm", w.home+"/.nvm")); err != nil {
			t.Fatal(err)
		}
		o := w.planInput()
		o.Path = top + "/commands:relative:" + w.work + "/bin"
		for path, why := range map[string]string{
			top + "/commands": "PATH", top + "/commands/deep": "PATH", top + "/linked": "PATH", top + "/env": "packages", top + "/env/lib": "packages", top + "/mods/node_modules/x": "packages", top + "/lib/pkg": "packages",
			w.home + "/.vim": "run and read", w.home + "/bin": "run and read", w.home + "/.profile": "run and read", w.home + "/R/lib": "packages", top + "/nvm": "packages", w.home + "/.cache/pre-commit": "packages", w.home + "/.cache": "packages", top + "/p/.vscode": "run or trust",
			"/etc": "whole machine", "/usr/lib": "whole machine", "/var": "whole machine",
			top + "/data": "", w.home + "/.cache/own": "", w.work + "/bin": "", w.work + "/.config": "",
		} {
			for accept, want := range map[string]string{"": why, path + "/": why, paths.RealOrEmpty(path): ""} {
				if accept == path+"/" && paths.RealOrEmpty(path) == path {
					continue
				}
				s := workspaceSandbox()
				s.Writable = []string{path}
				if accept != "" {
					s.AcceptPaths = []string{accept}
				}
				_, _, err := NewPlan(s, o)
				if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--confirm-write "+paths.RealOrEmpty(path))) {
					t.Errorf("%s, with %q: got %v, want %q", path, accept, err, want)
				}
			}
		}
		never := workspaceSandbox()
		never.Writable, never.AcceptPaths = []string{w.home}, []string{w.home, "/"}
		if _, _, err := NewPlan(never, o); err == nil {
			t.Error("the home directory became writable")
		}
	})
}
