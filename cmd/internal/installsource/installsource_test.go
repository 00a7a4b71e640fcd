package installsource

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Run("recognizes the installer by the path of the program", func(t *testing.T) {
		for _, test := range []struct {
			exe, beside string // beside: a further file
			name        string
			upgrade     string
			runner      []string
		}{
			{"cache/uv/archive-v0/x1/bin/repl", "cache/uv/archive-v0/x1/pyvenv.cfg", "uvx", "uvx turnstone-repl@latest", []string{"uvx", "turnstone-repl"}},
			{"tools/turnstone-repl/bin/repl", "tools/turnstone-repl/uv-receipt.toml", "uv tool", "uv tool upgrade turnstone-repl", nil},
			{"venvs/turnstone-repl/bin/repl", "venvs/turnstone-repl/pipx_metadata.json", "pipx", "pipx upgrade turnstone-repl", nil},
			{"project/.venv/bin/repl", "project/.venv/pyvenv.cfg", "pip", "-m pip install --upgrade turnstone-repl", nil},
			{"local/bin/repl", "local/lib/python3.13/site-packages/turnstone_repl-1.2.3.dist-info/RECORD", "pip", "-m pip install --upgrade turnstone-repl", nil},
			{"npm/_npx/ab/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "npx", "npx -y turnstone-repl@latest", []string{"npx", "-y", "turnstone-repl"}},
			{"p/lib/node_modules/turnstone-repl/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "npm", "npm install -g turnstone-repl@latest", nil},
			{"p/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "npm", "npm install turnstone-repl@latest", nil},
			{"brew/Cellar/turnstone-repl/1.2.3/bin/repl", "", "Homebrew", "brew upgrade turnstone-repl", nil},
			{"scoop/apps/turnstone-repl/current/repl.exe", "", "Scoop", "scoop update turnstone-repl", nil},
			{"opt/repl", "", "go build", "git pull", nil}, // the build information of this test
		} {
			dir := t.TempDir()
			exe := filepath.Join(dir, filepath.FromSlash(test.exe))
			createFile(t, exe)
			if test.beside != "" {
				createFile(t, filepath.Join(dir, filepath.FromSlash(test.beside)))
			}
			o := Find(exe)
			if o.Name != test.name || !strings.Contains(o.Upgrade, test.upgrade) || !slices.Equal(o.Runner, test.runner) {
				t.Errorf("%s: %+v; want %s, %q, %q", test.exe, o, test.name, test.upgrade, test.runner)
			}
		}
	})

	t.Run("follows a symbolic link", func(t *testing.T) {
		dir := t.TempDir()
		exe := filepath.Join(dir, "Cellar", "turnstone-repl", "1.2.3", "bin", "repl")
		createFile(t, exe)
		link := filepath.Join(dir, "repl")
		if err := os.Symlink(exe, link); err != nil {
			t.Skip("cannot make a symbolic link: ", err)
		}
		if o := Find(link); o.Name != "Homebrew" {
			t.Errorf("%+v", o)
		}
	})
}

func createFile(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestIsReleased(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.2.3": true, "v1.2.3-rc.1": true, "": false, "(devel)": false, "v1.2.3+dirty": false,
		"v0.0.0-20261123053000-0123456789ab": false, "v1.2.4-0.20261123053000-0123456789ab": false,
		"v1.2.4-0.20261123053000-0123456789ab+dirty": false,
	} {
		if isReleased(version) != want {
			t.Errorf("isReleased(%q) = %v", version, !want)
		}
	}
}
