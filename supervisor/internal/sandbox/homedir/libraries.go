package homedir

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
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// Interpreters find packages in more places than the default ones. Variables name them, and so do
// files among the packages that are installed in editable mode. Those files are read here, and no
// program is run. A file that this session can write does not count. A file that another session
// may have written can only name what sessions see anyway.

// LibraryVariables name directories of packages.
var LibraryVariables = []string{"PYTHONPATH", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE"}

const (
	maxLibraries = 200  // directories that variables and files name
	maxInstalled = 2000 // packages of an interpreter that are inspected
)

// libraryDirs returns the directories that variables and files name, unresolved.
func (h *Builder) libraryDirs(in HomeInput) (dirs []string) {
	dirs = h.variableDirs(in.Env)
	if file := h.HomePath(".Renviron"); !h.isSessionWritable(file) {
		var variables []string
		for line := range bytes.Lines(linkpath.ReadSettingsFile(file)) {
			variables = append(variables, strings.TrimPrefix(strings.TrimSpace(string(line)), "export "))
		}
		dirs = append(dirs, h.allowedDirs(file, h.variableDirs(variables))...)
	}
	if file := h.HomePath(".Rprofile"); !h.isSessionWritable(file) {
		h.Sources = append(h.Sources, file)
		var named []string
		for _, call := range libPathsCall().FindAllStringSubmatch(string(linkpath.ReadSettingsFile(file)), -1) {
			for _, text := range rString().FindAllString(call[1], -1) {
				named = append(named, h.expandSetting(text[1:len(text)-1])...)
			}
		}
		dirs = append(dirs, h.allowedDirs(file, named)...)
	}
	for _, site := range h.siteDirs(in) {
		dirs = append(dirs, h.allowedDirs(site, h.findPackages(site, func(read filestate.Records) []string { return editableDirs(site, read) }))...)
	}
	return dirs[:min(len(dirs), maxLibraries)]
}

// variableDirs returns the directories that variables name.
func (h *Builder) variableDirs(variables []string) (dirs []string) {
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(LibraryVariables, strings.TrimSpace(name)) {
			for _, dir := range filepath.SplitList(strings.Trim(strings.TrimSpace(value), `"'`)) {
				dirs = append(dirs, h.expandSetting(dir)...)
			}
		}
	}
	return dirs
}

// allowedDirs filters the directories that a file, or the files of a directory, may name.
func (h *Builder) allowedDirs(by string, dirs []string) (allowed []string) {
	isUsers := h.isUserMade(paths.RealOrEmpty(by))
	for _, dir := range dirs {
		if isUsers || h.IsVisible(paths.RealOrEmpty(dir)) {
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
func (h *Builder) isSessionWritable(path string) bool {
	return linkpath.IsInAny(path, h.UntrustedDirs) || linkpath.HasLinkIn(path, h.UntrustedDirs) || linkpath.IsInAny(paths.RealOrEmpty(path), h.UntrustedDirs)
}

// rPathMark matches the placeholders that R replaces by its version or platform.
var rPathMark = text.Pattern(`%[vVpoaUS]`)

// expandSetting returns the paths that a setting can stand for.
func (h *Builder) expandSetting(path string) []string {
	for _, form := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(path, form); ok && (rest == "" || rest[0] == '/') {
			path = h.Home + rest
		}
	}
	at := rPathMark().FindStringIndex(path)
	if at == nil {
		return []string{path}
	}
	base := path[:strings.LastIndexByte(path[:at[0]], '/')+1]
	return linkpath.GlobPaths(base, rPathMark().ReplaceAllString(path[len(base):], "*"))
}

// A PackageIndex caches the library directories that a directory leads to, and the files that name
// them.
type PackageIndex struct {
	paths   []string
	sources filestate.Records
}

// findPackages returns the library directories that a directory leads to. It searches again only
// after a change.
func (h *Builder) findPackages(dir string, search func(read filestate.Records) []string) []string {
	index := h.PackageIndexes[dir]
	if index == nil || index.sources.IsStale() {
		index = &PackageIndex{sources: filestate.Records{}}
		index.sources.RecordFile(dir)
		index.paths = search(index.sources)
		h.PackageIndexes[dir] = index
	}
	h.Sources = slices.AppendSeq(h.Sources, maps.Keys(index.sources))
	return index.paths
}

// siteDirs returns the directories with the installed packages of the session's interpreter, and
// the user's own site directory.
func (h *Builder) siteDirs(in HomeInput) (sites []string) {
	bases := []string{h.HomePath(".local")}
	for _, program := range []string{filepath.Clean(in.Program), paths.RealOrEmpty(in.Program)} {
		bases = append(bases, filepath.Dir(filepath.Dir(program)), filepath.Join(filepath.Dir(filepath.Dir(program)), "local"))
	}
	for _, variable := range in.Env {
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
		if lib = linkpath.RealOrAbsent(lib); seen[lib] {
			continue
		}
		seen[lib] = true
		sites = append(sites, h.findPackages(lib, func(filestate.Records) []string { return linkpath.GlobPaths(lib, "python3*/*-packages") })...)
	}
	return slices.DeleteFunc(sites, h.isSessionWritable)
}

// editableDirs returns the directories that files in a directory of packages name.
func editableDirs(site string, read filestate.Records) (dirs []string) {
	lists := linkpath.GlobPaths(site, "*.pth")
	for _, list := range lists[:min(len(lists), maxLibraries)] {
		for line := range strings.Lines(string(linkpath.ReadSettingsFile(list))) {
			line = strings.TrimRight(line, " \t\r\n")
			if line == "" || line[0] == '#' || strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "import\t") {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(site, line)
			}
			read.RecordFile(list)
			dirs = append(dirs, line)
		}
	}
	dirs = append(dirs, finderDirs(site, read)...)
	origins := linkpath.GlobPaths(site, "*.dist-info/direct_url.json")
	for _, origin := range origins[:min(len(origins), maxInstalled)] {
		var from struct {
			URL string `json:"url"`
			Dir struct {
				Editable bool `json:"editable"`
			} `json:"dir_info"`
		}
		if json.Unmarshal(linkpath.ReadSettingsFile(origin), &from) != nil || !from.Dir.Editable {
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
func finderDirs(site string, read filestate.Records) (found []string) {
	finders := linkpath.GlobPaths(site, "*editable*.py")
	for _, finder := range finders[:min(len(finders), maxLibraries)] {
		for _, text := range absoluteText().FindAllString(string(linkpath.ReadSettingsFile(finder)), maxLibraries) {
			path := text[1 : len(text)-1]
			st, err := os.Stat(path)
			switch {
			case err == nil && st.IsDir():
			case err == nil:
				path = filepath.Dir(path) // the directory of a package's __init__.py
			default:
				path += ".py" // modules are named without the suffix
			}
			read.RecordFile(finder)
			found = append(found, path)
		}
	}
	return found
}

// showLibrary shows a directory of an interpreter's library path, unless something in it has its
// own rules.
func (h *Builder) showLibrary(dir string) {
	found := paths.RealOrEmpty(dir)
	if paths.Contains(h.Home, filepath.Clean(dir)) {
		h.CheckedPaths = append(h.CheckedPaths, filepath.Clean(dir))
	}
	if found == "" || !paths.Contains(h.Home, found) && !h.isInBuiltHome(found) || found == h.Home || h.isSessionWritable(dir) || h.IsLinkedAway(dir, found, h.IsVisible) || !hasPackages(found) || h.hasHiddenIn(found) {
		return
	}
	for _, name := range slices.Concat(ownDirNames, LayeredNames, ReadableNames) {
		if paths.Contains(found, h.HomePath(name)) {
			return
		}
	}
	for path := range h.Mounts { // it is shown already, or contains a mount
		if paths.Contains(found, path) {
			return
		}
	}
	h.showPath(found, mountlist.GrantableBind)
}

// hasPackages reports whether an interpreter can find packages in a path: a directory, a module or
// an archive.
func hasPackages(path string) bool {
	return linkpath.IsDir(path) || slices.Contains([]string{".py", ".egg", ".zip", ".whl"}, filepath.Ext(path))
}
