//go:build unix

package python_test

import (
	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	homeEnvVar        = "HOME"
	exeSuffix         = ""
	environmentPython = "bin/python"
	pyenvDir          = ".pyenv"

	firstCommand, secondCommand = "python3", "python"
)

// writePyenv creates a pyenv whose shims are first on PATH, before the system's Pythons.
func (f *findFixture) writePyenv(versions ...string) (root, system string) {
	root = filepath.Join(f.home, ".pyenv")
	shims := filepath.Join(root, "shims")
	f.writePython(filepath.Join(shims, "python3"))
	f.writePython(filepath.Join(shims, "python"))
	for _, v := range versions {
		path := f.writePython(filepath.Join(root, "versions", v, "bin", "python"))
		f.writeLink(filepath.Base(path), filepath.Join(filepath.Dir(path), "python3"))
	}
	f.setEnv("PATH=" + shims + ":" + f.bin)
	return root, f.writePython(filepath.Join(f.bin, "python3"))
}

func TestFind_PyenvShim(t *testing.T) {
	t.Run("resolves a shim to the global version", func(t *testing.T) {
		p := newFindFixture(t)
		root, _ := p.writePyenv("3.11.7", "3.12.1")
		p.writeFile(filepath.Join(root, "version"), "3.11.7\n", 0o644)
		got := p.wantFound("", filepath.Join(root, "versions/3.11.7/bin/python3"))
		wantMentions(t, got.PathSource, "shim", "3.11.7")
		if got.Version != "3.11.7" {
			t.Errorf("got version %q, want 3.11.7", got.Version)
		}
		p.wantFound(filepath.Join(root, "shims/python3"), filepath.Join(root, "versions/3.11.7/bin/python3"))
	})

	t.Run("searches the rest of PATH for the system version", func(t *testing.T) {
		for _, version := range []string{"", "system\n"} {
			p := newFindFixture(t)
			root, system := p.writePyenv("3.11.7")
			if version != "" {
				p.writeFile(filepath.Join(root, "version"), version, 0o644)
			}
			p.wantFound("", system)
		}
	})

	t.Run("reports a shim whose version is not installed", func(t *testing.T) {
		p := newFindFixture(t)
		_, system := p.writePyenv("3.11.7")
		p.setEnv("PYENV_VERSION=3.9.9")
		wantMentions(t, p.wantFound("", system).Mismatch, "3.9.9", "PYENV_VERSION")
	})

	t.Run("keeps the shim for a name that only pyenv knows", func(t *testing.T) {
		p := newFindFixture(t)
		root, _ := p.writePyenv("3.11.7")
		p.setEnv("PYENV_VERSION=from-a-plugin")
		if got := p.wantFound("", filepath.Join(root, "shims/python3")); got.Mismatch != "" {
			t.Errorf("got %q missed, although the shim may lead to it", got.Mismatch)
		}
	})

	t.Run("finds a versioned command that the global version lacks", func(t *testing.T) {
		p := newFindFixture(t)
		root, _ := p.writePyenv("3.11.7", "3.12.1")
		p.writePython(filepath.Join(root, "shims", "python3.12"))
		p.writeFile(filepath.Join(root, "version"), "3.11.7", 0o644)
		p.wantFound("python3.12", filepath.Join(root, "versions/3.12.1/bin/python"))
	})
}

func TestFind_Unusable(t *testing.T) {
	t.Run("reports a request of the project that was not met", func(t *testing.T) {
		for name, ask := range map[string]func(p *findFixture){
			"not active VIRTUAL_ENV":            func(p *findFixture) { p.setEnv("VIRTUAL_ENV=/gone") },
			"not .venv in":                      func(p *findFixture) { p.writeFile(filepath.Join(p.project, ".venv", "README"), "", 0o644) },
			"(3.99.1): neither in":              func(p *findFixture) { p.writeFile(filepath.Join(p.project, ".python-version"), "3.99.1\n", 0o644) },
			"pyenv has no version of that name": func(p *findFixture) { p.writeFile(filepath.Join(p.project, ".python-version"), "mine\n", 0o644) },
			"is Python 2.7":                     func(p *findFixture) { p.writePython(filepath.Join(p.bin, "python2.7")); p.setEnv("PYENV_VERSION=2.7") },
			"; and 9997 more": func(p *findFixture) {
				p.writeFile(filepath.Join(p.project, ".python-version"), strings.Repeat("3.99\n", 10000), 0o644)
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := newFindFixture(t)
				ask(p)
				got := p.wantFound("", p.writePython(filepath.Join(p.bin, "python3")))
				wantMentions(t, got.Mismatch, name)
			})
		}
		for name, ask := range map[string]func(p *findFixture){
			"nothing":           func(*findFixture) {},
			"the system's":      func(p *findFixture) { p.setEnv("PYENV_VERSION=system") },
			"another directory": func(p *findFixture) { p.writeFile(filepath.Join(p.project, "venv", "README"), "", 0o644) },
		} {
			t.Run(name, func(t *testing.T) {
				p := newFindFixture(t)
				ask(p)
				if got := p.wantFound("", p.writePython(filepath.Join(p.bin, "python3"))); got.Mismatch != "" {
					t.Errorf("got %q", got.Mismatch)
				}
			})
		}
	})

	t.Run("takes the second name if the first one is broken", func(t *testing.T) {
		p := newFindFixture(t)
		bin := filepath.Join(p.project, ".venv", "bin")
		p.writeLink(filepath.Join(p.home, "gone"), filepath.Join(bin, "python"))
		if got := p.wantFound("", p.writePython(filepath.Join(bin, "python3"))); got.Mismatch != "" {
			t.Errorf("got %q missed", got.Mismatch)
		}
	})

	t.Run("reports a venv whose Python was removed", func(t *testing.T) {
		p := newFindFixture(t)
		gone := filepath.Join(p.home, "gone", "python3.9")
		bin := filepath.Join(p.project, ".venv", "bin")
		p.writeLink(gone, filepath.Join(bin, "python3"))
		p.writeLink("python3", filepath.Join(bin, "python"))
		system := p.writePython(filepath.Join(p.bin, "python3"))
		wantMentions(t, p.wantFound("", system).Mismatch, "not .venv in "+p.project, "broken link to "+gone)
	})

	t.Run("reports a file that is not executable", func(t *testing.T) {
		p := newFindFixture(t)
		p.writeFile(filepath.Join(p.project, ".venv", "bin", "python"), "", 0o644)
		system := p.writePython(filepath.Join(p.bin, "python3"))
		wantMentions(t, p.wantFound("", system).Mismatch, "is not executable")
	})

	t.Run("skips a venv that is a file", func(t *testing.T) {
		p := newFindFixture(t)
		p.writeFile(filepath.Join(p.project, ".venv"), "/somewhere/else\n", 0o644)
		system := p.writePython(filepath.Join(p.bin, "python3"))
		wantMentions(t, p.wantFound("", system).Mismatch, "not a directory")
	})

	t.Run("skips a version that is too old with a reason", func(t *testing.T) {
		for name, prepare := range map[string]func(p *findFixture){
			"is Python 2.7": func(p *findFixture) {
				p.writeLink(p.writePython(filepath.Join(p.home, "opt", "python2.7")), filepath.Join(p.bin, "python3"))
			},
			"is Python 3.7, older than 3.8": func(p *findFixture) {
				p.writeLink(p.writePython(filepath.Join(p.home, "opt", "python3.7")), filepath.Join(p.bin, "python3"))
			},
			"is Python 3.6.15, older than 3.8": func(p *findFixture) {
				p.writePython(filepath.Join(p.project, ".venv", "bin", "python"))
				p.writeFile(filepath.Join(p.project, ".venv", "pyvenv.cfg"), "version = 3.6.15\n", 0o644)
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := newFindFixture(t)
				prepare(p)
				good := p.writePython(filepath.Join(p.bin, "python"))
				got := p.wantFound("", good)
				wantMentions(t, got.PathSource+got.Mismatch, name)
			})
		}
	})

	t.Run("returns a link unresolved", func(t *testing.T) {
		p := newFindFixture(t)
		real := p.writePython(filepath.Join(p.home, "opt", "python3.12"))
		link := p.writeLink(real, filepath.Join(p.bin, "python3"))
		if got := p.wantFound("", link); got.Version != "3.12" {
			t.Errorf("got version %q, want 3.12, from the name of the link's target", got.Version)
		}
	})

	// Find must not choose another user's /tmp/.venv for a user who works below /tmp.
	t.Run("skips an environment that another user may have planted", func(t *testing.T) {
		p := newFindFixture(t)
		shared := filepath.Dir(p.project)
		if err := os.Chmod(shared, 0o1777); err != nil {
			t.Fatal(err)
		}
		planted := p.writePython(filepath.Join(shared, ".venv", "bin", "python"))
		p.wantFound("", planted) // it belongs to us
		owners.GiveAway(t, filepath.Join(shared, ".venv"))
		system := p.writePython(filepath.Join(p.bin, "python3"))
		wantMentions(t, p.wantFound("", system).Mismatch, "another user")
	})
}

func TestFind_RequiredVersion(t *testing.T) {
	t.Parallel()
	for requires, want := range map[string]string{">=3.13": "not Python >=3.13, which ", ">=3.9": ""} {
		t.Run(requires, func(t *testing.T) {
			t.Parallel()
			p := newFindFixture(t)
			p.writePython(filepath.Join(p.home, ".pyenv", "versions", "3.11.7", "bin", "python3.11"))
			p.writeLink(filepath.Join(p.home, ".pyenv", "versions", "3.11.7", "bin", "python3.11"), filepath.Join(p.bin, "python3"))
			p.writeFile(filepath.Join(p.home, "src", "pyproject.toml"), "[project]\nname = \"app\"\nrequires-python = '"+requires+"'\n", 0o600)
			got, _, err := p.runFind("")
			if err != nil || (want == "") != (got.Mismatch == "") || !strings.HasPrefix(got.Mismatch, want) {
				t.Errorf("got %q, %v, want %q", got.Mismatch, err, want)
			}
		})
	}
}
