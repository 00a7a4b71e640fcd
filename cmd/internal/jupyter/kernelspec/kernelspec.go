package kernelspec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// Bounds for reading kernelspecs. A larger kernel.json counts as broken, and further kernels are not listed.
const (
	maxFileBytes = 1 << 20 // bytes of a kernel.json
	maxKernels   = 512
)

// A KernelSpec describes an installed kernel, from its kernel.json.
type KernelSpec struct {
	Name string // in lower case
	Dir  string // the directory of kernel.json, absolute
	Err  error  // why the kernel cannot be used; then only Name and Dir are set

	Display  string
	Language string // as the kernel's author spells it: "python", "R", "bash"

	// InterruptByMessage means that a message interrupts the kernel instead of SIGINT.
	InterruptByMessage bool

	argv []string
	env  map[string]string
}

var kernelName = text.Pattern(`^[a-z0-9._-]+$`)

// List returns all installed kernels, sorted by name. Of kernels with the same name, it returns the
// first in the order of the directories. getenv is the environment of the session.
func List(getenv func(string) string) []KernelSpec {
	found := make(map[string]KernelSpec)
	for _, parent := range kernelDirs(getenv) {
		entries, err := os.ReadDir(parent)
		if err != nil {
			continue // Jupyter skips them, too: most do not exist
		}
		for _, e := range entries {
			name := strings.ToLower(e.Name())
			if _, taken := found[name]; taken || !kernelName().MatchString(name) || len(found) == maxKernels {
				continue
			}
			s, err := Read(filepath.Join(parent, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // a directory without a kernel.json is not a kernelspec
			}
			found[name] = s
		}
	}
	all := slices.Collect(maps.Values(found))
	sort.SliceStable(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// A NotFoundError means that no installed kernel has that name.
type NotFoundError struct {
	Name         string
	Installed    []string // all usable names, sorted
	SearchedDirs []string
}

func (e *NotFoundError) Error() string {
	if len(e.Installed) == 0 {
		return fmt.Sprintf("unknown Jupyter kernel %s: no kernel is installed in %s", e.Name, strings.Join(e.SearchedDirs, ", "))
	}
	return fmt.Sprintf("unknown Jupyter kernel %s; installed: %s", e.Name, strings.Join(e.Installed, ", "))
}

// Find returns the kernel with a name, ignoring case. The error is a *NotFoundError, or says why the
// kernelspec cannot be used.
func Find(getenv func(string) string, name string) (KernelSpec, error) {
	missing := &NotFoundError{Name: name, SearchedDirs: kernelDirs(getenv)}
	for _, s := range List(getenv) {
		if s.Name == strings.ToLower(name) {
			return s, s.Err
		}
		if s.Err == nil {
			missing.Installed = append(missing.Installed, s.Name)
		}
	}
	return KernelSpec{}, missing
}

// Read reads the kernelspec in a directory. The error is also in the Spec.
func Read(dir string) (KernelSpec, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return KernelSpec{}, err
	}
	path := filepath.Join(dir, "kernel.json")
	s := KernelSpec{Name: strings.ToLower(filepath.Base(dir)), Dir: dir}
	if err := s.parseFile(path); err != nil {
		s = KernelSpec{Name: s.Name, Dir: dir, Err: fmt.Errorf("kernelspec %s: %w", path, err)}
	}
	return s, s.Err
}

func (s *KernelSpec) parseFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxFileBytes:
		return fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	var written struct {
		Argv      []string          `json:"argv"`
		Display   string            `json:"display_name"`
		Language  string            `json:"language"`
		Interrupt string            `json:"interrupt_mode"`
		Env       map[string]string `json:"env"`
	}
	if err := json.Unmarshal(text, &written); err != nil {
		return fmt.Errorf("not a JSON kernelspec: %w", err)
	}
	switch {
	case len(written.Argv) == 0 || written.Argv[0] == "":
		return errors.New("argv names no program")
	case !slices.ContainsFunc(written.Argv, func(a string) bool { return strings.Contains(a, "{connection_file}") }):
		return errors.New("argv lacks {connection_file}")
	case written.Interrupt != "" && written.Interrupt != "signal" && written.Interrupt != "message":
		return fmt.Errorf("interrupt_mode %q must be signal or message", written.Interrupt)
	}
	s.argv, s.env, s.InterruptByMessage = written.Argv, written.Env, written.Interrupt == "message"
	s.Display, s.Language = cmp.Or(written.Display, s.Name), written.Language
	return nil
}

var pythonName = text.Pattern(`^python(3(\.\d+)?)?(\.exe)?$`)

// Command returns the words of the command that starts the kernel. If the first is "python" or
// "python3", it is the interpreter of the environment that the kernelspec was found in.
func (s *KernelSpec) Command(connectionFile string) []string {
	prefix, python := pythonEnvironment(s.Dir, strings.TrimSuffix(s.argv[0], ".exe"))
	fill := strings.NewReplacer("{connection_file}", connectionFile, "{resource_dir}", s.Dir, "{prefix}", prefix)
	words := make([]string, len(s.argv))
	for i, word := range s.argv {
		words[i] = fill.Replace(word)
	}
	if pythonName().MatchString(s.argv[0]) && python != "" {
		words[0] = python
	}
	return words
}

// PythonModule returns the Python module that starts the kernel, or "".
func (s *KernelSpec) PythonModule() string {
	if i := slices.Index(s.argv, "-m"); i >= 0 && i+1 < len(s.argv) {
		return s.argv[i+1]
	}
	return ""
}

// Env returns the environment of the kernelspec as "K=V". A ${NAME} in a value is replaced by that
// variable of the environment.
func (s *KernelSpec) Env(getenv func(string) string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		all = append(all, name+"="+substituteVariables(s.env[name], getenv))
	}
	return all
}

var variableRef = text.Pattern(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// substituteVariables replaces each ${NAME}, but leaves variables that are not set unchanged, as Jupyter
// does.
func substituteVariables(value string, getenv func(string) string) string {
	return variableRef().ReplaceAllStringFunc(value, func(use string) string {
		return cmp.Or(getenv(use[2:len(use)-1]), use)
	})
}
