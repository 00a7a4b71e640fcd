package homedir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/redact"
)

// Some settings in a home directory contain logins next to values that a session needs. The session
// gets copies without the logins.

// A settingsFile is a settings file below the home directory, with the function that removes its
// logins.
type settingsFile struct {
	name   string
	redact func(text []byte) []byte
}

var settingsFiles = []settingsFile{
	{".Renviron", redact.Variables}, {".Rprofile", redact.Profile},
	{".condarc", redact.Indexes}, {".config/pip/pip.conf", redact.Indexes}, {".pip/pip.conf", redact.Indexes}, {".config/uv/uv.toml", redact.Indexes},
}

// toolFiles are files in visible directories that may contain logins: addresses of repositories
// with passwords, settings of one installation, variables of an environment. If one does, the
// session sees a copy without the logins.
var toolFiles = slices.Concat(
	filesIn(environmentDirs, redact.Indexes, "pip.conf", ".condarc"),
	filesIn(environmentDirs, redact.CondaState, "conda-meta/state"),
	filesIn(environmentDirs, redact.Script, "etc/conda/activate.d/*.sh", "bin/activate", "bin/postactivate"),
	filesIn([]string{".asdf/installs/nodejs/*", ".local/share/mise/installs/node/*", ".local/share/pnpm/nodejs/*", ".nvm/versions/node/*", ".volta/tools/image/node/*"}, redact.Registries, "etc/npmrc"),
	filesIn([]string{".virtualenvs"}, redact.Script, "postactivate"),
	filesIn([]string{".conda", ".local/share/r-miniconda", "*conda*", "*forge*"}, redact.Indexes, "pkgs/urls", "pkgs/urls.txt"),
	filesIn([]string{".opam"}, redact.WithoutLogins, "config", "repo/repos-config"),
	filesIn([]string{".julia/environments/*"}, redact.WithoutLogins, "Manifest.toml", "Project.toml"),
	filesIn([]string{".bun/install/global", ".local/share/pnpm/global/*", ".npm/_npx/*"}, redact.WithoutLogins, "package.json", "package-lock.json", "node_modules/.package-lock.json", "bun.lock", "pnpm-lock.yaml"),
	filesIn([]string{".bun/install/global"}, redact.DropIfLogin, "bun.lockb"),
	filesIn([]string{".cache/pre-commit"}, redact.DropIfLogin, "db.db"),
	filesIn([]string{"go/pkg/mod/cache/vcs"}, redact.WithoutLogins, "*.info"),
	filesIn(repositoryDirs, redact.Repository, "config", "modules/*/config", "modules/*/*/config"), // submodules have names like paths
	filesIn(repositoryDirs, redact.WithoutLogins, "FETCH_HEAD"),
	filesIn([]string{".cache/uv/git-v*/checkouts/*/*/.git", ".cargo/git/checkouts/*/*/.git"}, redact.Repository, "modules/*/config", "modules/*/*/config"), // cloned from a repository next to them
)

// environmentDirs contain installations of an interpreter and its packages.
var environmentDirs = []string{
	".asdf/installs/python/*", ".cache/pypoetry/virtualenvs/*", ".conda/envs/*", ".julia/conda/*", ".julia/conda/*/*", ".local/pipx/shared", ".local/share/mise/installs/python/*", ".local/share/pipx/shared", ".local/share/r-miniconda", ".local/share/r-miniconda/envs/*",
	".local/share/uv/python/*", ".local/share/virtualenvs/*", ".pixi/envs/*", ".pyenv/versions/*", ".pyenv/versions/*/envs/*", ".virtualenvs/*", "*conda*", "*conda*/envs/*", "*forge*", "*forge*/envs/*",
}

// repositoryDirs are repositories that programs have cloned. pip clones into src, Bundler into the
// gems of a Ruby.
var repositoryDirs = slices.Concat(
	namesBelow(environmentDirs, "src/*/.git"),
	namesBelow([]string{".asdf/installs/ruby/*/lib/ruby/gems/*", ".gem/ruby/*", ".local/share/mise/installs/ruby/*/lib/ruby/gems/*", ".rbenv/versions/*/lib/ruby/gems/*"}, "bundler/gems/*/.git", "cache/bundler/git/*"),
	namesBelow([]string{".asdf", ".pyenv", ".rbenv"}, ".git", "plugins/*/.git"),
	[]string{
		".bun/install/cache/*.git", ".bundle/cache/git/*", ".cache/pre-commit/*/.git", ".cache/uv/git-v*/db/*", ".cache/yarn/v*/.tmp/*/.git", ".cargo/git/db/*", ".cargo/registry/index/*/.git",
		".julia/clones/*", ".julia/registries/*/.git", ".nvm/.git", ".opam/*/.opam-switch/sources/*/.git", ".opam/repo/*/.git", "go/pkg/mod/cache/vcs/*",
	},
)

// namesBelow returns the names in each of some directories.
func namesBelow(dirs []string, names ...string) (all []string) {
	for _, dir := range dirs {
		for _, name := range names {
			all = append(all, dir+"/"+name)
		}
	}
	return all
}

// filesIn returns files with these names in some directories.
func filesIn(dirs []string, redact func([]byte) []byte, names ...string) (files []settingsFile) {
	for _, name := range namesBelow(dirs, names...) {
		files = append(files, settingsFile{name, redact})
	}
	return files
}

// A SettingsWriter writes settings files for a session, and tracks their sources.
type SettingsWriter struct {
	Rules         *Rules            // of the latest plan of the session
	Dir           string            // the directory for the files; "" to write none
	Files         map[string]string // the written files, by the names below the home directory
	Sources       filestate.Records
	HasUnfollowed bool // there are more toolFiles than are checked for changes
}

// SettingsIn returns the path of the file in dir that replaces the settings file with this name
// below the home directory.
func SettingsIn(dir, name string) string {
	return filepath.Join(dir, mountlist.BoundedName("settings", name))
}

// WriteFiles writes the files, if one of their sources has changed since the last call.
func (s *SettingsWriter) WriteFiles() error {
	if s.Dir == "" || s.Rules.Home == "" || s.Files != nil && !s.Sources.IsStale() {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	r, sources, files := s.Rules, filestate.Records{}, map[string]string{}
	texts := s.plainGitTexts(sources, r.HomePath(".gitconfig"), r.HomePath(".config/git/config"))
	for _, f := range settingsFiles {
		source := r.HomePath(f.name)
		sources.RecordFile(source)
		texts[f.name] = f.redact(s.readFile(source))
	}
	left := MaxToolFiles
	track := func(name string) {
		path := r.HomePath(name)
		if _, tracked := sources[path]; tracked {
			return
		}
		if left--; left >= 0 {
			sources.RecordFile(path)
		}
	}
	known := map[string][]string{}
	for _, f := range toolFiles {
		for _, dir := range r.formDirs(f.name, known) {
			track(dir) // a tool may be installed
		}
		for _, name := range r.candidateNames(f.name, known) {
			source := r.HomePath(name)
			track(name)
			found := s.findFile(source)
			if st, err := os.Stat(found); err != nil || !st.Mode().IsRegular() {
				continue
			}
			if text := linkpath.ReadText(filestate.OpenNoLinks(found)); text == nil || !bytes.Equal(f.redact(text), text) {
				texts[name] = append(f.redact(text), '\n') // empty for a file that is too large
			}
		}
	}
	for name, text := range texts {
		file := SettingsIn(s.Dir, name)
		switch {
		case len(text) > 0:
			if err := replaceIfChanged(file, text); err != nil {
				return err
			}
			files[name] = file
		case s.Files[name] != "":
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	s.Files, s.Sources, s.HasUnfollowed = files, sources, left < 0
	return nil
}

// replaceIfChanged replaces a file, unless it has that text already. It follows no links, because a
// worker may have created one there.
func replaceIfChanged(file string, text []byte) error {
	if st, err := os.Lstat(file); err == nil && st.Mode().IsRegular() && bytes.Equal(linkpath.ReadSettingsFile(file), text) {
		return nil
	}
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// plainGitSettings are the git settings that name no programs, addresses or further files, by
// section and name. The LFS filters are included; without them git would commit file contents in
// place of their pointers.
var plainGitSettings = map[string][]string{
	"user": {"name", "email"}, "init": {"defaultbranch"}, "pull": {"rebase", "ff"}, "push": {"default", "autosetupremote"}, "safe": {"directory"},
	"core": {"autocrlf", "eol", "ignorecase", "precomposeunicode", "quotepath", "safecrlf", "symlinks"},
	"diff": {"algorithm", "renames"}, "fetch": {"prune"}, "filter": {"lfs.clean", "lfs.process", "lfs.required", "lfs.smudge"}, "merge": {"conflictstyle", "ff"}, "protocol": {"file.allow"}, "rebase": {"autosquash", "autostash"}, "rerere": {"enabled"},
}

// gitListFiles are the settings that name lists of files, and where git looks for the lists without
// a setting.
var gitListFiles = map[string]string{"core.excludesfile": ".config/git/ignore", "core.attributesfile": ".config/git/attributes"}

// plainGitTexts returns the plain part of the user's git settings, as git reads them, and the lists
// that they name. It records which files those are.
func (s *SettingsWriter) plainGitTexts(sources filestate.Records, files ...string) map[string][]byte {
	texts, plain := map[string][]byte{}, &bytes.Buffer{}
	for _, name := range gitListFiles {
		texts[name] = nil
	}
	for _, file := range files {
		s.addGitSettings(texts, plain, sources, file)
	}
	texts[".gitconfig"] = plain.Bytes()
	return texts
}

// addGitSettings adds the settings of one file, once. It follows includes itself, because git would
// include files that a session may have named.
func (s *SettingsWriter) addGitSettings(texts map[string][]byte, plain *bytes.Buffer, sources filestate.Records, file string) {
	if _, read := sources[file]; read || len(sources) >= maxSources {
		return
	}
	sources.RecordFile(file)
	text := s.readFile(file)
	if text == nil {
		return
	}
	found := gitdir.GitOutput("/", nil, text, "config", "--file", "-", "--no-includes", "-z", "--list")
	for entry := range strings.SplitSeq(string(found), "\x00") { // key, newline, value
		key, value, ok := strings.Cut(entry, "\n")
		if key == "include.path" {
			s.addGitSettings(texts, plain, sources, gitdir.SettingPath(value, filepath.Dir(file), s.Rules.Home))
		}
		if name := gitListFiles[key]; name != "" && len(sources) < maxSources {
			list := gitdir.SettingPath(value, s.Rules.Home, s.Rules.Home)
			sources.RecordFile(list)
			if texts[name] = nil; s.Rules.isUserMade(paths.RealOrEmpty(file)) || isGitList(list) {
				texts[name] = s.readFile(list)
			}
		}
		section, name, _ := strings.Cut(key, ".")
		if ok && slices.Contains(plainGitSettings[section], name) {
			if sub, last, found := strings.Cut(name, "."); found {
				section, name = section+" \""+sub+"\"", last
			}
			plain.WriteString("[" + section + "]\n\t" + name + " = \"" + gitQuoter.Replace(value) + "\"\n")
		}
	}
}

// isGitList reports whether a file is a list of git by its name. Settings that another session may
// have written can name only such files.
func isGitList(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return strings.Contains(name, "ignore") || strings.Contains(name, "attributes")
}

const (
	// maxSources bounds the files that are checked for changes of git settings when a turn starts.
	maxSources = 50
	// MaxToolFiles bounds the files of tools that are checked because they may get a login.
	MaxToolFiles = 4000
)

var gitQuoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// formDirs returns the directories in which new names may match a pattern. The home directory is
// left out, because new names there are not shown.
func (r *Rules) formDirs(pattern string, known map[string][]string) []string {
	dir := filepath.Dir(pattern[:strings.LastIndexByte(pattern, '*')+1])
	if dir == "." {
		return nil
	}
	return r.candidateNames(dir, known)
}

// candidateNames returns the names that may match a pattern, whether they exist or not, in existing
// directories. It caches what it has found in known.
func (r *Rules) candidateNames(pattern string, known map[string][]string) (names []string) {
	last := strings.LastIndexByte(pattern, '*')
	if last < 0 {
		return []string{pattern}
	}
	end := last + strings.IndexByte(pattern[last:]+"/", '/')
	found, cached := known[pattern[:end]]
	if !cached {
		dir, tail := filepath.Split(pattern[:end])
		for _, above := range r.candidateNames(strings.TrimSuffix(dir, "/"), known) {
			entries, _ := os.ReadDir(r.HomePath(above))
			for _, e := range entries {
				if matches, _ := filepath.Match(tail, e.Name()); matches {
					found = append(found, filepath.Join(above, e.Name()))
				}
			}
		}
		known[pattern[:end]] = found
	}
	for _, name := range found {
		names = append(names, name+pattern[end:])
	}
	return names
}

// findFile returns the path of one of the user's settings files without links. It returns "" if a
// session may have created a link to it, or no session may see it.
func (s *SettingsWriter) findFile(path string) string {
	chain := linkpath.LinkChain(path)
	found := chain[len(chain)-1]
	isClosed := func(c HiddenPath) bool {
		return paths.Contains(c.Name, found) || c.RealPath != "" && paths.Contains(c.RealPath, found)
	}
	if s.Rules.IsLinkedAway(path, found, s.Rules.isDocument) || slices.ContainsFunc(s.Rules.HiddenPaths, isClosed) {
		return ""
	}
	return found
}

// readFile reads one of the user's settings files; a file that findFile rejects counts as missing.
// A session may put a link in its place after that, which is not followed.
func (s *SettingsWriter) readFile(path string) []byte {
	return linkpath.ReadText(filestate.OpenNoLinks(s.findFile(path)))
}
