package pkginstall

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// rejectShared removes from a request everything that leads into its session directories.
func (r *InstallRequest) rejectShared() error {
	if len(r.SessionDirs) == 0 {
		return nil
	}
	if r.isInApartDir(r.Executable) {
		real, err := paths.Real(r.Executable)
		if err == nil && r.isInApartDir(real) {
			err = rejectSessionProgram(r.Executable)
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
		parts = slices.DeleteFunc(parts, r.isInApartDir)
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

func rejectSessionProgram(program string) error {
	return fmt.Errorf("%s is in a directory of the session, whose code may have replaced it, and it would run outside the sandbox; name one elsewhere, or install into the environment itself", program)
}

// venvHome matches the directory of the Python from which a virtual environment was made.
var venvHome = text.Pattern(`(?m)^\s*home\s*=\s*(.*?)\s*$`)

// basePython returns the request's Python, or the Python from which its virtual environment was
// made.
func (r *InstallRequest) basePython() (string, error) {
	python := r.Executable
	for range 4 { // an environment may name another, or have a copy of the program
		python = paths.RealOrSame(python)
		if r.isInApartDir(python) {
			return "", rejectSessionProgram(python)
		}
		bin := filepath.Dir(python)
		config, _ := os.ReadFile(filepath.Join(bin, "pyvenv.cfg"))
		above, _ := os.ReadFile(filepath.Join(bin, "..", "pyvenv.cfg"))
		home := venvHome().FindSubmatch(slices.Concat(config, []byte("\n"), above))
		if home == nil {
			return python, nil
		}
		python = filepath.Join(string(home[1]), "python3")
	}
	return "", fmt.Errorf("%s belongs to a virtual environment whose base Python cannot be found", r.Executable)
}

// isInApartDir reports whether a path, or its target, is in a session directory.
func (r *InstallRequest) isInApartDir(path string) bool {
	return slices.ContainsFunc(r.SessionDirs, func(dir string) bool {
		return isWithin(path, dir) || isWithin(paths.RealOrSame(path), paths.RealOrSame(dir))
	})
}

// isWithin is paths.Contains for paths that need not be clean. It is false for a relative path.
func isWithin(path, dir string) bool {
	return filepath.IsAbs(path) && paths.Contains(filepath.Clean(dir), filepath.Clean(path))
}

// lookPath is exec.LookPath without the session directories.
func (r *InstallRequest) lookPath(name string) (string, error) {
	if len(r.SessionDirs) == 0 {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(environ.Get(r.Env, "PATH")) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) && !r.isInApartDir(path) {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
