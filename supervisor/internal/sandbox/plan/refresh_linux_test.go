package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

func (f homeFixture) newPlan(t testing.TB, o Origin) *Plan {
	t.Helper()
	p, _, err := NewPlan(workspaceSandbox(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// describeChanges describes what has changed: each mount by its kind and its path below the home
// directory.
func (f homeFixture) describeChanges(p *Plan) (changes []string) {
	g, notices := p.TakeChanges()
	if g != nil {
		for _, place := range g.Mounts {
			changes = append(changes, string(place.Kind)+" "+strings.TrimPrefix(string(place.Path), f.home+"/"))
		}
		for _, path := range g.Removed {
			changes = append(changes, "removed "+strings.TrimPrefix(string(path), f.home+"/"))
		}
	}
	return append(changes, notices...)
}

func TestTakeChanges(t *testing.T) {
	t.Parallel()

	// A turn applies what has changed in the home directory, once.
	t.Run("names what was replaced, once", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for _, name := range []string{"note", "data/file", ".cache/ruff/x", ".gitconfig", ".condarc"} {
			writeText(t, w.home+"/"+name, "old")
		}
		if err := os.Symlink("data", w.home+"/link"); err != nil {
			t.Fatal(err)
		}
		o := w.planInput()
		o.Settings = filepath.Join(w.state, "settings")
		p := w.newPlan(t, o)
		move := func(from, to string) {
			t.Helper()
			if err := os.Rename(w.home+"/"+from, w.home+"/"+to); err != nil {
				t.Fatal(err)
			}
		}
		remove := func(name string) {
			t.Helper()
			if err := os.RemoveAll(w.home + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			what string
			do   func()
			want []string
		}{
			{"nothing", func() {}, nil},
			{"an unlisted name", func() { writeText(t, w.home+"/.new", ""); writeText(t, w.home+"/new", "") }, nil},
			{"the text of a file", func() { writeText(t, w.home+"/note", "new") }, nil},
			{"a file", func() { writeText(t, w.home+"/.n", ""); move(".n", "note") }, []string{"readable note"}},
			{"a removal", func() { remove("note") }, []string{"removed note"}},
			{"a directory in its place", func() { makeTestDir(t, w.home+"/note") }, []string{"readable note"}},
			{"a directory", func() { move("data", "d"); makeTestDir(t, w.home+"/data") }, []string{"readable data"}},
			{"a cache", func() { move(".cache/ruff", ".cache/p"); makeTestDir(t, w.home+"/.cache/ruff") }, []string{"layer .cache/ruff"}},
			{"the directory around a cache", func() { move(".cache", ".c"); makeTestDir(t, w.home+"/.cache/ruff") }, []string{"layer .cache/ruff"}},
			{"a new cache", func() { makeTestDir(t, w.home+"/.cache/uv") }, []string{"layer .cache/uv"}},
			{"a new toolchain", func() { makeTestDir(t, w.home+"/.ghcup/bin") }, []string{"built .ghcup", "layer .ghcup/bin"}},
			{"a link", func() { remove("link"); _ = os.Symlink("note", w.home+"/link") }, []string{"linked link"}},
			{"settings", func() { writeText(t, w.home+"/.condarc", "more: https://me:pw@host/") }, []string{"replaced .condarc"}},
			{"settings that are the same when redacted", func() { writeText(t, w.home+"/.condarc", "more: https://you:pw@host/") }, nil},
			{"removed settings", func() { remove(".condarc") }, []string{"removed .condarc"}},
			{"the workspace", func() { move("work", "w"); makeTestDir(t, w.work) }, []string{w.work + " was replaced by a program outside the sandbox; until a reset, this session keeps writing to the old one"}},
		} {
			c.do()
			if got := w.describeChanges(p); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.what, got, c.want)
			}
			if got := w.describeChanges(p); len(got) > 0 {
				t.Errorf("after %s: got %q again", c.what, got)
			}
		}
		if text, err := os.ReadFile(w.home + "/.gitconfig"); err != nil || string(text) != "old" {
			t.Errorf("a source was changed: %q, %v", text, err)
		}
	})

	// A login may be written to a file of a tool while the session runs, even if there are many
	// tools.
	t.Run("follows the files of many tools", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for i := range 100 {
			makeTestDir(t, fmt.Sprintf("%s/.pyenv/plugins/%d", w.home, i))
		}
		file := w.home + "/.conda/envs/e/conda-meta/state"
		writeText(t, file, "{}")
		o := w.planInput()
		o.Settings = filepath.Join(w.state, "settings")
		p := w.newPlan(t, o)
		writeText(t, file, `{"env_vars":{"API_KEY":"secret"}}`)
		if got, want := w.describeChanges(p), []string{"replaced .conda/envs/e/conda-meta/state"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for p.watch.isStale() { // a file is checked again for a moment after a change
			w.describeChanges(p)
		}
		writeText(t, w.home+"/.conda/envs/later/pip.conf", "index-url = https://me:secret@host/") // next to the first
		if got, want := w.describeChanges(p), []string{"replaced .conda/envs/later/pip.conf"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for want, all := range []int{100, homedir.MaxToolFiles / 3} { // each has at least three
			for i := range all {
				makeTestDir(t, fmt.Sprintf("%s/.virtualenvs/%d", w.home, i))
			}
			_, notices, err := NewPlan(workspaceSandbox(), o)
			if count := strings.Count(strings.Join(notices, "\n"), "files that may get a login"); err != nil || count != want {
				t.Errorf("%d environments: got the notices %q, %v", all, notices, err)
			}
		}
	})

	// A variable or a link may name a directory outside the home directory. If a program makes or
	// replaces it later, it contains logins as well.
	t.Run("never shows the machine's directory elsewhere", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		data := paths.RealOrEmpty(t.TempDir())
		o := w.planInput()
		if err := os.RemoveAll(w.home + "/.cache"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(data+"/later/cache", w.home+"/.cache"); err != nil {
			t.Fatal(err)
		}
		makeTestDir(t, data+"/state")
		o.Directories = map[string]string{".config": data + "/conf", ".local/state": data + "/state"}
		p, _, err := NewPlan(workspaceSandbox(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{data + "/conf", data + "/later/cache"} {
			if !slices.Contains(p.Unreadable, mountlist.Path(path)) {
				t.Errorf("got %q, want opens in %s to be checked, because it does not exist yet", p.Unreadable, path)
			}
		}
		writeText(t, data+"/conf/fontconfig/x", "")
		writeText(t, data+"/conf/unlisted/token", "")
		if err := os.Rename(data+"/state", data+"/old"); err != nil {
			t.Fatal(err)
		}
		makeTestDir(t, data+"/state")
		g, _ := p.TakeChanges()
		if g == nil {
			t.Fatal("got no changes, want mounts")
		}
		want := []mountlist.Mount{{Path: mountlist.Path(data + "/conf"), Kind: mountlist.MaskedPath}, {Path: mountlist.Path(data + "/state"), Kind: mountlist.WritableParent}}
		if !slices.Equal(g.Mounts, want) || len(g.Removed) > 0 {
			t.Errorf("got %v, removed %q, want %v", g.Mounts, g.Removed, want)
		}
		if g, notices := p.TakeChanges(); g != nil || len(notices) > 0 {
			t.Errorf("got %v, %q, want nothing a second time", g, notices)
		}
	})

	// A turn applies changes of the files and directories that a user has shown to the session, at
	// its start or later, wherever they are.
	t.Run("reports changes to paths that the user has shown", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for _, name := range []string{".first/x", ".notes", ".data/x", ".ipython/profile_default/startup/x", ".ipython/y", ".jupyter/a", ".gitconfig"} {
			writeText(t, w.home+"/"+name, "old")
		}
		writeText(t, w.tmp+"/table", "old")
		writeText(t, w.tmp+"/first", "old")
		s := workspaceSandbox()
		s.Readable = []string{w.home + "/.first", w.tmp + "/first"}
		o := w.planInput()
		o.Settings = filepath.Join(w.state, "settings")
		p, _, err := NewPlan(s, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{w.home + "/.notes", w.home + "/.data", w.home + "/.ipython", w.home + "/.jupyter", w.home + "/.gitconfig", w.tmp + "/table"} {
			g, err := p.NewGrant(path, true, "")
			if err != nil || g == nil {
				t.Fatalf("%s: got %+v, %v", path, g, err)
			}
			p.RecordGrant(g)
		}
		if got := w.describeChanges(p); len(got) > 0 {
			t.Errorf("before anything has changed: got %q", got)
		}
		replace := func(path string) func() {
			return func() {
				t.Helper()
				next := path + ".next"
				if linkpath.IsDir(path) {
					makeTestDir(t, next)
				} else {
					writeText(t, next, "new")
				}
				if err := os.Rename(path, path+".old"); err != nil {
					t.Error(err)
				}
				if err := os.Rename(next, path); err != nil {
					t.Error(err)
				}
			}
		}
		for _, c := range []struct {
			what string
			do   func()
			want []string
		}{
			{"a listed name", func() { makeTestDir(t, w.home+"/.cache/uv") }, []string{"layer .cache/uv"}},
			{"a directory named at the start", replace(w.home + "/.first"), []string{"readable .first"}},
			{"a file elsewhere named at the start", replace(w.tmp + "/first"), []string{"readable " + w.tmp + "/first"}},
			{"a file", replace(w.home + "/.notes"), []string{"readable .notes"}},
			{"a directory", replace(w.home + "/.data"), []string{"readable .data"}},
			{"a file elsewhere", replace(w.tmp + "/table"), []string{"readable " + w.tmp + "/table"}},
			{"an overlay in a directory", replace(w.home + "/.ipython/profile_default/startup"), []string{"layer .ipython/profile_default/startup"}},
			{"a directory that was built for the session", replace(w.home + "/.jupyter"), []string{"readable .jupyter"}},
			{"settings that a user has shown unredacted", replace(w.home + "/.gitconfig"), []string{"readable .gitconfig"}},
			{"a removal", func() { _ = os.Remove(w.home + "/.notes") }, []string{"removed .notes"}},
			{"a file made again", func() { writeText(t, w.home+"/.notes", "") }, []string{"readable .notes"}},
		} {
			c.do()
			if got := w.describeChanges(p); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.what, got, c.want)
			}
			if got := w.describeChanges(p); len(got) > 0 {
				t.Errorf("after %s: got %q again", c.what, got)
			}
		}
		_, shown := p.Home()
		for _, name := range []string{".first", ".notes", ".data", ".ipython", ".jupyter", ".cache/uv"} {
			if !slices.ContainsFunc(shown, func(place mountlist.Mount) bool { return string(place.Path) == w.home+"/"+name }) {
				t.Errorf("%s is not listed", name)
			}
		}
	})
}

func TestNewPlanLookups(t *testing.T) {
	t.Parallel()

	// A network directory that does not answer delays neither a start nor a turn.
	t.Run("does not wait for a filesystem", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		remote := w.home + "/remote"
		makeTestDir(t, remote)
		dead, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		if err != nil {
			t.Skip("cannot mount a filesystem that never answers")
		}
		var kinds []mountlist.MountKind
		mounted, done := false, make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread has its own mounts
			options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", dead.Fd(), os.Getuid(), os.Getgid())
			if unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil || unix.Mount("dead", remote, "fuse", 0, options) != nil {
				return
			}
			mounted = true
			p, _, err := NewPlan(workspaceSandbox(), w.planInput())
			if err != nil {
				t.Error(err)
				return
			}
			writeText(t, w.home+"/new", "") // so that names are checked
			if g, notices := p.TakeChanges(); g != nil || len(notices) > 0 {
				t.Errorf("got %v, %q, want no change", g, notices)
			}
			for _, place := range p.Mounts {
				if paths.Contains(remote, string(place.Path)) {
					kinds = append(kinds, place.Kind)
				}
			}
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the plan waits for the filesystem")
		}
		dead.Close() // fails all waiting calls
		<-done
		if !mounted {
			t.Skip("cannot mount a filesystem that never answers")
		}
		if !slices.Equal(kinds, []mountlist.MountKind{mountlist.GrantableBind}) {
			t.Errorf("got %q, want the directory to be shown", kinds)
		}
	})

	// Each directory that a session writes has its own share of the repositories that a turn
	// checks.
	t.Run("looks at repositories of each directory", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		more := filepath.Dir(w.home) + "/more"
		for i := range maxViewsPerDir + 4 {
			writeText(t, fmt.Sprintf("%s/r%d/.git/HEAD", w.work, i), "ref: refs/heads/main\n")
			for _, name := range []string{"objects", "refs"} {
				makeTestDir(t, fmt.Sprintf("%s/r%d/.git/%s", w.work, i, name))
			}
		}
		for _, name := range []string{"objects", "refs"} {
			makeTestDir(t, more+"/.git/"+name)
		}
		writeText(t, more+"/.git/HEAD", "ref: refs/heads/main\n")
		for _, dir := range []string{w.work + "/r0", more} {
			writeText(t, dir+"/.git/config", "[core]\n\trepositoryformatversion = 0\n")
		}
		s := workspaceSandbox()
		s.Writable = []string{more}
		p, _, err := NewPlan(s, w.planInput())
		if err != nil {
			t.Fatal(err)
		}
		if len(p.watch.gitViews) == 0 {
			t.Skip("git is not installed")
		}
		if !slices.ContainsFunc(p.watch.gitViews, func(v *gitView) bool { return v.work == more }) {
			t.Errorf("%s is not among the %d checked repositories", more, len(p.watch.gitViews))
		}
	})

	// A session sees the directories that variables and files outside of its reach name.
	t.Run("shows what interpreters name", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		for _, name := range []string{".python/a", ".rlibs/site", ".rlibs/user/4.5", ".rlibs/profile", ".tools", ".config/x"} {
			makeTestDir(t, w.home+"/"+name)
		}
		writeText(t, w.home+"/.Renviron", "R_LIBS_USER='~/.rlibs/user/%v'\nR_HISTFILE=~/.hidden\n")
		writeText(t, w.home+"/.Rprofile", ".libPaths(c(\"~/.rlibs/profile\", .libPaths()))\n")
		o := w.planInput()
		o.Env = []string{"PYTHONPATH=" + w.home + "/.python/a:relative:" + w.home + "/.config:" + w.home, "R_LIBS_SITE=" + w.home + "/.rlibs/site"}
		p := w.newPlan(t, o)
		var got []string
		for _, place := range p.Mounts {
			if rest, ok := strings.CutPrefix(string(place.Path), w.home+"/."); ok && place.Kind == mountlist.GrantableBind {
				got = append(got, rest)
			}
		}
		if want := []string{"python/a", "rlibs/profile", "rlibs/site", "rlibs/user/4.5"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})

	// Directories of programs and caches that variables place in the workspace lead a session
	// nowhere else.
	t.Run("shows nothing through links in the workspace", func(t *testing.T) {
		t.Parallel()
		w := newHomeFixture(t)
		makeTestDir(t, w.home+"/.secrets/bin")
		o := w.planInput()
		o.Path = w.work + "/.venv/bin"
		o.Directories = map[string]string{".cache": w.work + "/.cache", ".config": w.work + "/.config"}
		for link, to := range map[string]string{".venv": ".secrets", ".cache": ".secrets", ".config": ".secrets"} {
			if err := os.Symlink("../"+to, w.work+"/"+link); err != nil {
				t.Fatal(err)
			}
		}
		s := workspaceSandbox()
		s.Layered = []string{w.work + "/.venv"}
		p, _, err := NewPlan(s, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range p.Mounts {
			if paths.Contains(w.home+"/.secrets", string(place.Path)) {
				t.Errorf("%s is %s", place.Path, place.Kind)
			}
		}
	})
}

// BenchmarkChanged measures the cost of a turn's start in the supervisor, with 300 names in the
// home directory. The first row is one stat of a file, for comparison.
func BenchmarkChanged(b *testing.B) {
	for _, c := range []struct {
		what string
		do   func(w homeFixture, i int)
	}{
		{"one stat", nil},
		{"nothing", func(homeFixture, int) {}},
		{"another name", func(w homeFixture, i int) {
			_ = os.WriteFile(w.home+"/.claude.json.tmp", nil, 0o600)
			_ = os.Rename(w.home+"/.claude.json.tmp", w.home+"/.claude.json")
		}},
		{"a shown name", func(w homeFixture, i int) {
			_ = os.WriteFile(w.home+"/.n", nil, 0o600)
			_ = os.Rename(w.home+"/.n", w.home+"/n000")
		}},
	} {
		b.Run(c.what, func(b *testing.B) {
			base := paths.RealOrEmpty(b.TempDir())
			w := homeFixture{home: base + "/home", work: base + "/home/work", state: base + "/sessions/s", sessions: base + "/sessions", tmp: base + "/tmp"}
			for _, dir := range []string{w.work, w.state, w.tmp} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					b.Fatal(err)
				}
			}
			for i := range 300 {
				if err := os.WriteFile(fmt.Sprintf("%s/n%03d", w.home, i), nil, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			for _, dir := range []string{base, w.home} { // otherwise it is checked again for a while
				if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
					b.Fatal(err)
				}
			}
			p, _, err := NewPlan(&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, w.planInput())
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if c.do == nil {
					_, _ = os.Stat(w.home)
					continue
				}
				c.do(w, i)
				p.TakeChanges()
			}
		})
	}
}
