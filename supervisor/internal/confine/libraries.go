package confine

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Interpreters find packages in more places than the usual ones: variables name them, and so do files among
// the packages that are installed to be edited. Those files are read here, and no program is run. A file that
// this session can write does not count, and one that another may have written names nothing but what sessions
// see by the rules.

// libraryVariables name directories of packages.
var libraryVariables = []string{"PYTHONPATH", "R_LIBS", "R_LIBS_USER", "R_LIBS_SITE"}

const (
	maxLibraries = 200  // directories that are named
	maxInstalled = 2000 // packages of an interpreter that are looked at
)

// libraries returns the directories that variables and files name, in their words.
func (h *homeBuilder) libraries(o Origin) (dirs []string) {
	dirs = h.inVariables(o.Env)
	if file := h.at(".Renviron"); !h.isSessions(file) {
		var variables []string
		for line := range bytes.Lines(settingsOf(file)) {
			variables = append(variables, strings.TrimPrefix(strings.TrimSpace(string(line)), "export "))
		}
		dirs = append(dirs, h.mayName(file, h.inVariables(variables))...)
	}
	if file := h.at(".Rprofile"); !h.isSessions(file) {
		h.sources = append(h.sources, file)
		var named []string
		for _, call := range libPaths.FindAllStringSubmatch(string(settingsOf(file)), -1) {
			for _, text := range rString.FindAllString(call[1], -1) {
				named = append(named, h.expand(text[1:len(text)-1])...)
			}
		}
		dirs = append(dirs, h.mayName(file, named)...)
	}
	for _, site := range h.sites(o) {
		dirs = append(dirs, h.mayName(site, h.find(site, func(read records) []string { return installed(site, read) }))...)
	}
	return dirs[:min(len(dirs), maxLibraries)]
}

// inVariables returns the directories that variables name.
func (h *homeBuilder) inVariables(variables []string) (dirs []string) {
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if slices.Contains(libraryVariables, strings.TrimSpace(name)) {
			for _, dir := range filepath.SplitList(strings.Trim(strings.TrimSpace(value), `"'`)) {
				dirs = append(dirs, h.expand(dir)...)
			}
		}
	}
	return dirs
}

// mayName returns the directories that a file, or those in a directory, may name.
func (h *homeBuilder) mayName(by string, dirs []string) (may []string) {
	isUsers := h.isUsers(real(by))
	for _, dir := range dirs {
		if isUsers || h.isOpen(real(dir)) {
			may = append(may, dir)
		}
	}
	return may
}

// libPaths matches a call in R that names libraries, rString a string in it.
var (
	libPaths = regexp.MustCompile(`\.libPaths\(([^#\n]*)`)
	rString  = regexp.MustCompile(`"[^"\\]+"|'[^'\\]+'`)
)

// isSessions reports whether a session can write a path, or a link that leads to it.
func (h *homeBuilder) isSessions(path string) bool {
	return isIn(path, h.doubted) || hasLinkIn(path, h.doubted) || isIn(real(path), h.doubted)
}

// ofR matches the marks that R replaces by its version or platform.
var ofR = regexp.MustCompile(`%[vVpoaUS]`)

// expand returns the paths for which a setting stands.
func (h *homeBuilder) expand(path string) []string {
	for _, form := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(path, form); ok && (rest == "" || rest[0] == '/') {
			path = h.home + rest
		}
	}
	at := ofR.FindStringIndex(path)
	if at == nil {
		return []string{path}
	}
	base := path[:strings.LastIndexByte(path[:at[0]], '/')+1]
	return glob(base, ofR.ReplaceAllString(path[len(base):], "*"))
}

// glob returns the paths below a directory that match a pattern.
func glob(dir, form string) (found []string) {
	if !filepath.IsAbs(dir) {
		return nil
	}
	names, _ := fs.Glob(os.DirFS(dir), form)
	for _, name := range names {
		found = append(found, filepath.Join(dir, name))
	}
	return found
}

// A named has the directories to which one leads, and the files that name them.
type named struct {
	paths []string
	read  records
}

// find returns the directories to which one leads. It looks again only after a change.
func (h *homeBuilder) find(dir string, look func(read records) []string) []string {
	n := h.named[dir]
	if n == nil || n.read.isStale() {
		n = &named{read: records{}}
		n.read.note(dir)
		n.paths = look(n.read)
		h.named[dir] = n
	}
	h.sources = slices.AppendSeq(h.sources, maps.Keys(n.read))
	return n.paths
}

// sites returns the directories with the installed packages of the session's interpreter, and the user's
// own.
func (h *homeBuilder) sites(o Origin) (sites []string) {
	bases := []string{h.at(".local")}
	for _, program := range []string{filepath.Clean(o.Program), real(o.Program)} {
		bases = append(bases, filepath.Dir(filepath.Dir(program)), filepath.Join(filepath.Dir(filepath.Dir(program)), "local"))
	}
	for _, variable := range o.Env {
		if base, ok := strings.CutPrefix(variable, "PYTHONUSERBASE="); ok {
			bases = append(bases, base)
		}
	}
	seen := map[string]bool{}
	for _, base := range bases {
		lib := filepath.Join(base, "lib")
		if !filepath.IsAbs(lib) || h.isSessions(lib) {
			continue
		}
		if lib = realOrAbsent(lib); seen[lib] {
			continue
		}
		seen[lib] = true
		sites = append(sites, h.find(lib, func(records) []string { return glob(lib, "python3*/*-packages") })...)
	}
	return slices.DeleteFunc(sites, h.isSessions)
}

// installed returns the directories that files in a directory of packages name.
func installed(site string, read records) (dirs []string) {
	lists := glob(site, "*.pth")
	for _, list := range lists[:min(len(lists), maxLibraries)] {
		for line := range strings.Lines(string(settingsOf(list))) {
			line = strings.TrimRight(line, " \t\r\n")
			if line == "" || line[0] == '#' || strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "import\t") {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(site, line)
			}
			read.note(list)
			dirs = append(dirs, line)
		}
	}
	dirs = append(dirs, foundByFinders(site, read)...)
	origins := glob(site, "*.dist-info/direct_url.json")
	for _, origin := range origins[:min(len(origins), maxInstalled)] {
		var from struct {
			URL string `json:"url"`
			Dir struct {
				Editable bool `json:"editable"`
			} `json:"dir_info"`
		}
		if json.Unmarshal(settingsOf(origin), &from) != nil || !from.Dir.Editable {
			continue
		}
		if u, err := url.Parse(from.URL); err == nil && u.Scheme == "file" {
			dirs = append(dirs, u.Path)
		}
	}
	return dirs
}

// absoluteText matches a string with an absolute path, in Python.
var absoluteText = regexp.MustCompile(`"/[^"\\\n]+"|'/[^'\\\n]+'`)

// foundByFinders returns the paths that are named by the code that finds packages installed to be edited: setuptools
// writes it as __editable___NAME_finder.py, and other builders under names like that.
func foundByFinders(site string, read records) (found []string) {
	finders := glob(site, "*editable*.py")
	for _, finder := range finders[:min(len(finders), maxLibraries)] {
		for _, text := range absoluteText.FindAllString(string(settingsOf(finder)), maxLibraries) {
			path := text[1 : len(text)-1]
			st, err := os.Stat(path)
			switch {
			case err == nil && st.IsDir():
			case err == nil:
				path = filepath.Dir(path) // of a package's first file
			default:
				path += ".py" // a module is named without that
			}
			read.note(finder)
			found = append(found, path)
		}
	}
	return found
}

// library shows a directory that an interpreter was told of, unless something in it has rules of its own.
func (h *homeBuilder) library(dir string) {
	found := real(dir)
	if inside(filepath.Clean(dir), h.home) {
		h.looked = append(h.looked, filepath.Clean(dir))
	}
	if found == "" || !inside(found, h.home) && !h.isBuiltAt(found) || found == h.home || h.isSessions(dir) || h.leadsAway(dir, found, h.isOpen) || !holdsPackages(found) || h.hidesIn(found) {
		return
	}
	for _, name := range slices.Concat(builtNames, layeredNames, readableNames) {
		if inside(h.at(name), found) {
			return
		}
	}
	for path := range h.kinds { // it shows already, or contains something that does
		if inside(path, found) {
			return
		}
	}
	h.show(found, readable)
}

// holdsPackages reports whether an interpreter can find packages in a path: it is a directory, a module or an
// archive.
func holdsPackages(path string) bool {
	return isDir(path) || slices.Contains([]string{".py", ".egg", ".zip", ".whl"}, filepath.Ext(path))
}
