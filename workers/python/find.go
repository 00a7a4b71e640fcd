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

// FindOptions says where Find looks. The zero value means the surroundings of
// this process.
type FindOptions struct {
	// Path names one interpreter and turns the search off: a file, the directory
	// of an environment, a version ("3.12"), or a command on PATH ("python3.12").
	// A relative path counts from Dir, and "~/" is the home directory. "" means
	// search.
	Path string

	// Dir is the directory where the search for a project starts; "" means the working
	// directory.
	Dir string

	// Env is the complete environment to search ("K=V"); the last of two equal names
	// counts. nil means that of this process.
	Env []string
}

// An Interpreter is a Python that Find has chosen.
type Interpreter struct {
	// Path is absolute. Links in it are not resolved, because an interpreter finds its
	// environment by the name it was started under.
	Path string

	// Version was read from the files around Path ("3.12.1" or "3.12"), without running
	// the interpreter; "" when unknown.
	Version string

	// PathSource says in one line how it was found, and which earlier candidates could not be
	// used.
	PathSource string

	// Mismatch names in one line the candidates that were asked for, such as a project's
	// .venv, but could not be used, with the reasons, or says that the project requires another
	// version; "" when there is nothing to say.
	Mismatch string
}

// A Candidate is one place that Find looked at.
type Candidate = workers.Candidate

// Find chooses the interpreter that a person in o.Dir would expect, without
// starting a process. An environment that was activated comes first, then one that is
// nearby in the file system, then any other that is installed:
//
//  1. o.Path, and then nothing else
//  2. VIRTUAL_ENV, the active virtual environment
//  3. CONDA_PREFIX, unless it is conda's base environment
//  4. the nearest .venv, venv or pixi environment, from o.Dir up to the home directory
//  5. PYENV_VERSION or the nearest .python-version, among the Pythons of pyenv and uv and on PATH
//  6. CONDA_PREFIX when it is the base environment
//  7. python3 or python on PATH; a pyenv shim stands for the interpreter it would run
//  8. on Windows the Pythons of the py launcher: the version that PY_PYTHON names, then the newest
//  9. pyenv's global version
//  10. on Windows the aliases of the Microsoft Store
//
// The candidates are all places where it looked, in order, also when there is an error.
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
		return fmt.Errorf("python: cannot use %q: %s; name an interpreter, the directory of an environment, or a version that is installed",
			named, looked)
	}
	return &workers.MissingError{Err: fmt.Errorf("python: no Python %d.%d or newer found (%s); install one, or name one by its path",
		minMajor, minMinor, looked)}
}

// A finder is one search.
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
		return []Candidate{{Source: source, Note: "PATH has no such command, and it is no file, directory or version"}}
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

// isCondaBase reports whether conda's own environment is the active one. Shells enter it
// by default, so it says little about what the user wants here.
func (f *finder) isCondaBase() bool {
	name, prefix := f.Env["CONDA_DEFAULT_ENV"], f.Env["CONDA_PREFIX"]
	return prefix != "" && (name == "base" || name == "root" || f.Env["_CONDA_ROOT"] == prefix)
}

// envVarCandidates returns the environment in the directory that an environment variable names.
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

// markRequested marks candidates as asked for.
func markRequested(found ...Candidate) []Candidate {
	for i := range found {
		found[i].Requested = true
	}
	return found
}

// projectCandidates returns the environment that belongs to the directory: made by venv,
// virtualenv, uv, poetry, pdm or hatch inside the project, or by pixi.
func (f *finder) projectCandidates() []Candidate {
	var found []Candidate
	for _, dir := range f.searchDirs() {
		for _, p := range []struct {
			name  string
			proof string // a file that an environment must have, and any other directory of that name lacks
		}{{".venv", ""}, {"venv", "pyvenv.cfg"}, {filepath.Join(".pixi", "envs", "default"), "conda-meta"}} {
			root := filepath.Join(dir, p.name)
			if _, err := os.Lstat(filepath.Join(root, p.proof)); err != nil {
				continue
			}
			c := environmentCandidate(p.name+" in "+dir, root)
			if !isTrustedDir(dir, root) {
				c.Note = "another user may have put it there: activate it, or name it by its path, if it is yours"
			}
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return []Candidate{{Source: ".venv", Note: f.describeSearchDirs()}}
	}
	return markRequested(found...)
}

// searchDirs lists f.Dir and the directories above it, ending with the home
// directory or the root.
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

// storeCandidates lists the aliases that pathCandidates leaves out, because they may open the store and
// not Python.
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

// inspectInterpreter reads the version of the interpreter at path from the files around it, and says
// in note why it cannot be used. An unknown version is accepted: if that Python is too
// old, the worker says so itself.
func inspectInterpreter(path string) (text, note string) {
	if note := discovery.ExecutableProblem(path); note != "" {
		return "", note
	}
	v := versionAt(path)
	return v.String(), versionProblem(v)
}

// versionProblem says why a version cannot be used; "" when it can, or is unknown.
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
