package python

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// The oldest Python that the worker runs on.
const minMajor, minMinor = 3, 8

// FindOptions configure a search for a Python interpreter. The zero value means the environment and
// working directory of this process.
type FindOptions struct {
	// Path names one interpreter instead of a search: a file, the directory of an
	// environment, a version ("3.12"), or a command on PATH ("python3.12"). A relative
	// path is relative to Dir, and "~/" is the home directory. "" means search.
	Path string

	// Dir is the directory where the search for a project starts; "" means the working
	// directory.
	Dir string

	// Env is the complete environment to search ("K=V"). If a name is repeated, the last value
	// counts. nil means this process's environment.
	Env []string
}

// An Interpreter describes the Python that Find has chosen, and how it was found.
type Interpreter struct {
	// Path is absolute. Links in it are not resolved, because an interpreter finds its
	// environment by the name it was started under.
	Path string

	// Version was read from the files around Path ("3.12.1" or "3.12"), without running
	// the interpreter; "" when unknown.
	Version string

	// PathSource is one line about how it was found, and why earlier candidates could not be used.
	PathSource string

	// Mismatch is one line about requested candidates that could not be used, such as a project's
	// .venv, with the reasons. It may also say that the project requires another version. "" means
	// that everything matches.
	Mismatch string
}

// A Candidate is a possible interpreter that Find inspected, with a note if it cannot be used.
type Candidate = workers.Candidate

// Find chooses the interpreter that a user in o.Dir would expect, without starting a process.
// An active environment comes first, then one nearby in the file system, then any other
// installed interpreter:
//
//  1. o.Path; if it is set, nothing else
//  2. VIRTUAL_ENV, the active virtual environment
//  3. CONDA_PREFIX, unless it is conda's base environment
//  4. the nearest .venv, venv or pixi environment, from o.Dir up to the home directory
//  5. PYENV_VERSION or the nearest .python-version, among the Pythons of pyenv and uv and on PATH
//  6. CONDA_PREFIX if it is the base environment
//  7. python3 or python on PATH; a pyenv shim stands for the interpreter it would run
//  8. on Windows the Pythons of the py launcher: the version that PY_PYTHON names, then the newest
//  9. pyenv's global version
//  10. on Windows the aliases of the Microsoft Store
//
// The result has all inspected candidates in order, even if there is an error.
func Find(o FindOptions) (Interpreter, []Candidate, error) {
	f, err := newFinder(o)
	if err != nil {
		return Interpreter{}, nil, err
	}
	looks := []func() []Candidate{
		f.virtualEnvCandidates, f.activeCondaCandidates, f.projectCandidates, f.pinnedCandidates, f.baseCondaCandidates, f.pathCandidates, f.launcherCandidates, f.pyenvGlobalCandidates, f.storeCandidates,
	}
	if o.Path != "" {
		looks = []func() []Candidate{f.namedCandidates}
	}
	seen, ok := discovery.ChooseCandidate(looks, inspectInterpreter)
	if ok {
		c := seen[len(seen)-1]
		missed := discovery.DescribeMissed(seen)
		if o.Path == "" && missed == "" && !strings.HasPrefix(c.Source, "active ") {
			missed = f.requirementProblem(discovery.ParseVersion(c.Version))
		}
		return Interpreter{Path: c.Path, Version: c.Version, PathSource: discovery.ChoiceReason(seen), Mismatch: missed}, seen, nil
	}
	return Interpreter{}, seen, newNotFoundError(o.Path, seen)
}

func newNotFoundError(named string, seen []Candidate) error {
	looked := discovery.DescribeRejected(seen)
	if named != "" {
		return fmt.Errorf("python: cannot use %q: %s; name an interpreter, the directory of an environment, or an installed version",
			named, looked)
	}
	return &workers.MissingError{Err: fmt.Errorf("python: no Python %d.%d or newer found (%s); install one, or name one by its path",
		minMajor, minMinor, looked)}
}

// A finder is the state of one search for Python.
type finder struct {
	discovery.SearchContext
	path string // FindOptions.Path
}

func newFinder(o FindOptions) (*finder, error) {
	s, err := discovery.NewSearchContext(o.Dir, o.Env)
	if err != nil {
		return nil, fmt.Errorf("python: %w", err)
	}
	return &finder{s, o.Path}, nil
}

// namedCandidates returns the candidates for FindOptions.Path.
func (f *finder) namedCandidates() []Candidate {
	source := "named " + f.path
	path, isPath := f.AbsPath(f.path), discovery.IsPath(f.path)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir() && (isPath || hasPython(path)):
		return []Candidate{environmentCandidate(source, path)}
	case isPath:
		return []Candidate{f.resolveShim(Candidate{Source: source, Path: path})}
	}
	found := f.commandCandidates(f.path)
	for i := range found {
		found[i].Source = "named " + found[i].Source
	}
	if v := discovery.ParseVersion(strings.TrimPrefix(f.path, "python")); v != nil {
		return append(found, f.installedCandidates(source, v)...)
	}
	if len(found) == 0 {
		return []Candidate{{Source: source, Note: "it is not a command on PATH, a file, a directory or a version"}}
	}
	return found
}

func (f *finder) virtualEnvCandidates() []Candidate {
	return f.envVarCandidates("VIRTUAL_ENV")
}

func (f *finder) activeCondaCandidates() []Candidate {
	if f.isCondaBase() {
		return nil
	}
	return f.envVarCandidates("CONDA_PREFIX")
}

func (f *finder) baseCondaCandidates() []Candidate {
	if !f.isCondaBase() {
		return nil
	}
	return f.envVarCandidates("CONDA_PREFIX")
}

// isCondaBase reports whether conda's base environment is active. Shells activate it by default, so it
// says little about what the user wants here.
func (f *finder) isCondaBase() bool {
	name, prefix := f.Env["CONDA_DEFAULT_ENV"], f.Env["CONDA_PREFIX"]
	return prefix != "" && (name == "base" || name == "root" || f.Env["_CONDA_ROOT"] == prefix)
}

// envVarCandidates returns the Python environment that an environment variable names.
func (f *finder) envVarCandidates(name string) []Candidate {
	dir := f.Env[name]
	if dir == "" {
		return []Candidate{{Source: name, Note: "not set"}}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(f.Dir, dir)
	}
	return markRequested(environmentCandidate("active "+name, dir))
}

// markRequested marks candidates as requested by the user.
func markRequested(found ...Candidate) []Candidate {
	for i := range found {
		found[i].Requested = true
	}
	return found
}

// projectCandidates returns the environment of the project, created inside it by venv, virtualenv, uv,
// poetry, pdm, hatch or pixi.
func (f *finder) projectCandidates() []Candidate {
	var found []Candidate
	for _, dir := range f.searchDirs() {
		for _, p := range []struct {
			name  string
			proof string // a file that distinguishes an environment from any other directory of that name
		}{{".venv", ""}, {"venv", "pyvenv.cfg"}, {filepath.Join(".pixi", "envs", "default"), "conda-meta"}} {
			root := filepath.Join(dir, p.name)
			if _, err := os.Lstat(filepath.Join(root, p.proof)); err != nil {
				continue
			}
			c := environmentCandidate(p.name+" in "+dir, root)
			if !isTrustedDir(dir, root) {
				c.Note = "another user may have put it there; if it is yours, activate it or name it by its path"
			}
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return []Candidate{{Source: ".venv", Note: f.describeSearchDirs()}}
	}
	return markRequested(found...)
}

// searchDirs returns f.Dir and its parents up to the home directory or the root.
func (f *finder) searchDirs() []string {
	var dirs []string
	for dir := f.Dir; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if discovery.SamePath(dir, f.Home) || dir == filepath.Dir(dir) {
			return dirs
		}
	}
}

func (f *finder) describeSearchDirs() string {
	dirs := f.searchDirs()
	return fmt.Sprintf("none from %s up to %s", dirs[0], dirs[len(dirs)-1])
}

// pathCandidates lists the interpreters on PATH: first every python3, then every python, which
// may be Python 2.
func (f *finder) pathCandidates() []Candidate {
	var found []Candidate
	for _, name := range commandNames {
		for _, c := range f.commandCandidates(name) {
			if !isStoreAlias(c.Path) {
				found = append(found, c)
			}
		}
	}
	if len(found) == 0 {
		return []Candidate{{Source: "PATH", Note: f.DescribeMissing(commandNames...)}}
	}
	return found
}

// storeCandidates returns the aliases that pathCandidates omits, because they may open the store instead
// of Python.
func (f *finder) storeCandidates() []Candidate {
	var found []Candidate
	for _, name := range commandNames {
		for _, c := range f.commandCandidates(name) {
			if isStoreAlias(c.Path) {
				c.Note = storeAliasProblem(c.Path)
				found = append(found, c)
			}
		}
	}
	return found
}

// commandCandidates lists the executables called name on PATH, in its order.
func (f *finder) commandCandidates(name string) []Candidate {
	var found []Candidate
	for _, path := range f.FindCommands(name) {
		c := f.resolveShim(Candidate{Source: name + " on PATH", Path: path})
		if note := discovery.ToolEnvOwner(path); c.Note == "" && note != "" {
			c.Note = note
		}
		found = append(found, c)
	}
	return found
}

// environmentCandidate returns the interpreter of the virtual or conda environment in root: the
// first that can be executed, otherwise the first that exists.
func environmentCandidate(source, root string) Candidate {
	first := ""
	for _, name := range environmentPythons {
		path := filepath.Join(root, name)
		if discovery.ExecutableProblem(path) == "" {
			return Candidate{Source: source, Path: path}
		}
		if _, err := os.Lstat(path); err == nil && first == "" {
			first = path
		}
	}
	if first == "" {
		first = filepath.Join(root, environmentPythons[0])
	}
	return Candidate{Source: source, Path: first}
}

func hasPython(root string) bool {
	_, err := os.Lstat(environmentCandidate("", root).Path)
	return err == nil
}

// inspectInterpreter returns the version of the interpreter at path, read from the files around it, or a
// note why it cannot be used. An unknown version is accepted: if that Python is too old, the
// worker reports it.
func inspectInterpreter(path string) (text, note string) {
	if note := discovery.ExecutableProblem(path); note != "" {
		return "", note
	}
	v := versionAt(path)
	return v.String(), versionProblem(v)
}

// versionProblem returns why a version cannot be used, or "" if it can or is unknown.
func versionProblem(v discovery.Version) string {
	switch {
	case v == nil:
		return ""
	case v[0] < minMajor:
		return "is Python " + v.String()
	case len(v) > 1 && v[0] == minMajor && v[1] < minMinor:
		return fmt.Sprintf("is Python %s, older than %d.%d", v, minMajor, minMinor)
	}
	return ""
}
