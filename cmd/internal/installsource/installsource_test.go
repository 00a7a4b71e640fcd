package installsource

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

func TestFind(t *testing.T) {
	t.Run("recognizes the installer by the path of the program", func(t *testing.T) {
		all := t.TempDir()
		for i, test := range []struct {
			exe, beside string // beside: further files, separated by spaces
			name        string
			upgrade     string // ROOT is the directory of this case
			runner      []string
		}{
			{"cache/uv/archive-v0/x1/bin/repl", "cache/uv/archive-v0/x1/pyvenv.cfg", "uvx", "its next start with a version takes the newest: uvx turnstone-repl@latest version", []string{"uvx", "turnstone-repl"}},
			{"tools/turnstone-repl/bin/repl", "tools/turnstone-repl/uv-receipt.toml", "uv tool", "uv tool upgrade turnstone-repl", nil},
			{"venvs/turnstone-repl/bin/repl", "venvs/turnstone-repl/pipx_metadata.json", "pipx", "pipx upgrade turnstone-repl", nil},
			{"project/.venv/bin/repl", "project/.venv/pyvenv.cfg project/.venv/bin/python", "pip", "'ROOT/project/.venv/bin/python' -m pip install --upgrade turnstone-repl", nil},
			{"win/Scripts/repl", "win/pyvenv.cfg win/Scripts/python.exe", "pip", "'ROOT/win/Scripts/python.exe' -m pip install --upgrade turnstone-repl", nil},
			{"locked/.venv/bin/repl", "locked/.venv/pyvenv.cfg locked/uv.lock", "uv", "in ROOT/locked, run uv sync --upgrade-package turnstone-repl", nil},
			{"local/bin/repl", "local/lib/python3.13/site-packages/turnstone_repl-1.2.3.dist-info/RECORD local/lib/python3.13/site-packages/pip/x", "pip", "python3.13 -m pip install --upgrade turnstone-repl", nil},
			{"npm/_npx/ab/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "npx", "npx -y turnstone-repl@latest version", []string{"npx", "-y", "turnstone-repl"}},
			{"tmp/bunx-0-turnstone-repl@latest/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "bunx", "bunx turnstone-repl@latest version", []string{"bunx", "turnstone-repl"}},
			{"cache/pnpm/dlx/ab/node_modules/.pnpm/@turnstone-repl+linux-x64@1.2.3/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "pnpm dlx", "pnpm dlx turnstone-repl@latest version", []string{"pnpm", "dlx", "turnstone-repl"}},
			{"p/lib/node_modules/turnstone-repl/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "npm", "npm install --global --prefix 'ROOT/p' turnstone-repl@latest", nil},
			{"Roaming/npm/node_modules/turnstone-repl/node_modules/@turnstone-repl/win32-x64/bin/repl.exe", "", "npm", "npm install --global --prefix 'ROOT/Roaming/npm' turnstone-repl@latest", nil},
			{"p/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "npm", "in ROOT/p, run npm install turnstone-repl@latest, or the same", nil},
			{".bun/install/global/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "bun", "bun add --global turnstone-repl@latest", nil},
			{"share/pnpm/global/5/.pnpm/@turnstone-repl+linux-x64@1.2.3/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "pnpm", "pnpm add --global turnstone-repl@latest", nil},
			{"config/yarn/global/node_modules/@turnstone-repl/linux-x64/bin/repl", "", "yarn", "yarn global add turnstone-repl@latest", nil},
			{"brew/Cellar/turnstone-repl/1.2.3/bin/repl", "", "Homebrew", "brew update && brew upgrade turnstone-repl", nil},
			{"scoop/apps/turnstone-repl/current/repl.exe", "", "Scoop", "scoop update turnstone-repl", nil},
			{"opt/repl", "", "go build", "in the clone, run git pull && go build -o 'ROOT/opt/repl' ./cmd/repl", nil}, // the build information of this test
		} {
			root := filepath.Join(all, fmt.Sprint("case ", i)) // needs quotes
			exe := filepath.Join(root, filepath.FromSlash(test.exe))
			createFile(t, exe)
			for name := range strings.FieldsSeq(test.beside) {
				createFile(t, filepath.Join(root, filepath.FromSlash(name)))
			}
			o := Find(exe)
			upgrade := strings.ReplaceAll(strings.ReplaceAll(test.upgrade, "ROOT", paths.RealOrSame(root)), "/", string(filepath.Separator))
			if o.Name != test.name || !strings.Contains(strings.ReplaceAll(o.UpgradeText(), "/", string(filepath.Separator)), upgrade) || !slices.Equal(o.Runner, test.runner) {
				t.Errorf("%s: %+v, %s; want %s, %q, %q", test.exe, o, o.UpgradeText(), test.name, upgrade, test.runner)
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
