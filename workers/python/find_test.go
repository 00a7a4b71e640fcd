package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers/python"
)

// A findFixture has a home directory with a project in it, and no Python installed.
type findFixture struct {
	t       *testing.T
	home    string
	project string // home/src/app
	bin     string // home/bin, the only directory on PATH
	env     []string
}

func newFindFixture(t *testing.T) *findFixture {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &findFixture{t: t, home: home, project: filepath.Join(home, "src", "app"), bin: filepath.Join(home, "bin")}
	p.makeDir(p.project)
	p.makeDir(p.bin)
	p.env = []string{homeEnvVar + "=" + home, "PATH=" + p.bin}
	return p
}

func (f *findFixture) setEnv(env ...string) { f.env = append(f.env, env...) }

func (f *findFixture) makeDir(path string) {
	f.t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *findFixture) writeFile(path, text string, mode os.FileMode) string {
	f.t.Helper()
	f.makeDir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// writePython writes an executable to path. Find must never run it.
func (f *findFixture) writePython(path string) string {
	f.t.Helper()
	return f.writeFile(path, "#!/bin/sh\necho discovery ran an interpreter >&2\nexit 1\n", 0o755)
}

func (f *findFixture) writeLink(target, path string) string {
	f.t.Helper()
	f.makeDir(filepath.Dir(path))
	if err := os.Symlink(target, path); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *findFixture) removePath(path string) {
	f.t.Helper()
	if err := os.RemoveAll(path); err != nil {
		f.t.Fatal(err)
	}
}

func (f *findFixture) runFind(named string) (python.Interpreter, []python.Candidate, error) {
	return python.Find(python.FindOptions{Path: named, Dir: f.project, Env: f.env})
}

// wantFound fails the test unless Find chooses path.
func (f *findFixture) wantFound(named, path string) python.Interpreter {
	f.t.Helper()
	got, seen, err := f.runFind(named)
	if err != nil {
		f.t.Fatalf("Find(%q): %v, want %s", named, err, path)
	}
	if got.Path != path {
		f.t.Fatalf("Find(%q) = %s (%s), want %s; candidates: %+v", named, got.Path, got.PathSource, path, seen)
	}
	return got
}

func wantMentions(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("got %q, want it to mention %q", text, word)
		}
	}
}

func TestFind(t *testing.T) {
	t.Run("searches in the documented order", func(t *testing.T) {
		p := newFindFixture(t)
		pyenv := filepath.Join(p.home, pyenvDir)
		active := filepath.Join(p.home, "active")
		conda := filepath.Join(p.home, "conda", "envs", "work")
		p.setEnv("VIRTUAL_ENV="+active, "CONDA_PREFIX="+conda, "CONDA_DEFAULT_ENV=work")
		p.writeFile(filepath.Join(p.project, ".python-version"), "3.12.1\n", 0o644)
		p.writeFile(filepath.Join(pyenv, "version"), "3.11.7\n", 0o644)

		// In order: each is found once the previous ones have been removed.
		for _, path := range []string{
			p.writePython(filepath.Join(active, environmentPython)),
			p.writePython(filepath.Join(conda, environmentPython)),
			p.writePython(filepath.Join(p.project, ".venv", environmentPython)),
			p.writePython(filepath.Join(pyenv, "versions", "3.12.1", environmentPython)),
			p.writePython(filepath.Join(p.bin, firstCommand+exeSuffix)),
			p.writePython(filepath.Join(p.bin, secondCommand+exeSuffix)),
			p.writePython(filepath.Join(pyenv, "versions", "3.11.7", environmentPython)),
		} {
			p.wantFound("", path)
			p.removePath(path)
		}
		if _, _, err := p.runFind(""); err == nil {
			t.Error("got an interpreter where all are gone, want an error")
		}
	})

	t.Run("prefers a project environment to the conda base", func(t *testing.T) {
		p := newFindFixture(t)
		conda := filepath.Join(p.home, "conda")
		base := p.writePython(filepath.Join(conda, environmentPython))
		venv := p.writePython(filepath.Join(p.project, ".venv", environmentPython))
		p.writePython(filepath.Join(p.bin, "python3"+exeSuffix))
		p.writeFile(filepath.Join(conda, "conda-meta", "python-3.11.4-hab00c5b_0_cpython.json"), "{}", 0o644)
		p.setEnv("CONDA_PREFIX="+conda, "CONDA_DEFAULT_ENV=base")

		p.wantFound("", venv)
		p.removePath(venv)
		if got := p.wantFound("", base); got.Version != "3.11.4" {
			t.Errorf("got version %q, want 3.11.4 as conda-meta says", got.Version)
		}
	})

	t.Run("finds the project environment from a subdirectory", func(t *testing.T) {
		p := newFindFixture(t)
		venv := p.writePython(filepath.Join(p.project, ".venv", environmentPython))
		p.project = filepath.Join(p.project, "pkg", "deep")
		p.makeDir(p.project)
		p.wantFound("", venv)

		nearer := p.writePython(filepath.Join(filepath.Dir(p.project), ".venv", environmentPython))
		p.wantFound("", nearer)
	})

	t.Run("stops at the home directory", func(t *testing.T) {
		p := newFindFixture(t)
		p.writePython(filepath.Join(p.home, ".venv", environmentPython))
		p.env[0] = homeEnvVar + "=" + filepath.Join(p.home, "src")
		if got, _, err := p.runFind(""); err == nil {
			t.Errorf("got %s, want nothing from above the home directory", got.Path)
		}
	})

	t.Run("ignores a venv directory without pyvenv.cfg", func(t *testing.T) {
		p := newFindFixture(t)
		venv := p.writePython(filepath.Join(p.project, "venv", environmentPython))
		if got, _, err := p.runFind(""); err == nil {
			t.Errorf("got %s, want a venv without pyvenv.cfg passed over", got.Path)
		}
		p.writeFile(filepath.Join(p.project, "venv", "pyvenv.cfg"), "home = /usr/bin\nversion_info = 3.12.4.final.0\n", 0o644)
		if got := p.wantFound("", venv); got.Version != "3.12.4" {
			t.Errorf("got version %q, want 3.12.4 as pyvenv.cfg says", got.Version)
		}
	})

	t.Run("finds the pixi environment of the project", func(t *testing.T) {
		p := newFindFixture(t)
		root := filepath.Join(p.project, ".pixi", "envs", "default")
		p.writeFile(filepath.Join(root, "conda-meta", "python-3.13.1-h1_0.json"), "{}", 0o644)
		p.wantFound("", p.writePython(filepath.Join(root, environmentPython)))
	})

	t.Run("ignores relative directories on PATH", func(t *testing.T) {
		p := newFindFixture(t)
		p.writePython(filepath.Join(p.project, "python3"+exeSuffix))
		t.Chdir(p.project)
		p.setEnv("PATH=." + string(filepath.ListSeparator) + p.bin)
		if got, _, err := p.runFind(""); err == nil {
			t.Errorf("got %s, want the working directory on PATH ignored", got.Path)
		}
	})

	t.Run("skips environments that were made for one tool", func(t *testing.T) {
		for made, maker := range map[string]string{
			"cache/archive-v0/x1":  "uvx",
			"tools/turnstone-repl": "uv tool",
			"pipx/turnstone-repl":  "pipx",
		} {
			p := newFindFixture(t)
			root := filepath.Join(p.home, filepath.FromSlash(made))
			tool := p.writePython(filepath.Join(root, environmentPython))
			p.writeFile(filepath.Join(root, "pyvenv.cfg"), "home = /usr/bin\nversion_info = 3.12.4.final.0\n", 0o644)
			switch maker {
			case "uv tool":
				p.writeFile(filepath.Join(root, "uv-receipt.toml"), "", 0o644)
			case "pipx":
				p.writeFile(filepath.Join(root, "pipx_metadata.json"), "{}", 0o644)
			}
			p.setEnv("PATH=" + filepath.Dir(tool) + string(filepath.ListSeparator) + p.bin)
			if got, _, err := p.runFind(""); err == nil {
				t.Errorf("%s: got %s, want nothing", maker, got.Path)
			} else {
				wantMentions(t, err.Error(), "was made for one program, by "+maker)
			}
			if name := filepath.Base(tool); name == "python"+exeSuffix || name == "python3"+exeSuffix {
				p.wantFound("", p.writePython(filepath.Join(p.bin, name)))
			}
			p.setEnv("VIRTUAL_ENV=" + root) // activated, so the user wants it
			p.wantFound("", tool)
		}
	})

	t.Run("names every searched location when nothing is found", func(t *testing.T) {
		p := newFindFixture(t)
		_, seen, err := p.runFind("")
		if err == nil {
			t.Fatal("got no error where no Python is")
		}
		wantMentions(t, err.Error(), "VIRTUAL_ENV: not set", "CONDA_PREFIX: not set", ".venv: none from "+p.project+" up to "+p.home,
			".python-version", "PATH", "3.8", "by its path")
		for _, c := range seen {
			if c.Note == "" || c.Chosen {
				t.Errorf("candidate %+v: want a reason why it was passed over", c)
			}
		}
	})

	t.Run("the chosen candidate is the last one", func(t *testing.T) {
		p := newFindFixture(t)
		path := p.writePython(filepath.Join(p.bin, "python3"+exeSuffix))
		_, seen, err := p.runFind("")
		if err != nil {
			t.Fatal(err)
		}
		last := seen[len(seen)-1]
		if !last.Chosen || last.Path != path || last.Note != "" {
			t.Errorf("got last candidate %+v, want %s taken", last, path)
		}
		if slices.ContainsFunc(seen[:len(seen)-1], func(c python.Candidate) bool { return c.Chosen }) {
			t.Errorf("got %+v, want one taken", seen)
		}
	})

	t.Run("starts a real venv by its unresolved path", func(t *testing.T) {
		base, err := exec.LookPath("python3")
		if err != nil { // as on Windows
			base, err = exec.LookPath("python")
		}
		if err != nil {
			t.Skip("python3 is not installed, and python neither")
		}
		p := newFindFixture(t)
		root := filepath.Join(p.project, ".venv")
		if out, err := exec.CommandContext(t.Context(), base, "-m", "venv", "--without-pip", root).CombinedOutput(); err != nil {
			t.Fatalf("%s -m venv: %v\n%s", base, err, out)
		}
		for _, c := range []struct{ name, env string }{
			{"nearest .venv", "UNRELATED=1"},
			{"active VIRTUAL_ENV", "VIRTUAL_ENV=" + root},
		} {
			t.Run(c.name, func(t *testing.T) {
				p.t = t
				p.setEnv(c.env)
				got := p.wantFound("", filepath.Join(root, environmentPython))
				out, err := exec.CommandContext(t.Context(), got.Path, "-c",
					"import sys; print(sys.prefix); print('%d.%d.%d' % sys.version_info[:3])").Output()
				if err != nil {
					t.Fatal(err)
				}
				said := strings.Fields(string(out))
				if len(said) != 2 || said[0] != root || said[1] != got.Version {
					t.Errorf("the interpreter says %q, want prefix %s and the version that Find read, %s", said, root, got.Version)
				}
			})
		}
	})
}

func TestFind_Pin(t *testing.T) {
	t.Run("chooses the pinned version", func(t *testing.T) {
		for _, c := range []struct {
			name     string
			pin      string   // contents of .python-version
			versions []string // that pyenv has
			want     string   // of them
		}{
			{"exact", "3.12.1", []string{"3.12.1", "3.12.9"}, "3.12.1"},
			{"prefix takes the newest", "3.12", []string{"3.12.2", "3.12.10", "3.1.2", "3.13.0"}, "3.12.10"},
			{"comment and blank lines", "# the one we deploy\n\n3.11.7 # LTS\n", []string{"3.11.7", "3.12.1"}, "3.11.7"},
			{"first of several that exists", "3.14.0\n3.11.7\n", []string{"3.10.1", "3.11.7"}, "3.11.7"},
			{"name of a pyenv virtualenv", "app", []string{"3.11.7", "app"}, "app"},
			{"as uv writes it", "cpython-3.11", []string{"3.11.7", "3.12.1"}, "3.11.7"},
			{"other notation of uv", "cpython@3.11.7", []string{"3.11.7", "3.12.1"}, "3.11.7"},
			{"Windows line ends", "3.11.7\r\n", []string{"3.11.7", "3.12.1"}, "3.11.7"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := newFindFixture(t)
				root := filepath.Join(p.home, "elsewhere")
				p.setEnv("PYENV_ROOT=" + root)
				for _, v := range c.versions {
					p.writePython(filepath.Join(root, "versions", v, environmentPython))
				}
				p.writeFile(filepath.Join(filepath.Dir(p.project), ".python-version"), c.pin, 0o644)
				got := p.wantFound("", filepath.Join(root, "versions", c.want, environmentPython))
				wantMentions(t, got.PathSource, ".python-version")
			})
		}
	})

	t.Run("prefers PYENV_VERSION to the pin file", func(t *testing.T) {
		p := newFindFixture(t)
		want := p.writePython(filepath.Join(p.home, pyenvDir, "versions", "3.10.1", environmentPython))
		p.writePython(filepath.Join(p.home, pyenvDir, "versions", "3.11.7", environmentPython))
		p.writeFile(filepath.Join(p.project, ".python-version"), "3.11.7", 0o644)
		p.setEnv("PYENV_VERSION=3.10.1:3.11.7")
		wantMentions(t, p.wantFound("", want).PathSource, "PYENV_VERSION")
	})

	t.Run("finds the pinned version among the Pythons of uv", func(t *testing.T) {
		p := newFindFixture(t)
		uv := filepath.Join(p.home, "uv")
		p.setEnv("UV_PYTHON_INSTALL_DIR=" + uv)
		p.writePython(filepath.Join(uv, "cpython-3.12.9-linux-x86_64-gnu", environmentPython))
		want := p.writePython(filepath.Join(uv, "cpython-3.12.10-linux-x86_64-gnu", environmentPython))
		p.writePython(filepath.Join(uv, "pypy-3.12.11-linux-x86_64-gnu", environmentPython))
		p.writeFile(filepath.Join(p.project, ".python-version"), "3.12", 0o644)
		if got := p.wantFound("", want); got.Version != "3.12.10" {
			t.Errorf("got version %q, want 3.12.10", got.Version)
		}
	})

	t.Run("names an unavailable version in the error", func(t *testing.T) {
		p := newFindFixture(t)
		p.writeFile(filepath.Join(p.project, ".python-version"), "3.12", 0o644)
		_, _, err := p.runFind("")
		if err == nil {
			t.Fatal("got no error where no Python is")
		}
		wantMentions(t, err.Error(), "(3.12)", "python3.12")
	})

	t.Run("falls back to the versioned command on PATH", func(t *testing.T) {
		p := newFindFixture(t)
		p.writePython(filepath.Join(p.bin, "python3"+exeSuffix))
		want := p.writePython(filepath.Join(p.bin, "python3.12"+exeSuffix))
		p.writeFile(filepath.Join(p.project, ".python-version"), "3.12", 0o644)
		p.wantFound("", want)
	})

	t.Run("rejects a name that leaves the versions directory", func(t *testing.T) {
		p := newFindFixture(t)
		p.writePython(filepath.Join(p.home, "evil", environmentPython))
		p.writeFile(filepath.Join(p.project, ".python-version"), "../../evil", 0o644)
		if got, _, err := p.runFind(""); err == nil {
			t.Errorf("got %s, want a name that leaves pyenv's directory passed over", got.Path)
		}
	})
}

func TestFind_Named(t *testing.T) {
	t.Run("considers nothing but the named Python", func(t *testing.T) {
		p := newFindFixture(t)
		active := filepath.Join(p.home, "active")
		p.writePython(filepath.Join(active, environmentPython))
		p.setEnv("VIRTUAL_ENV=" + active)
		file := p.writePython(filepath.Join(p.project, "tools", "python-custom"+exeSuffix))
		dotted := p.writePython(filepath.Join(p.project, ".venv", environmentPython))
		plain := p.writePython(filepath.Join(p.project, "env", environmentPython))
		command := p.writePython(filepath.Join(p.bin, "python3.12"+exeSuffix))
		other := p.writePython(filepath.Join(p.bin, "pypy3"+exeSuffix))
		pyenv := p.writePython(filepath.Join(p.home, pyenvDir, "versions", "3.11.7", environmentPython))

		for named, want := range map[string]string{
			file: file,
			filepath.Join("tools", "python-custom"+exeSuffix): file,
			".venv":                           dotted,
			filepath.Join(p.project, ".venv"): dotted,
			"~/src/app/.venv":                 dotted,
			"env":                             plain,
			"python3.12":                      command,
			"3.12":                            command,
			"pypy3":                           other,
			"3.11":                            pyenv,
			"python3.11":                      pyenv,
			"3.11.7":                          pyenv,
		} {
			p.wantFound(named, want)
		}
	})

	t.Run("reports a named Python that cannot be used", func(t *testing.T) {
		p := newFindFixture(t)
		p.writePython(filepath.Join(p.bin, "python3"+exeSuffix)) // must not be used instead
		p.makeDir(filepath.Join(p.project, "src"))
		for named, words := range map[string][]string{
			"./missing": {"./missing", "does not exist"},
			"./src":     {filepath.Join(p.project, "src", environmentPython), "does not exist"},
			"src":       {"it is not a command on PATH"},
			"3.9":       {"3.9", "PATH has no python3.9"},
			"nonesuch":  {"it is not a command on PATH"},
		} {
			got, _, err := p.runFind(named)
			if err == nil {
				t.Errorf("Find(%q) = %s, want an error", named, got.Path)
				continue
			}
			wantMentions(t, err.Error(), append(words, "python: cannot use")...)
		}
	})
}

func FuzzFind_PinFile(f *testing.F) {
	for _, seed := range []string{"3.12\n", "cpython@3.12", "3.12.1:system", "../..", "#", "\x00", "3.12.1.4", ">=3.10", strings.Repeat("9", 40)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pin string) {
		p := newFindFixture(t)
		root := filepath.Join(p.home, "tools", "pyenv")
		versions := filepath.Join(root, "versions")
		p.setEnv("PYENV_ROOT=" + root)
		p.writePython(filepath.Join(versions, "3.12.1", environmentPython))
		p.writePython(filepath.Join(p.home, "tools", environmentPython)) // where "../.." would lead
		p.writeFile(filepath.Join(p.project, ".python-version"), pin, 0o644)
		got, seen, err := p.runFind("")
		switch {
		case err != nil && len(seen) == 0:
			t.Errorf("pin %q: got %v and no candidates, want what was looked at", pin, err)
		case err == nil && !strings.HasPrefix(got.Path, versions):
			t.Errorf("pin %q led to %s, outside of %s", pin, got.Path, versions)
		}
	})
}
