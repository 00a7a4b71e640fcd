//go:build unix

package pkginstall_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/pkginstall"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/internal/testkit/wheel"
)

func findProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// requireUv appends uv to PATH if it is missing: scripts/setup-dev installs it into the user's
// cache.
func requireUv(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("uv"); err == nil {
		return
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Join(cache, "turnstone", "uv", "bin"))
	if _, err := exec.LookPath("uv"); err != nil {
		t.Skip("uv is not installed: scripts/setup-dev installs it")
	}
}

// buildRepository builds an R repository with "tiny", which needs "tinier".
func buildRepository(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	contrib := filepath.Join(dir, "src", "contrib")
	if err := os.MkdirAll(contrib, 0o700); err != nil {
		t.Fatal(err)
	}
	var index strings.Builder
	for name, imports := range map[string]string{"tiny": "Imports: tinier\n", "tinier": ""} {
		description := fmt.Sprintf("Package: %s\nVersion: 1.0\n%s", name, imports)
		index.WriteString(description + "\n")
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		a := tar.NewWriter(z)
		for file, content := range map[string]string{
			"DESCRIPTION": description + "Title: A Test\nDescription: A test.\nAuthor: Nobody\nMaintainer: Nobody <n@example.org>\nLicense: GPL-2\n",
			"NAMESPACE":   "export(answer)\n",
			"R/answer.R":  "answer <- function() 42\n",
		} {
			err := a.WriteHeader(&tar.Header{Name: name + "/" + file, Mode: 0o644, Size: int64(len(content))})
			if err == nil {
				_, err = a.Write([]byte(content))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(a.Close(), z.Close(), os.WriteFile(filepath.Join(contrib, name+"_1.0.tar.gz"), b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(contrib, "PACKAGES"), []byte(index.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + dir
}

// A testLanguage is a language under test, with an available package "tiny".
type testLanguage struct {
	tool    *pkginstall.Tool
	request pkginstall.InstallRequest
	command []string // a command that prints the answer of tiny
}

func testLanguages() map[string]func(t *testing.T) testLanguage {
	return map[string]func(t *testing.T) testLanguage{
		"python with pip": func(t *testing.T) testLanguage {
			python := findProgram(t, "python3")
			if exec.Command(python, "-c", "import pip").Run() != nil && exec.Command(python, "-c", "import ensurepip").Run() != nil {
				t.Skipf("%s has neither pip nor ensurepip", python)
			}
			env := append(os.Environ(), "PIP_NO_INDEX=1", "PIP_FIND_LINKS="+wheel.BuildDir(t, "tiny", "answer = 42\n"), "PATH="+pathWithout(t, "uv"))
			return testLanguage{pkginstall.Python(), pkginstall.InstallRequest{Executable: python, Dir: t.TempDir(), Env: env},
				[]string{python, "-c", "import tiny; print(tiny.answer)"}}
		},
		"python with uv": func(t *testing.T) testLanguage {
			requireUv(t)
			python := findProgram(t, "python3")
			env := append(os.Environ(), "UV_OFFLINE=1", "UV_NO_INDEX=1", "UV_FIND_LINKS="+wheel.BuildDir(t, "tiny", "answer = 42\n"), "UV_CACHE_DIR="+t.TempDir())
			return testLanguage{pkginstall.Python(), pkginstall.InstallRequest{Executable: python, Dir: t.TempDir(), Env: env},
				[]string{python, "-c", "import tiny; print(tiny.answer)"}}
		},
		"r": func(t *testing.T) testLanguage {
			r := findProgram(t, "R")
			profile := filepath.Join(t.TempDir(), "profile.R")
			code := fmt.Sprintf("options(repos = c(CRAN = %s))\n", strconv.Quote(buildRepository(t)))
			if err := os.WriteFile(profile, []byte(code), 0o600); err != nil {
				t.Fatal(err)
			}
			return testLanguage{pkginstall.R(), pkginstall.InstallRequest{Executable: r, Dir: t.TempDir(), Env: append(os.Environ(), "R_PROFILE_USER="+profile)},
				[]string{r, "--no-echo", "-e", "cat(tiny::answer(),fill=TRUE)"}}
		},
	}
}

// pathWithout returns PATH without the directories that contain a program.
func pathWithout(t *testing.T, name string) string {
	t.Helper()
	var dirs []string
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(d, name)); err != nil {
			dirs = append(dirs, d)
		}
	}
	path := strings.Join(dirs, string(os.PathListSeparator))
	t.Setenv("PATH", path)
	return path
}

func (l testLanguage) makePackages(t *testing.T, names ...string) ([]string, []pkginstall.InstallProgress, error) {
	t.Helper()
	wanted, err := l.tool.Canonical(names)
	if err != nil {
		t.Fatal(err)
	}
	var reports []pkginstall.InstallProgress
	r := l.request
	r.Packages = wanted
	env, err := l.tool.Make(t.Context(), r, func(p pkginstall.InstallProgress) { reports = append(reports, p) })
	return env, reports, err
}

func (l testLanguage) runCommand(t *testing.T, env []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), l.command[0], l.command[1:]...)
	cmd.Env = slices.Concat(l.request.Env, env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestMake(t *testing.T) {
	t.Run("builds once for two callers and reuses the result", func(t *testing.T) {
		for name, make := range testLanguages() {
			t.Run(name, func(t *testing.T) {
				l := make(t)
				if got := l.runCommand(t, nil); got == "42" {
					t.Fatal("tiny is installed already")
				}
				l.request.Packages = []string{"tiny"}
				envs, reports := [2][]string{}, [2][]pkginstall.InstallProgress{}
				var wg sync.WaitGroup
				for i := range envs {
					wg.Go(func() {
						var err error
						envs[i], err = l.tool.Make(t.Context(), l.request, func(p pkginstall.InstallProgress) { reports[i] = append(reports[i], p) })
						if err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if got := l.runCommand(t, envs[0]); got != "42" || !slices.Equal(envs[0], envs[1]) {
					t.Errorf("with %q: got %q", envs, got)
				}
				wantEmptyDir(t, l.request.Dir)
				for _, reports := range reports {
					for i := 1; i < len(reports); i++ {
						if reports[i].Done < reports[i-1].Done {
							t.Errorf("progress decreased: %+v", reports)
						}
					}
				}
				if max(len(reports[0]), len(reports[1])) < 2 {
					t.Errorf("got only the reports %+v", reports)
				}
				again, more, err := l.makePackages(t, "tiny", "tiny ")
				if err != nil || !slices.Equal(again, envs[0]) || len(more) != 0 {
					t.Errorf("the second time: %q, %+v, %v", again, more, err)
				}
			})
		}
	})

	t.Run("quotes the tool when a package does not exist", func(t *testing.T) {
		for name, make := range testLanguages() {
			t.Run(name, func(t *testing.T) {
				l := make(t)
				_, _, err := l.makePackages(t, "nosuchpackage")
				var e *pkginstall.Error
				if !errors.As(err, &e) || !strings.Contains(e.Output, "nosuchpackage") || !strings.HasPrefix(err.Error(), "nosuchpackage cannot be prepared: ") {
					t.Errorf("got %v", err)
				}
				wantEmptyDir(t, l.request.Dir)
			})
		}
	})
}

func TestMakeUntrusted(t *testing.T) {
	// Sandboxed code may have written these directories, and packages are installed outside the
	// sandbox.
	t.Run("runs no code from directories of the session", func(t *testing.T) {
		for _, name := range []string{"python with pip", "python with uv"} {
			t.Run(name, func(t *testing.T) { checkNoForeignCode(t, testLanguages()[name](t)) })
		}
	})

	// R reads these files before its own packages, and again in each R that installs a package.
	t.Run("runs no code that the user's R files point to", func(t *testing.T) {
		l := testLanguages()["r"](t)
		p := newProject(t)
		code := fmt.Sprintf("file.create(%q)\n", p.ran)
		source := p.writeFile(t, "evil/DESCRIPTION", "Package: evil\nVersion: 1.0\nTitle: A Test\nDescription: A test.\nAuthor: Nobody\nMaintainer: Nobody <n@example.org>\nLicense: GPL-2\n")
		p.writeFile(t, "evil/NAMESPACE", "")
		p.writeFile(t, "evil/R/load.R", ".onLoad <- function(...) "+code)
		p.writeFile(t, "code.R", code)
		p.writeFile(t, "bin/sh", p.script)
		library := filepath.Join(p.dir, "lib")
		if err := os.Mkdir(library, 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), l.request.Executable, "CMD", "INSTALL", "--no-test-load", "--library="+library, filepath.Dir(source)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		repos := fmt.Sprintf("local({ r <- getOption('repos'); r['CRAN'] <- %q; options(repos = r) })\n", buildRepository(t))
		for what, files := range map[string]map[string]string{
			"a library of .Renviron": {".Renviron": "R_LIBS=" + library + "\nR_DEFAULT_PACKAGES=utils,evil\n", ".Rprofile": repos},
			"programs of .Renviron":  {".Renviron": "PATH=" + p.dir + "/bin:${PATH}\n", ".Rprofile": repos},
			"code of .Renviron":      {".Renviron": "R_PROFILE=" + p.dir + "/code.R\nR_TESTS=" + p.dir + "/code.R\n", ".Rprofile": repos},
			"a library of .Rprofile": {".Rprofile": fmt.Sprintf(".libPaths(%q)\noptions(defaultPackages = c('utils', 'evil'))\n%s", library, repos)},
			"code of .Rprofile": {".Rprofile": fmt.Sprintf(".libPaths(%q)\nlibrary(evil)\nsource('%s/code.R')\nbase::source('%s/code.R')\nevil::none\nbase::.libPaths(%q)\nloadNamespace('evil')\n%s",
				library, p.dir, p.dir, library, repos)},
			"a profile of .Renviron": {".Rprofile": repos, ".Renviron": "R_PROFILE_USER=" + p.dir + "/code.R\n"},
		} {
			t.Run(what, func(t *testing.T) {
				l := l
				home := t.TempDir()
				for name, text := range files {
					if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				l.request.Env = append(os.Environ(), "HOME="+home)
				l.request.SessionDirs, l.request.Dir = []string{p.dir}, t.TempDir()
				env, _, err := l.makePackages(t, "tiny")
				if err != nil || len(env) != 1 {
					t.Errorf("got %q, %v", env, err)
				}
				p.wantNotRun(t)
			})
		}
	})

	t.Run("rejects a directory that others can write to", func(t *testing.T) {
		r := fakePython(t, "exit 0\n")
		if err := os.Chmod(r.Dir, 0o777); err != nil {
			t.Fatal(err)
		}
		_, err := pkginstall.Python().Make(t.Context(), r, func(pkginstall.InstallProgress) {})
		if err == nil || !strings.Contains(err.Error(), "is writable by other users") {
			t.Errorf("got %v", err)
		}
	})
}

func checkNoForeignCode(t *testing.T, l testLanguage) {
	p := newProject(t)
	p.writeFile(t, "bin/uv", p.script)
	python := p.writeFile(t, "bin/python3", p.script)
	for _, name := range []string{"sitecustomize.py", "developed.py", "pip/__init__.py"} {
		p.writeFile(t, filepath.Join("lib", name), p.code)
	}
	for name, to := range map[string]string{"link": l.request.Executable, "linked": python} {
		if err := os.Symlink(to, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	path := ""
	for _, kv := range l.request.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	l.request.Env = append(l.request.Env, "PATH="+p.dir+"/bin:"+path, "PYTHONPATH="+p.dir+"/lib")
	base := p.newUserBase(t, l.request.Executable)
	for _, c := range []struct{ what, python, env, refused string }{
		{"a python in it", python, "", "is in a directory of the session"},
		{"a link to that", p.dir + "/linked", "", "is in a directory of the session"},
		{"an environment of another python", p.dir + "/link", "", ""},
		{"another python", l.request.Executable, "", ""},
		{"an environment elsewhere that finds modules of it", p.newVenv(t, l.request.Executable), "", ""},
		{"a copy of that python, which finds them as well", p.newVenv(t, l.request.Executable, "--copies"), "", ""},
		{"packages of the user that find modules of it", l.request.Executable, "PYTHONUSERBASE=" + base, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := l
			l.request.Executable, l.request.SessionDirs, l.request.Dir = c.python, []string{p.dir}, t.TempDir()
			l.request.Env = append(slices.Clip(l.request.Env), c.env)
			env, _, err := l.makePackages(t, "tiny")
			p.wantNotRun(t)
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want %q", err, c.refused)
				}
			case err != nil || len(env) != 1 || strings.Contains(env[0], p.dir):
				t.Errorf("got %q, %v", env, err)
			default:
				if got := l.runCommand(t, append(env, "PATH="+path)); got != "42" {
					t.Errorf("got %q", got)
				}
				_ = os.Remove(p.ran) // the program above may run the project's code, as a session would
			}
		})
	}
}

// A testProject is a directory that a session can write to.
type testProject struct{ dir, ran, script, code string }

func newProject(t *testing.T) testProject {
	p := testProject{dir: t.TempDir(), ran: filepath.Join(t.TempDir(), "ran")}
	p.script = "#!/bin/sh\n>'" + p.ran + "'\n"
	p.code = "open(" + strconv.Quote(p.ran) + ", 'w')\n"
	return p
}

func (p testProject) writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), testexec.WriteExecutable(path, []byte(text))); err != nil {
		t.Fatal(err)
	}
	return path
}

// newVenv creates a virtual environment elsewhere with the project installed in development mode,
// as poetry does, and returns its Python.
func (p testProject) newVenv(t *testing.T, python string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), python, slices.Concat([]string{"-m", "venv", "--without-pip"}, args, []string{dir})...).CombinedOutput(); err != nil {
		t.Skipf("%s makes no virtual environment: %s", python, out)
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "lib", "*", "site-packages"))
	if err != nil || len(libraries) != 1 {
		t.Fatalf("got %q, %v", libraries, err)
	}
	p.addEditable(t, libraries[0])
	return filepath.Join(dir, "bin", "python")
}

// newUserBase creates a directory for PYTHONUSERBASE with the project in development mode.
func (p testProject) newUserBase(t *testing.T, python string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, "-c", "import site; print(site.getusersitepackages())")
	base := t.TempDir()
	cmd.Env = append(os.Environ(), "PYTHONUSERBASE="+base)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	p.addEditable(t, strings.TrimSpace(string(out)))
	return base
}

func (p testProject) addEditable(t *testing.T, library string) {
	t.Helper()
	path := filepath.Join(library, "project.pth")
	if err := errors.Join(os.MkdirAll(library, 0o700), os.WriteFile(path, []byte(p.dir+"/lib\nimport developed\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func (p testProject) wantNotRun(t *testing.T) {
	t.Helper()
	if err := os.Remove(p.ran); err == nil {
		t.Error("code of the project ran")
	}
}

// wantEmptyDir fails if a failed installation has left files.
func wantEmptyDir(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, ".new-") {
			t.Errorf("left behind: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// fakePython is a Python that answers the probe, and then runs a script.
func fakePython(t *testing.T, script string) pkginstall.InstallRequest {
	t.Helper()
	pathWithout(t, "uv")
	path := filepath.Join(t.TempDir(), "python3")
	code := "#!/bin/sh\nif [ \"$1\" = -c ]; then echo fake; echo 23.0; exit; fi\n" + script
	if err := testexec.WriteExecutable(path, []byte(code)); err != nil {
		t.Fatal(err)
	}
	return pkginstall.InstallRequest{Executable: path, Packages: []string{"tiny"}, Dir: t.TempDir()}
}

func TestMakeLimits(t *testing.T) {
	t.Run("kills the whole process tree on cancel", func(t *testing.T) {
		r := fakePython(t, "sleep 600 & echo $!; sleep 600\n")
		ctx, cancel := context.WithCancel(t.Context())
		child := 0
		_, err := pkginstall.Python().Make(ctx, r, func(p pkginstall.InstallProgress) {
			child, _ = strconv.Atoi(p.Message)
			cancel()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if child == 0 {
			t.Fatal("the tool did not start a child")
		}
		wait.Until(t, "the child of the tool has ended", func() bool { return !testexec.IsAlive(child) })
		wantEmptyDir(t, r.Dir)
	})

	t.Run("bounds time and output of the tool", func(t *testing.T) {
		slow := fakePython(t, "echo started; exec sleep 600\n")
		slow.Timeout = 3 * time.Second // a busy machine needs a while to start
		_, err := pkginstall.Python().Make(t.Context(), slow, func(pkginstall.InstallProgress) {})
		if err == nil || !strings.Contains(err.Error(), "not finished after 3s\nstarted") {
			t.Errorf("got %v", err)
		}
		loud := fakePython(t, "exec yes\n")
		_, err = pkginstall.Python().Make(t.Context(), loud, func(pkginstall.InstallProgress) {})
		var e *pkginstall.Error
		if !errors.As(err, &e) || !strings.Contains(e.Reason, "printed more than") || len(e.Output) > 4096 {
			t.Errorf("got %v", err)
		}
	})

	t.Run("removes control characters from progress messages", func(t *testing.T) {
		r := fakePython(t, `printf '\033[31mred\033[0m\033]0;title\007\rnext\b\n'; exit 1`)
		var said []string
		_, err := pkginstall.Python().Make(t.Context(), r, func(p pkginstall.InstallProgress) { said = append(said, p.Message) })
		if !slices.Contains(said, "next") || strings.ContainsAny(strings.Join(said, ""), "\x1b\a\b\r") || strings.ContainsAny(err.Error(), "\x1b\a\b\r") {
			t.Errorf("got %q, %q", said, err)
		}
	})

	t.Run("removes packages unused for a long time", func(t *testing.T) {
		r := fakePython(t, "exit 0\n")
		old := filepath.Join(r.Dir, "python", "0123")
		unfinished := filepath.Join(r.Dir, "python", ".new-1")
		for dir, age := range map[string]time.Duration{old: 91 * 24 * time.Hour, unfinished: 24 * time.Hour} {
			then := time.Now().Add(-age)
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chtimes(dir, then, then)); err != nil {
				t.Fatal(err)
			}
		}
		env, err := pkginstall.Python().Make(t.Context(), r, func(pkginstall.InstallProgress) {})
		if err != nil || len(env) != 1 {
			t.Fatalf("got %q, %v", env, err)
		}
		for _, dir := range []string{old, unfinished} {
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there: %v", dir, err)
			}
		}
	})
}

func TestCanonical(t *testing.T) {
	got, err := pkginstall.Python().Canonical([]string{"Num_Py  >= 2", "b", "num.py >= 2", "b"})
	if err != nil || !slices.Equal(got, []string{"b", "num-py>= 2"}) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", "-r file", "--index-url=x", "a\nb\x00", "./local", strings.Repeat("x", 501)} {
		if got, err := pkginstall.Python().Canonical([]string{bad}); err == nil {
			t.Errorf("%.20q became %q", bad, got)
		}
	}
	for _, bad := range []string{"", "-x", "a b", "x$y", "1x"} {
		if got, err := pkginstall.R().Canonical([]string{bad}); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
	if _, err := pkginstall.R().Canonical(make([]string, 101)); err == nil {
		t.Error("101 packages were accepted")
	}
}
