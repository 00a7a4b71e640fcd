package confine

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// A session may have made any file or link in its workspace, and earlier ones in theirs, of which nothing is
// known. Those must not decide what a session sees. So a link counts in full only where no session writes.
// Any other may lead to what sessions see by the rules, and to nothing else.

// findUntrusted returns the directories in which this session may have made what is there: what it writes, and
// its workspace, which it had at another level.
func (p *planner) findUntrusted(s *workers.Sandbox, o PlanInput, work []string) []string {
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	if dir = real(dir); dir == "" || p.tooWideReason(dir) != "" {
		return work
	}
	return append(slices.Clone(work), dir)
}

// isLinkedAway reports whether a path leads to the one that was found by a link that a session may have made, and
// that does not count. isFine reports whether a session may choose that one.
func (p *planner) isLinkedAway(path, found string, isFine func(found string) bool) bool {
	if filepath.Clean(path) == found {
		return false
	}
	way := linkChain(path)
	return slices.ContainsFunc(way[:len(way)-1], func(link string) bool {
		dir := filepath.Dir(link)
		switch {
		case isInAny(dir, p.untrustedDirs):
			return true
		case inside(found, dir), !inside(link, p.home) && inside(p.home, real(link)): // who makes links there sees it; the way to the home directory
			return false
		}
		return !p.isUserMade(link) && !isFine(found)
	})
}

// hasLinkIn reports whether one of the links on the way of a path is in one of these directories.
func hasLinkIn(path string, dirs []string) bool {
	way := linkChain(path)
	return slices.ContainsFunc(way[:len(way)-1], func(link string) bool { return isInAny(filepath.Dir(link), dirs) })
}

// isUserMade reports whether no session can have made a file or link, whose directory is without links: it is in
// the home directory itself, or where something of the lists is, or all directories above it are another user's, in
// which this one makes no names.
func (p *planner) isUserMade(path string) bool {
	dir := filepath.Dir(path)
	return !isInAny(dir, p.untrustedDirs) && (dir == p.home || p.isListed(dir) || !isReplaceable(path) && !isBelowUserDir(path))
}

// isBelowUserDir reports whether a directory above a path is the user's.
func isBelowUserDir(path string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if isOwned(dir) {
			return true
		}
	}
	return false
}

// isListed reports whether a directory is on the way to a name of the lists, or below one. It may be a workspace
// if its name has no dot, such as those in ~/go.
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
		return name[0] == '.' && (inside(at, dir) || inside(dir, at))
	})
}

// isVisible reports whether sessions see a path without links by the lists, or as a document.
func (p *planner) isVisible(found string) bool {
	if p.isDocument(found) {
		return true
	}
	isListed := func(name string) bool { return inside(found, p.homePath(name)) }
	return slices.ContainsFunc(slices.Concat(layeredNames, readableNames), isListed) && !isInAny(found, p.excludedPaths)
}

// isDocument reports whether a path without links is a document, or not in a home directory of the user's. Below
// a directory with a dot there is none.
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

// ReadUserSettings returns the text of a settings file of the user's; nil where a session with this sandbox, at whatever
// level, may have made it, or a link to it.
func ReadUserSettings(s *workers.Sandbox, o PlanInput, path string) []byte {
	p := &planner{home: real(o.Home), tempDirs: []string{"/tmp", "/var/tmp"}}
	doubted := p.findUntrusted(s, o, nil)
	for _, dir := range s.Writable {
		doubted = append(doubted, realOrAbsent(dir))
	}
	way := linkChain(path)
	found := way[len(way)-1]
	if isInAny(found, doubted) || hasLinkIn(path, doubted) {
		return nil
	}
	return readText(openNoLinks(found))
}

// findFile returns where a settings file of the user's is, without links; "" where a session may have led there, or
// no session may see it.
func (s *settingsWriter) findFile(path string) string {
	way := linkChain(path)
	found := way[len(way)-1]
	isClosed := func(c hiddenPath) bool { return inside(found, c.name) || c.realPath != "" && inside(found, c.realPath) }
	if s.planner.isLinkedAway(path, found, s.planner.isDocument) || slices.ContainsFunc(s.planner.hiddenPaths, isClosed) {
		return ""
	}
	return found
}

// readFile reads a settings file of the user's; one that find does not find is as if it were not there. Meanwhile a
// session may have put a link in its place, which is not followed.
func (s *settingsWriter) readFile(path string) []byte { return readText(openNoLinks(s.findFile(path))) }
