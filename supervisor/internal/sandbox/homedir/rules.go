package homedir

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountinfo"
)

// Rules are the facts that decide what a session may see of the user's home directories, and
// whose links it may follow there.
type Rules struct {
	Home        string
	TempDirs    []string
	Directories map[string]string // the directories that variables name, as in a plan.Origin
	ExtraHomes  []string          // the user's other home directories

	UntrustedDirs []string     // directories whose files this session may have made
	NoDocuments   bool         // the session sees no documents of the home directory
	ExcludedPaths []string     // hidden paths
	HiddenPaths   []HiddenPath // paths that no session may see
}

// HomePath returns the path of a name below the home directory, which a variable may have moved.
func (r *Rules) HomePath(name string) string {
	for moved, dir := range r.Directories {
		if rest, ok := strings.CutPrefix(name, moved); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Join(r.Home, name)
}

// matchNames returns the names below the home directory that match a pattern.
func (r *Rules) matchNames(pattern string) (names []string) {
	dir, tail := pattern, ""
	for strings.Contains(dir, "*") {
		dir, tail = filepath.Dir(dir), filepath.Join(filepath.Base(dir), tail)
	}
	if tail == "" {
		return []string{pattern}
	}
	found, _ := fs.Glob(os.DirFS(r.HomePath(dir)), tail)
	for _, rest := range found {
		names = append(names, filepath.Join(dir, rest))
	}
	return names
}

// nonUserHomes are directories next to the home directories of Windows that belong to no user.
var nonUserHomes = []string{"All Users", "Default", "Default User", "Public"}

// FindOtherHomes returns further home directories of the user: those of Windows, under WSL.
func (r *Rules) FindOtherHomes(found, work []string) (dirs []string) {
	if found == nil {
		found = mountinfo.WindowsHomes(mountinfo.ReadMounts())
	}
	for _, dir := range found {
		if dir = paths.RealOrEmpty(dir); linkpath.IsDir(dir) && !slices.Contains(nonUserHomes, filepath.Base(dir)) && !paths.Contains(r.Home, dir) && !paths.Contains(dir, r.Home) && !linkpath.IsInAny(dir, work) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// HomeLinkPath returns the path of a name below the home directory, with all links resolved but the
// last part.
func (r *Rules) HomeLinkPath(name string) string {
	path := r.HomePath(name)
	if above := paths.RealOrEmpty(filepath.Dir(path)); above != "" {
		path = filepath.Join(above, filepath.Base(path))
	}
	return path
}

// TooWideReason returns why a directory must never be writable, or "".
func (r *Rules) TooWideReason(dir string) string {
	switch {
	case dir == "/":
		return "is the whole machine"
	case r.Home != "" && dir == r.Home:
		return "is the home directory"
	case r.Home != "" && paths.Contains(dir, r.Home):
		return "contains the home directory"
	case slices.Contains(r.TempDirs, dir):
		return "is for temporary files, of which each session has its own"
	}
	return ""
}

// IsLinkedAway reports whether a path leads to found through a link that a session may have created
// and that must not be followed. isFine reports whether a session may choose found itself.
func (r *Rules) IsLinkedAway(path, found string, isFine func(found string) bool) bool {
	if filepath.Clean(path) == found {
		return false
	}
	chain := linkpath.LinkChain(path)
	return slices.ContainsFunc(chain[:len(chain)-1], func(link string) bool {
		dir := filepath.Dir(link)
		switch {
		case linkpath.IsInAny(dir, r.UntrustedDirs):
			return true
		case paths.Contains(dir, found), !paths.Contains(r.Home, link) && paths.Contains(paths.RealOrEmpty(link), r.Home): // a session that can create links there sees found anyway; or a link to the home directory
			return false
		}
		return !r.isUserMade(link) && !isFine(found)
	})
}

// isUserMade reports whether no session can have created a file or link. The path of its directory
// must contain no links. The result is true directly in the home directory and in directories of
// the lists. It is also true if all directories above belong to other users, and this user can
// create no names in them.
func (r *Rules) isUserMade(path string) bool {
	dir := filepath.Dir(path)
	return !linkpath.IsInAny(dir, r.UntrustedDirs) && (dir == r.Home || r.isListed(dir) || !linkpath.IsReplaceable(path) && !linkpath.IsBelowUserDir(path))
}

// isListed reports whether a directory leads to a listed name, or is below one. Listed names
// without a dot, such as ~/go, do not count, because they may be workspaces.
func (r *Rules) isListed(dir string) bool {
	if !linkpath.IsInAny(dir, slices.AppendSeq([]string{r.Home}, maps.Values(r.Directories))) {
		return false
	}
	names := slices.Concat(LayeredNames, ReadableNames, ToolDirs, plainSettings)
	for _, f := range settingsFiles {
		names = append(names, f.name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(name, "*")
		at := r.HomePath(filepath.Clean(name))
		return name[0] == '.' && (paths.Contains(dir, at) || paths.Contains(at, dir))
	})
}

// IsVisible reports whether sessions see a path without links, because it is listed or a document.
func (r *Rules) IsVisible(found string) bool {
	if r.isDocument(found) {
		return true
	}
	isListed := func(name string) bool { return paths.Contains(r.HomePath(name), found) }
	return slices.ContainsFunc(slices.Concat(LayeredNames, ReadableNames), isListed) && !linkpath.IsInAny(found, r.ExcludedPaths)
}

// isDocument reports whether a path without links is a document, or outside the home directories of
// the user. Nothing below a directory with a dot is a document.
func (r *Rules) isDocument(found string) bool {
	for _, home := range append([]string{r.Home}, r.ExtraHomes...) {
		rest, below := strings.CutPrefix(found, home+"/")
		if home == "" || !below {
			continue
		}
		first, _, _ := strings.Cut(rest, "/")
		if r.NoDocuments || rest[0] == '.' || strings.Contains(rest, "/.") || slices.Contains(ProgramDataNames, first) || isKeyFile(filepath.Base(rest)) && !linkpath.IsDir(found) {
			return false
		}
	}
	return true
}

// A HiddenPath is a file or directory that no session may see.
type HiddenPath struct {
	Name         string // the path as listed, cleaned
	RealPath     string // without links; "" if it does not exist
	IsPlanned    bool   // the planner has already set its mount
	IsMaskedOnly bool   // only a mount hides it; opens for reading are not checked
	IsUserNamed  bool   // named by the user, not hidden by default
}
