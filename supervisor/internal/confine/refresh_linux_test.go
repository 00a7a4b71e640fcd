package confine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/workers"
)

func (w world) planOf(t testing.TB, o Origin) *Plan {
	t.Helper()
	p, _, err := NewPlan(workspace(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// changes describes what has changed, each place by its kind and its path below the home directory.
func (w world) changes(p *Plan) (what []string) {
	g, notices := p.Changed()
	if g != nil {
		for _, place := range g.Places {
			what = append(what, string(place.Kind)+" "+strings.TrimPrefix(string(place.Path), w.home+"/"))
		}
		for _, path := range g.Gone {
			what = append(what, "gone "+strings.TrimPrefix(string(path), w.home+"/"))
		}
	}
	return append(what, notices...)
}

// A turn takes in what has changed in the home directory, once.
func TestChanged_NamesWhatIsAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"note", "data/file", ".cache/ruff/x", ".gitconfig", ".condarc"} {
		touch(t, w.home+"/"+name, "old")
	}
	if err := os.Symlink("data", w.home+"/link"); err != nil {
		t.Fatal(err)
	}
	o := w.origin()
	o.Settings = filepath.Join(w.state, "settings")
	p := w.planOf(t, o)
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
		{"a name that is not listed", func() { touch(t, w.home+"/.new", ""); touch(t, w.home+"/new", "") }, nil},
		{"text in a file", func() { touch(t, w.home+"/note", "new") }, nil},
		{"a file", func() { touch(t, w.home+"/.n", ""); move(".n", "note") }, []string{"readable note"}},
		{"a removal", func() { remove("note") }, []string{"gone note"}},
		{"a directory there", func() { mkdir(t, w.home+"/note") }, []string{"readable note"}},
		{"a directory", func() { move("data", "d"); mkdir(t, w.home+"/data") }, []string{"readable data"}},
		{"a cache", func() { move(".cache/ruff", ".cache/p"); mkdir(t, w.home+"/.cache/ruff") }, []string{"layer .cache/ruff"}},
		{"the directory around a cache", func() { move(".cache", ".c"); mkdir(t, w.home+"/.cache/ruff") }, []string{"layer .cache/ruff"}},
		{"a cache that comes", func() { mkdir(t, w.home+"/.cache/uv") }, []string{"layer .cache/uv"}},
		{"a toolchain that comes", func() { mkdir(t, w.home+"/.ghcup/bin") }, []string{"built .ghcup", "layer .ghcup/bin"}},
		{"a link", func() { remove("link"); _ = os.Symlink("note", w.home+"/link") }, []string{"linked link"}},
		{"settings", func() { touch(t, w.home+"/.condarc", "more: https://me:pw@host/") }, []string{"replaced .condarc"}},
		{"settings that say the same", func() { touch(t, w.home+"/.condarc", "more: https://you:pw@host/") }, nil},
		{"settings that go", func() { remove(".condarc") }, []string{"gone .condarc"}},
		{"the workspace", func() { move("work", "w"); mkdir(t, w.work) }, []string{w.work + " was replaced outside: this session keeps writing to the old one until you reset it"}},
	} {
		c.do()
		if got := w.changes(p); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
		if got := w.changes(p); len(got) > 0 {
			t.Errorf("after %s: got %q again", c.what, got)
		}
	}
	if text, err := os.ReadFile(w.home + "/.gitconfig"); err != nil || string(text) != "old" {
		t.Errorf("a source was changed: %q, %v", text, err)
	}
}

// A login may be written to a file of a tool while the session runs, however many tools there are.
func TestChanged_FollowsTheFilesOfManyTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 100 {
		mkdir(t, fmt.Sprintf("%s/.pyenv/plugins/%d", w.home, i))
	}
	file := w.home + "/.conda/envs/e/conda-meta/state"
	touch(t, file, "{}")
	o := w.origin()
	o.Settings = filepath.Join(w.state, "settings")
	p := w.planOf(t, o)
	touch(t, file, `{"env_vars":{"API_KEY":"secret"}}`)
	if got, want := w.changes(p), []string{"replaced .conda/envs/e/conda-meta/state"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for p.watch.isStale() { // a file is looked at again for a moment after it has changed
		w.changes(p)
	}
	touch(t, w.home+"/.conda/envs/later/pip.conf", "index-url = https://me:secret@host/") // next to the first
	if got, want := w.changes(p), []string{"replaced .conda/envs/later/pip.conf"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for want, all := range []int{100, maxToolFiles / 3} { // each has at least three
		for i := range all {
			mkdir(t, fmt.Sprintf("%s/.virtualenvs/%d", w.home, i))
		}
		_, notices, err := NewPlan(workspace(), o)
		if told := strings.Count(strings.Join(notices, "\n"), "files that may get a login"); err != nil || told != want {
			t.Errorf("%d environments: got the notices %q, %v", all, notices, err)
		}
	}
}

// A link that the session has made in the place of its settings is not followed.
func TestSettings_FollowNoLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	touch(t, w.home+"/.condarc", "one")
	victim := w.home + "/victim"
	touch(t, victim, "untouched")
	s := &settings{p: &planner{home: w.home}, dir: filepath.Join(w.state, "settings")}
	for _, text := range []string{"one", "two", "untouched"} {
		touch(t, w.home+"/.condarc", text)
		if err := s.write(); err != nil {
			t.Fatal(err)
		}
		file := s.files[".condarc"]
		if got, _ := os.ReadFile(file); string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, file); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "untouched" {
		t.Errorf("the file that a link leads to is %q", got)
	}
}

// A directory that a variable or a link names outside of the home directory holds logins there, too, when a
// program makes it later, or puts another in its place.
func TestChanged_ADirectoryElsewhereIsNeverTheMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := real(t.TempDir())
	o := w.origin()
	if err := os.RemoveAll(w.home + "/.cache"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(data+"/later/cache", w.home+"/.cache"); err != nil {
		t.Fatal(err)
	}
	mkdir(t, data+"/state")
	o.Directories = map[string]string{".config": data + "/conf", ".local/state": data + "/state"}
	p, _, err := NewPlan(workspace(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{data + "/conf", data + "/later/cache"} {
		if !slices.Contains(p.Closed, Path(path)) {
			t.Errorf("got %q, want opens in %s to be decided: it is not there yet", p.Closed, path)
		}
	}
	touch(t, data+"/conf/fontconfig/x", "")
	touch(t, data+"/conf/unlisted/token", "")
	if err := os.Rename(data+"/state", data+"/old"); err != nil {
		t.Fatal(err)
	}
	mkdir(t, data+"/state")
	g, _ := p.Changed()
	if g == nil {
		t.Fatal("nothing has changed, want places")
	}
	want := []Place{{Path: Path(data + "/conf"), Kind: hidden}, {Path: Path(data + "/state"), Kind: built}}
	if !slices.Equal(g.Places, want) || len(g.Gone) > 0 {
		t.Errorf("got %v, gone %q, want %v", g.Places, g.Gone, want)
	}
	if g, notices := p.Changed(); g != nil || len(notices) > 0 {
		t.Errorf("got %v, %q, want nothing a second time", g, notices)
	}
}

// A directory of another machine that does not answer holds up neither a start nor a turn.
func TestNewPlan_WaitsForNoFilesystem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	remote := w.home + "/remote"
	mkdir(t, remote)
	dead, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no filesystem that never answers can be made here")
	}
	var kinds []Kind
	mounted, done := false, make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: it has mounts of its own
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", dead.Fd(), os.Getuid(), os.Getgid())
		if unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil || unix.Mount("dead", remote, "fuse", 0, options) != nil {
			return
		}
		mounted = true
		p, _, err := NewPlan(workspace(), w.origin())
		if err != nil {
			t.Error(err)
			return
		}
		touch(t, w.home+"/new", "") // so that names are looked at
		if g, notices := p.Changed(); g != nil || len(notices) > 0 {
			t.Errorf("got %v, %q, want no change", g, notices)
		}
		for _, place := range p.Places {
			if inside(string(place.Path), remote) {
				kinds = append(kinds, place.Kind)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it waits for the filesystem")
	}
	dead.Close() // now all that waits has an error
	<-done
	if !mounted {
		t.Skip("no filesystem that never answers can be made here")
	}
	if !slices.Equal(kinds, []Kind{readable}) {
		t.Errorf("got %q, want the directory to be shown", kinds)
	}
}

func TestSeconds_FindsADirectoryUnderOtherNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, list string
		want       []second
	}{
		{"one filesystem", "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - proc proc rw\n", nil},
		{"a bind mount of it", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /users/me /mnt/a\\040b rw - ext4 a rw\n", []second{{"/mnt/a b", "/mnt/a b"}}},
		{"of one above it", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 / /mnt rw - ext4 a rw\n", []second{{"/mnt/users/me", "/mnt"}}},
		{"of one below it", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /users/me/data /data rw - ext4 a rw\n", nil},
		{"the top of btrfs", "1 0 0:30 /@ / rw - btrfs a rw\n2 1 0:30 /@home /users rw - btrfs a rw\n3 1 0:30 / /mnt/top rw - btrfs a rw\n", []second{{"/mnt/top/@home/me", "/mnt/top"}}},
		{"a disk with all of it", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /disk rw - ext4 b rw\n3 1 8:2 /users /users rw - ext4 b rw\n", []second{{"/disk/users/me", "/disk"}}},
		{"mounted over itself", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:1 /users/me /users/me rw - ext4 a rw\n", nil},
		{"another of that name", "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /users rw - ext4 b rw\n3 1 8:1 / /mnt rw - ext4 a rw\n", nil},
	} {
		if got := seconds(mounts(c.list), "/users/me"); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

// /etc/wsl.conf may say that drives are mounted elsewhere than below /mnt.
func TestWindowsHomes_AreFoundOnEveryDrive(t *testing.T) {
	t.Parallel()
	drive := real(t.TempDir())
	mkdir(t, drive+"/Users/me")
	for _, c := range []struct {
		what, mount string
		want        bool
	}{
		{"WSL 2", drive + ` rw,noatime shared:1 - 9p C:\134 rw,aname=drvfs;path=C:\134`, true},
		{"WSL 1", drive + ` rw - drvfs D: rw`, true},
		{"a directory of another machine", drive + ` rw - nfs h:/srv rw`, false},
		{"without a source", drive + ` rw - tmpfs`, false},
	} {
		got := windowsHomes(mounts("2 1 0:50 / " + c.mount + "\n"))
		if slices.Contains(got, drive+"/Users/me") != c.want {
			t.Errorf("%s: got %q", c.what, got)
		}
	}
}

func TestParts_FindsWhatIsInADirectoryUnderOtherNames(t *testing.T) {
	t.Parallel()
	const root = "1 0 8:1 / / rw - ext4 a rw\n"
	for _, c := range []struct {
		what, list string
		want       map[string]string
	}{
		{"one filesystem", root, nil},
		{"one in it", root + "2 1 8:1 /users/me/.ssh/old /mnt/k rw - ext4 a rw\n", map[string]string{"/mnt/k": "/users/me/.ssh/old"}},
		{"one of a disk that is mounted there", root + "2 1 8:2 /keys /users/me/.ssh rw - ext4 b rw\n3 1 8:2 /keys/id /mnt/id rw - ext4 b rw\n", map[string]string{"/mnt/id": "/users/me/.ssh/id"}},
		{"one mounted in it again", root + "2 1 8:1 /users/me/.ssh/old /users/me/.ssh/new rw - ext4 a rw\n", nil},
		{"all of it", root + "2 1 8:1 /users/me/.ssh /mnt/k rw - ext4 a rw\n", nil},
		{"another disk", root + "2 1 8:2 /users/me/.ssh/old /mnt/k rw - ext4 b rw\n", nil},
	} {
		if got := parts(mounts(c.list), "/users/me/.ssh"); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

// Each directory that a session writes has its own share of the repositories that a turn looks at.
func TestNewPlan_LooksAtRepositoriesOfEachDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	more := filepath.Dir(w.home) + "/more"
	for i := range viewsOfDir + 4 {
		touch(t, fmt.Sprintf("%s/r%d/.git/HEAD", w.work, i), "ref: refs/heads/main\n")
		for _, name := range []string{"objects", "refs"} {
			mkdir(t, fmt.Sprintf("%s/r%d/.git/%s", w.work, i, name))
		}
	}
	for _, name := range []string{"objects", "refs"} {
		mkdir(t, more+"/.git/"+name)
	}
	touch(t, more+"/.git/HEAD", "ref: refs/heads/main\n")
	for _, dir := range []string{w.work + "/r0", more} {
		touch(t, dir+"/.git/config", "[core]\n\trepositoryformatversion = 0\n")
	}
	s := workspace()
	s.Writable = []string{more}
	p, _, err := NewPlan(s, w.origin())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.watch.views) == 0 {
		t.Skip("git is not installed")
	}
	if !slices.ContainsFunc(p.watch.views, func(v *gitView) bool { return v.work == more }) {
		t.Errorf("%s is not among the %d that are looked at", more, len(p.watch.views))
	}
}

// A session sees what variables and files outside of its reach name.
func TestNewPlan_ShowsWhatInterpretersName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{".python/a", ".rlibs/site", ".rlibs/user/4.5", ".rlibs/profile", ".tools", ".config/x"} {
		mkdir(t, w.home+"/"+name)
	}
	touch(t, w.home+"/.Renviron", "R_LIBS_USER='~/.rlibs/user/%v'\nR_HISTFILE=~/.hidden\n")
	touch(t, w.home+"/.Rprofile", ".libPaths(c(\"~/.rlibs/profile\", .libPaths()))\n")
	o := w.origin()
	o.Env = []string{"PYTHONPATH=" + w.home + "/.python/a:relative:" + w.home + "/.config:" + w.home, "R_LIBS_SITE=" + w.home + "/.rlibs/site"}
	p := w.planOf(t, o)
	var got []string
	for _, place := range p.Places {
		if rest, ok := strings.CutPrefix(string(place.Path), w.home+"/."); ok && place.Kind == readable {
			got = append(got, rest)
		}
	}
	if want := []string{"python/a", "rlibs/profile", "rlibs/site", "rlibs/user/4.5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Directories of programs and caches that variables put into the workspace lead a session nowhere else.
func TestNewPlan_LinksInTheWorkspaceShowNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mkdir(t, w.home+"/.secrets/bin")
	o := w.origin()
	o.Path = w.work + "/.venv/bin"
	o.Directories = map[string]string{".cache": w.work + "/.cache", ".config": w.work + "/.config"}
	for link, to := range map[string]string{".venv": ".secrets", ".cache": ".secrets", ".config": ".secrets"} {
		if err := os.Symlink("../"+to, w.work+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	s := workspace()
	s.Layered = []string{w.work + "/.venv"}
	p, _, err := NewPlan(s, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range p.Places {
		if inside(string(place.Path), w.home+"/.secrets") {
			t.Errorf("%s is %s", place.Path, place.Kind)
		}
	}
}

// BenchmarkChanged is what the beginning of a turn costs in the supervisor, with 300 names in the home
// directory; the first row is one look at a file, to compare with.
func BenchmarkChanged(b *testing.B) {
	for _, c := range []struct {
		what string
		do   func(w world, i int)
	}{
		{"one look", nil},
		{"nothing", func(world, int) {}},
		{"another name", func(w world, i int) {
			_ = os.WriteFile(w.home+"/.claude.json.tmp", nil, 0o600)
			_ = os.Rename(w.home+"/.claude.json.tmp", w.home+"/.claude.json")
		}},
		{"a name that is shown", func(w world, i int) {
			_ = os.WriteFile(w.home+"/.n", nil, 0o600)
			_ = os.Rename(w.home+"/.n", w.home+"/n000")
		}},
	} {
		b.Run(c.what, func(b *testing.B) {
			base := real(b.TempDir())
			w := world{home: base + "/home", work: base + "/home/work", state: base + "/sessions/s", sessions: base + "/sessions", tmp: base + "/tmp"}
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
			for _, dir := range []string{base, w.home} { // else it is looked at again for a while
				if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
					b.Fatal(err)
				}
			}
			p, _, err := NewPlan(&workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone}, w.origin())
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if c.do == nil {
					_, _ = os.Stat(w.home)
					continue
				}
				c.do(w, i)
				p.Changed()
			}
		})
	}
}

// A turn takes in what has changed of the files and directories that a user has shown the session, at its
// start or later, wherever they are.
func TestChanged_NamesWhatAUserHasShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{".first/x", ".notes", ".data/x", ".ipython/profile_default/startup/x", ".ipython/y", ".jupyter/a", ".gitconfig"} {
		touch(t, w.home+"/"+name, "old")
	}
	touch(t, w.tmp+"/table", "old")
	touch(t, w.tmp+"/first", "old")
	s := workspace()
	s.Readable = []string{w.home + "/.first", w.tmp + "/first"}
	o := w.origin()
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
		p.Granted(g)
	}
	if got := w.changes(p); len(got) > 0 {
		t.Errorf("before anything has changed: got %q", got)
	}
	replace := func(path string) func() {
		return func() {
			t.Helper()
			next := path + ".next"
			if isDir(path) {
				mkdir(t, next)
			} else {
				touch(t, next, "new")
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
		{"a name of the lists", func() { mkdir(t, w.home+"/.cache/uv") }, []string{"layer .cache/uv"}},
		{"a directory that was named", replace(w.home + "/.first"), []string{"readable .first"}},
		{"a file that was named elsewhere", replace(w.tmp + "/first"), []string{"readable " + w.tmp + "/first"}},
		{"a file", replace(w.home + "/.notes"), []string{"readable .notes"}},
		{"a directory", replace(w.home + "/.data"), []string{"readable .data"}},
		{"a file elsewhere", replace(w.tmp + "/table"), []string{"readable " + w.tmp + "/table"}},
		{"a layer in a directory", replace(w.home + "/.ipython/profile_default/startup"), []string{"layer .ipython/profile_default/startup"}},
		{"a directory that was built for the session", replace(w.home + "/.jupyter"), []string{"readable .jupyter"}},
		{"settings that a user has shown as they are", replace(w.home + "/.gitconfig"), []string{"readable .gitconfig"}},
		{"a removal", func() { _ = os.Remove(w.home + "/.notes") }, []string{"gone .notes"}},
		{"what comes again", func() { touch(t, w.home+"/.notes", "") }, []string{"readable .notes"}},
	} {
		c.do()
		if got := w.changes(p); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
		if got := w.changes(p); len(got) > 0 {
			t.Errorf("after %s: got %q again", c.what, got)
		}
	}
	_, shown := p.Home()
	for _, name := range []string{".first", ".notes", ".data", ".ipython", ".jupyter", ".cache/uv"} {
		if !slices.ContainsFunc(shown, func(place Place) bool { return string(place.Path) == w.home+"/"+name }) {
			t.Errorf("%s is not listed", name)
		}
	}
}

// A session may set the times of a file that it may not write.
func TestRecords_AnEditIsSeenWhoseTimeWasSetBack(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config")
	touch(t, file, "one")
	was := stampOf(file)
	r := records{file: record{stamp: was}}
	if r.changed(file) {
		t.Fatal("it has not changed")
	}
	for stampOf(file).changed == was.changed { // the clock of some filesystems is coarse
		touch(t, file, "two")
		if err := os.Chtimes(file, time.Time{}, time.Unix(0, was.modified)); err != nil {
			t.Fatal(err)
		}
	}
	if !r.changed(file) {
		t.Error("the edit is not seen")
	}
}
