package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLicenses(t *testing.T) {
	t.Run("the table has each module of the programs for all systems, and no other", func(t *testing.T) {
		var programs []builtProgram
		for _, target := range buildTargets {
			programs = append(programs, builtProgram{buildTarget: target})
		}
		modules, err := (&sourceTree{dir: ".."}).findModules(t.Context(), programs)
		if err != nil {
			t.Fatal(err)
		}
		parties, err := checkModules(modules, licenseTable)
		if err != nil {
			t.Fatal(err)
		}
		var table map[string]licenseRow
		if err := json.Unmarshal(licenseTable, &table); err != nil {
			t.Fatal(err)
		}
		for name := range table {
			if !slices.ContainsFunc(parties, func(p thirdParty) bool { return p.name == name }) {
				t.Errorf("licenses.json has a row for %s, which is in no program", name)
			}
		}
	})

	t.Run("a module stops the release until its license has been read", func(t *testing.T) {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"LICENSE": "You may.", "NOTICE.txt": "Thanks.", "license.go": "package x"})
		row := `"example.org/m": { "license": "MIT", "sha256": "` + digest("You may.Thanks.") + `" }`
		for name, table := range map[string]string{
			"":                    "{" + row + "}",
			"has no row":          "{}",
			"has another text":    strings.Replace("{"+row+"}", digest("You may.Thanks."), digest("You may not."), 1),
			"has no license name": strings.Replace("{"+row+"}", "MIT", "", 1),
		} {
			_, err := checkModules(map[string]string{"example.org/m v1.2.3": dir}, []byte(table))
			if name == "" && err != nil {
				t.Error(err)
			}
			if name != "" && (err == nil || !strings.Contains(err.Error(), `"example.org/m": { "license": "`) || !strings.Contains(err.Error(), digest("You may.Thanks."))) {
				t.Errorf("%s: the row to add is not printed: %v", name, err)
			}
		}
		if _, err := checkModules(map[string]string{"example.org/m v1.2.3": t.TempDir()}, []byte("{"+row+"}")); err == nil {
			t.Error("a module without a license file is accepted")
		}
	})

	t.Run("each vendored package has the text that SOURCES lists for it", func(t *testing.T) {
		lines := []string{
			"# file, package, path, license, digest",
			"chart.js chart@1.0.0 build/chart.js ISC 0",
			"chart-LICENSE.txt chart@1.0.0 LICENSE ISC " + digest("chart's"),
			"chart-more.js @chart/more@2.0.0 more.js ISC 0",
		}
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"SOURCES": strings.Join(lines, "\n"), "chart-LICENSE.txt": "chart's"})
		parties, err := findVendored(dir)
		if err != nil || len(parties) != 2 {
			t.Fatal(parties, err)
		}
		if p := parties[1]; p.name != "@chart/more" || p.version != "2.0.0" || p.purl != "pkg:npm/%40chart/more@2.0.0" || p.license != "ISC" || string(p.texts[0].data) != "chart's" {
			t.Errorf("%+v", p)
		}
		for name, line := range map[string]string{
			"no text":         "other.js other@1.0.0 other.js ISC 0",
			"another license": "chart-x.js x@1.0.0 x.js MIT 0",
			"another text":    "chart-x-LICENSE.txt x@1.0.0 LICENSE ISC 0",
			"no version":      "chart-x.js x x.js ISC 0",
			"no digest":       "chart-x.js x@1.0.0 x.js ISC",
		} {
			writeFiles(t, dir, map[string]string{"SOURCES": strings.Join(append(lines, line), "\n"), "chart-x-LICENSE.txt": "x's"})
			if parties, err := findVendored(dir); err == nil {
				t.Errorf("%s: %+v", name, parties)
			}
		}
	})
}

func TestNotices(t *testing.T) {
	t.Run("the bill of materials has the license of each component, and each package its text", func(t *testing.T) {
		b, err := os.ReadFile(findOne(t, "*.cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var bom struct {
			Components []struct {
				Name, Version string
				Licenses      []struct {
					License    struct{ ID string }
					Expression string
				}
			}
		}
		if err := json.Unmarshal(b, &bom); err != nil {
			t.Fatal(err)
		}
		notices := findPacked(t, unpackTar(t, findOne(t, "turnstone-repl_*_linux_amd64.tar.gz")), noticesName)
		var names []string
		for _, c := range bom.Components {
			names = append(names, c.Name)
			if len(c.Licenses) != 1 || c.Licenses[0].License.ID+c.Licenses[0].Expression == "" {
				t.Errorf("%s has no license", c.Name)
			}
			if !strings.Contains(notices, "\n"+c.Name+" "+c.Version+" (") {
				t.Errorf("the archive lacks the license of %s", c.Name)
			}
		}
		for _, name := range []string{"std", "golang.org/x/sys", "prismjs", "temml"} {
			if !slices.Contains(names, name) {
				t.Errorf("%s is not in the bill of materials: %q", name, names)
			}
		}
		for name, list := range map[string][]archiveEntry{
			"wheel": unpackZip(t, findOne(t, "*x86_64*.whl")),
			"npm":   unpackTar(t, findOne(t, "turnstone-repl-linux-x64-*.tgz")),
		} {
			if findPacked(t, list, noticesName) != notices {
				t.Errorf("the %s package has other notices than the archive", name)
			}
		}
	})

	t.Run("the rpm package has them", func(t *testing.T) {
		out, err := exec.Command(findTool(t, "rpm"), "-qlp", findOne(t, "*.x86_64.rpm")).Output()
		if err != nil || !strings.Contains(string(out), docDir+noticesName+"\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestIndexPages(t *testing.T) {
	packages := map[string][]archiveEntry{
		"wheel":             unpackZip(t, findOne(t, "*x86_64*.whl")),
		"client wheel":      unpackZip(t, findOne(t, "turnstone_client-*.whl")),
		"npm":               unpackTar(t, findOne(t, "turnstone-repl-"+testNumber+".tgz")),
		"TypeScript client": unpackTar(t, findOne(t, "turnstone-client-"+testNumber+".tgz")),
	}
	page := func(name string) string {
		if strings.Contains(name, "wheel") {
			return findPacked(t, packages[name], "METADATA")
		}
		return findPacked(t, packages[name], "README.md")
	}
	t.Run("have no relative links", func(t *testing.T) {
		for name := range packages {
			text := page(name)
			if relative := relativeLinks(text); len(relative) > 0 {
				t.Errorf("%s: %q", name, relative)
			}
			if !strings.Contains(text, homepage+"/blob/"+testVersion+"/docs/") {
				t.Errorf("%s has no link to the tag", name)
			}
		}
	})

	t.Run("prove to the MCP registry whose packages they are", func(t *testing.T) {
		if !strings.Contains(page("wheel"), "\n<!-- mcp-name: "+registryName+" -->\n") {
			t.Error("the wheel does not name the registry's entry")
		}
		var about struct{ McpName string }
		if err := json.Unmarshal([]byte(findPacked(t, packages["npm"], "package.json")), &about); err != nil || about.McpName != registryName {
			t.Errorf("package.json: %q, %v", about.McpName, err)
		}
	})

	t.Run("a link that leads nowhere is found", func(t *testing.T) {
		dir := t.TempDir()
		writeFiles(t, dir, map[string]string{"README.md": "[a](b.md#c) [d](#e) [f](https://example.org/)", "b.md": ""})
		text, err := (&sourceTree{dir: dir, tag: "v1.0.0"}).readReadme("")
		if want := "[a](" + homepage + "/blob/v1.0.0/b.md#c) [d](#e) [f](https://example.org/)"; err != nil || string(text) != want {
			t.Errorf("%s, %v", text, err)
		}
		writeFiles(t, dir, map[string]string{"README.md": "[a](gone.md)"})
		if _, err := (&sourceTree{dir: dir, tag: "v1.0.0"}).readReadme(""); err == nil {
			t.Error("a link to a file that does not exist is accepted")
		}
	})
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// findPacked returns the contents of the only file with the given base name.
func findPacked(t *testing.T, list []archiveEntry, name string) string {
	t.Helper()
	var found []archiveEntry
	for _, e := range list {
		if filepath.Base(e.name) == name {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d files have the name %s", len(found), name)
	}
	return string(found[0].data)
}

func unpackTar(t *testing.T, path string) (list []archiveEntry) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, archiveEntry{name: h.Name, data: data})
	}
}

func unpackZip(t *testing.T, path string) (list []archiveEntry) {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, archiveEntry{name: f.Name, data: data})
	}
	return list
}
