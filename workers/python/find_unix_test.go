//go:build unix

package python_test

import (
	"github.com/turnstone-repl/turnstone/tests/owners"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	homeVariable      = "HOME"
	exeSuffix         = ""
	environmentPython = "bin/python"
	pyenvDir          = ".pyenv"

	firstCommand, secondCommand = "python3", "python"
)

// pyenv lays out a pyenv with its shims first on PATH, before what the system has.
func (p *place) pyenv(versions ...string) (root, system string) {
	root = filepath.Join(p.home, ".pyenv")
	shims := filepath.Join(root, "shims")
	p.python(filepath.Join(shims, "python3"))
	p.python(filepath.Join(shims, "python"))
	for _, v := range versions {
		path := p.python(filepath.Join(root, "versions", v, "bin", "python"))
		p.link(filepath.Base(path), filepath.Join(filepath.Dir(path), "python3"))
	}
	p.set("PATH=" + shims + ":" + p.bin)
	return root, p.python(filepath.Join(p.bin, "python3"))
}

func TestFind_PyenvShimStandsForTheGlobalVersion(t *testing.T) {
	p := newPlace(t)
	root, _ := p.pyenv("3.11.7", "3.12.1")
	p.file(filepath.Join(root, "version"), "3.11.7\n", 0o644)
	got := p.want("", filepath.Join(root, "versions/3.11.7/bin/python3"))
	mention(t, got.Why, "shim", "3.11.7")
	if got.Version != "3.11.7" {
		t.Errorf("got version %q, want 3.11.7", got.Version)
	}
	p.want(filepath.Join(root, "shims/python3"), filepath.Join(root, "versions/3.11.7/bin/python3"))
}

func TestFind_PyenvShimLeavesSystemToTheRestOfPath(t *testing.T) {
	for _, version := range []string{"", "system\n"} {
		p := newPlace(t)
		root, system := p.pyenv("3.11.7")
		if version != "" {
			p.file(filepath.Join(root, "version"), version, 0o644)
		}
		p.want("", system)
	}
}

func TestFind_PyenvShimOfAVersionThatIsGoneIsPassedOverAndSaid(t *testing.T) {
	p := newPlace(t)
	_, system := p.pyenv("3.11.7")
	p.set("PYENV_VERSION=3.9.9")
	mention(t, p.want("", system).Missed, "3.9.9", "PYENV_VERSION")
}

func TestFind_PyenvShimRunsItselfForANameThatOnlyPyenvKnows(t *testing.T) {
	p := newPlace(t)
	root, _ := p.pyenv("3.11.7")
	p.set("PYENV_VERSION=from-a-plugin")
	if got := p.want("", filepath.Join(root, "shims/python3")); got.Missed != "" {
		t.Errorf("got %q missed, although the shim may lead to it", got.Missed)
	}
}

func TestFind_WhatAProjectAskedForAndDoesNotGetIsMissed(t *testing.T) {
	for name, ask := range map[string]func(p *place){
		"not active VIRTUAL_ENV": func(p *place) { p.set("VIRTUAL_ENV=/gone") },
		"not .venv in":           func(p *place) { p.file(filepath.Join(p.project, ".venv", "README"), "", 0o644) },
		"(3.99.1): neither in":   func(p *place) { p.file(filepath.Join(p.project, ".python-version"), "3.99.1\n", 0o644) },
		"pyenv has none of that": func(p *place) { p.file(filepath.Join(p.project, ".python-version"), "mine\n", 0o644) },
		"is Python 2.7":          func(p *place) { p.python(filepath.Join(p.bin, "python2.7")); p.set("PYENV_VERSION=2.7") },
		"; and 9997 more": func(p *place) {
			p.file(filepath.Join(p.project, ".python-version"), strings.Repeat("3.99\n", 10000), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			ask(p)
			got := p.want("", p.python(filepath.Join(p.bin, "python3")))
			mention(t, got.Missed, name)
		})
	}
	for name, ask := range map[string]func(p *place){
		"nothing":           func(*place) {},
		"the system's":      func(p *place) { p.set("PYENV_VERSION=system") },
		"another directory": func(p *place) { p.file(filepath.Join(p.project, "venv", "README"), "", 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			ask(p)
			if got := p.want("", p.python(filepath.Join(p.bin, "python3"))); got.Missed != "" {
				t.Errorf("got %q", got.Missed)
			}
		})
	}
}

func TestFind_TheSecondNameInAnEnvironmentStandsInForABrokenFirst(t *testing.T) {
	p := newPlace(t)
	bin := filepath.Join(p.project, ".venv", "bin")
	p.link(filepath.Join(p.home, "gone"), filepath.Join(bin, "python"))
	if got := p.want("", p.python(filepath.Join(bin, "python3"))); got.Missed != "" {
		t.Errorf("got %q missed", got.Missed)
	}
}

func TestFind_VersionedCommandIsNotHiddenByAShimWithoutIt(t *testing.T) {
	p := newPlace(t)
	root, _ := p.pyenv("3.11.7", "3.12.1")
	p.python(filepath.Join(root, "shims", "python3.12"))
	p.file(filepath.Join(root, "version"), "3.11.7", 0o644)
	p.want("python3.12", filepath.Join(root, "versions/3.12.1/bin/python"))
}

func TestFind_VenvWhosePythonIsGoneIsPassedOverAndSaid(t *testing.T) {
	p := newPlace(t)
	gone := filepath.Join(p.home, "gone", "python3.9")
	bin := filepath.Join(p.project, ".venv", "bin")
	p.link(gone, filepath.Join(bin, "python3"))
	p.link("python3", filepath.Join(bin, "python"))
	system := p.python(filepath.Join(p.bin, "python3"))
	mention(t, p.want("", system).Missed, "not .venv in "+p.project, "broken link to "+gone)
}

func TestFind_FileThatIsNotExecutableIsPassedOverAndSaid(t *testing.T) {
	p := newPlace(t)
	p.file(filepath.Join(p.project, ".venv", "bin", "python"), "", 0o644)
	system := p.python(filepath.Join(p.bin, "python3"))
	mention(t, p.want("", system).Missed, "is not executable")
}

func TestFind_VenvThatIsAFileIsPassedOver(t *testing.T) {
	p := newPlace(t)
	p.file(filepath.Join(p.project, ".venv"), "/somewhere/else\n", 0o644)
	system := p.python(filepath.Join(p.bin, "python3"))
	mention(t, p.want("", system).Missed, "not a directory")
}

func TestFind_TooOldIsPassedOverByWhatItsFilesSay(t *testing.T) {
	for name, prepare := range map[string]func(p *place){
		"is Python 2.7": func(p *place) {
			p.link(p.python(filepath.Join(p.home, "opt", "python2.7")), filepath.Join(p.bin, "python3"))
		},
		"is Python 3.7, older than 3.8": func(p *place) {
			p.link(p.python(filepath.Join(p.home, "opt", "python3.7")), filepath.Join(p.bin, "python3"))
		},
		"is Python 3.6.15, older than 3.8": func(p *place) {
			p.python(filepath.Join(p.project, ".venv", "bin", "python"))
			p.file(filepath.Join(p.project, ".venv", "pyvenv.cfg"), "version = 3.6.15\n", 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			prepare(p)
			good := p.python(filepath.Join(p.bin, "python"))
			got := p.want("", good)
			mention(t, got.Why+got.Missed, name)
		})
	}
}

func TestFind_LinkIsNotResolved(t *testing.T) {
	p := newPlace(t)
	real := p.python(filepath.Join(p.home, "opt", "python3.12"))
	link := p.link(real, filepath.Join(p.bin, "python3"))
	if got := p.want("", link); got.Version != "3.12" {
		t.Errorf("got version %q, want 3.12 as the name behind the link says", got.Version)
	}
}

// Guards against running what another user left in /tmp/.venv, for everybody who
// works below /tmp.
func TestFind_EnvironmentThatAnotherUserMayHavePlantedIsPassedOver(t *testing.T) {
	p := newPlace(t)
	shared := filepath.Dir(p.project)
	if err := os.Chmod(shared, 0o1777); err != nil {
		t.Fatal(err)
	}
	planted := p.python(filepath.Join(shared, ".venv", "bin", "python"))
	p.want("", planted) // our own
	owners.GiveAway(t, filepath.Join(shared, ".venv"))
	system := p.python(filepath.Join(p.bin, "python3"))
	mention(t, p.want("", system).Missed, "another user")
}

func TestFind_AVersionThatTheProjectDoesNotAllowIsSaid(t *testing.T) {
	t.Parallel()
	for requires, want := range map[string]string{">=3.13": "not Python >=3.13, which ", ">=3.9": ""} {
		t.Run(requires, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.python(filepath.Join(p.home, ".pyenv", "versions", "3.11.7", "bin", "python3.11"))
			p.link(filepath.Join(p.home, ".pyenv", "versions", "3.11.7", "bin", "python3.11"), filepath.Join(p.bin, "python3"))
			p.file(filepath.Join(p.home, "src", "pyproject.toml"), "[project]\nname = \"app\"\nrequires-python = '"+requires+"'\n", 0o600)
			got, _, err := p.find("")
			if err != nil || (want == "") != (got.Missed == "") || !strings.HasPrefix(got.Missed, want) {
				t.Errorf("got %q, %v, want %q", got.Missed, err, want)
			}
		})
	}
}
