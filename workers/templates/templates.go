// Package templates contains complete workers in other languages as starting points. Each is a
// usable REPL, and passes the checks of package conformance.
//
// It starts no goroutines.
package templates

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed c node python sqlite
var templateFiles embed.FS

// dialectFile is the name of the file with the code for checking a template; see
// conformance.ParseDialect.
const dialectFile = "dialect.json"

// A template consists of files and the command that starts its worker.
type template struct {
	name    string
	command []string // the last word is one of the files, or the program that build creates
	files   []string
	build   []string // the command, run in the template's directory, that builds the program; nil if there is nothing to build
}

func allTemplates() []template {
	return []template{
		{"c", []string{"worker"}, []string{"c/worker.c", "c/dialect.json"}, []string{"cc", "-O2", "-o", "worker", "worker.c", "-lm"}},
		{"node", []string{"node", "worker.mjs"}, []string{"node/worker.mjs", "node/dialect.json"}, nil},
		{"python", []string{"python3", "worker.py"}, []string{"python/worker.py", "python/language.py", "python/dialect.json"}, nil},
		{"sqlite", []string{"python3", "worker.py"}, []string{"python/worker.py", "sqlite/language.py", "sqlite/dialect.json"}, nil},
	}
}

// findTemplate returns the template with this name.
func findTemplate(name string) (template, bool) {
	i := slices.IndexFunc(allTemplates(), func(t template) bool { return t.name == name })
	if i < 0 {
		return template{}, false
	}
	return allTemplates()[i], true
}

// Names returns the names of all templates.
func Names() []string {
	var names []string
	for _, t := range allTemplates() {
		names = append(names, t.name)
	}
	return names
}

// WorkerCommand returns the command that starts the worker of a template that was written to
// dir. It is nil for an unknown name.
func WorkerCommand(name, dir string) []string {
	t, ok := findTemplate(name)
	if !ok {
		return nil
	}
	last := len(t.command) - 1
	return append(t.command[:last:last], filepath.Join(dir, t.command[last]))
}

// BuildCommand returns the command that builds the program of a template, to be run in the
// directory that it was written to. It is nil if there is nothing to build.
func BuildCommand(name string) []string {
	t, _ := findTemplate(name)
	return slices.Clone(t.build)
}

// Write writes a template into a new directory, and returns instructions for the user, in
// lines. An error is a mistake of the caller or a disk error.
func Write(name, dir string) (next string, err error) {
	t, ok := findTemplate(name)
	if !ok {
		return "", fmt.Errorf("templates: unknown template %q; use one of %s", name, strings.Join(Names(), ", "))
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o777); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("templates: %s already exists; name a new directory", dir)
	} else if err != nil {
		return "", err
	}
	for _, from := range t.files {
		text, err := templateFiles.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path.Base(from)), text, 0o666)
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir)) // a retry needs a new directory
		}
	}
	command, dialect := WorkerCommand(name, dir), filepath.Join(dir, dialectFile)
	if t.build != nil {
		next = fmt.Sprintf("build it:  (cd '%s' && %s)\n", dir, strings.Join(t.build, " "))
	}
	return next + fmt.Sprintf(`check it:  repl worker check --dialect '%s' %s
use it:    repl --worker 'mine=%s'
keep it:   as a table of workers.toml (see docs/languages.md):
  [workers.mine]
  command = ["%s"]
  dialect = "%s"
`, dialect, strings.Join(command, " "), strings.Join(command, " "), strings.Join(command, `", "`), dialect), nil
}
