package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Names of the client for Python programs, which has no program in it.
const (
	clientPackageName = "turnstone-client"
	clientModuleName  = "turnstone_client"
	clientSource      = "clients/python"
)

var (
	clientVersionLine = regexp.MustCompile(`(?m)^__version__ = ".*"$`)
	extrasTable       = regexp.MustCompile(`(?m)^\[project\.optional-dependencies\]\n((?:[a-z].*\n)*)`)
	extraLine         = regexp.MustCompile(`^([a-z][a-z0-9-]*) = \[(.*)\]$`)
	quotedWord        = regexp.MustCompile(`"([^"]*)"`)
)

// writeClientWheel builds the wheel of the client for Python, for all platforms. It has the version
// of the program, and its extra "repl" brings exactly that program.
func (r *release) writeClientWheel() error {
	base := clientModuleName + "-" + r.pythonVersion()
	info := base + ".dist-info/"
	list, err := r.clientModules()
	if err != nil {
		return err
	}
	metadata, err := r.clientMetadata()
	if err != nil {
		return err
	}
	licenseText, err := r.source.readFile("LICENSE")
	if err != nil {
		return err
	}
	list = append(list,
		archiveEntry{info + "METADATA", []byte(metadata), false},
		archiveEntry{info + "WHEEL", []byte("Wheel-Version: 1.0\nGenerator: turnstone-release\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), false},
		archiveEntry{info + "licenses/LICENSE", licenseText, false})
	list = append(list, archiveEntry{info + "RECORD", []byte(wheelRecord(list, info+"RECORD")), false})
	data, err := packZip(list, r.source.time)
	if err != nil {
		return err
	}
	return r.writeFile(base+"-py3-none-any.whl", data)
}

// clientModules returns the files of the package, by name, with the version of the release.
func (r *release) clientModules() (list []archiveEntry, err error) {
	root := filepath.Join(r.source.dir, filepath.FromSlash(clientSource))
	err = filepath.WalkDir(filepath.Join(root, clientModuleName), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(d.Name()) != ".py" && d.Name() != "py.typed" {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if name == clientModuleName+"/__init__.py" {
			if !clientVersionLine.Match(data) {
				return fmt.Errorf("%s has no line of the form %s", name, clientVersionLine)
			}
			data = clientVersionLine.ReplaceAllLiteral(data, []byte(`__version__ = "`+r.pythonVersion()+`"`))
		}
		list = append(list, archiveEntry{name, data, false})
		return nil
	})
	return list, err
}

func (r *release) clientMetadata() (string, error) {
	readme, err := r.source.readReadme(clientSource)
	if err != nil {
		return "", err
	}
	project, err := r.source.readFile(clientSource + "/pyproject.toml")
	if err != nil {
		return "", err
	}
	lines := []string{
		"Metadata-Version: 2.4",
		"Name: " + clientPackageName,
		"Version: " + r.pythonVersion(),
		"Summary: Runs code in Python and R sessions that stay alive, from your own program",
		"License-Expression: " + license,
		"License-File: LICENSE",
		"Project-URL: Homepage, " + homepage,
		"Requires-Python: >=3.8",
		"Description-Content-Type: text/markdown",
	}
	extras, err := r.clientExtras(string(project))
	if err != nil {
		return "", err
	}
	return strings.Join(append(append(lines, extras...), "", string(readme)), "\n"), nil
}

// clientExtras returns the extras of a pyproject.toml as lines of the metadata. The program gets the
// version of the release.
func (r *release) clientExtras(project string) (lines []string, err error) {
	table := extrasTable.FindStringSubmatch(strings.ReplaceAll(project, "\r\n", "\n"))
	if table == nil {
		return nil, fmt.Errorf("%s/pyproject.toml has no table project.optional-dependencies", clientSource)
	}
	for line := range strings.Lines(table[1]) {
		extra := extraLine.FindStringSubmatch(strings.TrimSpace(line))
		if extra == nil {
			return nil, fmt.Errorf(`%s/pyproject.toml: write each extra in one line as name = ["package"], not %q`, clientSource, line)
		}
		lines = append(lines, "Provides-Extra: "+extra[1])
		for _, word := range quotedWord.FindAllStringSubmatch(extra[2], -1) {
			requirement := word[1]
			if requirement == packageName {
				requirement += "==" + r.pythonVersion()
			}
			lines = append(lines, fmt.Sprintf(`Requires-Dist: %s; extra == "%s"`, requirement, extra[1]))
		}
	}
	return lines, nil
}
