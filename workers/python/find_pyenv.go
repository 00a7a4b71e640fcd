package python

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// pinned returns the version that PYENV_VERSION or a .python-version file asks for, as
// pyenv and uv understand it.
func (f *finder) pinned() []Candidate {
	wanted, source := f.pin()
	if len(wanted) == 0 {
		return []Candidate{{Source: ".python-version", Note: f.noneUpward()}}
	}
	var found []Candidate
	for _, name := range wanted {
		found = append(found, f.pinnedAs(name, source)...)
	}
	return found
}

func (f *finder) pinnedAs(name, source string) []Candidate {
	source += " (" + name + ")"
	if name == "system" {
		return []Candidate{{Source: source, Note: "asks for what PATH has without pyenv"}}
	}
	if root := f.pyenvInstall(name); root != "" {
		return asked(environment(source, root))
	}
	bare := name
	for _, prefix := range []string{"cpython", "python"} {
		bare = strings.TrimLeft(strings.TrimPrefix(bare, prefix), "-@")
	}
	v := discovery.ParseVersion(bare)
	if v == nil {
		c := Candidate{Source: source, Note: "pyenv has none of that name, and it is not the number of a version"}
		c.Asked = !slices.ContainsFunc(f.Commands(commandNames[0]), f.isShim) // a plugin of pyenv may know the name
		return []Candidate{c}
	}
	return asked(f.installed(source, v)...)
}

// pin returns the versions that are asked for, in order of preference, and where.
func (f *finder) pin() (wanted []string, source string) {
	if v := f.Env["PYENV_VERSION"]; v != "" {
		return strings.Split(v, ":"), "PYENV_VERSION"
	}
	for _, dir := range f.upward() {
		path := filepath.Join(dir, ".python-version")
		if wanted := readPin(path); len(wanted) > 0 {
			return wanted, path
		}
	}
	return nil, ""
}

// readPin returns the words of a .python-version file without comments.
func readPin(path string) []string {
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

// installed returns the newest Python of pyenv or uv whose version starts with all
// numbers of want. If there is none, it returns the commands of that name on PATH, and
// on Windows the py launcher's Pythons of that version.
func (f *finder) installed(source string, want discovery.Version) []Candidate {
	if root := newest(want, f.pyenvVersions(), f.uvPythons()); root != "" {
		return []Candidate{environment(source, root)}
	}
	name := "python" + want[:min(len(want), 2)].String()
	found := append(f.commands(name), f.registeredAs(want)...)
	if len(found) == 0 {
		return []Candidate{{Source: source, Note: fmt.Sprintf("neither in %s nor in %s, and PATH has no %s",
			f.pyenvVersions(), f.uvPythons(), name)}}
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

// newest returns the root of the newest Python in dirs whose version starts with
// want; "" when there is none.
func newest(want discovery.Version, dirs ...string) string {
	var root string
	var best discovery.Version
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // a directory that is not there has no Pythons
		for _, e := range entries {
			v := installVersion(e.Name())
			if v.StartsWith(want) && slices.Compare(v, best) > 0 && hasPython(filepath.Join(dir, e.Name())) {
				root, best = filepath.Join(dir, e.Name()), v
			}
		}
	}
	return root
}

// throughShim replaces a pyenv shim by the interpreter it would run. The shim is a
// shell script that costs several times the start of Python.
func (f *finder) throughShim(c Candidate) Candidate {
	if !f.isShim(c.Path) {
		return c
	}
	wanted, source := f.pin()
	if len(wanted) == 0 {
		wanted, source = f.globalPin()
	}
	command := filepath.Base(c.Path)
	for _, name := range wanted {
		root := f.pyenvInstall(name)
		if root == "" {
			continue
		}
		path := filepath.Join(root, "bin", command)
		if discovery.Objection(path) == "" {
			c.Path = path
			c.Source += fmt.Sprintf(", a pyenv shim for %s (%s)", name, source)
			return c
		}
	}
	switch {
	case len(wanted) == 0 || slices.Contains(wanted, "system"):
		c.Note = "pyenv leaves it to the rest of PATH"
		c.Path = ""
	case !slices.ContainsFunc(wanted, isNumber):
		c.Source += ", a pyenv shim" // a plugin of pyenv may know the name
	default:
		c.Note = fmt.Sprintf("pyenv has no %s of version %s (%s)", command, strings.Join(wanted, ", "), source)
	}
	return c
}

// pyenvGlobal finds pyenv's global version when PATH lacks pyenv's shims, as it does in
// programs that were not started from a shell.
func (f *finder) pyenvGlobal() []Candidate {
	wanted, source := f.globalPin()
	for _, name := range wanted {
		if root := f.pyenvInstall(name); root != "" {
			return []Candidate{environment(source+" ("+name+")", root)}
		}
	}
	return []Candidate{{Source: source, Note: "names no version that pyenv has"}}
}

// globalPin returns pyenv's version for directories without a version of their own.
func (f *finder) globalPin() (wanted []string, source string) {
	path := filepath.Join(f.pyenvRoot(), "version")
	return readPin(path), path
}

// pyenvInstall returns the root of pyenv's version of that name, otherwise of the newest
// one that starts with it; "" when pyenv has none.
func (f *finder) pyenvInstall(name string) string {
	if root := filepath.Join(f.pyenvVersions(), name); filepath.IsLocal(name) && hasPython(root) {
		return root
	}
	if v := discovery.ParseVersion(name); v != nil {
		return newest(v, f.pyenvVersions())
	}
	return ""
}

func (f *finder) isShim(path string) bool {
	return filepath.Dir(path) == filepath.Join(f.pyenvRoot(), "shims")
}

func isNumber(name string) bool { return discovery.ParseVersion(name) != nil }

func (f *finder) pyenvRoot() string {
	if root := f.Env["PYENV_ROOT"]; root != "" {
		return root
	}
	return filepath.Join(f.Home, pyenvDir)
}

func (f *finder) pyenvVersions() string { return filepath.Join(f.pyenvRoot(), "versions") }

// uvPythons returns the directory where uv installs Pythons.
func (f *finder) uvPythons() string {
	if dir := f.Env["UV_PYTHON_INSTALL_DIR"]; dir != "" {
		return dir
	}
	return filepath.Join(f.dataHome(), "uv", "python")
}
