package userconfig

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A CustomWorker is an entry of the user for a program that speaks the worker protocol.
type CustomWorker struct {
	// Command starts it. The first word is an absolute path or a name on PATH; "~/" at the start of
	// a word is the home directory.
	Command []string `toml:"command"`

	Display      string   `toml:"display"`      // the displayed language; "" means the name
	Aliases      []string `toml:"aliases"`      // other names that --lang accepts
	Continuation string   `toml:"continuation"` // the prompt for further lines of an input
	Quit         string   `toml:"quit"`         // an input that makes the runtime exit; "" asks the worker to shut down
	Env          []string `toml:"env"`          // NAME=VALUE
	Extension    string   `toml:"extension"`    // of an exported script, without the dot
	Comment      string   `toml:"comment"`      // starts a comment in such a script
	Dialect      string   `toml:"dialect"`      // the file for repl worker check and repl doctor; see conformance.ParseDialect
}

// WorkersFile returns the path of the user's file of custom workers, workers.toml next to
// sandbox.toml, or "" without a home directory.
func WorkersFile(getenv func(string) string) string {
	return configPath(getenv, "workers.toml")
}

// workerName matches names that work as the name of a history file and cannot be mistaken for an
// option.
var workerName = text.Pattern(`^[a-z][a-z0-9_+-]{0,31}$`)

// IsWorkerName reports whether a worker may have that name.
func IsWorkerName(name string) bool { return workerName().MatchString(name) }

// ReadWorkers reads the file. A missing file is empty. An error names the line.
func ReadWorkers(path string) (map[string]CustomWorker, error) {
	text, err := readPrivateFile(path)
	if text == nil || err != nil {
		return nil, err
	}
	var file struct {
		Workers map[string]CustomWorker `toml:"workers"`
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s, %s", path, errorPosition(err))
	}
	for name, w := range file.Workers {
		if err := w.validate(name); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, findLine(text, "[workers."+name), err)
		}
	}
	return file.Workers, nil
}

func (w *CustomWorker) validate(name string) error {
	for _, n := range append([]string{name}, w.Aliases...) {
		if !IsWorkerName(n) {
			return fmt.Errorf("invalid worker name %q: use up to 32 lower-case letters, digits, _, + and -, and start with a letter", n)
		}
	}
	if len(w.Command) == 0 || w.Command[0] == "" {
		return fmt.Errorf("%s lacks a command", name)
	}
	for _, kv := range w.Env {
		if before, _, ok := strings.Cut(kv, "="); !ok || before == "" {
			return fmt.Errorf("env of %s: %q is not NAME=VALUE", name, kv)
		}
	}
	if strings.ContainsAny(w.Extension, `./\`) {
		return fmt.Errorf("extension of %s: %q must be only the letters after the dot", name, w.Extension)
	}
	return nil
}
