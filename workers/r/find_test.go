//go:build unix

package r

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// A findFixture has a home directory and the directories in which R may be installed.
type findFixture struct {
	t        *testing.T
	home     string
	bin      string // the only directory on PATH
	versions string // one R each
	prefix   string // one R
	env      []string
}

func newFindFixture(t *testing.T) *findFixture {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &findFixture{t: t, home: root, bin: root + "/bin", versions: root + "/opt/R", prefix: root + "/usr"}
	l.env = []string{"HOME=" + root, "PATH=" + l.bin + ":relative"}
	return l
}

func (f *findFixture) writeFile(path, text string) string {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := testexec.WriteExecutable(path, []byte(text)); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// writeRHome writes a fake R of a version whose home is dir, and returns its front end. Find must
// never run it.
func (f *findFixture) writeRHome(dir, version string) string {
	f.t.Helper()
	f.writeFile(dir+"/library/base/DESCRIPTION", "Package: base\nVersion: "+version+"\nPriority: base\n")
	return f.writeFile(dir+"/bin/R", "#!/bin/sh\n# Shell wrapper for R executable.\n\nR_HOME_DIR="+dir+"\necho discovery ran an R >&2\nexit 1\n")
}

// linkOnPath links an R under that name on PATH.
func (f *findFixture) linkOnPath(target, name string) string {
	f.t.Helper()
	path := filepath.Join(f.bin, name)
	if err := os.MkdirAll(f.bin, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *findFixture) runFind(named string) (Installation, []Candidate, error) {
	return findInstallation(FindOptions{Path: named, Dir: f.home, Env: f.env}, func(discovery.SearchContext) installDirs {
		return installDirs{versionDirs: []string{f.versions}, prefixes: []string{f.prefix}}
	})
}

func (f *findFixture) wantFound(named, path, version string) {
	f.t.Helper()
	found, seen, err := f.runFind(named)
	if err != nil {
		f.t.Fatalf("%q: %v", named, err)
	}
	if found.Path != path || found.Version != version || found.PathSource == "" {
		f.t.Errorf("%q: got %+v, want R %s at %s", named, found, version, path)
	}
	if last := seen[len(seen)-1]; !last.Chosen || last.Path != path || last.Version != version {
		f.t.Errorf("%q: the last candidate is %+v", named, last)
	}
}

func (f *findFixture) wantError(named string, words ...string) {
	f.t.Helper()
	found, _, err := f.runFind(named)
	if err == nil {
		f.t.Fatalf("%q: found %+v", named, found)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			f.t.Errorf("%q: %q is not in %q", named, word, err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Run("prefers an active environment to installed versions", func(t *testing.T) {
		l := newFindFixture(t)
		installed := l.writeRHome(l.versions+"/4.1.0", "4.1.0")
		l.wantFound("", installed, "4.1.0")
		newer := l.writeRHome(l.versions+"/4.10.2", "4.10.2")
		l.wantFound("", newer, "4.10.2")
		system := l.writeRHome(l.prefix, "4.2.2")
		l.wantFound("", system, "4.2.2")
		onPath := l.linkOnPath(l.writeRHome(l.home+"/built/lib/R", "4.3.1"), "R")
		l.wantFound("", onPath, "4.3.1")
		l.env = append(l.env, "CONDA_PREFIX="+l.home+"/conda")
		l.wantFound("", onPath, "4.3.1") // an environment without R
		conda := l.writeFile(l.home+"/conda/bin/R", "R_HOME_DIR="+l.home+"/conda/lib/R\n")
		l.writeFile(l.home+"/conda/lib/R/library/base/DESCRIPTION", "Version: 4.4.0\n")
		l.wantFound("", conda, "4.4.0")
		home := l.writeRHome(l.home+"/chosen", "4.0.5")
		l.env = append(l.env, "R_HOME="+l.home+"/chosen")
		l.wantFound("", home, "4.0.5")
		l.wantFound("4.3", onPath, "4.3.1")
	})

	t.Run("considers nothing but the named R", func(t *testing.T) {
		l := newFindFixture(t)
		onPath := l.linkOnPath(l.writeRHome(l.versions+"/4.2.2", "4.2.2"), "R")
		devel := l.linkOnPath(l.writeRHome(l.versions+"/devel", "4.6.0"), "R-devel")
		old := l.writeRHome(l.versions+"/4.3.1", "4.3.1")
		new := l.writeRHome(l.versions+"/4.3.10", "4.3.10")
		framework := l.writeRHome(l.home+"/R.framework/Versions/4.4-arm64/Resources", "4.4.1")
		built := l.writeFile(l.home+"/built/bin/R", "#!/bin/sh\nR_HOME_DIR="+l.versions+"/4.3.1\n")
		for named, want := range map[string][2]string{
			old:                   {old, "4.3.1"},
			"opt/R/4.3.1/bin/R":   {old, "4.3.1"},
			"~/opt/R/4.3.1":       {old, "4.3.1"},
			l.versions + "/4.2.2": {l.versions + "/4.2.2/bin/R", "4.2.2"},
			"./built":             {built, "4.3.1"}, // the program that it starts counts, not its own location
			l.home + "/R.framework/Versions/4.4-arm64": {framework, "4.4.1"},
			"R":       {onPath, "4.2.2"},
			"R-devel": {devel, "4.6.0"},
			"4.3":     {new, "4.3.10"},
			"4.3.1":   {old, "4.3.1"},
			"4":       {l.versions + "/devel/bin/R", "4.6.0"},
		} {
			l.wantFound(named, want[0], want[1])
		}
	})

	t.Run("an error says what to do", func(t *testing.T) {
		l := newFindFixture(t)
		l.wantError("", "R 4.0 or newer", "PATH: has no R", "by its path", howToInstall)
		l.wantError("4.3", "4.3", "no R is installed in", l.versions)
		old := l.writeRHome(l.versions+"/3.6.3", "3.6.3")
		l.wantError("", "R 3.6.3", "4.0 or newer")
		l.wantError(old, "R 3.6.3", "4.0 or newer")
		l.wantError("3.6", "R 3.6.3", "4.0 or newer")
		l.writeRHome(l.versions+"/4.2.2", "4.2.2")
		l.wantError("4.3", "is R 4.2.2")
		l.wantError("./nothing", l.home+"/nothing does not exist")
		l.wantError("nothing", "not a command")
		l.wantError(l.home, l.home+" has no bin/R")
		l.wantError(l.writeFile(l.home+"/tools/Rscript", ""), "only runs files")
		l.wantError(l.writeFile(l.home+"/lib/bin/exec/R", ""), "name "+l.home+"/lib/bin/R")
		plain := l.writeFile(l.home+"/plain/R", "")
		if err := os.Chmod(plain, 0o644); err != nil {
			t.Fatal(err)
		}
		l.wantError(plain, "not executable")
		broken := l.writeRHome(l.home+"/broken", "4.2.2")
		if err := os.RemoveAll(l.home + "/broken/library"); err != nil {
			t.Fatal(err)
		}
		l.wantError(broken, "broken R", l.home+"/broken/library/base/DESCRIPTION")
		l.env = append(l.env, "R_HOME="+l.home+"/gone")
		l.wantError("", "R_HOME="+l.home+"/gone", "does not exist", "unset")
		l.env = append(l.env, "R_HOME="+l.versions+"/3.6.3")
		l.wantError("", "R_HOME", "R 3.6.3", "4.0")
	})

	// A front end may not be a script, or its R may have files elsewhere. Then R itself reports its version.
	t.Run("accepts an unknown version", func(t *testing.T) {
		l := newFindFixture(t)
		wrapper := l.writeFile(l.home+"/nix/bin/R", "#!/bin/sh\nexec elsewhere/R \"$@\"\n")
		l.wantFound(wrapper, wrapper, "")
	})

	t.Run("skips an old R on PATH with a reason", func(t *testing.T) {
		l := newFindFixture(t)
		l.linkOnPath(l.writeRHome(l.versions+"/3.5.0", "3.5.0"), "R")
		good := l.writeRHome(l.prefix, "4.2.2")
		l.wantFound("", good, "4.2.2")
		if found, _, _ := l.runFind(""); !strings.Contains(found.PathSource, "not R on PATH: is R 3.5.0") {
			t.Errorf("got %q", found.PathSource)
		}
	})
}
