package confine

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/kballard/go-shellquote"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// maxSearchedEntries bounds the directory entries in the search for repositories.
	maxSearchedEntries = 20_000
	// maxSettingsBytes bounds the bytes of one settings file.
	maxSettingsBytes = 1 << 20
)

// These files in a writable directory stay as they are, because programs outside the session
// run or trust them without asking: hooks and settings of repositories, and settings of
// editors, model clients and clouds.
var (
	protectedNames    = workers.ProtectedNames()
	protectedGitFiles = []string{"hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir"}

	// hookSettings say what the hooks of a repository run, if it has some.
	hookSettings = []string{
		".husky", ".pre-commit-config.yaml", ".overcommit.yml", ".lefthook", "lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json",
		".lefthook.yml", ".lefthook.yaml", "lefthook-local.yml", ".lefthook-local.yml",
		".pre-commit-config.yml", "captainhook.json", "grumphp.yml", "hk.pkl", "prek.toml",
	}
)

// protectDirs adds the files in these directories that must not change.
func (p *planner) protectDirs(work []string, entries int) {
	s := &repoSearch{p: p, entriesLeft: entries}
	for _, dir := range work {
		if !isDir(dir) {
			continue
		}
		s.views = 0
		for _, n := range protectedNames {
			s.protectPath(filepath.Join(dir, n), dir)
		}
		if isGitDir(dir) { // the directory of a linked work tree
			s.protectGitDir(dir, dir)
		}
		s.walk(dir, dir)
	}
	if s.entriesLeft <= 0 {
		p.addNotice("the workspace has more than %d files: repositories deep in it were not looked for, and programs that their git settings name are not protected; use a smaller directory if you have such", entries)
	}
}

// protectNamed protects paths that the sandbox names, where they can be written at all.
func (p *planner) protectNamed(paths, work []string) {
	s := &repoSearch{p: p}
	for _, path := range paths {
		if dir := real(filepath.Dir(path)); dir != "" { // else nothing can be made there
			path = filepath.Join(dir, filepath.Base(path))
		}
		for _, base := range work {
			s.protectTarget(path, base)
		}
	}
}

// A repoSearch looks for repositories, breadth first, so that its bound leaves out only deep
// directories.
type repoSearch struct {
	p           *planner
	entriesLeft int
	gitRuns     int // repositories whose settings git was asked for
	views       int // of repositories in the directory
}

func (s *repoSearch) walk(top, base string) {
	for queue := []string{top}; len(queue) > 0 && s.entriesLeft > 0; queue = queue[1:] {
		dir := queue[0]
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		s.entriesLeft -= len(entries)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case e.Name() == ".git":
				if !s.p.isOwnRepo(path) {
					s.protectWorkTree(dir, base)
				}
			case e.IsDir() && e.Name() != "node_modules" && !isGitDir(path):
				queue = append(queue, path)
			case e.IsDir() && e.Name() != "node_modules" && !s.p.isOwnRepo(path): // a bare repository
				s.protectGitDir(path, base)
			}
		}
	}
}

// protectWorkTree protects a work tree that has its .git in dir.
func (s *repoSearch) protectWorkTree(dir, base string) {
	git := filepath.Join(dir, ".git")
	if dir != base {
		for _, n := range protectedNames {
			s.protectPath(filepath.Join(dir, n), base)
		}
	}
	config := git
	if st, err := os.Lstat(git); err != nil {
		return
	} else if st.IsDir() {
		s.protectGitDir(git, base)
	} else {
		s.protectPath(git, base) // a file that names the repository
		config = gitDirOf(git)
	}
	s.preventReplacement(dir, base)
	hooks := []string{filepath.Join(config, "hooks")}
	named, origins := s.pathsInSettings(dir, config)
	for path, what := range named {
		if what == namedHooks {
			hooks = append(hooks, path)
			if filepath.Base(path) == "_" { // husky's own, which run those beside it
				path = filepath.Dir(path)
			}
		}
		s.protectTarget(path, base)
	}
	for _, dir := range hooks {
		origins[dir] = true // a hook may become a link
		if way := linkChain(dir); len(way) > 1 {
			s.protectTarget(dir, base)
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Type()&os.ModeSymlink != 0 {
				s.protectTarget(filepath.Join(dir, e.Name()), base)
			}
		}
	}
	if s.views++; len(origins) > 0 && s.views <= maxViewsPerDir && len(s.p.gitViews) < maxViews {
		v := newGitView(dir, config, base, origins, named)
		v.gitEnv, s.p.gitViews = s.p.gitEnv, append(s.p.gitViews, v)
	}
	if slices.ContainsFunc(hooks, hasHooks) {
		for _, n := range hookSettings {
			s.protectPath(filepath.Join(dir, n), base)
		}
	}
}

// protectTarget protects what git's settings lead to, and the links on the way there.
func (s *repoSearch) protectTarget(path, base string) {
	way := linkChain(path)
	for i, at := range way {
		if !inside(at, base) || at == base {
			continue
		}
		if s.p.gitTargets = append(s.p.gitTargets, Path(at)); i == len(way)-1 {
			s.protectPath(at, base)
		}
	}
}

// linkChain returns the symbolic links in a path, and last where it leads, whether something is there or not; ""
// for a circle.
func linkChain(path string) (way []string) {
	at, left := "/", strings.Split(filepath.Clean(path), "/")
	for len(left) > 0 {
		next := filepath.Join(at, left[0]) // at has no links in it, so this is right for "..", too
		left = left[1:]
		to, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if way = append(way, next); len(way) > maxLinks {
			return append(way, "") // nowhere
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return append(way, at)
}

// preventReplacement keeps another repository from being made in the place of the one in dir. A session writes the
// file HEAD of a repository; where git cannot read that, it takes the directory of the work tree itself
// for one, if that has a HEAD, and then what it finds in the directories above.
func (s *repoSearch) preventReplacement(dir, base string) {
	s.protectPath(filepath.Join(dir, "HEAD"), base)
	for dir != base && inside(dir, base) {
		dir = filepath.Dir(dir)
		for _, n := range []string{".git", "HEAD"} {
			if path := filepath.Join(dir, n); !isPresent(path) { // else it is one itself
				s.protectPath(path, base)
			}
		}
	}
}

// hasHooks reports whether a directory may have hooks that git runs.
func hasHooks(dir string) bool {
	entries, err := os.ReadDir(dir)
	return presenceOfError(err) == unknown || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".sample") })
}

// protectGitDir protects a repository's own directory, and those of its submodules.
func (s *repoSearch) protectGitDir(git, base string) {
	for _, n := range protectedGitFiles {
		s.protectPath(filepath.Join(git, filepath.FromSlash(n)), base)
	}
	if config := filepath.Join(git, "config"); s.p.mounts[config].Kind == readOnlyBind {
		s.p.set(config, guardedFile)
	}
	for _, below := range []string{"modules", "worktrees"} {
		for queue := []string{filepath.Join(git, below)}; len(queue) > 0 && s.entriesLeft > 0; queue = queue[1:] {
			entries, _ := os.ReadDir(queue[0])
			s.entriesLeft -= len(entries)
			for _, e := range entries {
				path := filepath.Join(queue[0], e.Name())
				switch {
				case !e.IsDir():
				case isGitDir(path):
					if !s.p.isOwnRepo(path) {
						s.protectGitDir(path, base)
					}
				default:
					queue = append(queue, path) // a submodule's name may contain slashes
				}
			}
		}
	}
}

// gitDirPresence says whether a directory is a repository without a work tree in it, or that of a linked work
// tree, or could be the repository of such ones, which needs no HEAD.
func gitDirPresence(dir string) presence {
	if objects := presenceOf(dir + "/objects"); objects != missing {
		return min(objects, max(headPresence(dir), presenceOf(dir+"/worktrees")))
	}
	return linkedTreePresence(dir)
}

func isGitDir(dir string) bool { return gitDirPresence(dir) == present }

// linkedTreePresence says whether a directory is that of a linked work tree.
func linkedTreePresence(git string) presence {
	return min(presenceOf(git+"/commondir"), headPresence(git))
}

// headPresence says whether a directory has a file HEAD.
func headPresence(git string) presence {
	st, err := os.Lstat(git + "/HEAD")
	if err == nil && st.IsDir() {
		return missing
	}
	return presenceOfError(err)
}

// protectPath protects a path, also one that is not there. It fixes every directory between path and
// base. Otherwise the session could rename one and put another in its place.
func (s *repoSearch) protectPath(path, base string) {
	st, err := os.Lstat(path)
	if err != nil {
		s.p.absent = append(s.p.absent, Path(path))
		s.pinDirs(filepath.Dir(path), base)
		return
	}
	if st.Mode()&os.ModeSymlink != 0 {
		if way := linkChain(path); !inside(way[len(way)-1], base) {
			s.p.addNotice("%s is a symbolic link, which the sandbox cannot protect: look at it before you use it outside", path)
		}
		s.protectTarget(path, base)
		return
	}
	s.p.set(path, readOnlyBind)
	s.pinDirs(filepath.Dir(path), base)
}

// pinDirs fixes a directory, if it is there, and those between it and base.
func (s *repoSearch) pinDirs(dir, base string) {
	for d := dir; d != base && inside(d, base); d = filepath.Dir(d) {
		if _, ok := s.p.mounts[d]; ok {
			continue
		}
		if st, err := os.Lstat(d); err == nil && st.IsDir() {
			s.p.set(d, pinnedBind)
		}
	}
}

// gitDirOf returns the directory that a .git file names, or "".
func gitDirOf(file string) string {
	to, ok := strings.CutPrefix(strings.TrimSpace(string(readSettingsFile(file))), "gitdir: ")
	if !ok {
		return ""
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(file), to)
	}
	return real(to)
}

// repositoryOf returns the repository of a linked work tree. A commit there writes to the
// repository. The repository must name the work tree as its own: sessions may have written the
// file in the workspace, so that file alone widens nothing.
func (p *planner) repositoryOf(work string) []string {
	file := filepath.Join(work, ".git")
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	git := gitDirOf(file)
	if git == "" || inside(git, work) || filepath.Base(filepath.Dir(git)) != "worktrees" {
		return nil
	}
	back := readSettingsFile(filepath.Join(git, "gitdir"))
	common := filepath.Dir(filepath.Dir(git))
	if real(strings.TrimSpace(string(back))) != file || !isGitDir(common) || p.tooWideReason(common) != "" {
		return nil
	}
	return []string{common}
}

// userConfigs returns the user's own git settings.
func (p *planner) userConfigs() []string {
	if p.home == "" {
		return nil
	}
	return []string{filepath.Join(p.home, ".gitconfig"), filepath.Join(p.home, ".config/git/config")}
}

// Kinds of paths that settings name to git.
const (
	namedHooks    = "hooks"    // the directory of hooks
	namedSettings = "settings" // more settings
	namedProgram  = "program"  // a program that git runs
)

// maxGitRuns bounds how often git is asked for settings, at some milliseconds each.
const maxGitRuns = 64

// pathsInSettings returns the paths that the settings of a work tree give to git, as git itself reads them, and the
// files that it has read. Settings that do not count now, such as those of another branch, are included.
func (s *repoSearch) pathsInSettings(work, config string) (paths map[string]string, read map[string]bool) {
	paths, read = map[string]string{}, map[string]bool{}
	s.queryGit(work, config, paths, read)
	files := append(s.p.userConfigs(), filepath.Join(config, "config"), filepath.Join(config, "config.worktree"))
	for known := map[string]bool{}; ; files = files[1:] {
		for path, what := range paths {
			if what == namedSettings && !known[path] {
				known[path], files = true, append(files, path)
			}
		}
		if len(files) == 0 {
			return paths, read
		}
		file := files[0]
		if read[file] || !isPresent(file) || s.queryGit(work, config, paths, read, "--file", file) {
			continue
		}
		for path, what := range s.parseSettings(file, work) {
			paths[path] = cmp.Or(paths[path], what)
		}
	}
}

// queryGit adds the paths that git finds in its settings, or in those of one file, and the files that it has
// read. It reports whether git answered.
func (s *repoSearch) queryGit(work, config string, paths map[string]string, read map[string]bool, which ...string) bool {
	if s.gitRuns++; s.gitRuns > maxGitRuns {
		return false
	}
	args := append([]string{"config", "--list", "-z", "--show-origin", "--includes"}, which...)
	// The file, a zero byte, the key, a line's end, the value, a zero byte.
	fields := bytes.Split(gitOutput(work, append([]string{"HOME=" + s.p.home}, s.p.gitEnv...), nil, args...), []byte{0})
	for i := 0; i+1 < len(fields) && len(paths) < maxPlaces; i += 2 {
		name, isFile := strings.CutPrefix(string(fields[i]), "file:")
		origin := s.absolutePath(name, work)
		if isFile {
			read[origin] = true
		}
		if isFile && filepath.Dir(origin) != config { // else it is the repository's own, and protected as such
			paths[origin] = cmp.Or(paths[origin], namedSettings)
		}
		key, value, _ := strings.Cut(string(fields[i+1]), "\n")
		s.addSetting(paths, strings.ToLower(key), value, work, filepath.Dir(origin))
	}
	return len(fields) > 1
}

// addSetting adds the paths that one setting gives to git, which was found in a directory.
func (s *repoSearch) addSetting(paths map[string]string, key, value, work, dir string) {
	switch {
	case value == "":
	case key == "core.hookspath":
		paths[s.absolutePath(value, work)] = namedHooks
	case strings.HasPrefix(key, "include") && strings.HasSuffix(key, ".path"):
		path := s.absolutePath(value, dir)
		paths[path] = cmp.Or(paths[path], namedSettings)
	default:
		for _, path := range s.programsIn(key, value, work) {
			paths[path] = cmp.Or(paths[path], namedProgram)
		}
	}
}

// parseSettings returns the paths that a settings file gives to git, for a work tree. It reads those where git is not
// asked.
func (s *repoSearch) parseSettings(file, work string) map[string]string {
	paths := map[string]string{}
	section := ""
	for line := range strings.Lines(string(readSettingsFile(file))) {
		line = strings.TrimSpace(line)
		if head, rest, ok := strings.Cut(line, "]"); ok && strings.HasPrefix(line, "[") { // a setting may stand behind it
			section, line = strings.ToLower(strings.Trim(head, "[ \t")), strings.TrimSpace(rest)
		}
		key, value, _ := strings.Cut(line, "=")
		s.addSetting(paths, section+"."+strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`), work, filepath.Dir(file))
	}
	return paths
}

// programsIn returns the programs of a work tree in a setting: filters, drivers of diffs and merges, and
// other commands, which git runs by a shell from its top. Any word of it may be one, and may come later, or
// be in a directory that another word names.
func (s *repoSearch) programsIn(key, value, work string) (paths []string) {
	alone := automaticSections[gitWord.FindString(key)]
	words := shellWords(value, alone)
	dirs := []string{work}
	if alone {
		for _, word := range words {
			if dir := s.absolutePath(word, work); len(dirs) < maxSettingDirs && dir != work && inside(dir, work) && isDir(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	for _, word := range words {
		for _, dir := range dirs {
			path, named := s.absolutePath(word, dir), strings.Contains(word, "/")
			if path == work || !inside(path, work) {
				continue
			}
			st, err := os.Stat(path)
			switch {
			case err != nil && (!alone || !named || dir != work):
			case err == nil && st.IsDir() && (!alone || !named || strings.HasPrefix(key, "core.")):
			default:
				paths = append(paths, path)
			}
		}
	}
	if key == "init.templatedir" { // with hooks
		paths = append(paths, s.absolutePath(value, work))
	}
	return paths
}

// maxSettingDirs bounds the directories in which the programs of one setting are looked for.
const maxSettingDirs = 8

// shellWords returns what may be a path in a command for a shell: all of it, its words, without quotes, and what
// stands in these behind an option, a variable or a sign of the shell's. Without a slash only an argument may
// be, with a dot in it or of a program that git runs without being told.
func shellWords(value string, alone bool) (words []string) {
	if strings.Contains(value, "/") {
		words = append(words, value)
	}
	add := func(word string, bare bool) {
		word, _, _ = strings.Cut(word, "*") // the directory of a pattern
		if bare || strings.Contains(word, "/") {
			words = append(words, word)
		}
	}
	isSign := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'!;&|()$`\\:=<>{}?[],", r) }
	quoted, _ := shellquote.Split(value)
	for _, word := range slices.Concat(quoted, strings.FieldsFunc(value, func(r rune) bool { return r == '"' || r == '\'' })) {
		add(word, false)
	}
	for i, word := range strings.FieldsFunc(value, isSign) {
		if i > 0 && strings.Contains(word, ".") && !strings.Contains(word, "/") {
			word = "./" + word
		}
		add(word, alone && i > 0)
		if len(word) > 2 && word[0] == '-' {
			add(word[2:], false)
		}
		for found := strings.Contains(value, "$") || strings.HasPrefix(word, "/"); found; { // what a variable names may be the work tree
			if _, word, found = strings.Cut(word, "/"); found {
				add(word, true)
			}
		}
	}
	return words
}

// automaticSections are sections with programs that git runs without being told. They are protected before they are
// there.
var automaticSections = map[string]bool{
	"core": true, "credential": true, "diff": true, "difftool": true, "filter": true, "gpg": true, "interactive": true, "lfs": true, "merge": true,
	"mergetool": true, "pager": true, "sendemail": true, "sequence": true, "trailer": true, "uploadpack": true,
}

// readSettingsFile reads a file that a session may have made: it may be anything, such as a pipe in
// which nothing ever comes. nil stands for all that is no settings file.
func readSettingsFile(path string) []byte { return readText(os.OpenFile(path, nonblockingRead, 0)) }

// nonblockingRead opens a file to read, and waits for nobody.
const nonblockingRead = os.O_RDONLY | syscall.O_NONBLOCK

// readText reads what was opened so.
func readText(f *os.File, err error) []byte {
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSettingsBytes+1))
	if err != nil || len(text) > maxSettingsBytes {
		return nil
	}
	return text
}

// absolutePath resolves a path of a settings file.
func (s *repoSearch) absolutePath(path, dir string) string {
	if name, rest, ok := strings.Cut(path, "/"); ok && strings.HasPrefix(name, "~") {
		if who, err := user.Lookup(name[1:]); err == nil {
			return filepath.Join(who.HomeDir, rest)
		}
		return filepath.Join(s.p.home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}
