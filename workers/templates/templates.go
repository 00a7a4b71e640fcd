// Package templates has workers in other languages to begin with. Each is whole: it passes the
// checks of package conformance, and is a REPL that can be used as it is.
//
// It has no goroutines.
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

// dialectFile has the code with which a template is checked; see conformance.ParseDialect.
const dialectFile = "dialect.json"

// A template is some files, and the command that starts its worker.
type template struct {
	name    string
	command []string // the last word is one of the files, or what build makes
	files   []string
	build   []string // a command, in the template's directory, that makes the program; nil if there is nothing to make
}

func allTemplates() []template {
	return []template{
		{"c", []string{"worker"}, []string{"c/worker.c", "c/dialect.json"}, []string{"cc", "-O2", "-o", "worker", "worker.c", "-lm"}},
		{"node", []string{"node", "worker.mjs"}, []string{"node/worker.mjs", "node/dialect.json"}, nil},
		{"python", []string{"python3", "worker.py"}, []string{"python/worker.py", "python/language.py", "python/dialect.json"}, nil},
		{"sqlite", []string{"python3", "worker.py"}, []string{"python/worker.py", "sqlite/language.py", "sqlite/dialect.json"}, nil},
	}
}

// findTemplate returns the template with a name.
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

// WorkerCommand returns the command that starts the worker of a template, which has been written to a
// directory. It is nil for an unknown name.
func WorkerCommand(name, dir string) []string {
	t, ok := findTemplate(name)
	if !ok {
		return nil
	}
	last := len(t.command) - 1
	return append(t.command[:last:last], filepath.Join(dir, t.command[last]))
}

// BuildCommand returns the command that makes the program of a template, to be run in the directory that it
// was written to. It is nil if there is nothing to make.
func BuildCommand(name string) []string {
	t, _ := findTemplate(name)
	return slices.Clone(t.build)
}

// Write writes a template into a new directory, and returns what to do with it, in lines for a
// person. An error is a mistake of the caller, or of the disk.
func Write(name, dir string) (next string, err error) {
	t, ok := findTemplate(name)
	if !ok {
		return "", fmt.Errorf("templates: there is no template %q: use one of %s", name, strings.Join(Names(), ", "))
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o777); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("templates: %s is there already; name a new directory", dir)
	} else if err != nil {
		return "", err
	}
	for _, from := range t.files {
		text, err := templateFiles.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, path.Base(from)), text, 0o666)
		}
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir)) // the next try needs a new directory
		}
	}
	command, dialect := WorkerCommand(name, dir), filepath.Join(dir, dialectFile)
	if t.build != nil {
		next = fmt.Sprintf("build it:  (cd '%s' && %s)\n", dir, strings.Join(t.build, " "))
	}
	return next + fmt.Sprintf(`check it:  repl worker check --dialect '%s' %s
use it:    repl --worker 'mine=%s'
keep it:   as a table of workers.toml (see docs/workers.md):
  [workers.mine]
  command = ["%s"]
  dialect = "%s"
`, dialect, strings.Join(command, " "), strings.Join(command, " "), strings.Join(command, `", "`), dialect), nil
}
