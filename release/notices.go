package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesName names the file with the licenses of all third-party code in the program.
const noticesName = "THIRD-PARTY-NOTICES.txt"

// licenseTable has a row for Go and for each module in the programs. A module that has no row, or
// whose license text has changed, stops the release until a person has read the text.
//
//go:embed licenses.json
var licenseTable []byte

// A licenseRow records the license of a module, as a person read it.
type licenseRow struct {
	License string `json:"license"` // an SPDX expression
	SHA256  string `json:"sha256"`  // of the texts, one after the other
}

// A thirdParty is a module or a package whose code is in the programs.
type thirdParty struct {
	name, version string
	purl          string // its package URL
	license       string // an SPDX expression
	texts         []archiveEntry
}

var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// collectNotices finds all third-party code in the programs, and adds its licenses to the extra files.
func (r *release) collectNotices(ctx context.Context) error {
	modules, err := r.source.findModules(ctx, r.programs)
	if err != nil {
		return err
	}
	if r.thirdParties, err = checkModules(modules, licenseTable); err != nil {
		return err
	}
	vendored, err := findVendored(filepath.Join(r.source.dir, filepath.FromSlash(vendorDir)))
	if err != nil {
		return err
	}
	r.thirdParties = append(r.thirdParties, vendored...)
	r.extras = append(r.extras, extraFile{noticesName, docDir + noticesName, r.joinNotices()})
	return nil
}

// findModules returns the modules in the programs and Go itself, as "PATH VERSION", with their directories.
func (s *sourceTree) findModules(ctx context.Context, programs []builtProgram) (map[string]string, error) {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"
	dirs := make(map[string]string)
	for _, p := range programs {
		list, err := runCommand(ctx, s.dir, p.goEnv(), "go", "list", "-deps", "-f", format, "./cmd/repl")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(list) {
			if field := strings.Split(strings.TrimSpace(line), "\t"); len(field) == 3 {
				dirs[field[0]+" "+field[1]] = field[2]
			}
		}
	}
	about, err := runCommand(ctx, s.dir, nil, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	root, version, _ := strings.Cut(about, "\n")
	dirs["std v"+strings.TrimPrefix(version, "go")] = root
	return dirs, nil
}

// checkModules compares the license texts of modules with the table.
func checkModules(modules map[string]string, table []byte) (parties []thirdParty, err error) {
	var known map[string]licenseRow
	if err := json.Unmarshal(table, &known); err != nil {
		return nil, fmt.Errorf("licenses.json: %w", err)
	}
	var problems []error
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		name, version, _ := strings.Cut(module, " ")
		texts, err := readLicenses(modules[module])
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		for _, text := range texts {
			sum.Write(text.data)
		}
		row := licenseRow{known[name].License, hex.EncodeToString(sum.Sum(nil))}
		switch {
		case len(texts) == 0:
			problems = append(problems, fmt.Errorf("%s has no license file in %s", module, modules[module]))
		case row != known[name] || row.License == "":
			problems = append(problems, fmt.Errorf("%s has a license that nobody has read: read the texts in %s, and write this row with their SPDX expression into licenses.json:\n  %q: { \"license\": %q, \"sha256\": %q }", module, modules[module], name, row.License, row.SHA256))
		}
		parties = append(parties, thirdParty{name, version, "pkg:golang/" + name + "@" + version, row.License, texts})
	}
	return parties, errors.Join(problems...)
}

// readLicenses returns the license files at the root of a module.
func readLicenses(dir string) (texts []archiveEntry, err error) {
	files, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.IsDir() || filepath.Ext(f.Name()) == ".go" || !licenseFile.MatchString(f.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, archiveEntry{name: f.Name(), data: data})
	}
	return texts, nil
}

// vendorDir has the files of others in the web UI. Its file SOURCES lists them.
const vendorDir = "cmd/internal/webui/static/vendor"

// findVendored returns the packages of npm in SOURCES. A package without a license text of its own
// has the text whose name begins like that of its file: vega-LICENSE.txt is also for vega-interpreter.js.
func findVendored(dir string) (parties []thirdParty, err error) {
	list, err := os.ReadFile(filepath.Join(dir, "SOURCES"))
	if err != nil {
		return nil, err
	}
	var rows [][]string
	texts := make(map[string][]string) // rows of license texts, by the beginning of the file name
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		row := strings.Fields(line) // file, package@version, path in it, license, digest
		if len(row) != 5 {
			return nil, fmt.Errorf("SOURCES: want five fields in %q", line)
		}
		if licenseFile.MatchString(path.Base(row[2])) {
			texts[strings.ToLower(strings.TrimSuffix(row[0], "-LICENSE.txt"))] = row
		}
		rows = append(rows, row)
	}
	added := make(map[string]bool)
	for _, row := range rows {
		text := texts[longestStart(row[0], texts)]
		if text == nil || text[3] != row[3] {
			return nil, fmt.Errorf("SOURCES: %s has no license text of %s", row[0], row[3])
		}
		if added[row[1]] {
			continue
		}
		added[row[1]] = true
		data, err := os.ReadFile(filepath.Join(dir, text[0]))
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != text[4] {
			return nil, fmt.Errorf("%s is not the text that SOURCES lists", text[0])
		}
		at := strings.LastIndex(row[1], "@")
		if at < 1 {
			return nil, fmt.Errorf("SOURCES: %q has no version", row[1])
		}
		purl := "pkg:npm/" + strings.Replace(row[1], "@", "%40", strings.Count(row[1], "@")-1)
		parties = append(parties, thirdParty{row[1][:at], row[1][at+1:], purl, row[3], []archiveEntry{{name: text[0], data: data}}})
	}
	return parties, nil
}

// longestStart returns the longest key with which a file name begins, up to a dot or a dash.
func longestStart(name string, texts map[string][]string) (longest string) {
	for start := range texts {
		rest, ok := strings.CutPrefix(strings.ToLower(name), start)
		if ok && strings.IndexAny(rest, ".-") == 0 && len(start) > len(longest) {
			longest = start
		}
	}
	return longest
}

// joinNotices returns the licenses of all third-party code as one text.
func (r *release) joinNotices() []byte {
	var b strings.Builder
	b.WriteString("The program repl contains code of the following third parties, under these licenses.\n")
	for _, p := range r.thirdParties {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 78), p.name, p.version, p.license)
		for _, text := range p.texts {
			fmt.Fprintf(&b, "%s\n%s\n\n%s\n", strings.Repeat("-", 78), text.name, strings.TrimSpace(strings.ReplaceAll(string(text.data), "\r\n", "\n")))
		}
	}
	return []byte(b.String())
}

// debianCopyright returns the file that Debian requires, following
// https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/.
func debianCopyright() []byte {
	return []byte(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ` + packageName + `
Source: ` + homepage + `
Comment: The program is linked statically.
 ` + noticesName + ` in this directory has the licenses of the code of third parties in it.

Files: *
Copyright: The Turnstone authors
License: ` + license + `
 The text is in LICENSE in this directory,
 and on Debian systems in /usr/share/common-licenses/Apache-2.0.
`)
}
