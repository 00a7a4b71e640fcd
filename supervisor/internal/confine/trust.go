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

// notTrusted returns the directories in which this session may have made what is there: what it writes, and
// its workspace, which it had at another level.
func (p *planner) notTrusted(s *workers.Sandbox, o Origin, work []string) []string {
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	if dir = real(dir); dir == "" || p.tooWide(dir) != "" {
		return work
	}
	return append(slices.Clone(work), dir)
}

// leadsAway reports whether a path leads to the one that was found by a link that a session may have made, and
// that does not count. isFine reports whether a session may choose that one.
func (p *planner) leadsAway(path, found string, isFine func(found string) bool) bool {
	if filepath.Clean(path) == found {
		return false
	}
	way := wayTo(path)
	return slices.ContainsFunc(way[:len(way)-1], func(link string) bool {
		dir := filepath.Dir(link)
		switch {
		case isIn(dir, p.doubted):
			return true
		case inside(found, dir), !inside(link, p.home) && inside(p.home, real(link)): // who makes links there sees it; the way to the home directory
			return false
		}
		return !p.isUsers(link) && !isFine(found)
	})
}

// hasLinkIn reports whether one of the links on the way of a path is in one of these directories.
func hasLinkIn(path string, dirs []string) bool {
	way := wayTo(path)
	return slices.ContainsFunc(way[:len(way)-1], func(link string) bool { return isIn(filepath.Dir(link), dirs) })
}

// isUsers reports whether no session can have made a file or link, whose directory is without links: it is in
// the home directory itself, or where something of the lists is, or all directories above it are another user's, in
// which this one makes no names.
func (p *planner) isUsers(path string) bool {
	dir := filepath.Dir(path)
	return !isIn(dir, p.doubted) && (dir == p.home || p.isOfList(dir) || !mayReplace(path) && !isBelowOwn(path))
}

// isBelowOwn reports whether a directory above a path is the user's.
func isBelowOwn(path string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if isOwned(dir) {
			return true
		}
	}
	return false
}

// isOfList reports whether a directory is on the way to a name of the lists, or below one. It may be a workspace
// if its name has no dot, such as those in ~/go.
func (p *planner) isOfList(dir string) bool {
	if !isIn(dir, slices.AppendSeq([]string{p.home}, maps.Values(p.directories))) {
		return false
	}
	names := slices.Concat(layeredNames, readableNames, placesOfTools, plainSettings)
	for _, f := range settingsFiles {
		names = append(names, f.name)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		name, _, _ = strings.Cut(name, "*")
		at := p.at(filepath.Clean(name))
		return name[0] == '.' && (inside(at, dir) || inside(dir, at))
	})
}

// isOpen reports whether sessions see a path without links by the lists, or as a document.
func (p *planner) isOpen(found string) bool {
	if p.isDocument(found) {
		return true
	}
	isListed := func(name string) bool { return inside(found, p.at(name)) }
	return slices.ContainsFunc(slices.Concat(layeredNames, readableNames), isListed) && !isIn(found, p.apart)
}

// isDocument reports whether a path without links is a document, or not in a home directory of the user's. Below
// a directory with a dot there is none.
func (p *planner) isDocument(found string) bool {
	for _, home := range append([]string{p.home}, p.others...) {
		rest, below := strings.CutPrefix(found, home+"/")
		if home == "" || !below {
			continue
		}
		first, _, _ := strings.Cut(rest, "/")
		if p.noDocuments || rest[0] == '.' || strings.Contains(rest, "/.") || slices.Contains(foreignNames, first) || isKey(filepath.Base(rest)) && !isDir(found) {
			return false
		}
	}
	return true
}

// OwnText returns the text of a settings file of the user's; nil where a session with this sandbox, at whatever
// level, may have made it, or a link to it.
func OwnText(s *workers.Sandbox, o Origin, path string) []byte {
	p := &planner{home: real(o.Home), temporary: []string{"/tmp", "/var/tmp"}}
	doubted := p.notTrusted(s, o, nil)
	for _, dir := range s.Writable {
		doubted = append(doubted, realOrAbsent(dir))
	}
	way := wayTo(path)
	found := way[len(way)-1]
	if isIn(found, doubted) || hasLinkIn(path, doubted) {
		return nil
	}
	return textOf(openUnlinked(found))
}

// find returns where a settings file of the user's is, without links; "" where a session may have led there, or
// no session may see it.
func (s *settings) find(path string) string {
	way := wayTo(path)
	found := way[len(way)-1]
	isClosed := func(c closedPlace) bool { return inside(found, c.name) || c.at != "" && inside(found, c.at) }
	if s.p.leadsAway(path, found, s.p.isDocument) || slices.ContainsFunc(s.p.closed, isClosed) {
		return ""
	}
	return found
}

// read reads a settings file of the user's; one that find does not find is as if it were not there. Meanwhile a
// session may have put a link in its place, which is not followed.
func (s *settings) read(path string) []byte { return textOf(openUnlinked(s.find(path))) }
