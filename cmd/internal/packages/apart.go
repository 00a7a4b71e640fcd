package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// keepApart takes out of a request what leads into its directories that are kept apart.
func (r *Request) keepApart() error {
	if len(r.Apart) == 0 {
		return nil
	}
	if r.isApart(r.Executable) {
		real, err := filepath.EvalSymlinks(r.Executable)
		if err == nil && r.isApart(real) {
			err = isSessions(r.Executable)
		}
		if err != nil {
			return err
		}
		r.Executable = real
	}
	var env []string
	for _, kv := range r.Env {
		name, value, _ := strings.Cut(kv, "=")
		parts := filepath.SplitList(value)
		whole := len(parts)
		parts = slices.DeleteFunc(parts, r.isApart)
		switch {
		case len(parts) == whole:
			env = append(env, kv)
		case len(parts) > 0:
			env = append(env, name+"="+strings.Join(parts, string(os.PathListSeparator)))
		}
	}
	r.Env = env
	return nil
}

func isSessions(program string) error {
	return fmt.Errorf("%s is in a directory of the session, whose code may have put another program there, and this runs outside of its sandbox: name one that is elsewhere, or install into the environment itself", program)
}

// madeOf matches the directory of the Python from which a virtual environment was made.
var madeOf = regexp.MustCompile(`(?m)^\s*home\s*=\s*(.*?)\s*$`)

// basePython returns the request's Python, or that from which its virtual environment was made.
func (r *Request) basePython() (string, error) {
	python := r.Executable
	for range 4 { // an environment may name another, or have a copy of the program
		python = resolved(python)
		if r.isApart(python) {
			return "", isSessions(python)
		}
		bin := filepath.Dir(python)
		beside, _ := os.ReadFile(filepath.Join(bin, "pyvenv.cfg"))
		above, _ := os.ReadFile(filepath.Join(bin, "..", "pyvenv.cfg"))
		home := madeOf.FindSubmatch(slices.Concat(beside, []byte("\n"), above))
		if home == nil {
			return python, nil
		}
		python = filepath.Join(string(home[1]), "python3")
	}
	return "", fmt.Errorf("%s is of a virtual environment that was made from no Python", r.Executable)
}

// isApart reports whether a path, or where it leads, is in a directory that is kept apart.
func (r *Request) isApart(path string) bool {
	return slices.ContainsFunc(r.Apart, func(dir string) bool {
		return isBelow(path, dir) || isBelow(resolved(path), resolved(dir))
	})
}

func isBelow(path, dir string) bool {
	below, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsAbs(path) && filepath.IsLocal(below)
}

// resolved is a path without links, or the path where nothing is there.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// lookPath is exec.LookPath without the directories that are kept apart.
func (r *Request) lookPath(name string) (string, error) {
	if len(r.Apart) == 0 {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(r.variable("PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) && !r.isApart(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
