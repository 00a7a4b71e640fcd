package plan

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/workers"
)

// A session may have made any file or link in its workspace, and so may earlier sessions, whose
// workspaces are unknown. These files must not decide what a session sees. So a link is followed
// without limits only where no session writes. Any other link may lead only to what sessions see
// anyway.

// findUntrusted returns the directories whose files this session may have made: the directories that it
// writes, and its workspace, which it could write at another level.
func (p *planner) findUntrusted(s *workers.Sandbox, o Origin, work []string) []string {
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	if dir = paths.RealOrEmpty(dir); dir == "" || p.tooWideReason(dir) != "" {
		return work
	}
	return append(slices.Clone(work), dir)
}

// isLinkedAway reports whether a path leads to found through a link that a session may have made,
// and that is not to be followed. isFine reports whether a session may choose found itself.
func (p *planner) isLinkedAway(path, found string, isFine func(found string) bool) bool {
	if filepath.Clean(path) == found {
		return false
	}
	chain := linkChain(path)
	return slices.ContainsFunc(chain[:len(chain)-1], func(link string) bool {
		dir := filepath.Dir(link)
		switch {
		case isInAny(dir, p.untrustedDirs):
			return true
		case paths.Contains(dir, found), !paths.Contains(p.home, link) && paths.Contains(paths.RealOrEmpty(link), p.home): // a session that can make links there sees found anyway; or a link to the home directory
			return false
		}
		return !p.isUserMade(link) && !isFine(found)
	})
}

// hasLinkIn reports whether a link in a path is in one of these directories.
func hasLinkIn(path string, dirs []string) bool {
	chain := linkChain(path)
	return slices.ContainsFunc(chain[:len(chain)-1], func(link string) bool { return isInAny(filepath.Dir(link), dirs) })
}

// isUserMade reports whether no session can have made a file or link, whose directory is without
// links. This is so directly in the home directory and in directories of the lists. It is also so
// if all directories above belong to other users, and this user can make no names in them.
func (p *planner) isUserMade(path string) bool {
	dir := filepath.Dir(path)
	return !isInAny(dir, p.untrustedDirs) && (dir == p.home || p.isListed(dir) || !isReplaceable(path) && !isBelowUserDir(path))
}

// isReplaceable reports whether programs of the user can replace a path.
func isReplaceable(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if filestate.IsWritable(dir) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// isBelowUserDir reports whether the user owns a directory above a path.
func isBelowUserDir(path string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filestate.IsOwned(dir) {
			return true
		}
	}
	return false
}

// isListed reports whether a directory leads to a listed name, or is below one. Listed names
// without a dot, such as ~/go, do not count, because they may be workspaces.
func (p *planner) isListed(dir string) bool {
	if !isInAny(dir, slices.AppendSeq([]string{p.home}, maps.Values(p.directories))) {
		return false
	}
	names := slices.Concat(layeredNames, readableNames, toolDirs, plainSettings)
	for _, f := range settingsFiles {
		names = append(names, f.name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(name, "*")
		at := p.homePath(filepath.Clean(name))
		return name[0] == '.' && (paths.Contains(dir, at) || paths.Contains(at, dir))
	})
}

// isVisible reports whether sessions see a path without links, because it is listed or a document.
func (p *planner) isVisible(found string) bool {
	if p.isDocument(found) {
		return true
	}
	isListed := func(name string) bool { return paths.Contains(p.homePath(name), found) }
	return slices.ContainsFunc(slices.Concat(layeredNames, readableNames), isListed) && !isInAny(found, p.excludedPaths)
}

// isDocument reports whether a path without links is a document, or outside the home directories of
// the user. Nothing below a directory with a dot is a document.
func (p *planner) isDocument(found string) bool {
	for _, home := range append([]string{p.home}, p.extraHomes...) {
		rest, below := strings.CutPrefix(found, home+"/")
		if home == "" || !below {
			continue
		}
		first, _, _ := strings.Cut(rest, "/")
		if p.noDocuments || rest[0] == '.' || strings.Contains(rest, "/.") || slices.Contains(programDataNames, first) || isKeyFile(filepath.Base(rest)) && !isDir(found) {
			return false
		}
	}
	return true
}

// ReadUserSettings returns the text of one of the user's settings files. It returns nil if a
// session with this sandbox, at any level, may have made the file or a link to it.
func ReadUserSettings(s *workers.Sandbox, o Origin, path string) []byte {
	p := &planner{home: paths.RealOrEmpty(o.Home), tempDirs: []string{"/tmp", "/var/tmp"}}
	untrusted := p.findUntrusted(s, o, nil)
	for _, dir := range s.Writable {
		untrusted = append(untrusted, realOrAbsent(dir))
	}
	chain := linkChain(path)
	found := chain[len(chain)-1]
	if isInAny(found, untrusted) || hasLinkIn(path, untrusted) {
		return nil
	}
	return readText(filestate.OpenNoLinks(found))
}

// findFile returns the path of one of the user's settings files without links. It returns "" if a
// session may have made a link to it, or no session may see it.
func (s *settingsWriter) findFile(path string) string {
	chain := linkChain(path)
	found := chain[len(chain)-1]
	isClosed := func(c hiddenPath) bool {
		return paths.Contains(c.name, found) || c.realPath != "" && paths.Contains(c.realPath, found)
	}
	if s.planner.isLinkedAway(path, found, s.planner.isDocument) || slices.ContainsFunc(s.planner.hiddenPaths, isClosed) {
		return ""
	}
	return found
}

// readFile reads one of the user's settings files; a file that findFile rejects counts as missing.
// A session may put a link in its place after that, which is not followed.
func (s *settingsWriter) readFile(path string) []byte {
	return readText(filestate.OpenNoLinks(s.findFile(path)))
}
