package python

import (
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

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

// markRequested marks candidates as requested by the user.
func markRequested(found ...Candidate) []Candidate {
	for i := range found {
		found[i].Requested = true
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
