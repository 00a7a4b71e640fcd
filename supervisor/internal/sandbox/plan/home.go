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
	"github.com/turnstone-repl/turnstone/workers"
)

// A session's home directory is built from what it may see. A list of what to hide could never be
// complete, and a mount over a name ends when a program outside replaces the file. Names that are
// not listed here do not exist for the session, whenever they are made.

// ownDirNames are directories that hold logins next to other files. They are empty for the session,
// which may write them. The names of the first line are always made, because tools make them if
// they are missing; the others only if the machine has them.
var ownDirNames = []string{
	".config", ".local", ".cache", ".cargo", ".gradle", ".julia", ".m2", ".npm", ".nuget",
	".bun", ".bundle", ".cabal", ".conda", ".deno", ".dotnet", ".gem", ".ghcup", ".ipython", ".jupyter", ".pixi", ".stack",
}

const expectedOwnDirs = 9

// layeredNames are caches, libraries and toolchains, of which the session writes a copy. A cache
// that is not listed costs time, and without a network it costs packages that no lock file names.
// Caches of server responses may contain what was sent to the servers, including logins. Of those
// only uv's is listed, because uv finds nothing offline without it.
var layeredNames = []string{
	"R", "go", ".keras", ".matplotlib", ".TinyTeX", ".virtualenvs",
	".bun/install", ".bundle/cache", ".cabal/packages", ".cabal/store", ".cargo/bin", ".cargo/git", ".cargo/registry", ".conda/envs", ".conda/pkgs",
	".deno/bin", ".dotnet/host", ".dotnet/sdk", ".dotnet/shared", ".dotnet/tools", ".gem/ruby", ".ghcup/bin", ".ghcup/ghc", ".gradle/caches", ".gradle/wrapper",
	".ipython/profile_default/startup",
	".julia/artifacts", ".julia/clones", ".julia/compiled", ".julia/conda", ".julia/environments", ".julia/juliaup", ".julia/packages", ".julia/registries", ".julia/scratchspaces",
	".m2/repository", ".npm/_cacache/content-v2", ".npm/_npx", ".nuget/packages", ".pixi/bin", ".pixi/envs", ".stack/programs", ".stack/snapshots",
	".local/bin", ".local/include", ".local/lib", ".local/share/fonts", ".local/share/jupyter/kernels", ".local/share/jupyter/lab", ".local/share/jupyter/nbextensions",
	".local/share/man", ".local/share/mise/installs", ".local/share/mise/shims", ".local/share/pnpm", ".local/share/r-miniconda",
	".local/share/uv/python", ".local/share/virtualenv", ".local/share/virtualenvs",
	".cache/R/R.cache", ".cache/R/pkgcache", ".cache/R/renv", ".cache/ccache", ".cache/deno/deps", ".cache/deno/gen", ".cache/deno/npm", ".cache/deno/remote", ".cache/fontconfig", ".cache/go-build",
	".cache/huggingface/datasets", ".cache/huggingface/hub", ".cache/huggingface/modules", ".cache/matplotlib", ".cache/ms-playwright/chromium*-[0-9]*", ".cache/ms-playwright/ffmpeg-*", ".cache/ms-playwright/firefox-*", ".cache/ms-playwright/webkit-*", ".cache/mypy", ".cache/node-gyp", ".cache/numba",
	".cache/pip/wheels", ".cache/pre-commit", ".cache/pypoetry/artifacts", ".cache/pypoetry/virtualenvs", ".cache/ruff", ".cache/torch", ".cache/typst", ".cache/uv", ".cache/yarn",
	".config/fontconfig", ".config/matplotlib", ".config/mypy", ".config/ruff",
	".local/pipx/py", ".local/pipx/shared", ".local/share/pipx/py", ".local/share/pipx/shared",
}

// readableNames are toolchains, which the session only reads.
var readableNames = []string{
	"Library/Python", "Library/R", ".asdf", ".elan", ".juliaup", ".nvm", ".opam", ".pyenv", ".rbenv", ".rustup", ".volta", ".cache/turnstone",
}

// withheldNames are in toolchains and hold logins.
var withheldNames = []string{".opam/plugins/opam-publish"}

// toolDirs contain programs that were each installed separately. The addresses that they came from
// are next to them, with logins.
var toolDirs = []string{".local/pipx/venvs", ".local/share/pipx/venvs", ".local/share/uv/tools"}

// plainSettings are settings that hold no logins.
var plainSettings = []string{".R/Makevars", ".cargo/env", ".config/git/attributes", ".config/git/ignore", ".fonts", ".inputrc", ".terminfo"}

// toolSubdirs are directories next to a directory of programs that the programs need.
var toolSubdirs = []string{"include", "lib", "lib64", "libexec", "share"}

// programDataNames are names without a dot in a home directory that are not the user's documents:
// programs keep their own data there, such as mail and logins.
var programDataNames = []string{
	"AppData", "Application Data", "Cookies", "Library", "Local Settings", "snap",
	"Mail", "Maildir", "Monero", "Postman", "Zotero", "airflow", "dead.letter", "mail", "mbox", "nsmail",
}

// keyFilePatterns match names, in lower case, of key files in a home directory, where programs,
// cloud consoles and people save them.
var keyFilePatterns = []string{
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.keytab", "*.agekey", "*secret*.asc", "*private*.asc",
	"*.kdb", "*.kdbx", "*.psafe3", "*.ovpn", "wallet*.dat", "*.wallet", "*.publishsettings", "*.pgpass", "*kubeconfig*", "*.tfstate*", "ntuser*",
	"client_secret*.json", "credentials*.json", "*credentials*.csv", "*accesskeys*.csv", "rootkey*.csv", "service-account*.json", "service_account*.json", "serviceaccount*.json", "*firebase-adminsdk*.json", "adminsdk*.json",
	"_netrc", "secret.*", "secrets.*", "token.json", "token.pickle", "token.txt", "*api_key*", "*apikey*", "*passwords*", "bitwarden_export*", "lastpass*", "*.1pux", "*recovery-codes*", "*recovery_codes*", "*backup-codes*", "*backup_codes*",
}

// isProgramData reports whether a name in a home directory is not a document.
func isProgramData(e fs.DirEntry) bool {
	return strings.HasPrefix(e.Name(), ".") || slices.Contains(programDataNames, e.Name()) || !e.IsDir() && isKeyFile(e.Name())
}

// isKeyFile reports whether a name looks like that of a key file.
func isKeyFile(name string) bool {
	return slices.ContainsFunc(keyFilePatterns, func(pattern string) bool {
		matches, _ := filepath.Match(pattern, strings.ToLower(name))
		return matches
	})
}

const (
	// maxDocuments bounds the names of a home directory that a session sees, because each is a mount.
	maxDocuments = 1000
	// maxUnshown bounds the remembered names that are not shown, which explain errors of the session.
	maxUnshown = 1000
)

// buildHome adds the home directory and the mounts in it.
func (p *planner) buildHome(s *workers.Sandbox, o Origin, work []string) {
	first := p.knownDocuments == nil
	if first {
		p.knownDocuments = map[string]bool{}
	}
	if p.home == "" || p.home == "/" {
		return
	}
	p.checkedPaths = append(p.checkedPaths, p.home)
	if st, err := os.Stat(p.home); err != nil || !st.IsDir() {
		return
	}
	h := &homeBuilder{planner: p, work: work, state: paths.RealOrEmpty(o.State), isFirst: first, resolvedDirs: map[string]string{}}
	p.set(p.home, ReadOnlyParent)
	for i, name := range ownDirNames {
		h.addOwnDir(name, i < expectedOwnDirs)
	}
	for name := range p.directories {
		h.addOwnDir(name, true)
	}
	for _, name := range layeredNames {
		why := ReasonTool
		if strings.HasPrefix(name, ".cache/") {
			why = ReasonCache
		}
		p.withReason(why, func() { h.showAll(name, OverlayMount) })
	}
	for _, name := range toolDirs {
		for _, part := range append([]string{"bin", "pyvenv.cfg"}, toolSubdirs...) {
			p.withReason(ReasonTool, func() { h.showAll(name+"/*/"+part, OverlayMount) })
		}
	}
	for _, name := range readableNames {
		p.withReason(ReasonTool, func() { h.showPath(h.homePath(name), GrantableBind) })
	}
	for _, name := range plainSettings {
		p.withReason(ReasonPlainSettings, func() { h.showPath(h.homePath(name), GrantableBind) })
	}
	for _, f := range settingsFiles {
		p.withReason(ReasonWrittenSettings, func() { h.resolveParent(h.homePath(f.name)) })
	}
	for _, dir := range filepath.SplitList(o.Path) {
		p.withReason(ReasonOnPath, func() { h.showTools(dir) })
	}
	for _, dir := range h.libraryDirs(o) {
		p.withReason(ReasonInterpreter, func() { h.showLibrary(dir) })
	}
	p.withReason(ReasonInterpreter, func() { h.showLinksTo(o.Program) })
	for _, dir := range h.extraHomes {
		h.set(dir, ReadOnlyParent)
	}
	if s.Home != workers.HomeTools {
		for _, dir := range append([]string{h.home}, h.extraHomes...) {
			p.withReason(ReasonDocument, func() { h.showDocuments(dir) })
		}
	}
	for path := range p.knownDocuments {
		h.checkedPaths = append(h.checkedPaths, path)
	}
}

// A homeBuilder adds the mounts of a session's home directory to a plan.
type homeBuilder struct {
	*planner
	work         []string
	state        string
	isFirst      bool              // this is the first plan of the session
	resolvedDirs map[string]string // resolved directories by their paths
}

// homePath returns the path of a name below the home directory, which a variable may have moved.
func (p *planner) homePath(name string) string {
	for moved, dir := range p.directories {
		if rest, ok := strings.CutPrefix(name, moved); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Join(p.home, name)
}

// matchNames returns the names below the home directory that match a pattern.
func (p *planner) matchNames(pattern string) (names []string) {
	dir, tail := pattern, ""
	for strings.Contains(dir, "*") {
		dir, tail = filepath.Dir(dir), filepath.Join(filepath.Base(dir), tail)
	}
	if tail == "" {
		return []string{pattern}
	}
	found, _ := fs.Glob(os.DirFS(p.homePath(dir)), tail)
	for _, rest := range found {
		names = append(names, filepath.Join(dir, rest))
	}
	return names
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

// MaxLinks bounds the links in one path, like the kernel.
const MaxLinks = 40

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
		h.addLayer(path, h.state)
	case h.isEmptyAt(path) && (mode.IsDir() || mode.IsRegular()):
		h.set(path, GrantableBind)
	}
}

// nonUserHomes are directories next to the home directories of Windows that belong to no user.
var nonUserHomes = []string{"All Users", "Default", "Default User", "Public"}

// findOtherHomes returns further home directories of the user: those of Windows, under WSL.
func (p *planner) findOtherHomes(found, work []string) (dirs []string) {
	if found == nil {
		found = windowsHomes(readMounts())
	}
	for _, dir := range found {
		if dir = paths.RealOrEmpty(dir); isDir(dir) && !slices.Contains(nonUserHomes, filepath.Base(dir)) && !paths.Contains(p.home, dir) && !paths.Contains(dir, p.home) && !isInAny(dir, work) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
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

// homeLinkPath returns the path of a name below the home directory, with all links resolved but the
// last part.
func (p *planner) homeLinkPath(name string) string {
	path := p.homePath(name)
	if above := paths.RealOrEmpty(filepath.Dir(path)); above != "" {
		path = filepath.Join(above, filepath.Base(path))
	}
	return path
}

// isToolFile reports whether a name is of a file in a directory that the session sees as a whole,
// such as a toolchain.
func isToolFile(name string) bool {
	isSetting := slices.ContainsFunc(settingsFiles, func(f settingsFile) bool { return f.name == name })
	return !isSetting && name != ".gitconfig" && !slices.Contains(slices.Collect(maps.Values(gitListFiles)), name)
}

// showWritten shows a file that was written for the session. If a tool has a link there, the file
// replaces the target of the link, provided that the session sees it.
func (p *planner) showWritten(name, file string, work []string) {
	path, isTool := p.homeLinkPath(name), isToolFile(name)
	if at := paths.RealOrEmpty(path); isTool && at != "" {
		path = at
	}
	isSeen := p.isEmptyAt(path) && !isTool || isTool && !p.isInvisible(path)
	if isSeen && p.mounts[path].Reason != ReasonNamed && !isInAny(path, work) {
		p.mounts[path] = Mount{Path: Path(path), Kind: ReplacedFile, Source: Path(file), Reason: ReasonWrittenSettings}
	}
}
