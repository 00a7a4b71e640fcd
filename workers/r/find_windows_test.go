package r

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/windows/registry"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeRHome writes a fake R of a version, and returns its Rterm.
func writeRHome(t *testing.T, dir, version string) string {
	t.Helper()
	writeFile(t, filepath.Join(dir, "library", "base", "DESCRIPTION"), "Package: base\r\nVersion: "+version+"\r\n")
	for _, name := range []string{`bin\R.exe`, `bin\Rscript.exe`, `bin\x64\R.exe`, `bin\x64\Rgui.exe`} {
		writeFile(t, filepath.Join(dir, name), "")
	}
	return writeFile(t, filepath.Join(dir, `bin\x64\Rterm.exe`), "")
}

func TestFind_Windows(t *testing.T) {
	t.Run("every program of R leads to Rterm", func(t *testing.T) {
		root := t.TempDir()
		files := filepath.Join(root, `Program Files\R`)
		older, newer := writeRHome(t, files+`\R-4.2.3`, "4.2.3"), writeRHome(t, files+`\R-4.5.1`, "4.5.1")
		registered := writeRHome(t, root+`\reg`, "4.3.1")
		conda := writeRHome(t, root+`\conda\lib\R`, "4.4.1")
		home := writeRHome(t, root+`\größe x`, "4.2.0")
		known := installDirs{versionDirs: []string{files}}
		withRegistry := installDirs{versionDirs: []string{files}, registryHomes: []Candidate{{Source: "the registry", Path: root + `\gone`}, {Source: "the registry", Path: root + `\reg`}}}
		for _, c := range []struct {
			name, named string
			known       installDirs
			env         []string
			want        string
		}{
			{"Program Files, the newest", "", known, nil, newer},
			{"the registry before them", "", withRegistry, nil, registered},
			{"PATH before the registry", "", withRegistry, []string{`PATH=` + filepath.Dir(older)}, older},
			{"bin on PATH", "", withRegistry, []string{`Path=` + files + `\R-4.2.3\bin`}, older},
			{"conda before PATH", "", withRegistry, []string{`PATH=` + filepath.Dir(older), `CONDA_PREFIX=` + root + `\conda`}, conda},
			{"R_HOME", "", withRegistry, []string{`CONDA_PREFIX=` + root + `\conda`, `R_HOME=` + root + `\größe x`}, home},
			{"R.exe", files + `\R-4.2.3\bin\R.exe`, known, nil, older},
			{"Rscript.exe", files + `\R-4.2.3\bin\rscript.exe`, known, nil, older},
			{"Rgui.exe", files + `\R-4.2.3\bin\x64\Rgui.exe`, known, nil, older},
			{"a directory", files + `\R-4.2.3`, known, nil, older},
			{"a version", "4.2", known, nil, older},
			{"a version that is registered", "4.3", withRegistry, nil, registered},
		} {
			t.Run(c.name, func(t *testing.T) {
				found, seen, err := findInstallation(FindOptions{Path: c.named, Dir: root, Env: append([]string{`USERPROFILE=` + root}, c.env...)}, func(discovery.SearchContext) installDirs { return c.known })
				if err != nil || !strings.EqualFold(found.Path, c.want) || found.Version == "" || found.PathSource == "" {
					t.Errorf("got %+v, %v; want %s (%+v)", found, err, c.want, seen)
				}
			})
		}
	})

	t.Run("an error says what to do", func(t *testing.T) {
		root := t.TempDir()
		old := writeRHome(t, root+`\R-4.1.3`, "4.1.3")
		lonely := writeFile(t, root+`\lonely\bin\R.exe`, "")
		itself := testexec.OwnPath()
		program, err := os.ReadFile(itself)
		if err != nil {
			t.Fatal(err)
		}
		at := int(program[0x3c]) | int(program[0x3d])<<8 // of the PE header
		forARM := slices.Clone(program[:min(len(program), 8<<20)])
		forARM[at+4], forARM[at+5] = 0x64, 0xaa
		arm := writeFile(t, root+`\arm\bin\Rterm.exe`, string(forARM))
		for named, words := range map[string][]string{
			"":     {"no R 4.2 or newer", "is R 4.1.3", "by its path", howToInstall},
			old:    {"is R 4.1.3; the worker needs 4.2 or newer"},
			lonely: {"is not Rterm.exe, and none is next to it"},
			arm:    {"is not for x64"},
			root:   {`has no bin\x64\Rterm.exe`},
			"9.9":  {"is R 4.1.3"},
		} {
			found, _, err := findInstallation(FindOptions{Path: named, Dir: root, Env: []string{`USERPROFILE=` + root}}, func(discovery.SearchContext) installDirs { return installDirs{versionDirs: []string{root}} })
			if err == nil {
				t.Errorf("%q: found %+v", named, found)
				continue
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q: %q is not in %q", named, word, err)
				}
			}
		}
	})

	t.Run("reads the installations from the registry", func(t *testing.T) {
		const name = `Software\turnstone-test\R-core\R`
		for _, version := range []string{"4.2.3", "4.10.0"} {
			key, _, err := registry.CreateKey(registry.CURRENT_USER, name+`\`+version, registry.ALL_ACCESS)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { registry.DeleteKey(registry.CURRENT_USER, name+`\`+version) })
			if err := key.SetStringValue("InstallPath", `C:\R\R-`+version); err != nil {
				t.Error(err)
			}
			key.Close()
		}
		t.Cleanup(func() {
			for _, above := range []string{name, `Software\turnstone-test\R-core`, `Software\turnstone-test`} {
				registry.DeleteKey(registry.CURRENT_USER, above)
			}
		})
		key, err := registry.OpenKey(registry.CURRENT_USER, name, registry.ALL_ACCESS)
		if err != nil {
			t.Fatal(err)
		}
		defer key.Close()
		check := func(want ...string) {
			t.Helper()
			if got := readRegistryHomes(registry.CURRENT_USER, name, 0); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		check(`C:\R\R-4.10.0`, `C:\R\R-4.2.3`)
		if err := key.SetStringValue("InstallPath", `C:\R\R-4.2.3`); err != nil { // the current one
			t.Fatal(err)
		}
		check(`C:\R\R-4.2.3`, `C:\R\R-4.10.0`)
	})
}

func TestSpec_Windows(t *testing.T) {
	rterm := writeRHome(t, t.TempDir(), "4.4.0")
	s := Spec(Options{Path: rterm, Args: []string{"a"}})
	if want := []string{"--no-save", "--no-restore", "--quiet", "--ess", "--args", "a"}; s.Err != nil || !slices.Equal(s.Args, want) {
		t.Errorf("got %q, %v; want %q", s.Args, s.Err, want)
	}
	if s.Preparations != nil || len(s.Files["turnstone.dll"]) == 0 || len(s.Files["boot.R"]) == 0 {
		t.Errorf("the files are not there: %d", len(s.Files))
	}
	if s := Spec(Options{Path: rterm, CompileShim: true}); s.Err == nil || !strings.Contains(s.Err.Error(), "prebuilt") {
		t.Errorf("got %v", s.Err)
	}
}
