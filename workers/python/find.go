package python

import (
	"fmt"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

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

	// Requires restricts the versions, as requires-python of a project does (">=3.11,<4"). Other
	// interpreters are not used, and the search goes on with all installed Pythons. "" means any
	// version. CheckRequires tells whether it is valid.
	Requires string

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
	if o.Requires != "" {
		looks = append(looks, f.requiredCandidates)
	}
	if o.Path != "" {
		looks = []func() []Candidate{f.namedCandidates}
	}
	seen, ok := discovery.ChooseCandidate(looks, f.inspectInterpreter)
	if ok {
		c := seen[len(seen)-1]
		missed := discovery.DescribeMissed(seen)
		if o.Path == "" && o.Requires == "" && missed == "" && !strings.HasPrefix(c.Source, "active ") {
			missed = f.requirementProblem(discovery.ParseVersion(c.Version))
		}
		return Interpreter{Path: c.Path, Version: c.Version, PathSource: discovery.ChoiceReason(seen), Mismatch: missed}, seen, nil
	}
	return Interpreter{}, seen, newNotFoundError(o, seen)
}

func newNotFoundError(o FindOptions, seen []Candidate) error {
	named, looked := o.Path, discovery.DescribeRejected(seen)
	if named == "" && o.Requires != "" {
		return &workers.MissingError{Err: fmt.Errorf("python: no Python %s found (%s); install one, or name one by its path", o.Requires, looked)}
	}
	if named != "" {
		return fmt.Errorf("python: cannot use %q: %s; name an interpreter, the directory of an environment, or an installed version",
			named, looked)
	}
	return &workers.MissingError{Err: fmt.Errorf("python: no Python %d.%d or newer found (%s); install one, or name one by its path",
		minMajor, minMinor, looked)}
}

func newFinder(o FindOptions) (*finder, error) {
	s, err := discovery.NewSearchContext(o.Dir, o.Env)
	if err != nil {
		return nil, fmt.Errorf("python: %w", err)
	}
	return &finder{s, o.Path, o.Requires}, nil
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

// inspectInterpreter returns the version of the interpreter at path, read from the files around it, or a
// note why it cannot be used. An unknown version is accepted: if that Python is too old, the
// worker reports it.
func (f *finder) inspectInterpreter(path string) (text, note string) {
	if note := discovery.ExecutableProblem(path); note != "" {
		return "", note
	}
	v := versionAt(path)
	note = versionProblem(v)
	if note == "" && !specifiersAllow(f.requires, v) {
		note = fmt.Sprintf("is Python %s, not %s", v, f.requires)
	}
	return v.String(), note
}
