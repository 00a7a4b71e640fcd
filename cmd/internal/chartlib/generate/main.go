// Command generate updates the list of published chart libraries, releases.txt of package chartlib.
// It is run by hand before a release, from the root of the tree, and needs npm:
//
//	go run ./cmd/internal/chartlib/generate
//
// Releases that are in the list already are not downloaded again. The packages of npm contain the
// same bytes as those of PyPI, and are smaller. Dates of releases are not used, because mirrors
// change them.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listPath is the list, from the root of the tree.
const listPath = "cmd/internal/chartlib/releases.txt"

// maxListBytes bounds the list, in bytes, because it is part of the program. Raise the first
// versions when it is reached.
const maxListBytes = 60 << 10

const listHeader = "# Published builds of chart libraries: name, version, SHA-256. Written by generate; see doc.go.\n"

// A npmPackage is a package of npm with the scripts that are listed.
type npmPackage struct {
	name  string
	first string            // the first version to list, about three years old
	files map[string]string // the name of the library by the path in the package
}

func npmPackages() []npmPackage {
	return []npmPackage{
		{"plotly.js-dist-min", "2.27.0", map[string]string{"package/plotly.min.js": "plotly"}},
		{"@bokeh/bokehjs", "3.3.0", map[string]string{
			"package/build/js/bokeh.min.js":         "bokeh",
			"package/build/js/bokeh-widgets.min.js": "bokeh-widgets",
			"package/build/js/bokeh-tables.min.js":  "bokeh-tables",
			"package/build/js/bokeh-mathjax.min.js": "bokeh-mathjax",
		}},
	}
}

func main() {
	if err := update(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// update adds the releases that are missing in the list, and drops those that are too old.
func update() error {
	old, err := os.ReadFile(listPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var list bytes.Buffer
	list.WriteString(listHeader)
	for _, p := range npmPackages() {
		versions, err := p.versions()
		if err != nil {
			return err
		}
		for _, version := range versions {
			lines, err := p.lines(version, string(old))
			if err != nil {
				return fmt.Errorf("%s %s: %w", p.name, version, err)
			}
			list.WriteString(lines)
		}
	}
	if list.Len() > maxListBytes {
		return fmt.Errorf("the list has %d bytes, more than %d: raise the first versions", list.Len(), maxListBytes)
	}
	return os.WriteFile(listPath, list.Bytes(), 0o644)
}

// versions returns the releases of a package from the first one on, in order. It leaves out
// previews.
func (p npmPackage) versions() ([]string, error) {
	out, err := exec.Command("npm", "view", "--json", p.name, "versions").Output()
	if err != nil {
		return nil, fmt.Errorf("npm view %s: %w", p.name, err)
	}
	var all []string
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(v string) bool {
		return strings.Contains(v, "-") || compareVersions(v, p.first) < 0
	})
	slices.SortFunc(all, compareVersions)
	return all, nil
}

// compareVersions compares versions such as 3.10.0, part by part.
func compareVersions(a, b string) int {
	parts := func(v string) (numbers []int) {
		for part := range strings.SplitSeq(v, ".") {
			n, _ := strconv.Atoi(part)
			numbers = append(numbers, n)
		}
		return numbers
	}
	return slices.Compare(parts(a), parts(b))
}

// lines returns the lines of one release: those of the old list if it has them, or else those of the
// downloaded package.
func (p npmPackage) lines(version, old string) (string, error) {
	var all []string
	for line := range strings.Lines(old) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == version {
			for _, name := range p.files {
				if f[0] == name {
					all = append(all, line)
				}
			}
		}
	}
	if len(all) == 0 {
		fmt.Fprintln(os.Stderr, "generate: reading", p.name, version)
		var err error
		if all, err = p.download(version); err != nil {
			return "", err
		}
	}
	slices.Sort(all)
	return strings.Join(all, ""), nil
}

// download returns the lines of a release that npm has downloaded.
func (p npmPackage) download(version string) (lines []string, err error) {
	dir, err := os.MkdirTemp("", "chartlib")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("npm", "pack", "--silent", "--ignore-scripts", p.name+"@"+version)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return nil, fmt.Errorf("npm pack left %d archives: %w", len(archives), err)
	}
	f, err := os.Open(archives[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(zipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return lines, p.checkComplete(lines)
		}
		if err != nil {
			return nil, err
		}
		name, ok := p.files[path.Clean(header.Name)]
		if !ok {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, files); err != nil {
			return nil, err
		}
		lines = append(lines, name+" "+version+" "+hex.EncodeToString(sum.Sum(nil))+"\n")
	}
}

func (p npmPackage) checkComplete(lines []string) error {
	if len(lines) != len(p.files) {
		return fmt.Errorf("the package has %d of %d scripts", len(lines), len(p.files))
	}
	return nil
}
