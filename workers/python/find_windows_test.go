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
		for n := len(parts); n > 1; n-- { // what is not empty stays
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
	p.set("PY_PYTHON=3.98")
	p.want("", old)
	p.want("", p.python(filepath.Join(p.bin, "python.exe")))
	apps := filepath.Join(p.home, `AppData\Local\Microsoft\WindowsApps`)
	p.remove(filepath.Join(p.bin, "python.exe"))
	p.python(filepath.Join(apps, "python.exe"))
	p.set("PATH=" + apps)
	p.want("", old)
}
