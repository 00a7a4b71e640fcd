package plan

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/kballard/go-shellquote"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitconfig"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// maxSearchedEntries bounds the directory entries in the search for repositories.
const maxSearchedEntries = 20_000

// protectedGitFiles are relative to a git directory.
var protectedGitFiles = []string{"hooks", "config", "config.worktree", "info/attributes", "commondir", "gitdir"}

// protectDirs protects files in these directories that must not change.
func (p *planner) protectDirs(work []string, entries int) {
	s := &repoSearch{p: p, entriesLeft: entries}
	for _, dir := range work {
		if !linkpath.IsDir(dir) {
			continue
		}
		s.views = 0
		for _, n := range gitdir.ProtectedNames {
			s.protectPath(filepath.Join(dir, n), dir)
		}
		if gitdir.IsGitDir(dir) { // the directory of a linked work tree
			s.protectGitDir(dir, dir)
		}
		s.walk(dir, dir)
	}
	if s.entriesLeft <= 0 {
		p.AddNotice("the workspace has more than %d files: repositories deep in it were not searched for, and programs that their git settings name are not protected; use a smaller directory if that matters", entries)
	}
}

// protectNamed protects paths that the sandbox names, if the session can write them at all.
func (p *planner) protectNamed(named, work []string) {
	s := &repoSearch{p: p}
	for _, path := range named {
		if dir := paths.RealOrEmpty(filepath.Dir(path)); dir != "" { // otherwise nothing can be created there
			path = filepath.Join(dir, filepath.Base(path))
		}
		for _, base := range work {
			s.protectTarget(path, base)
		}
	}
}

// A repoSearch searches for repositories, breadth first, so that its bound leaves out only deep
// directories.
type repoSearch struct {
	p           *planner
	entriesLeft int
	gitRuns     int // runs of git that list settings
	views       int // gitViews made for the current directory
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
			case e.IsDir() && e.Name() != "node_modules" && !gitdir.IsGitDir(path):
				queue = append(queue, path)
			case e.IsDir() && e.Name() != "node_modules" && !s.p.isOwnRepo(path): // a bare repository
				s.protectGitDir(path, base)
			}
		}
	}
}

// protectWorkTree protects a work tree whose .git is in dir.
func (s *repoSearch) protectWorkTree(dir, base string) {
	git := filepath.Join(dir, ".git")
	if dir != base {
		for _, n := range gitdir.ProtectedNames {
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
		config = gitdir.GitDirOf(git)
	}
	s.preventReplacement(dir, base)
	hooks := []string{filepath.Join(config, "hooks")}
	named, origins := s.pathsInSettings(dir, config)
	for path, what := range named {
		if what == namedHooks {
			hooks = append(hooks, path)
			if filepath.Base(path) == "_" { // husky's wrappers, which run the hooks next to this directory
				path = filepath.Dir(path)
			}
		}
		s.protectTarget(path, base)
	}
	for _, dir := range hooks {
		origins[dir] = true // a hook may become a link
		if chain := linkpath.LinkChain(dir); len(chain) > 1 {
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
	if slices.ContainsFunc(hooks, gitdir.HasHooks) {
		for _, n := range gitdir.HookSettings {
			s.protectPath(filepath.Join(dir, n), base)
		}
	}
}

// protectTarget protects a path that git settings lead to, and the links on the way to it.
func (s *repoSearch) protectTarget(path, base string) {
	chain := linkpath.LinkChain(path)
	for i, at := range chain {
		if !paths.Contains(base, at) || at == base {
			continue
		}
		if s.p.gitTargets = append(s.p.gitTargets, mountlist.Path(at)); i == len(chain)-1 {
			s.protectPath(at, base)
		}
	}
}

// preventReplacement protects the names with which another repository could take the place of the
// one in dir. A session may write the file HEAD of a repository. If git cannot read that file, it
// takes the work tree itself for a repository if that has a HEAD. Otherwise it searches the
// directories above.
func (s *repoSearch) preventReplacement(dir, base string) {
	s.protectPath(filepath.Join(dir, "HEAD"), base)
	for dir != base && paths.Contains(base, dir) {
		dir = filepath.Dir(dir)
		for _, n := range []string{".git", "HEAD"} {
			if path := filepath.Join(dir, n); !filestate.IsPresent(path) { // an existing one is a repository itself
				s.protectPath(path, base)
			}
		}
	}
}

// protectGitDir protects a git directory, and those of its submodules and work trees.
func (s *repoSearch) protectGitDir(git, base string) {
	for _, n := range protectedGitFiles {
		s.protectPath(filepath.Join(git, filepath.FromSlash(n)), base)
	}
	if config := filepath.Join(git, "config"); s.p.Mounts[config].Kind == mountlist.ReadOnlyBind {
		s.p.Set(config, mountlist.GuardedFile)
	}
	for _, below := range []string{"modules", "worktrees"} {
		for queue := []string{filepath.Join(git, below)}; len(queue) > 0 && s.entriesLeft > 0; queue = queue[1:] {
			entries, _ := os.ReadDir(queue[0])
			s.entriesLeft -= len(entries)
			for _, e := range entries {
				path := filepath.Join(queue[0], e.Name())
				switch {
				case !e.IsDir():
				case gitdir.IsGitDir(path):
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

// protectPath protects a path, even if it does not exist. It pins every directory between path and
// base; otherwise the session could rename one and put another in its place.
func (s *repoSearch) protectPath(path, base string) {
	st, err := os.Lstat(path)
	if err != nil {
		s.p.absent = append(s.p.absent, mountlist.Path(path))
		s.pinDirs(filepath.Dir(path), base)
		return
	}
	if st.Mode()&os.ModeSymlink != 0 {
		if way := linkpath.LinkChain(path); !paths.Contains(base, way[len(way)-1]) {
			s.p.AddNotice("%s is a symbolic link, which the sandbox cannot protect: check it before you use it outside the sandbox", path)
		}
		s.protectTarget(path, base)
		return
	}
	s.p.Set(path, mountlist.ReadOnlyBind)
	s.pinDirs(filepath.Dir(path), base)
}

// pinDirs pins a directory, if it exists, and the directories between it and base.
func (s *repoSearch) pinDirs(dir, base string) {
	for d := dir; d != base && paths.Contains(base, d); d = filepath.Dir(d) {
		if _, ok := s.p.Mounts[d]; ok {
			continue
		}
		if st, err := os.Lstat(d); err == nil && st.IsDir() {
			s.p.Set(d, mountlist.PinnedBind)
		}
	}
}

// repositoryOf returns the repository of a linked work tree, which a commit there writes to. The
// repository must name the work tree as its own. A session may have written the .git file in the
// workspace, so that file alone gives no access.
func (p *planner) repositoryOf(work string) []string {
	file := filepath.Join(work, ".git")
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	git := gitdir.GitDirOf(file)
	if git == "" || paths.Contains(work, git) || filepath.Base(filepath.Dir(git)) != "worktrees" {
		return nil
	}
	back := linkpath.ReadSettingsFile(filepath.Join(git, "gitdir"))
	common := filepath.Dir(filepath.Dir(git))
	if paths.RealOrEmpty(strings.TrimSpace(string(back))) != file || !gitdir.IsGitDir(common) || p.TooWideReason(common) != "" {
		return nil
	}
	return []string{common}
}

// userConfigs returns the paths of the user's own git settings.
func (p *planner) userConfigs() []string {
	if p.Home == "" {
		return nil
	}
	return []string{filepath.Join(p.Home, ".gitconfig"), filepath.Join(p.Home, ".config/git/config")}
}

// The kinds of paths that git settings name.
const (
	namedHooks    = "hooks"    // the directory of hooks
	namedSettings = "settings" // an included settings file
	namedProgram  = "program"  // a program that git runs
)

// maxGitRuns bounds how often git is run to list settings, which takes some milliseconds each time.
const maxGitRuns = 64

// pathsInSettings returns the paths that git reads or runs according to the settings of a work tree,
// and the files that git has read. Git itself reads the settings. Those that do not apply now, such
// as those of another branch, count as well.
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
		if read[file] || !filestate.IsPresent(file) || s.queryGit(work, config, paths, read, "--file", file) {
			continue
		}
		for path, what := range s.parseSettings(file, work) {
			paths[path] = cmp.Or(paths[path], what)
		}
	}
}

// queryGit adds the paths that git finds in its settings, or in those of one file, and the files
// that it has read. It reports whether git answered.
func (s *repoSearch) queryGit(work, config string, paths map[string]string, read map[string]bool, which ...string) bool {
	if s.gitRuns++; s.gitRuns > maxGitRuns {
		return false
	}
	args := append([]string{"config", "--list", "-z", "--show-origin", "--includes"}, which...)
	// The format is: file, NUL, key, newline, value, NUL.
	fields := bytes.Split(gitdir.GitOutput(work, append([]string{"HOME=" + s.p.Home}, s.p.gitEnv...), nil, args...), []byte{0})
	for i := 0; i+1 < len(fields) && len(paths) < maxMounts; i += 2 {
		name, isFile := strings.CutPrefix(string(fields[i]), "file:")
		origin := gitdir.SettingPath(name, work, s.p.Home)
		if isFile {
			read[origin] = true
		}
		if isFile && filepath.Dir(origin) != config { // the repository's own config is protected anyway
			paths[origin] = cmp.Or(paths[origin], namedSettings)
		}
		key, value, _ := strings.Cut(string(fields[i+1]), "\n")
		s.addSetting(paths, strings.ToLower(key), value, work, filepath.Dir(origin))
	}
	return len(fields) > 1
}

// addSetting adds the paths that one setting names, given the directory of its file.
func (s *repoSearch) addSetting(paths map[string]string, key, value, work, dir string) {
	switch {
	case value == "":
	case key == "core.hookspath":
		paths[gitdir.SettingPath(value, work, s.p.Home)] = namedHooks
	case strings.HasPrefix(key, "include") && strings.HasSuffix(key, ".path"):
		path := gitdir.SettingPath(value, dir, s.p.Home)
		paths[path] = cmp.Or(paths[path], namedSettings)
	default:
		for _, path := range s.programsIn(key, value, work) {
			paths[path] = cmp.Or(paths[path], namedProgram)
		}
	}
}

// parseSettings returns the paths that a settings file names, for a work tree. It is used where git
// did not answer.
func (s *repoSearch) parseSettings(file, work string) map[string]string {
	paths := map[string]string{}
	section := ""
	for line := range strings.Lines(string(linkpath.ReadSettingsFile(file))) {
		line = strings.TrimSpace(line)
		if head, rest, ok := strings.Cut(line, "]"); ok && strings.HasPrefix(line, "[") { // a setting may follow on the same line
			section, line = strings.ToLower(strings.Trim(head, "[ \t")), strings.TrimSpace(rest)
		}
		key, value, _ := strings.Cut(line, "=")
		s.addSetting(paths, section+"."+strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(value), `"`), work, filepath.Dir(file))
	}
	return paths
}

// programsIn returns the paths in a work tree that a setting may run: filters, drivers of diffs and
// merges, and other commands. Git runs them by a shell from the top of the work tree. Any word may
// name a program, which may be created later or be in a directory that another word names.
func (s *repoSearch) programsIn(key, value, work string) (programs []string) {
	automatic := automaticSections[gitconfig.WordPattern().FindString(key)]
	words := shellWords(value, automatic)
	dirs := []string{work}
	if automatic {
		for _, word := range words {
			if dir := gitdir.SettingPath(word, work, s.p.Home); len(dirs) < maxSettingDirs && dir != work && paths.Contains(work, dir) && linkpath.IsDir(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	for _, word := range words {
		for _, dir := range dirs {
			path, named := gitdir.SettingPath(word, dir, s.p.Home), strings.Contains(word, "/")
			if path == work || !paths.Contains(work, path) {
				continue
			}
			st, err := os.Stat(path)
			switch {
			case err != nil && (!automatic || !named || dir != work):
			case err == nil && st.IsDir() && (!automatic || !named || strings.HasPrefix(key, "core.")):
			default:
				programs = append(programs, path)
			}
		}
	}
	if key == "init.templatedir" { // with hooks
		programs = append(programs, gitdir.SettingPath(value, work, s.p.Home))
	}
	return programs
}

// maxSettingDirs bounds the directories in which the programs of one setting are searched.
const maxSettingDirs = 8

// shellWords returns the parts of a shell command that may be paths. These are the whole command,
// its words without quotes, and the parts of a word after an option, a variable or a shell
// operator. A part without a slash counts only as an argument, if it contains a dot or git runs the
// command automatically.
func shellWords(value string, automatic bool) (words []string) {
	if strings.Contains(value, "/") {
		words = append(words, value)
	}
	add := func(word string, bare bool) {
		word, _, _ = strings.Cut(word, "*") // the directory of a pattern
		if bare || strings.Contains(word, "/") {
			words = append(words, word)
		}
	}
	isOperator := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'!;&|()$`\\:=<>{}?[],", r) }
	quoted, _ := shellquote.Split(value)
	for _, word := range slices.Concat(quoted, strings.FieldsFunc(value, func(r rune) bool { return r == '"' || r == '\'' })) {
		add(word, false)
	}
	for i, word := range strings.FieldsFunc(value, isOperator) {
		if i > 0 && strings.Contains(word, ".") && !strings.Contains(word, "/") {
			word = "./" + word
		}
		add(word, automatic && i > 0)
		if len(word) > 2 && word[0] == '-' {
			add(word[2:], false)
		}
		for found := strings.Contains(value, "$") || strings.HasPrefix(word, "/"); found; { // a variable may stand for the work tree
			if _, word, found = strings.Cut(word, "/"); found {
				add(word, true)
			}
		}
	}
	return words
}

// automaticSections are sections of settings with programs that git runs automatically. Their
// programs are protected even before they exist.
var automaticSections = map[string]bool{
	"core": true, "credential": true, "diff": true, "difftool": true, "filter": true, "gpg": true, "interactive": true, "lfs": true, "merge": true,
	"mergetool": true, "pager": true, "sendemail": true, "sequence": true, "trailer": true, "uploadpack": true,
}

// isOwnRepo reports whether the session created a git directory, or the .git file that names one.
func (p *planner) isOwnRepo(git string) bool {
	return len(p.ownRepos) > 0 && p.ownRepos[filestate.IdentityOf(git)]
}
