package plan

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// A session's home directory is built from what it may see. A list of what to hide could never be
// complete, and a mount over a name ends when a program outside replaces the file. Names that are
// not listed here do not exist for the session, whenever they are made.

const (
	// maxDocuments bounds the names of a home directory that a session sees, because each is a mount.
	maxDocuments = 1000
	// maxUnshown bounds the remembered names that are not shown, which explain errors of the session.
	maxUnshown = 1000
)

// A homeBuilder adds the mounts of a session's home directory to a list.
type homeBuilder struct {
	*homeRules
	*mountList
	work           []string
	state          string
	isFirst        bool                     // this is the first plan of the session
	knownDocuments map[string]bool          // documents that the session sees
	packageIndexes map[string]*packageIndex // cached content of package directories
	resolvedDirs   map[string]string        // resolved directories by their paths
}

// newHomeBuilder returns a builder for a session that writes the work directories. The files of
// sessions are in state.
func newHomeBuilder(rules *homeRules, list *mountList, work []string, state string) *homeBuilder {
	return &homeBuilder{homeRules: rules, mountList: list, work: work, state: state, resolvedDirs: map[string]string{}}
}

// A homeInput holds what a home directory is built from besides the rules.
type homeInput struct {
	path         string   // the user's PATH
	program      string   // the worker's executable
	env          []string // the environment of the user's programs
	hasDocuments bool
}

// buildHome adds the home directory and the mounts in it.
func (h *homeBuilder) buildHome(in homeInput) {
	if h.home == "" || h.home == "/" {
		return
	}
	h.checkedPaths = append(h.checkedPaths, h.home)
	if st, err := os.Stat(h.home); err != nil || !st.IsDir() {
		return
	}
	h.set(h.home, ReadOnlyParent)
	for i, name := range ownDirNames {
		h.addOwnDir(name, i < expectedOwnDirs)
	}
	for name := range h.directories {
		h.addOwnDir(name, true)
	}
	for _, name := range layeredNames {
		why := ReasonTool
		if strings.HasPrefix(name, ".cache/") {
			why = ReasonCache
		}
		h.withReason(why, func() { h.showAll(name, OverlayMount) })
	}
	for _, name := range toolDirs {
		for _, part := range append([]string{"bin", "pyvenv.cfg"}, toolSubdirs...) {
			h.withReason(ReasonTool, func() { h.showAll(name+"/*/"+part, OverlayMount) })
		}
	}
	for _, name := range readableNames {
		h.withReason(ReasonTool, func() { h.showPath(h.homePath(name), GrantableBind) })
	}
	for _, name := range plainSettings {
		h.withReason(ReasonPlainSettings, func() { h.showPath(h.homePath(name), GrantableBind) })
	}
	for _, f := range settingsFiles {
		h.withReason(ReasonWrittenSettings, func() { h.resolveParent(h.homePath(f.name)) })
	}
	for _, dir := range filepath.SplitList(in.path) {
		h.withReason(ReasonOnPath, func() { h.showTools(dir) })
	}
	for _, dir := range h.libraryDirs(in) {
		h.withReason(ReasonInterpreter, func() { h.showLibrary(dir) })
	}
	h.withReason(ReasonInterpreter, func() { h.showLinksTo(in.program) })
	for _, dir := range h.extraHomes {
		h.set(dir, ReadOnlyParent)
	}
	if in.hasDocuments {
		for _, dir := range append([]string{h.home}, h.extraHomes...) {
			h.withReason(ReasonDocument, func() { h.showDocuments(dir) })
		}
	}
	for path := range h.knownDocuments {
		h.checkedPaths = append(h.checkedPaths, path)
	}
}

// showAll shows all paths below the home directory that match a name.
func (h *homeBuilder) showAll(name string, k MountKind) {
	for _, name := range h.matchNames(name) {
		h.showPath(h.homePath(name), k)
	}
}

// resolvePath returns a path without links. It shows the link if the path itself is one.
func (h *homeBuilder) resolvePath(path string) string {
	path = h.resolveParent(path)
	to, err := os.Readlink(path)
	if err != nil {
		return path
	}
	h.showLink(path, to)
	return paths.RealOrEmpty(path)
}

// resolveParent resolves all links of a path but the last part, and shows the links on the way.
func (h *homeBuilder) resolveParent(path string) string {
	dir := filepath.Dir(path)
	above, known := h.resolvedDirs[dir]
	if !known {
		above = paths.RealOrEmpty(dir)
		h.resolvedDirs[dir] = above
		if above != dir {
			h.narrowDirs(h.showLinksOnWay(dir))
		}
	}
	if above == "" {
		return path
	}
	return filepath.Join(above, filepath.Base(path))
}

// showLink shows a symbolic link, if the session does not see the machine's one.
func (h *homeBuilder) showLink(path, to string) {
	if h.isEmptyAt(path) && h.mounts[path].Kind == "" && !isInAny(path, h.work) {
		h.mounts[path] = Mount{Path: Path(path), Kind: SymbolicLink, Source: Path(to), Reason: h.reason}
	}
}

// showLinksTo shows the links through which the runtime is found, such as those of a virtual
// environment that was made from another. A link in the workspace may be among them; the final
// target is what runs.
func (h *homeBuilder) showLinksTo(program string) {
	left := MaxLinks
	at, rest := "/", filepath.Clean(program)
	for rest != "" && left > 0 {
		part, after, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		path := filepath.Join(at, part)
		to, err := os.Readlink(path)
		if at, rest = path, after; err != nil {
			continue
		}
		left--
		h.checkedPaths = append(h.checkedPaths, path)
		h.showLink(path, to)
		if at = filepath.Dir(path); filepath.IsAbs(to) {
			at = "/"
		}
		rest = filepath.Join(to, after)
	}
}

// addOwnDir adds an empty directory that the session writes.
func (h *homeBuilder) addOwnDir(name string, expected bool) {
	path := h.homePath(name)
	h.checkedPaths = append(h.checkedPaths, path)
	if _, err := os.Stat(path); err != nil && !expected {
		return
	}
	found := h.resolvePath(path)
	if found == "" {
		found = h.linkTarget(path)
	}
	if found != "" && !isInAny(found, h.work) && h.tooWideReason(found) == "" && !hasLinkIn(path, h.untrustedDirs) {
		h.set(found, WritableParent)
	}
}

// linkTarget returns the target of a link at which nothing exists.
func (h *homeBuilder) linkTarget(path string) string {
	path = h.resolveParent(path)
	to, err := os.Readlink(path)
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return realOrAbsent(to)
}

// showPath shows a path of the machine, if it exists.
func (h *homeBuilder) showPath(path string, k MountKind) {
	h.checkedPaths = append(h.checkedPaths, path)
	within := h.resolveParent(path)
	mode, err := filestate.LstatType(path)
	if err != nil {
		return
	}
	named := path
	if path = within; mode == fs.ModeSymlink {
		if path = h.resolvePath(path); path != "" {
			mode, err = filestate.LstatType(path)
		}
	}
	switch {
	case path == "" || err != nil, h.isLinkedAway(named, path, h.isVisible), h.mounts[path].Kind != "", isInAny(path, h.work), h.tooWideReason(path) != "":
	case h.isEmptyAt(path) && mode.IsDir() && h.hasHiddenIn(path):
		h.set(path, ReadOnlyParent)
		h.showDocuments(path)
	case k == OverlayMount && mode.IsDir():
		h.addLayer(path)
	case h.isEmptyAt(path) && (mode.IsDir() || mode.IsRegular()):
		h.set(path, GrantableBind)
	}
}

// showTools shows a directory of the user's PATH in the home directory, and the directories next to
// it that its programs need.
func (h *homeBuilder) showTools(dir string) {
	if dir = filepath.Clean(dir); paths.Contains(h.home, dir) {
		h.checkedPaths = append(h.checkedPaths, dir)
	}
	found := paths.RealOrEmpty(dir)
	if found == "" || h.isLinkedAway(dir, found, h.isVisible) {
		return
	}
	h.showLinksOnWay(dir)
	if found == h.home || !h.isInBuiltHome(found) {
		return
	}
	h.showPath(found, GrantableBind)
	above := filepath.Dir(found)
	if above == h.home || h.mounts[above].Kind != "" {
		return
	}
	for _, part := range toolSubdirs {
		h.showPath(filepath.Join(above, part), GrantableBind)
	}
}

// showLinksOnWay shows the links on the way to a path, such as those of a Nix profile. It returns
// their targets.
func (h *homeBuilder) showLinksOnWay(path string) (found []string) {
	chain := linkChain(path)
	if slices.ContainsFunc(chain, func(part string) bool { return isInAny(part, h.work) }) {
		return nil // the session may have made it
	}
	for _, link := range chain[:len(chain)-1] {
		at := paths.RealOrEmpty(link)
		if to, err := os.Readlink(link); err == nil && at != "" && h.isInBuiltHome(link) {
			h.checkedPaths = append(h.checkedPaths, link)
			h.showLink(link, to)
			found = append(found, at)
		}
	}
	return found
}

// narrowDirs reduces directories that links lead to, so that the session sees only the listed names
// in them. A cache that was moved to another disk still contains its logins.
func (h *homeBuilder) narrowDirs(dirs []string) {
	for _, dir := range dirs {
		isFree := h.mounts[dir].Kind == "" && (h.nearestKind(dir) == "" || h.isInBuiltHome(dir))
		if isFree && h.reason != ReasonNamed && isDir(dir) && h.tooWideReason(dir) == "" && !h.isOfMachine(dir) {
			h.excludedPaths = append(h.excludedPaths, dir)
			h.set(dir, ReadOnlyParent)
		}
	}
}

// isOfMachine reports whether a directory contains something that the whole machine needs, or
// nothing of the user's.
func (h *homeBuilder) isOfMachine(dir string) bool {
	meets := func(place string) bool { return paths.Contains(place, dir) || paths.Contains(dir, place) }
	return !filestate.IsWritable(dir) || !paths.Contains(h.home, dir) && slices.ContainsFunc(slices.Concat(systemDirs, kernelDirs), meets)
}

// isInBuiltHome reports whether a path is in the built home directory, or in a directory that a
// link of it leads to.
func (h *homeBuilder) isInBuiltHome(path string) bool {
	k := h.nearestKind(path)
	return k == ReadOnlyParent || k == WritableParent
}

// hasHiddenIn reports whether a directory contains a hidden path. A mount over that would end when
// a program outside replaces the file, so the session sees only the other names of the directory.
func (h *homeBuilder) hasHiddenIn(dir string) bool {
	return slices.ContainsFunc(h.excludedPaths, func(path string) bool { return path != dir && paths.Contains(dir, path) })
}

// showDocuments shows the names without a dot in a home directory, or the names in a directory that
// contains something hidden. Documents that are made later appear after a reset.
func (h *homeBuilder) showDocuments(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case (dir == h.home || slices.Contains(h.extraHomes, dir)) && isProgramData(e), slices.Contains(h.excludedPaths, path):
			continue
		case h.reason != ReasonDocument: // a toolchain, in which new names are shown as they appear
			h.showPath(path, GrantableBind)
			continue
		case !h.isFirst && !h.knownDocuments[path]:
			continue
		case h.isFirst && len(h.knownDocuments) == maxDocuments:
			h.addNotice("%s has more than %d names, and this session sees only the first %d; show others with --allow-read", h.home, maxDocuments, maxDocuments)
			return
		}
		h.knownDocuments[path] = true
		if e.Type()&os.ModeSymlink == 0 {
			h.showPath(path, GrantableBind)
		} else if to, err := os.Readlink(path); err == nil {
			h.showLink(path, to) // it leads to what the session sees, or nowhere
		}
	}
}

// isToolFile reports whether a name is of a file in a directory that the session sees as a whole,
// such as a toolchain.
func isToolFile(name string) bool {
	isSetting := slices.ContainsFunc(settingsFiles, func(f settingsFile) bool { return f.name == name })
	return !isSetting && name != ".gitconfig" && !slices.Contains(slices.Collect(maps.Values(gitListFiles)), name)
}

// addLayer adds an overlay for a directory of which the session writes a copy. To start fast,
// directories below the home directory share one overlay. If the files of sessions are in the home
// directory, they share one for each of its subdirectories.
func (h *homeBuilder) addLayer(dir string) {
	if paths.Contains(dir, h.state) {
		h.addNotice("%s contains the files of sessions, so this session gets no copy of it and cannot write it", dir)
		return
	}
	from := dir
	if h.home != "" && paths.Contains(h.home, dir) {
		first, _, _ := strings.Cut(strings.TrimPrefix(dir, h.home+"/"), "/")
		for _, above := range []string{filepath.Join(h.home, first), h.home} {
			if !paths.Contains(above, h.state) && filestate.SameFilesystem(dir, above) {
				from = above
			}
		}
	}
	h.mounts[dir] = Mount{Path: Path(dir), Kind: OverlayMount, Source: Path(from), Reason: h.reason}
}

// showWritten shows a file that was written for the session. If a tool has a link there, the file
// replaces the target of the link, provided that the session sees it.
func (h *homeBuilder) showWritten(name, file string) {
	path, isTool := h.homeLinkPath(name), isToolFile(name)
	if at := paths.RealOrEmpty(path); isTool && at != "" {
		path = at
	}
	isSeen := h.isEmptyAt(path) && !isTool || isTool && !h.isInvisible(path)
	if isSeen && h.mounts[path].Reason != ReasonNamed && !isInAny(path, h.work) {
		h.mounts[path] = Mount{Path: Path(path), Kind: ReplacedFile, Source: Path(file), Reason: ReasonWrittenSettings}
	}
}
