package python_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows/registry"
)

const (
	homeEnvVar        = "USERPROFILE"
	exeSuffix         = ".exe"
	environmentPython = `Scripts\python.exe`
	pyenvDir          = `.pyenv\pyenv-win`

	firstCommand, secondCommand = "python", "python3"
)

func TestFind_Windows(t *testing.T) {
	t.Run("prefers every other Python to the store alias", func(t *testing.T) {
		p := newFindFixture(t)
		apps := filepath.Join(p.home, `AppData\Local\Microsoft\WindowsApps`)
		alias := p.writePython(filepath.Join(apps, "python.exe"))
		p.setEnv("PATH=" + apps + ";" + p.bin)
		p.wantFound("", alias)
		p.wantFound("", p.writePython(filepath.Join(p.bin, "python.exe")))
	})

	t.Run("prefers PATH to the Pythons of the py launcher", func(t *testing.T) {
		p := newFindFixture(t)
		old := p.writePython(filepath.Join(p.home, "old", "python.exe"))
		recent := p.writePython(filepath.Join(p.home, "recent", "python.exe"))
		registerPython(t, "3.98-32", "", filepath.Dir(old))
		registerPython(t, "3.99", "ExecutablePath", recent)
		p.wantFound("", recent)
		p.wantFound("3.98", old)
		p.setEnv("PY_PYTHON=3.98-32")
		p.wantFound("", old)
		p.wantFound("", p.writePython(filepath.Join(p.bin, "python.exe")))
		apps := filepath.Join(p.home, `AppData\Local\Microsoft\WindowsApps`)
		p.removePath(filepath.Join(p.bin, "python.exe"))
		p.writePython(filepath.Join(apps, "python.exe"))
		p.setEnv("PATH=" + apps)
		p.wantFound("", old)
	})

	t.Run("skips a registered version that is too old", func(t *testing.T) {
		p := newFindFixture(t)
		registerPython(t, "3.6", "ExecutablePath", p.writePython(filepath.Join(p.home, "old", "python.exe")))
		if _, seen, err := p.runFind(""); err == nil || !strings.Contains(err.Error(), "is Python 3.6, older than") {
			t.Errorf("got %v, %v, want a refusal of what is too old", seen, err)
		}
	})

	t.Run("reads the version from the name of the DLL", func(t *testing.T) {
		p := newFindFixture(t)
		path := p.writePython(filepath.Join(p.bin, "python.exe"))
		p.writeFile(filepath.Join(p.bin, "python3.dll"), "", 0o600) // is in every version
		p.writeFile(filepath.Join(p.bin, "python312.dll"), "", 0o600)
		if got, _, err := p.runFind(""); err != nil || got.Path != path || got.Version != "3.12" {
			t.Errorf("got %+v, %v, want version 3.12", got, err)
		}
		p.removePath(filepath.Join(p.bin, "python312.dll"))
		p.writeFile(filepath.Join(p.bin, "python27.dll"), "", 0o600)
		if got, _, err := p.runFind(""); err == nil || !strings.Contains(err.Error(), "is Python 2.7") {
			t.Errorf("got %+v, %v, want a refusal", got, err)
		}
	})

	t.Run("finds the versions of pyenv-win", func(t *testing.T) {
		p := newFindFixture(t)
		root := filepath.Join(p.home, `.pyenv\pyenv-win`)
		path := p.writePython(filepath.Join(root, `versions\3.12.1\python.exe`))
		p.writeFile(filepath.Join(root, "version"), "3.12.1\n", 0o600)
		p.writeFile(filepath.Join(root, `shims\python.bat`), "", 0o600)
		p.setEnv("PATH=" + filepath.Join(root, "shims"))
		p.wantFound("", path)
		p.wantFound("3.12", path)
	})

	t.Run("accepts names without .exe and in any case", func(t *testing.T) {
		p := newFindFixture(t)
		path := p.writePython(filepath.Join(p.bin, "python3.12.exe"))
		p.wantFound("python3.12.exe", path)
		p.wantFound("python3.12", path)
		p.wantFound(`~\bin\python3.12.exe`, path)
		outside := p.writePython(filepath.Join(filepath.Dir(p.home), `.venv\Scripts\python.exe`))
		p.setEnv("USERPROFILE=" + strings.ToUpper(p.home)) // the same directory
		if got, _, err := p.runFind(""); err == nil {
			t.Errorf("got %+v, want nothing from above the home directory, such as %s", got, outside)
		}
	})
}

// registerPython adds a version to the user's part of the registry while the test runs.
func registerPython(t *testing.T, version, value, data string) {
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
