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
var builtNames = []string{
	".config", ".local", ".cache", ".cargo", ".gradle", ".julia", ".m2", ".npm", ".nuget",
	".bun", ".bundle", ".cabal", ".conda", ".deno", ".dotnet", ".gem", ".ghcup", ".ipython", ".jupyter", ".pixi", ".stack",
}

const expectedNames = 9

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

// placesOfTools are directories of programs that were installed each on its own. Next to them lie the addresses
// from which they came, with logins.
var placesOfTools = []string{".local/pipx/venvs", ".local/share/pipx/venvs", ".local/share/uv/tools"}

// Settings that hold no logins.
var plainSettings = []string{".R/Makevars", ".cargo/env", ".config/git/attributes", ".config/git/ignore", ".fonts", ".inputrc", ".terminfo"}

// partsOfTools are directories next to a directory of programs that those need.
var partsOfTools = []string{"include", "lib", "lib64", "libexec", "share"}

// foreignNames are names without a dot in a home directory that are not the user's documents: programs keep their
// own data there, letters and logins.
var foreignNames = []string{
	"AppData", "Application Data", "Cookies", "Library", "Local Settings", "snap",
	"Mail", "Maildir", "Monero", "Postman", "Zotero", "airflow", "dead.letter", "mail", "mbox", "nsmail",
}

// keyFiles are forms of names, in lower case, of files in a home directory that are keys: programs, clouds and
// people save them there.
var keyFiles = []string{
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.keytab", "*.agekey", "*secret*.asc", "*private*.asc",
	"*.kdb", "*.kdbx", "*.psafe3", "*.ovpn", "wallet*.dat", "*.wallet", "*.publishsettings", "*.pgpass", "*kubeconfig*", "*.tfstate*", "ntuser*",
	"client_secret*.json", "credentials*.json", "*credentials*.csv", "*accesskeys*.csv", "rootkey*.csv", "service-account*.json", "service_account*.json", "serviceaccount*.json", "*firebase-adminsdk*.json", "adminsdk*.json",
	"_netrc", "secret.*", "secrets.*", "token.json", "token.pickle", "token.txt", "*api_key*", "*apikey*", "*passwords*", "bitwarden_export*", "lastpass*", "*.1pux", "*recovery-codes*", "*recovery_codes*", "*backup-codes*", "*backup_codes*",
}

// isOwnData reports whether a name in a home directory is not a document.
func isOwnData(e fs.DirEntry) bool {
	return strings.HasPrefix(e.Name(), ".") || slices.Contains(foreignNames, e.Name()) || !e.IsDir() && isKey(e.Name())
}

// isKey reports whether a name is that of a key.
func isKey(name string) bool {
	return slices.ContainsFunc(keyFiles, func(form string) bool { is, _ := filepath.Match(form, strings.ToLower(name)); return is })
}

const (
	// maxDocuments bounds the names of a home directory that a session sees: each is a mount.
	maxDocuments = 1000
	// maxUnshown bounds the names that an error can be explained by.
	maxUnshown = 1000
)

// buildHome adds the home directory, and what shows in it.
func (p *planner) buildHome(s *workers.Sandbox, o Origin, work []string) {
	first := p.known == nil
	if first {
		p.known = map[string]bool{}
	}
	if p.home == "" || p.home == "/" {
		return
	}
	p.looked = append(p.looked, p.home)
	if st, err := os.Stat(p.home); err != nil || !st.IsDir() {
		return
	}
	h := &homeBuilder{planner: p, work: work, state: real(o.State), first: first, dirs: map[string]string{}}
	p.set(p.home, covered)
	for i, name := range builtNames {
		h.build(name, i < expectedNames)
	}
	for name := range p.directories {
		h.build(name, true)
	}
	for _, name := range layeredNames {
		why := Tool
		if strings.HasPrefix(name, ".cache/") {
			why = Cache
		}
		p.because(why, func() { h.showAll(name, layer) })
	}
	for _, name := range placesOfTools {
		for _, part := range append([]string{"bin", "pyvenv.cfg"}, partsOfTools...) {
			p.because(Tool, func() { h.showAll(name+"/*/"+part, layer) })
		}
	}
	for _, name := range readableNames {
		p.because(Tool, func() { h.show(h.at(name), readable) })
	}
	for _, name := range plainSettings {
		p.because(Plain, func() { h.show(h.at(name), readable) })
	}
	for _, f := range settingsFiles {
		p.because(Written, func() { h.within(h.at(f.name)) })
	}
	for _, dir := range filepath.SplitList(o.Path) {
		p.because(OnPath, func() { h.tools(dir) })
	}
	for _, dir := range h.libraries(o) {
		p.because(Interpreter, func() { h.library(dir) })
	}
	p.because(Interpreter, func() { h.linksTo(o.Program) })
	for _, dir := range h.others {
		h.set(dir, covered)
	}
	if s.Home != workers.HomeTools {
		for _, dir := range append([]string{h.home}, h.others...) {
			p.because(Document, func() { h.documents(dir) })
		}
	}
	for path := range p.known {
		h.looked = append(h.looked, path)
	}
}

// A homeBuilder adds what a session's home directory has.
type homeBuilder struct {
	*planner
	work  []string
	state string
	first bool              // the session has seen nothing yet
	dirs  map[string]string // directories without links, by their names
}

// at returns the path of a name below the home directory. A variable may have moved it.
func (p *planner) at(name string) string {
	for moved, dir := range p.directories {
		if rest, ok := strings.CutPrefix(name, moved); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(dir, rest)
		}
	}
	return filepath.Join(p.home, name)
}

// matching returns the names below the home directory that have a form.
func (p *planner) matching(form string) (names []string) {
	dir, pattern := form, ""
	for strings.Contains(dir, "*") {
		dir, pattern = filepath.Dir(dir), filepath.Join(filepath.Base(dir), pattern)
	}
	if pattern == "" {
		return []string{form}
	}
	found, _ := fs.Glob(os.DirFS(p.at(dir)), pattern)
	for _, rest := range found {
		names = append(names, filepath.Join(dir, rest))
	}
	return names
}

// showAll adds what has a name below the home directory.
func (h *homeBuilder) showAll(name string, k Kind) {
	for _, name := range h.matching(name) {
		h.show(h.at(name), k)
	}
}

// resolve returns a path without links, and shows a link that the path itself is.
func (h *homeBuilder) resolve(path string) string {
	path = h.within(path)
	to, err := os.Readlink(path)
	if err != nil {
		return path
	}
	h.link(path, to)
	return real(path)
}

// within returns a path of which only the last part may be a link, and shows the links on the way to it.
func (h *homeBuilder) within(path string) string {
	dir := filepath.Dir(path)
	above, known := h.dirs[dir]
	if !known {
		above = real(dir)
		h.dirs[dir] = above
		if above != dir {
			h.narrow(h.links(dir))
		}
	}
	if above == "" {
		return path
	}
	return filepath.Join(above, filepath.Base(path))
}

// link shows a symbolic link, where the session does not see the machine's.
func (h *homeBuilder) link(path, to string) {
	if h.isEmptyAt(path) && h.kinds[path].Kind == "" && !isIn(path, h.work) {
		h.kinds[path] = Place{Path: Path(path), Kind: linked, From: Path(to), Why: h.why}
	}
}

// mostLinks bounds the links in one path, as the kernel does.
const mostLinks = 40

// linksTo shows the links through which the runtime is found, such as those of one virtual environment that
// was made from another. It may be found by a link in the workspace: what it leads to at last is what runs.
func (h *homeBuilder) linksTo(program string) {
	left := mostLinks
	at, rest := "/", filepath.Clean(program)
	for rest != "" && left > 0 {
		part, after, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
		path := filepath.Join(at, part)
		to, err := os.Readlink(path)
		if at, rest = path, after; err != nil {
			continue
		}
		left--
		h.looked = append(h.looked, path)
		h.link(path, to)
		if at = filepath.Dir(path); filepath.IsAbs(to) {
			at = "/"
		}
		rest = filepath.Join(to, after)
	}
}

// build adds an empty directory that the session writes.
func (h *homeBuilder) build(name string, expected bool) {
	path := h.at(name)
	h.looked = append(h.looked, path)
	if _, err := os.Stat(path); err != nil && !expected {
		return
	}
	found := h.resolve(path)
	if found == "" {
		found = h.targetOf(path)
	}
	if found != "" && !isIn(found, h.work) && h.tooWide(found) == "" && !hasLinkIn(path, h.doubted) {
		h.set(found, built)
	}
}

// targetOf returns where a link leads at which nothing is.
func (h *homeBuilder) targetOf(path string) string {
	path = h.within(path)
	to, err := os.Readlink(path)
	if err == nil && !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(path), to)
	}
	return realOrAbsent(to)
}

// show adds a path of the machine's, if it is there.
func (h *homeBuilder) show(path string, k Kind) {
	h.looked = append(h.looked, path)
	within := h.within(path)
	mode, err := typeOf(path)
	if err != nil {
		return
	}
	named := path
	if path = within; mode == fs.ModeSymlink {
		if path = h.resolve(path); path != "" {
			mode, err = typeOf(path)
		}
	}
	switch {
	case path == "" || err != nil, h.leadsAway(named, path, h.isOpen), h.kinds[path].Kind != "", isIn(path, h.work), h.tooWide(path) != "":
	case h.isEmptyAt(path) && mode.IsDir() && h.hidesIn(path):
		h.set(path, covered)
		h.documents(path)
	case k == layer && mode.IsDir():
		h.layer(path, h.state)
	case h.isEmptyAt(path) && (mode.IsDir() || mode.IsRegular()):
		h.set(path, readable)
	}
}

// notUsers are the names beside the home directories of Windows that are no user's.
var notUsers = []string{"All Users", "Default", "Default User", "Public"}

// otherHomes returns the home directories that the user has besides: those of Windows, where it has Linux in it.
func (p *planner) otherHomes(found, work []string) (dirs []string) {
	if found == nil {
		found = windowsHomes(readMounts())
	}
	for _, dir := range found {
		if dir = real(dir); isDir(dir) && !slices.Contains(notUsers, filepath.Base(dir)) && !inside(dir, p.home) && !inside(p.home, dir) && !isIn(dir, work) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// tools shows a directory of programs in the home directory that is on the user's PATH, and what they
// need next to it.
func (h *homeBuilder) tools(dir string) {
	if dir = filepath.Clean(dir); inside(dir, h.home) {
		h.looked = append(h.looked, dir)
	}
	found := real(dir)
	if found == "" || h.leadsAway(dir, found, h.isOpen) {
		return
	}
	h.links(dir)
	if found == h.home || !h.isBuiltAt(found) {
		return
	}
	h.show(found, readable)
	above := filepath.Dir(found)
	if above == h.home || h.kinds[above].Kind != "" {
		return
	}
	for _, part := range partsOfTools {
		h.show(filepath.Join(above, part), readable)
	}
}

// links shows the links on the way to a path, such as those of a profile of Nix. It returns what they lead to.
func (h *homeBuilder) links(path string) (found []string) {
	way := wayTo(path)
	if slices.ContainsFunc(way, func(part string) bool { return isIn(part, h.work) }) {
		return nil // the session may have made it
	}
	for _, link := range way[:len(way)-1] {
		at := real(link)
		if to, err := os.Readlink(link); err == nil && at != "" && h.isBuiltAt(link) {
			h.looked = append(h.looked, link)
			h.link(link, to)
			found = append(found, at)
		}
	}
	return found
}

// narrow lets the session see of directories only what is listed below the links that lead to them: a cache that
// was moved to another disk has the same logins there.
func (h *homeBuilder) narrow(dirs []string) {
	for _, dir := range dirs {
		isFree := h.kinds[dir].Kind == "" && (h.above(dir) == "" || h.isBuiltAt(dir))
		if isFree && h.why != Named && isDir(dir) && h.tooWide(dir) == "" && !h.isOfMachine(dir) {
			h.apart = append(h.apart, dir)
			h.set(dir, covered)
		}
	}
}

// isOfMachine reports whether a directory has something in it that the whole machine needs, or nothing of the user's.
func (h *homeBuilder) isOfMachine(dir string) bool {
	meets := func(place string) bool { return inside(dir, place) || inside(place, dir) }
	return !isWritable(dir) || !inside(dir, h.home) && slices.ContainsFunc(slices.Concat(systemPlaces, placesOfKernel), meets)
}

// isBuiltAt reports whether a path is in the home directory that is built, or what a link of it leads to.
func (h *homeBuilder) isBuiltAt(path string) bool {
	k := h.above(path)
	return k == covered || k == built
}

// hidesIn reports whether something in a directory is hidden. A mount over it would end when a program
// outside replaces it, so the session sees the other names alone.
func (h *homeBuilder) hidesIn(dir string) bool {
	return slices.ContainsFunc(h.apart, func(path string) bool { return path != dir && inside(path, dir) })
}

// documents shows what has a name without a dot in the home directory, or is in a directory there that
// has something hidden in it. A name that comes later waits for a reset.
func (h *homeBuilder) documents(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case (dir == h.home || slices.Contains(h.others, dir)) && isOwnData(e), slices.Contains(h.apart, path):
			continue
		case h.why != Document: // a toolchain, in which a name is shown when it comes
			h.show(path, readable)
			continue
		case !h.first && !h.known[path]:
			continue
		case h.first && len(h.known) == maxDocuments:
			h.notice("%s has more than %d names, and this session sees the first %d only: show others with --readable", h.home, maxDocuments, maxDocuments)
			return
		}
		h.known[path] = true
		if e.Type()&os.ModeSymlink == 0 {
			h.show(path, readable)
		} else if to, err := os.Readlink(path); err == nil {
			h.link(path, to) // it leads to what the session sees, or nowhere
		}
	}
}

// pathOf returns the path of a name below the home directory, of which only the last part may be a link.
func (p *planner) pathOf(name string) string {
	path := p.at(name)
	if above := real(filepath.Dir(path)); above != "" {
		path = filepath.Join(above, filepath.Base(path))
	}
	return path
}

// isToolFile reports whether a name is of a file in something else that the session sees.
func isToolFile(name string) bool {
	isSetting := slices.ContainsFunc(settingsFiles, func(f settingsFile) bool { return f.name == name })
	return !isSetting && name != ".gitconfig" && !slices.Contains(slices.Collect(maps.Values(listsOfGit)), name)
}

// write shows a file that was written for the session. Where a tool has a link, it takes the place of what that leads
// to, if the session sees it.
func (p *planner) write(name, file string, work []string) {
	path, isTool := p.pathOf(name), isToolFile(name)
	if at := real(path); isTool && at != "" {
		path = at
	}
	shows := p.isEmptyAt(path) && !isTool || isTool && !p.seesNothingAt(path)
	if shows && p.kinds[path].Why != Named && !isIn(path, work) {
		p.kinds[path] = Place{Path: Path(path), Kind: replaced, From: Path(file), Why: Written}
	}
}
