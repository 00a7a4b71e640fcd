package homedir

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// maxDocuments bounds the names of a home directory that a session sees, because each is a mount.
const maxDocuments = 1000

// A Builder adds the mounts of a session's home directory to a list.
type Builder struct {
	*Rules
	*mountlist.List
	work           []string
	state          string
	IsFirst        bool                     // this is the first plan of the session
	KnownDocuments map[string]bool          // documents that the session sees
	PackageIndexes map[string]*PackageIndex // cached content of package directories
	resolvedDirs   map[string]string        // resolved directories by their paths
}

// NewBuilder returns a builder for a session that writes the work directories. The files of
// sessions are in state.
func NewBuilder(rules *Rules, list *mountlist.List, work []string, state string) *Builder {
	return &Builder{Rules: rules, List: list, work: work, state: state, resolvedDirs: map[string]string{}}
}

// A HomeInput holds the inputs, besides the rules, from which a home directory is built.
type HomeInput struct {
	Path         string   // the user's PATH
	Program      string   // the worker's executable
	Env          []string // the environment of the user's programs
	HasDocuments bool
}

// BuildHome adds the home directory and the mounts in it.
func (h *Builder) BuildHome(in HomeInput) {
	if h.Home == "" || h.Home == "/" {
		return
	}
	h.CheckedPaths = append(h.CheckedPaths, h.Home)
	if st, err := os.Stat(h.Home); err != nil || !st.IsDir() {
		return
	}
	h.Set(h.Home, mountlist.ReadOnlyParent)
	for i, name := range ownDirNames {
		h.addOwnDir(name, i < expectedOwnDirs)
	}
	for name := range h.Directories {
		h.addOwnDir(name, true)
	}
	for _, name := range LayeredNames {
		why := mountlist.ReasonTool
		if strings.HasPrefix(name, ".cache/") {
			why = mountlist.ReasonCache
		}
		h.WithReason(why, func() { h.showAll(name, mountlist.OverlayMount) })
	}
	for _, name := range ToolDirs {
		for _, part := range append([]string{"bin", "pyvenv.cfg"}, toolSubdirs...) {
			h.WithReason(mountlist.ReasonTool, func() { h.showAll(name+"/*/"+part, mountlist.OverlayMount) })
		}
	}
	for _, name := range ReadableNames {
		h.WithReason(mountlist.ReasonTool, func() { h.showPath(h.HomePath(name), mountlist.GrantableBind) })
	}
	for _, name := range plainSettings {
		h.WithReason(mountlist.ReasonPlainSettings, func() { h.showPath(h.HomePath(name), mountlist.GrantableBind) })
	}
	for _, f := range settingsFiles {
		h.WithReason(mountlist.ReasonWrittenSettings, func() { h.resolveParent(h.HomePath(f.name)) })
	}
	for _, dir := range filepath.SplitList(in.Path) {
		h.WithReason(mountlist.ReasonOnPath, func() { h.showTools(dir) })
	}
	for _, dir := range h.libraryDirs(in) {
		h.WithReason(mountlist.ReasonInterpreter, func() { h.showLibrary(dir) })
	}
	h.WithReason(mountlist.ReasonInterpreter, func() { h.showLinksTo(in.Program) })
	for _, dir := range h.ExtraHomes {
		h.Set(dir, mountlist.ReadOnlyParent)
	}
	if in.HasDocuments {
		for _, dir := range append([]string{h.Home}, h.ExtraHomes...) {
			h.WithReason(mountlist.ReasonDocument, func() { h.showDocuments(dir) })
		}
	}
	for path := range h.KnownDocuments {
		h.CheckedPaths = append(h.CheckedPaths, path)
	}
}

// showAll shows all paths below the home directory that match a name.
func (h *Builder) showAll(name string, k mountlist.MountKind) {
	for _, name := range h.matchNames(name) {
		h.showPath(h.HomePath(name), k)
	}
}

// ResolvePath returns a path without links. It shows the link if the path itself is one.
func (h *Builder) ResolvePath(path string) string {
	path = h.resolveParent(path)
	to, err := os.Readlink(path)
	if err != nil {
		return path
	}
	h.showLink(path, to)
	return paths.RealOrEmpty(path)
}

// resolveParent resolves all links of a path but the last part, and shows the links on the way.
func (h *Builder) resolveParent(path string) string {
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

// showLink shows a symbolic link, unless the session sees the machine's link anyway.
func (h *Builder) showLink(path, to string) {
	if h.IsEmptyAt(path) && h.Mounts[path].Kind == "" && !linkpath.IsInAny(path, h.work) {
		h.Mounts[path] = mountlist.Mount{Path: mountlist.Path(path), Kind: mountlist.SymbolicLink, Source: mountlist.Path(to), Reason: h.Reason}
	}
}

// showLinksTo shows the links through which the runtime is found, such as those of a virtual
// environment that was made from another. A link in the workspace may be among them; the final
// target is what runs.
func (h *Builder) showLinksTo(program string) {
	left := linkpath.MaxLinks
	at, rest := "/", filepath.Clean(program)
	for rest != "" && left > 0 {
		part, after, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		path := filepath.Join(at, part)
		to, err := os.Readlink(path)
		if at, rest = path, after; err != nil {
			continue
		}
		left--
		h.CheckedPaths = append(h.CheckedPaths, path)
		h.showLink(path, to)
		if at = filepath.Dir(path); filepath.IsAbs(to) {
			at = "/"
		}
		rest = filepath.Join(to, after)
	}
}

// addOwnDir adds an empty directory that the session writes.
func (h *Builder) addOwnDir(name string, expected bool) {
	path := h.HomePath(name)
	h.CheckedPaths = append(h.CheckedPaths, path)
	if _, err := os.Stat(path); err != nil && !expected {
		return
	}
	found := h.ResolvePath(path)
	if found == "" {
		found = h.linkTarget(path)
	}
	if found != "" && !linkpath.IsInAny(found, h.work) && h.TooWideReason(found) == "" && !linkpath.HasLinkIn(path, h.UntrustedDirs) {
		h.Set(found, mountlist.WritableParent)
	}
}

// linkTarget returns the target of a link at which nothing exists.
func (h *Builder) linkTarget(path string) string {
	path = h.resolveParent(path)
	to, err := os.Readlink(path)
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return linkpath.RealOrAbsent(to)
}

// showPath shows a path of the machine, if it exists.
func (h *Builder) showPath(path string, k mountlist.MountKind) {
	h.CheckedPaths = append(h.CheckedPaths, path)
	within := h.resolveParent(path)
	mode, err := filestate.LstatType(path)
	if err != nil {
		return
	}
	named := path
	if path = within; mode == fs.ModeSymlink {
		if path = h.ResolvePath(path); path != "" {
			mode, err = filestate.LstatType(path)
		}
	}
	switch {
	case path == "" || err != nil, h.IsLinkedAway(named, path, h.IsVisible), h.Mounts[path].Kind != "", linkpath.IsInAny(path, h.work), h.TooWideReason(path) != "":
	case h.IsEmptyAt(path) && mode.IsDir() && h.hasHiddenIn(path):
		h.Set(path, mountlist.ReadOnlyParent)
		h.showDocuments(path)
	case k == mountlist.OverlayMount && mode.IsDir():
		h.AddLayer(path)
	case h.IsEmptyAt(path) && (mode.IsDir() || mode.IsRegular()):
		h.Set(path, mountlist.GrantableBind)
	}
}

// showTools shows a directory of the user's PATH in the home directory, and the directories next to
// it that its programs need.
func (h *Builder) showTools(dir string) {
	if dir = filepath.Clean(dir); paths.Contains(h.Home, dir) {
		h.CheckedPaths = append(h.CheckedPaths, dir)
	}
	found := paths.RealOrEmpty(dir)
	if found == "" || h.IsLinkedAway(dir, found, h.IsVisible) {
		return
	}
	h.showLinksOnWay(dir)
	if found == h.Home || !h.isInBuiltHome(found) {
		return
	}
	h.showPath(found, mountlist.GrantableBind)
	above := filepath.Dir(found)
	if above == h.Home || h.Mounts[above].Kind != "" {
		return
	}
	for _, part := range toolSubdirs {
		h.showPath(filepath.Join(above, part), mountlist.GrantableBind)
	}
}

// showLinksOnWay shows the links on the way to a path, such as those of a Nix profile. It returns
// their targets.
func (h *Builder) showLinksOnWay(path string) (found []string) {
	chain := linkpath.LinkChain(path)
	if slices.ContainsFunc(chain, func(part string) bool { return linkpath.IsInAny(part, h.work) }) {
		return nil // the session may have created it
	}
	for _, link := range chain[:len(chain)-1] {
		at := paths.RealOrEmpty(link)
		if to, err := os.Readlink(link); err == nil && at != "" && h.isInBuiltHome(link) {
			h.CheckedPaths = append(h.CheckedPaths, link)
			h.showLink(link, to)
			found = append(found, at)
		}
	}
	return found
}

// narrowDirs reduces directories that links lead to, so that the session sees only the listed names
// in them. A cache that was moved to another disk still contains its logins.
func (h *Builder) narrowDirs(dirs []string) {
	for _, dir := range dirs {
		isFree := h.Mounts[dir].Kind == "" && (h.NearestKind(dir) == "" || h.isInBuiltHome(dir))
		if isFree && h.Reason != mountlist.ReasonNamed && linkpath.IsDir(dir) && h.TooWideReason(dir) == "" && !h.isOfMachine(dir) {
			h.ExcludedPaths = append(h.ExcludedPaths, dir)
			h.Set(dir, mountlist.ReadOnlyParent)
		}
	}
}

// isOfMachine reports whether a directory contains something that the whole machine needs, or
// nothing that belongs to the user.
func (h *Builder) isOfMachine(dir string) bool {
	meets := func(place string) bool { return paths.Contains(place, dir) || paths.Contains(dir, place) }
	return !filestate.IsWritable(dir) || !paths.Contains(h.Home, dir) && slices.ContainsFunc(slices.Concat(SystemDirs, KernelDirs), meets)
}

// isInBuiltHome reports whether a path is in the built home directory, or in a directory that a
// link of it leads to.
func (h *Builder) isInBuiltHome(path string) bool {
	k := h.NearestKind(path)
	return k == mountlist.ReadOnlyParent || k == mountlist.WritableParent
}

// hasHiddenIn reports whether a directory contains a hidden path. A mount over a hidden path would
// end when a program outside replaces the file. So the session sees only the other names of the
// directory.
func (h *Builder) hasHiddenIn(dir string) bool {
	return slices.ContainsFunc(h.ExcludedPaths, func(path string) bool { return path != dir && paths.Contains(dir, path) })
}

// showDocuments shows the names without a dot in a home directory, or the names in a directory that
// contains something hidden. Documents that are created later appear after a reset.
func (h *Builder) showDocuments(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case (dir == h.Home || slices.Contains(h.ExtraHomes, dir)) && isProgramData(e), slices.Contains(h.ExcludedPaths, path):
			continue
		case h.Reason != mountlist.ReasonDocument: // a toolchain, in which new names are shown as they appear
			h.showPath(path, mountlist.GrantableBind)
			continue
		case !h.IsFirst && !h.KnownDocuments[path]:
			continue
		case h.IsFirst && len(h.KnownDocuments) == maxDocuments:
			h.AddNotice("%s has more than %d names, and this session sees only the first %d; show others with --allow-read", h.Home, maxDocuments, maxDocuments)
			return
		}
		h.KnownDocuments[path] = true
		if e.Type()&os.ModeSymlink == 0 {
			h.showPath(path, mountlist.GrantableBind)
		} else if to, err := os.Readlink(path); err == nil {
			h.showLink(path, to) // it leads to what the session sees, or nowhere
		}
	}
}

// IsToolFile reports whether a name is of a file in a directory that the session sees as a whole,
// such as a toolchain.
func IsToolFile(name string) bool {
	isSetting := slices.ContainsFunc(settingsFiles, func(f settingsFile) bool { return f.name == name })
	return !isSetting && name != ".gitconfig" && !slices.Contains(slices.Collect(maps.Values(gitListFiles)), name)
}

// AddLayer adds an overlay for a directory, so that the session writes a copy of it. To start fast,
// directories below the home directory share one overlay. If the files of sessions are in the home
// directory, there is one overlay for each of its subdirectories instead.
func (h *Builder) AddLayer(dir string) {
	if paths.Contains(dir, h.state) {
		h.AddNotice("%s contains the files of sessions, so this session gets no copy of it and cannot write it", dir)
		return
	}
	from := dir
	if h.Home != "" && paths.Contains(h.Home, dir) {
		first, _, _ := strings.Cut(strings.TrimPrefix(dir, h.Home+"/"), "/")
		for _, above := range []string{filepath.Join(h.Home, first), h.Home} {
			if !paths.Contains(above, h.state) && filestate.SameFilesystem(dir, above) {
				from = above
			}
		}
	}
	h.Mounts[dir] = mountlist.Mount{Path: mountlist.Path(dir), Kind: mountlist.OverlayMount, Source: mountlist.Path(from), Reason: h.Reason}
}

// ShowWritten shows a file that was written for the session. If a tool has a link there, the file
// replaces the target of the link, provided that the session sees it.
func (h *Builder) ShowWritten(name, file string) {
	path, isTool := h.HomeLinkPath(name), IsToolFile(name)
	if at := paths.RealOrEmpty(path); isTool && at != "" {
		path = at
	}
	isSeen := h.IsEmptyAt(path) && !isTool || isTool && !h.IsInvisible(path)
	if isSeen && h.Mounts[path].Reason != mountlist.ReasonNamed && !linkpath.IsInAny(path, h.work) {
		h.Mounts[path] = mountlist.Mount{Path: mountlist.Path(path), Kind: mountlist.ReplacedFile, Source: mountlist.Path(file), Reason: mountlist.ReasonWrittenSettings}
	}
}
