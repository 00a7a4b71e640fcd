package confine

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// A session's home directory is built of what it may see. A list of what to hide could never be
// complete, and a mount over a name ends when a program outside replaces what has the name. Names that
// are not listed here are not there, whenever they are made.

// Directories that hold logins next to ordinary things are empty, and the session writes them.
// Tools make the first line of them where they are not there; the others are there if the machine has them.
var ownDirNames = []string{
	".config", ".local", ".cache", ".cargo", ".gradle", ".julia", ".m2", ".npm", ".nuget",
	".bun", ".bundle", ".cabal", ".conda", ".deno", ".dotnet", ".gem", ".ghcup", ".ipython", ".jupyter", ".pixi", ".stack",
}

const expectedOwnDirs = 9

// Caches, libraries and toolchains, of which the session writes a copy. A cache that is not listed
// costs time, and without a network a package that no lock file names. Those of answers from servers may keep what was
// sent to them, also logins: only those of uv are listed, which finds nothing offline without them.
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

// Toolchains, which the session only reads.
var readableNames = []string{
	"Library/Python", "Library/R", ".asdf", ".elan", ".juliaup", ".nvm", ".opam", ".pyenv", ".rbenv", ".rustup", ".volta", ".cache/turnstone",
}

// withheldNames are in toolchains, and hold logins.
var withheldNames = []string{".opam/plugins/opam-publish"}

// toolDirs are directories of programs that were installed each on its own. Next to them lie the addresses
// from which they came, with logins.
var toolDirs = []string{".local/pipx/venvs", ".local/share/pipx/venvs", ".local/share/uv/tools"}

// Settings that hold no logins.
var plainSettings = []string{".R/Makevars", ".cargo/env", ".config/git/attributes", ".config/git/ignore", ".fonts", ".inputrc", ".terminfo"}

// toolSubdirs are directories next to a directory of programs that those need.
var toolSubdirs = []string{"include", "lib", "lib64", "libexec", "share"}

// programDataNames are names without a dot in a home directory that are not the user's documents: programs keep their
// own data there, letters and logins.
var programDataNames = []string{
	"AppData", "Application Data", "Cookies", "Library", "Local Settings", "snap",
	"Mail", "Maildir", "Monero", "Postman", "Zotero", "airflow", "dead.letter", "mail", "mbox", "nsmail",
}

// keyFilePatterns are forms of names, in lower case, of files in a home directory that are keys: programs, clouds and
// people save them there.
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

// isKeyFile reports whether a name is that of a key.
func isKeyFile(name string) bool {
	return slices.ContainsFunc(keyFilePatterns, func(form string) bool { is, _ := filepath.Match(form, strings.ToLower(name)); return is })
}

const (
	// maxDocuments bounds the names of a home directory that a session sees: each is a mount.
	maxDocuments = 1000
	// maxUnshown bounds the names that an error can be explained by.
	maxUnshown = 1000
)

// buildHome adds the home directory, and what shows in it.
func (p *planner) buildHome(s *workers.Sandbox, o PlanInput, work []string) {
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
	h := &homeBuilder{planner: p, work: work, state: real(o.State), isFirst: first, resolvedDirs: map[string]string{}}
	p.set(p.home, readOnlyParent)
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
		p.withReason(why, func() { h.showAll(name, overlayMount) })
	}
	for _, name := range toolDirs {
		for _, part := range append([]string{"bin", "pyvenv.cfg"}, toolSubdirs...) {
			p.withReason(ReasonTool, func() { h.showAll(name+"/*/"+part, overlayMount) })
		}
	}
	for _, name := range readableNames {
		p.withReason(ReasonTool, func() { h.showPath(h.homePath(name), grantableBind) })
	}
	for _, name := range plainSettings {
		p.withReason(ReasonPlainSettings, func() { h.showPath(h.homePath(name), grantableBind) })
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
		h.set(dir, readOnlyParent)
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

// A homeBuilder adds what a session's home directory has.
type homeBuilder struct {
	*planner
	work         []string
	state        string
	isFirst      bool              // the session has seen nothing yet
	resolvedDirs map[string]string // directories without links, by their names
}

// homePath returns the path of a name below the home directory. A variable may have moved it.
func (p *planner) homePath(name string) string {
	for moved, dir := range p.directories {
		if rest, ok := strings.CutPrefix(name, moved); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Join(p.home, name)
}

// matchNames returns the names below the home directory that have a form.
func (p *planner) matchNames(form string) (names []string) {
	dir, pattern := form, ""
	for strings.Contains(dir, "*") {
		dir, pattern = filepath.Dir(dir), filepath.Join(filepath.Base(dir), pattern)
	}
	if pattern == "" {
		return []string{form}
	}
	found, _ := fs.Glob(os.DirFS(p.homePath(dir)), pattern)
	for _, rest := range found {
		names = append(names, filepath.Join(dir, rest))
	}
	return names
}

// showAll adds what has a name below the home directory.
func (h *homeBuilder) showAll(name string, k MountKind) {
	for _, name := range h.matchNames(name) {
		h.showPath(h.homePath(name), k)
	}
}

// resolvePath returns a path without links, and shows a link that the path itself is.
func (h *homeBuilder) resolvePath(path string) string {
	path = h.resolveParent(path)
	to, err := os.Readlink(path)
	if err != nil {
		return path
	}
	h.showLink(path, to)
	return real(path)
}

// resolveParent returns a path of which only the last part may be a link, and shows the links on the way to it.
func (h *homeBuilder) resolveParent(path string) string {
	dir := filepath.Dir(path)
	above, known := h.resolvedDirs[dir]
	if !known {
		above = real(dir)
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

// showLink shows a symbolic link, where the session does not see the machine's.
func (h *homeBuilder) showLink(path, to string) {
	if h.isEmptyAt(path) && h.mounts[path].Kind == "" && !isInAny(path, h.work) {
		h.mounts[path] = Mount{Path: Path(path), Kind: symbolicLink, Source: Path(to), Reason: h.reason}
	}
}

// maxLinks bounds the links in one path, as the kernel does.
const maxLinks = 40

// showLinksTo shows the links through which the runtime is found, such as those of one virtual environment that
// was made from another. It may be found by a link in the workspace: what it leads to at last is what runs.
func (h *homeBuilder) showLinksTo(program string) {
	left := maxLinks
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
		h.set(found, writableParent)
	}
}

// linkTarget returns where a link leads at which nothing is.
func (h *homeBuilder) linkTarget(path string) string {
	path = h.resolveParent(path)
	to, err := os.Readlink(path)
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return realOrAbsent(to)
}

// showPath adds a path of the machine's, if it is there.
func (h *homeBuilder) showPath(path string, k MountKind) {
	h.checkedPaths = append(h.checkedPaths, path)
	within := h.resolveParent(path)
	mode, err := lstatType(path)
	if err != nil {
		return
	}
	named := path
	if path = within; mode == fs.ModeSymlink {
		if path = h.resolvePath(path); path != "" {
			mode, err = lstatType(path)
		}
	}
	switch {
	case path == "" || err != nil, h.isLinkedAway(named, path, h.isVisible), h.mounts[path].Kind != "", isInAny(path, h.work), h.tooWideReason(path) != "":
	case h.isEmptyAt(path) && mode.IsDir() && h.hasHiddenIn(path):
		h.set(path, readOnlyParent)
		h.showDocuments(path)
	case k == overlayMount && mode.IsDir():
		h.addLayer(path, h.state)
	case h.isEmptyAt(path) && (mode.IsDir() || mode.IsRegular()):
		h.set(path, grantableBind)
	}
}

// nonUserHomes are the names beside the home directories of Windows that are no user's.
var nonUserHomes = []string{"All Users", "Default", "Default User", "Public"}

// findOtherHomes returns the home directories that the user has besides: those of Windows, where it has Linux in it.
func (p *planner) findOtherHomes(found, work []string) (dirs []string) {
	if found == nil {
		found = windowsHomes(readMounts())
	}
	for _, dir := range found {
		if dir = real(dir); isDir(dir) && !slices.Contains(nonUserHomes, filepath.Base(dir)) && !inside(dir, p.home) && !inside(p.home, dir) && !isInAny(dir, work) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// showTools shows a directory of programs in the home directory that is on the user's PATH, and what they
// need next to it.
func (h *homeBuilder) showTools(dir string) {
	if dir = filepath.Clean(dir); inside(dir, h.home) {
		h.checkedPaths = append(h.checkedPaths, dir)
	}
	found := real(dir)
	if found == "" || h.isLinkedAway(dir, found, h.isVisible) {
		return
	}
	h.showLinksOnWay(dir)
	if found == h.home || !h.isInBuiltHome(found) {
		return
	}
	h.showPath(found, grantableBind)
	above := filepath.Dir(found)
	if above == h.home || h.mounts[above].Kind != "" {
		return
	}
	for _, part := range toolSubdirs {
		h.showPath(filepath.Join(above, part), grantableBind)
	}
}

// showLinksOnWay shows the links on the way to a path, such as those of a profile of Nix. It returns what they lead to.
func (h *homeBuilder) showLinksOnWay(path string) (found []string) {
	way := linkChain(path)
	if slices.ContainsFunc(way, func(part string) bool { return isInAny(part, h.work) }) {
		return nil // the session may have made it
	}
	for _, link := range way[:len(way)-1] {
		at := real(link)
		if to, err := os.Readlink(link); err == nil && at != "" && h.isInBuiltHome(link) {
			h.checkedPaths = append(h.checkedPaths, link)
			h.showLink(link, to)
			found = append(found, at)
		}
	}
	return found
}

// narrowDirs lets the session see of directories only what is listed below the links that lead to them: a cache that
// was moved to another disk has the same logins there.
func (h *homeBuilder) narrowDirs(dirs []string) {
	for _, dir := range dirs {
		isFree := h.mounts[dir].Kind == "" && (h.nearestKind(dir) == "" || h.isInBuiltHome(dir))
		if isFree && h.reason != ReasonNamed && isDir(dir) && h.tooWideReason(dir) == "" && !h.isOfMachine(dir) {
			h.excludedPaths = append(h.excludedPaths, dir)
			h.set(dir, readOnlyParent)
		}
	}
}

// isOfMachine reports whether a directory has something in it that the whole machine needs, or nothing of the user's.
func (h *homeBuilder) isOfMachine(dir string) bool {
	meets := func(place string) bool { return inside(dir, place) || inside(place, dir) }
	return !isWritable(dir) || !inside(dir, h.home) && slices.ContainsFunc(slices.Concat(systemDirs, kernelDirs), meets)
}

// isInBuiltHome reports whether a path is in the home directory that is built, or what a link of it leads to.
func (h *homeBuilder) isInBuiltHome(path string) bool {
	k := h.nearestKind(path)
	return k == readOnlyParent || k == writableParent
}

// hasHiddenIn reports whether something in a directory is hidden. A mount over it would end when a program
// outside replaces it, so the session sees the other names alone.
func (h *homeBuilder) hasHiddenIn(dir string) bool {
	return slices.ContainsFunc(h.excludedPaths, func(path string) bool { return path != dir && inside(path, dir) })
}

// showDocuments shows what has a name without a dot in the home directory, or is in a directory there that
// has something hidden in it. A name that comes later waits for a reset.
func (h *homeBuilder) showDocuments(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case (dir == h.home || slices.Contains(h.extraHomes, dir)) && isProgramData(e), slices.Contains(h.excludedPaths, path):
			continue
		case h.reason != ReasonDocument: // a toolchain, in which a name is shown when it comes
			h.showPath(path, grantableBind)
			continue
		case !h.isFirst && !h.knownDocuments[path]:
			continue
		case h.isFirst && len(h.knownDocuments) == maxDocuments:
			h.addNotice("%s has more than %d names, and this session sees the first %d only: show others with --readable", h.home, maxDocuments, maxDocuments)
			return
		}
		h.knownDocuments[path] = true
		if e.Type()&os.ModeSymlink == 0 {
			h.showPath(path, grantableBind)
		} else if to, err := os.Readlink(path); err == nil {
			h.showLink(path, to) // it leads to what the session sees, or nowhere
		}
	}
}

// homeLinkPath returns the path of a name below the home directory, of which only the last part may be a link.
func (p *planner) homeLinkPath(name string) string {
	path := p.homePath(name)
	if above := real(filepath.Dir(path)); above != "" {
		path = filepath.Join(above, filepath.Base(path))
	}
	return path
}

// isToolFile reports whether a name is of a file in something else that the session sees.
func isToolFile(name string) bool {
	isSetting := slices.ContainsFunc(settingsFiles, func(f settingsFile) bool { return f.name == name })
	return !isSetting && name != ".gitconfig" && !slices.Contains(slices.Collect(maps.Values(gitListFiles)), name)
}

// showWritten shows a file that was written for the session. Where a tool has a link, it takes the place of what that leads
// to, if the session sees it.
func (p *planner) showWritten(name, file string, work []string) {
	path, isTool := p.homeLinkPath(name), isToolFile(name)
	if at := real(path); isTool && at != "" {
		path = at
	}
	shows := p.isEmptyAt(path) && !isTool || isTool && !p.isInvisible(path)
	if shows && p.mounts[path].Reason != ReasonNamed && !isInAny(path, work) {
		p.mounts[path] = Mount{Path: Path(path), Kind: replacedFile, Source: Path(file), Reason: ReasonWrittenSettings}
	}
}
