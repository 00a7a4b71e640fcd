package python_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows/registry"
)

const (
	homeVariable      = "USERPROFILE"
	exeSuffix         = ".exe"
	environmentPython = `Scripts\python.exe`
	pyenvDir          = `.pyenv\pyenv-win`

	firstCommand, secondCommand = "python", "python3"
)

func TestFind_StoreAliasCountsAfterEveryOtherPython(t *testing.T) {
	p := newPlace(t)
	apps := filepath.Join(p.home, `AppData\Local\Microsoft\WindowsApps`)
	alias := p.python(filepath.Join(apps, "python.exe"))
	p.set("PATH=" + apps + ";" + p.bin)
	p.want("", alias)
	p.want("", p.python(filepath.Join(p.bin, "python.exe")))
}

// register adds a version to the user's part of the registry while the test runs.
func register(t *testing.T, version, value, data string) {
	t.Helper()
	parts := []string{`Software`, `Python`, `PythonCore`, version, `InstallPath`}
	key, _, err := registry.CreateKey(registry.CURRENT_USER, strings.Join(parts, `\`), registry.SET_VALUE)
	if err != nil {
		t.Fatal(err)
	}
	defer key.Close()
	if err := key.SetStringValue(value, data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for n := len(parts); n > 1; n-- { // a directory that is not empty stays
			registry.DeleteKey(registry.CURRENT_USER, strings.Join(parts[:n], `\`))
		}
	})
}

func TestFind_WhatTheLauncherKnowsCountsAfterPath(t *testing.T) {
	p := newPlace(t)
	old := p.python(filepath.Join(p.home, "old", "python.exe"))
	recent := p.python(filepath.Join(p.home, "recent", "python.exe"))
	register(t, "3.98-32", "", filepath.Dir(old))
	register(t, "3.99", "ExecutablePath", recent)
	p.want("", recent)
	p.want("3.98", old)
	p.set("PY_PYTHON=3.98-32")
	p.want("", old)
	p.want("", p.python(filepath.Join(p.bin, "python.exe")))
	apps := filepath.Join(p.home, `AppData\Local\Microsoft\WindowsApps`)
	p.remove(filepath.Join(p.bin, "python.exe"))
	p.python(filepath.Join(apps, "python.exe"))
	p.set("PATH=" + apps)
	p.want("", old)
}

func TestFind_RegisteredButTooOldIsPassedOver(t *testing.T) {
	p := newPlace(t)
	register(t, "3.6", "ExecutablePath", p.python(filepath.Join(p.home, "old", "python.exe")))
	if _, seen, err := p.find(""); err == nil || !strings.Contains(err.Error(), "is Python 3.6, older than") {
		t.Errorf("got %v, %v, want a refusal of what is too old", seen, err)
	}
}

func TestFind_TheLibraryBesideTellsTheVersion(t *testing.T) {
	p := newPlace(t)
	path := p.python(filepath.Join(p.bin, "python.exe"))
	p.file(filepath.Join(p.bin, "python3.dll"), "", 0o600) // is in every version
	p.file(filepath.Join(p.bin, "python312.dll"), "", 0o600)
	if got, _, err := p.find(""); err != nil || got.Path != path || got.Version != "3.12" {
		t.Errorf("got %+v, %v, want version 3.12", got, err)
	}
	p.remove(filepath.Join(p.bin, "python312.dll"))
	p.file(filepath.Join(p.bin, "python27.dll"), "", 0o600)
	if got, _, err := p.find(""); err == nil || !strings.Contains(err.Error(), "is Python 2.7") {
		t.Errorf("got %+v, %v, want a refusal", got, err)
	}
}

func TestFind_PyenvForWindows(t *testing.T) {
	p := newPlace(t)
	root := filepath.Join(p.home, `.pyenv\pyenv-win`)
	path := p.python(filepath.Join(root, `versions\3.12.1\python.exe`))
	p.file(filepath.Join(root, "version"), "3.12.1\n", 0o600)
	p.file(filepath.Join(root, `shims\python.bat`), "", 0o600)
	p.set("PATH=" + filepath.Join(root, "shims"))
	p.want("", path)
	p.want("3.12", path)
}

func TestFind_NamesAreThoseOfWindows(t *testing.T) {
	p := newPlace(t)
	path := p.python(filepath.Join(p.bin, "python3.12.exe"))
	p.want("python3.12.exe", path)
	p.want("python3.12", path)
	p.want(`~\bin\python3.12.exe`, path)
	outside := p.python(filepath.Join(filepath.Dir(p.home), `.venv\Scripts\python.exe`))
	p.set("USERPROFILE=" + strings.ToUpper(p.home)) // the same directory
	if got, _, err := p.find(""); err == nil {
		t.Errorf("got %+v, want nothing from above the home directory, such as %s", got, outside)
	}
}
