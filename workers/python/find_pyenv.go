package python

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// pinnedVersions returns the requested versions in order of preference, and where they are requested.
func (f *finder) pinnedVersions() (wanted []string, source string) {
	if v := f.Env["PYENV_VERSION"]; v != "" {
		return strings.Split(v, ":"), "PYENV_VERSION"
	}
	for _, dir := range f.searchDirs() {
		path := filepath.Join(dir, ".python-version")
		if wanted := readVersionFile(path); len(wanted) > 0 {
			return wanted, path
		}
	}
	return nil, ""
}

// readVersionFile returns the words of a .python-version file without comments.
func readVersionFile(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var words []string
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		words = append(words, strings.Fields(line)...)
	}
	return words
}

// newestInstall returns the root of the newest Python in dirs whose version starts with
// want, or "".
func newestInstall(want discovery.Version, dirs ...string) string {
	var root string
	var best discovery.Version
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // a missing directory has no Pythons
		for _, e := range entries {
			v := parseInstallName(e.Name())
			if v.StartsWith(want) && slices.Compare(v, best) > 0 && hasPython(filepath.Join(dir, e.Name())) {
				root, best = filepath.Join(dir, e.Name()), v
			}
		}
	}
	return root
}

// resolveShim replaces a pyenv shim with the interpreter it would run. The shim is a
// shell script that costs several times the start of Python.
func (f *finder) resolveShim(c Candidate) Candidate {
	if !f.isShim(c.Path) {
		return c
	}
	wanted, source := f.pinnedVersions()
	if len(wanted) == 0 {
		wanted, source = f.pyenvGlobalVersions()
	}
	command := filepath.Base(c.Path)
	for _, name := range wanted {
		root := f.pyenvInstallRoot(name)
		if root == "" {
			continue
		}
		path := filepath.Join(root, "bin", command)
		if discovery.ExecutableProblem(path) == "" {
			c.Path = path
			c.Source += fmt.Sprintf(", a pyenv shim for %s (%s)", name, source)
			return c
		}
	}
	switch {
	case len(wanted) == 0 || slices.Contains(wanted, "system"):
		c.Note = "pyenv defers to the rest of PATH"
		c.Path = ""
	case !slices.ContainsFunc(wanted, isVersionNumber):
		c.Source += ", a pyenv shim" // a pyenv plugin may know the name
	default:
		c.Note = fmt.Sprintf("pyenv has no %s of version %s (%s)", command, strings.Join(wanted, ", "), source)
	}
	return c
}

// pyenvGlobalCandidates finds pyenv's global version when PATH lacks pyenv's shims, as it does in
// programs that were not started from a shell.
func (f *finder) pyenvGlobalCandidates() []Candidate {
	wanted, source := f.pyenvGlobalVersions()
	for _, name := range wanted {
		if root := f.pyenvInstallRoot(name); root != "" {
			return []Candidate{environmentCandidate(source+" ("+name+")", root)}
		}
	}
	return []Candidate{{Source: source, Note: "names no version that pyenv has"}}
}

// pyenvGlobalVersions returns pyenv's version for directories that do not pin one.
func (f *finder) pyenvGlobalVersions() (wanted []string, source string) {
	path := filepath.Join(f.pyenvRoot(), "version")
	return readVersionFile(path), path
}

// pyenvInstallRoot returns the root of pyenv's version of that name, otherwise of the newest
// one that starts with it, or "".
func (f *finder) pyenvInstallRoot(name string) string {
	if root := filepath.Join(f.pyenvVersionsDir(), name); filepath.IsLocal(name) && hasPython(root) {
		return root
	}
	if v := discovery.ParseVersion(name); v != nil {
		return newestInstall(v, f.pyenvVersionsDir())
	}
	return ""
}

func (f *finder) isShim(path string) bool {
	return filepath.Dir(path) == filepath.Join(f.pyenvRoot(), "shims")
}

func isVersionNumber(name string) bool { return discovery.ParseVersion(name) != nil }

func (f *finder) pyenvRoot() string {
	if root := f.Env["PYENV_ROOT"]; root != "" {
		return root
	}
	return filepath.Join(f.Home, pyenvDir)
}

func (f *finder) pyenvVersionsDir() string { return filepath.Join(f.pyenvRoot(), "versions") }
