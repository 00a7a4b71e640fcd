package python

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// pinnedCandidates returns the version that PYENV_VERSION or a .python-version file requests, by the
// rules of pyenv and uv.
func (f *finder) pinnedCandidates() []Candidate {
	wanted, source := f.pinnedVersions()
	if len(wanted) == 0 {
		return []Candidate{{Source: ".python-version", Note: f.describeSearchDirs()}}
	}
	var found []Candidate
	for _, name := range wanted {
		found = append(found, f.candidatesForPin(name, source)...)
	}
	return found
}

func (f *finder) candidatesForPin(name, source string) []Candidate {
	source += " (" + name + ")"
	if name == "system" {
		return []Candidate{{Source: source, Note: "requests the Python that PATH has without pyenv"}}
	}
	if root := f.pyenvInstallRoot(name); root != "" {
		return markRequested(environmentCandidate(source, root))
	}
	bare := name
	for _, prefix := range []string{"cpython", "python"} {
		bare = strings.TrimLeft(strings.TrimPrefix(bare, prefix), "-@")
	}
	v := discovery.ParseVersion(bare)
	if v == nil {
		c := Candidate{Source: source, Note: "pyenv has no version of that name, and it is not a version number"}
		c.Requested = !slices.ContainsFunc(f.FindCommands(commandNames[0]), f.isShim) // a pyenv plugin may know the name
		return []Candidate{c}
	}
	return markRequested(f.installedCandidates(source, v)...)
}

// installedCandidates returns the newest Python of pyenv or uv whose version starts with all
// numbers of want. If there is none, it returns the commands of that name on PATH, and
// on Windows the py launcher's Pythons of that version.
func (f *finder) installedCandidates(source string, want discovery.Version) []Candidate {
	if root := newestInstall(want, f.pyenvVersionsDir(), f.uvPythonsDir()); root != "" {
		return []Candidate{environmentCandidate(source, root)}
	}
	name := "python" + want[:min(len(want), 2)].String()
	found := append(f.commandCandidates(name), f.registryCandidates(want)...)
	if len(found) == 0 {
		return []Candidate{{Source: source, Note: fmt.Sprintf("neither in %s nor in %s, and PATH has no %s",
			f.pyenvVersionsDir(), f.uvPythonsDir(), name)}}
	}
	for i := range found {
		c := &found[i]
		c.Source = source + ", " + c.Source
		if v := versionAt(c.Path); c.Note == "" && len(v) >= len(want) && !v.StartsWith(want) {
			c.Note = "is Python " + v.String()
		}
	}
	return found
}

// uvPythonsDir returns the directory where uv installs Pythons.
func (f *finder) uvPythonsDir() string {
	if dir := f.Env["UV_PYTHON_INSTALL_DIR"]; dir != "" {
		return dir
	}
	return filepath.Join(f.dataHome(), "uv", "python")
}
