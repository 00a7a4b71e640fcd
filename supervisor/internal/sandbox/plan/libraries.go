package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// Interpreters find packages in more places than the default ones. Variables name them, and so do
// files among the packages that are installed in editable mode. Those files are read here, and no
// program is run. A file that this session can write does not count. A file that another session
// may have written can only name what sessions see anyway.

// libraryVariables name directories of packages.
var libraryVariables = []string{"PYTHONPATH", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE"}

const (
	maxLibraries = 200  // directories that variables and files name
	maxInstalled = 2000 // packages of an interpreter that are inspected
)

// libraryDirs returns the directories that variables and files name, unresolved.
func (h *homeBuilder) libraryDirs(in homeInput) (dirs []string) {
	dirs = h.variableDirs(in.env)
	if file := h.homePath(".Renviron"); !h.isSessionWritable(file) {
		var variables []string
		for line := range bytes.Lines(readSettingsFile(file)) {
			variables = append(variables, strings.TrimPrefix(strings.TrimSpace(string(line)), "export "))
		}
		dirs = append(dirs, h.allowedDirs(file, h.variableDirs(variables))...)
	}
	if file := h.homePath(".Rprofile"); !h.isSessionWritable(file) {
		h.sources = append(h.sources, file)
		var named []string
		for _, call := range libPathsCall().FindAllStringSubmatch(string(readSettingsFile(file)), -1) {
			for _, text := range rString().FindAllString(call[1], -1) {
				named = append(named, h.expandSetting(text[1:len(text)-1])...)
			}
		}
		dirs = append(dirs, h.allowedDirs(file, named)...)
	}
	for _, site := range h.siteDirs(in) {
		dirs = append(dirs, h.allowedDirs(site, h.findPackages(site, func(read records) []string { return editableDirs(site, read) }))...)
	}
	return dirs[:min(len(dirs), maxLibraries)]
}

// variableDirs returns the directories that variables name.
func (h *homeBuilder) variableDirs(variables []string) (dirs []string) {
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(libraryVariables, strings.TrimSpace(name)) {
			for _, dir := range filepath.SplitList(strings.Trim(strings.TrimSpace(value), `"'`)) {
				dirs = append(dirs, h.expandSetting(dir)...)
			}
		}
	}
	return dirs
}

// allowedDirs filters the directories that a file, or the files of a directory, may name.
func (h *homeBuilder) allowedDirs(by string, dirs []string) (allowed []string) {
	isUsers := h.isUserMade(paths.RealOrEmpty(by))
	for _, dir := range dirs {
		if isUsers || h.isVisible(paths.RealOrEmpty(dir)) {
			allowed = append(allowed, dir)
		}
	}
	return allowed
}

// libPathsCall matches an R call that names libraries, and rString a string in it.
var (
	libPathsCall = text.Pattern(`\.libPaths\(([^#\n]*)`)
	rString      = text.Pattern(`"[^"\\]+"|'[^'\\]+'`)
)

// isSessionWritable reports whether a session can write a path, or a link that leads to it.
func (h *homeBuilder) isSessionWritable(path string) bool {
	return isInAny(path, h.untrustedDirs) || hasLinkIn(path, h.untrustedDirs) || isInAny(paths.RealOrEmpty(path), h.untrustedDirs)
}

// rPathMark matches the placeholders that R replaces by its version or platform.
var rPathMark = text.Pattern(`%[vVpoaUS]`)

// expandSetting returns the paths that a setting can stand for.
func (h *homeBuilder) expandSetting(path string) []string {
	for _, form := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(path, form); ok && (rest == "" || rest[0] == '/') {
			path = h.home + rest
		}
	}
	at := rPathMark().FindStringIndex(path)
	if at == nil {
		return []string{path}
	}
	base := path[:strings.LastIndexByte(path[:at[0]], '/')+1]
	return globPaths(base, rPathMark().ReplaceAllString(path[len(base):], "*"))
}

// A packageIndex caches the library directories that a directory leads to, and the files that name
// them.
type packageIndex struct {
	paths   []string
	sources records
}

// findPackages returns the library directories that a directory leads to. It searches again only
// after a change.
func (h *homeBuilder) findPackages(dir string, search func(read records) []string) []string {
	index := h.packageIndexes[dir]
	if index == nil || index.sources.isStale() {
		index = &packageIndex{sources: records{}}
		index.sources.recordFile(dir)
		index.paths = search(index.sources)
		h.packageIndexes[dir] = index
	}
	h.sources = slices.AppendSeq(h.sources, maps.Keys(index.sources))
	return index.paths
}

// siteDirs returns the directories with the installed packages of the session's interpreter, and
// the user's own site directory.
func (h *homeBuilder) siteDirs(in homeInput) (sites []string) {
	bases := []string{h.homePath(".local")}
	for _, program := range []string{filepath.Clean(in.program), paths.RealOrEmpty(in.program)} {
		bases = append(bases, filepath.Dir(filepath.Dir(program)), filepath.Join(filepath.Dir(filepath.Dir(program)), "local"))
	}
	for _, variable := range in.env {
		if base, ok := strings.CutPrefix(variable, "PYTHONUSERBASE="); ok {
			bases = append(bases, base)
		}
	}
	seen := map[string]bool{}
	for _, base := range bases {
		lib := filepath.Join(base, "lib")
		if !filepath.IsAbs(lib) || h.isSessionWritable(lib) {
			continue
		}
		if lib = realOrAbsent(lib); seen[lib] {
			continue
		}
		seen[lib] = true
		sites = append(sites, h.findPackages(lib, func(records) []string { return globPaths(lib, "python3*/*-packages") })...)
	}
	return slices.DeleteFunc(sites, h.isSessionWritable)
}

// editableDirs returns the directories that files in a directory of packages name.
func editableDirs(site string, read records) (dirs []string) {
	lists := globPaths(site, "*.pth")
	for _, list := range lists[:min(len(lists), maxLibraries)] {
		for line := range strings.Lines(string(readSettingsFile(list))) {
			line = strings.TrimRight(line, " \t\r\n")
			if line == "" || line[0] == '#' || strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "import\t") {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(site, line)
			}
			read.recordFile(list)
			dirs = append(dirs, line)
		}
	}
	dirs = append(dirs, finderDirs(site, read)...)
	origins := globPaths(site, "*.dist-info/direct_url.json")
	for _, origin := range origins[:min(len(origins), maxInstalled)] {
		var from struct {
			URL string `json:"url"`
			Dir struct {
				Editable bool `json:"editable"`
			} `json:"dir_info"`
		}
		if json.Unmarshal(readSettingsFile(origin), &from) != nil || !from.Dir.Editable {
			continue
		}
		if u, err := url.Parse(from.URL); err == nil && u.Scheme == "file" {
			dirs = append(dirs, u.Path)
		}
	}
	return dirs
}

// absoluteText matches a Python string with an absolute path.
var absoluteText = text.Pattern(`"/[^"\\\n]+"|'/[^'\\\n]+'`)

// finderDirs returns the paths in the code that finds packages installed in editable mode.
// setuptools writes it as __editable___NAME_finder.py, and other build tools use similar names.
func finderDirs(site string, read records) (found []string) {
	finders := globPaths(site, "*editable*.py")
	for _, finder := range finders[:min(len(finders), maxLibraries)] {
		for _, text := range absoluteText().FindAllString(string(readSettingsFile(finder)), maxLibraries) {
			path := text[1 : len(text)-1]
			st, err := os.Stat(path)
			switch {
			case err == nil && st.IsDir():
			case err == nil:
				path = filepath.Dir(path) // the directory of a package's __init__.py
			default:
				path += ".py" // modules are named without the suffix
			}
			read.recordFile(finder)
			found = append(found, path)
		}
	}
	return found
}

// showLibrary shows a directory of an interpreter's library path, unless something in it has its
// own rules.
func (h *homeBuilder) showLibrary(dir string) {
	found := paths.RealOrEmpty(dir)
	if paths.Contains(h.home, filepath.Clean(dir)) {
		h.checkedPaths = append(h.checkedPaths, filepath.Clean(dir))
	}
	if found == "" || !paths.Contains(h.home, found) && !h.isInBuiltHome(found) || found == h.home || h.isSessionWritable(dir) || h.isLinkedAway(dir, found, h.isVisible) || !hasPackages(found) || h.hasHiddenIn(found) {
		return
	}
	for _, name := range slices.Concat(ownDirNames, layeredNames, readableNames) {
		if paths.Contains(found, h.homePath(name)) {
			return
		}
	}
	for path := range h.mounts { // it is shown already, or contains a mount
		if paths.Contains(found, path) {
			return
		}
	}
	h.showPath(found, GrantableBind)
}

// hasPackages reports whether an interpreter can find packages in a path: a directory, a module or
// an archive.
func hasPackages(path string) bool {
	return isDir(path) || slices.Contains([]string{".py", ".egg", ".zip", ".whl"}, filepath.Ext(path))
}
