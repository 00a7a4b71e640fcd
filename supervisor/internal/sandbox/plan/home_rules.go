package plan

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// homeRules are the facts that decide what a session may see of the user's home directories, and
// whose links it may follow there.
type homeRules struct {
	home        string
	tempDirs    []string
	directories map[string]string // as in an Origin
	extraHomes  []string          // the user's other home directories

	untrustedDirs []string     // directories whose files this session may have made
	noDocuments   bool         // the session sees no documents of the home directory
	excludedPaths []string     // hidden paths
	hiddenPaths   []hiddenPath // paths that no session may see
}

// homePath returns the path of a name below the home directory, which a variable may have moved.
func (r *homeRules) homePath(name string) string {
	for moved, dir := range r.directories {
		if rest, ok := strings.CutPrefix(name, moved); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Join(r.home, name)
}

// matchNames returns the names below the home directory that match a pattern.
func (r *homeRules) matchNames(pattern string) (names []string) {
	dir, tail := pattern, ""
	for strings.Contains(dir, "*") {
		dir, tail = filepath.Dir(dir), filepath.Join(filepath.Base(dir), tail)
	}
	if tail == "" {
		return []string{pattern}
	}
	found, _ := fs.Glob(os.DirFS(r.homePath(dir)), tail)
	for _, rest := range found {
		names = append(names, filepath.Join(dir, rest))
	}
	return names
}

// nonUserHomes are directories next to the home directories of Windows that belong to no user.
var nonUserHomes = []string{"All Users", "Default", "Default User", "Public"}

// findOtherHomes returns further home directories of the user: those of Windows, under WSL.
func (r *homeRules) findOtherHomes(found, work []string) (dirs []string) {
	if found == nil {
		found = windowsHomes(readMounts())
	}
	for _, dir := range found {
		if dir = paths.RealOrEmpty(dir); isDir(dir) && !slices.Contains(nonUserHomes, filepath.Base(dir)) && !paths.Contains(r.home, dir) && !paths.Contains(dir, r.home) && !isInAny(dir, work) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// homeLinkPath returns the path of a name below the home directory, with all links resolved but the
// last part.
func (r *homeRules) homeLinkPath(name string) string {
	path := r.homePath(name)
	if above := paths.RealOrEmpty(filepath.Dir(path)); above != "" {
		path = filepath.Join(above, filepath.Base(path))
	}
	return path
}

// tooWideReason returns why a directory must never be writable, or "".
func (r *homeRules) tooWideReason(dir string) string {
	switch {
	case dir == "/":
		return "is the whole machine"
	case r.home != "" && dir == r.home:
		return "is the home directory"
	case r.home != "" && paths.Contains(dir, r.home):
		return "contains the home directory"
	case slices.Contains(r.tempDirs, dir):
		return "is for temporary files, of which each session has its own"
	}
	return ""
}

// isLinkedAway reports whether a path leads to found through a link that a session may have made,
// and that is not to be followed. isFine reports whether a session may choose found itself.
func (r *homeRules) isLinkedAway(path, found string, isFine func(found string) bool) bool {
	if filepath.Clean(path) == found {
		return false
	}
	chain := linkChain(path)
	return slices.ContainsFunc(chain[:len(chain)-1], func(link string) bool {
		dir := filepath.Dir(link)
		switch {
		case isInAny(dir, r.untrustedDirs):
			return true
		case paths.Contains(dir, found), !paths.Contains(r.home, link) && paths.Contains(paths.RealOrEmpty(link), r.home): // a session that can make links there sees found anyway; or a link to the home directory
			return false
		}
		return !r.isUserMade(link) && !isFine(found)
	})
}

// isUserMade reports whether no session can have made a file or link, whose directory is without
// links. This is so directly in the home directory and in directories of the lists. It is also so
// if all directories above belong to other users, and this user can make no names in them.
func (r *homeRules) isUserMade(path string) bool {
	dir := filepath.Dir(path)
	return !isInAny(dir, r.untrustedDirs) && (dir == r.home || r.isListed(dir) || !isReplaceable(path) && !isBelowUserDir(path))
}

// isListed reports whether a directory leads to a listed name, or is below one. Listed names
// without a dot, such as ~/go, do not count, because they may be workspaces.
func (r *homeRules) isListed(dir string) bool {
	if !isInAny(dir, slices.AppendSeq([]string{r.home}, maps.Values(r.directories))) {
		return false
	}
	names := slices.Concat(layeredNames, readableNames, toolDirs, plainSettings)
	for _, f := range settingsFiles {
		names = append(names, f.name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(name, "*")
		at := r.homePath(filepath.Clean(name))
		return name[0] == '.' && (paths.Contains(dir, at) || paths.Contains(at, dir))
	})
}

// isVisible reports whether sessions see a path without links, because it is listed or a document.
func (r *homeRules) isVisible(found string) bool {
	if r.isDocument(found) {
		return true
	}
	isListed := func(name string) bool { return paths.Contains(r.homePath(name), found) }
	return slices.ContainsFunc(slices.Concat(layeredNames, readableNames), isListed) && !isInAny(found, r.excludedPaths)
}

// isDocument reports whether a path without links is a document, or outside the home directories of
// the user. Nothing below a directory with a dot is a document.
func (r *homeRules) isDocument(found string) bool {
	for _, home := range append([]string{r.home}, r.extraHomes...) {
		rest, below := strings.CutPrefix(found, home+"/")
		if home == "" || !below {
			continue
		}
		first, _, _ := strings.Cut(rest, "/")
		if r.noDocuments || rest[0] == '.' || strings.Contains(rest, "/.") || slices.Contains(programDataNames, first) || isKeyFile(filepath.Base(rest)) && !isDir(found) {
			return false
		}
	}
	return true
}

// A hiddenPath is a file or directory that no session may see.
type hiddenPath struct {
	name         string // the path as listed, cleaned
	realPath     string // without links; "" if it does not exist
	isPlanned    bool   // the planner has already set its mount
	isMaskedOnly bool   // only a mount hides it; opens for reading are not checked
	isUserNamed  bool   // named by the user, not hidden by default
}
