package confine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/systempath"
	"github.com/turnstone-repl/turnstone/workers"
)

// Some settings in a home directory have logins next to values that a session needs. The session gets files
// with the plain part of them.

// A settingsFile is one of them, by its name below the home directory.
type settingsFile struct {
	name   string
	redact func(text []byte) []byte
}

var settingsFiles = []settingsFile{
	{".Renviron", redactVariables}, {".Rprofile", redactProfile},
	{".condarc", redactIndexes}, {".config/pip/pip.conf", redactIndexes}, {".pip/pip.conf", redactIndexes}, {".config/uv/uv.toml", redactIndexes},
}

// toolFiles are files that may hold logins in other shown places: addresses of repositories with a password in them,
// settings of one installation, variables of an environment. It gets files without those that have one.
var toolFiles = slices.Concat(
	filesIn(environmentDirs, redactIndexes, "pip.conf", ".condarc"),
	filesIn(environmentDirs, redactCondaState, "conda-meta/state"),
	filesIn(environmentDirs, redactScript, "etc/conda/activate.d/*.sh", "bin/activate", "bin/postactivate"),
	filesIn([]string{".asdf/installs/nodejs/*", ".local/share/mise/installs/node/*", ".local/share/pnpm/nodejs/*", ".nvm/versions/node/*", ".volta/tools/image/node/*"}, redactRegistries, "etc/npmrc"),
	filesIn([]string{".virtualenvs"}, redactScript, "postactivate"),
	filesIn([]string{".conda", ".local/share/r-miniconda", "*conda*", "*forge*"}, redactIndexes, "pkgs/urls", "pkgs/urls.txt"),
	filesIn([]string{".opam"}, withoutLogins, "config", "repo/repos-config"),
	filesIn([]string{".julia/environments/*"}, withoutLogins, "Manifest.toml", "Project.toml"),
	filesIn([]string{".bun/install/global", ".local/share/pnpm/global/*", ".npm/_npx/*"}, withoutLogins, "package.json", "package-lock.json", "node_modules/.package-lock.json", "bun.lock", "pnpm-lock.yaml"),
	filesIn([]string{".bun/install/global"}, dropIfLogin, "bun.lockb"),
	filesIn([]string{".cache/pre-commit"}, dropIfLogin, "db.db"),
	filesIn([]string{"go/pkg/mod/cache/vcs"}, withoutLogins, "*.info"),
	filesIn(repositoryDirs, redactRepository, "config", "modules/*/config", "modules/*/*/config"), // submodules have names like paths
	filesIn(repositoryDirs, withoutLogins, "FETCH_HEAD"),
	filesIn([]string{".cache/uv/git-v*/checkouts/*/*/.git", ".cargo/git/checkouts/*/*/.git"}, redactRepository, "modules/*/config", "modules/*/*/config"), // they come from a repository next to them
)

// environmentDirs are where an interpreter and its packages were installed.
var environmentDirs = []string{
	".asdf/installs/python/*", ".cache/pypoetry/virtualenvs/*", ".conda/envs/*", ".julia/conda/*", ".julia/conda/*/*", ".local/pipx/shared", ".local/share/mise/installs/python/*", ".local/share/pipx/shared", ".local/share/r-miniconda", ".local/share/r-miniconda/envs/*",
	".local/share/uv/python/*", ".local/share/virtualenvs/*", ".pixi/envs/*", ".pyenv/versions/*", ".pyenv/versions/*/envs/*", ".virtualenvs/*", "*conda*", "*conda*/envs/*", "*forge*", "*forge*/envs/*",
}

// repositoryDirs are where programs have cloned some. pip does into src, Bundler into the gems of a Ruby.
var repositoryDirs = slices.Concat(
	namesBelow(environmentDirs, "src/*/.git"),
	namesBelow([]string{".asdf/installs/ruby/*/lib/ruby/gems/*", ".gem/ruby/*", ".local/share/mise/installs/ruby/*/lib/ruby/gems/*", ".rbenv/versions/*/lib/ruby/gems/*"}, "bundler/gems/*/.git", "cache/bundler/git/*"),
	namesBelow([]string{".asdf", ".pyenv", ".rbenv"}, ".git", "plugins/*/.git"),
	[]string{
		".bun/install/cache/*.git", ".bundle/cache/git/*", ".cache/pre-commit/*/.git", ".cache/uv/git-v*/db/*", ".cache/yarn/v*/.tmp/*/.git", ".cargo/git/db/*", ".cargo/registry/index/*/.git",
		".julia/clones/*", ".julia/registries/*/.git", ".nvm/.git", ".opam/*/.opam-switch/sources/*/.git", ".opam/repo/*/.git", "go/pkg/mod/cache/vcs/*",
	},
)

// namesBelow returns the names in some directories.
func namesBelow(dirs []string, names ...string) (all []string) {
	for _, dir := range dirs {
		for _, name := range names {
			all = append(all, dir+"/"+name)
		}
	}
	return all
}

// filesIn returns files with these names in some directories.
func filesIn(dirs []string, plain func([]byte) []byte, names ...string) (files []settingsFile) {
	for _, name := range namesBelow(dirs, names...) {
		files = append(files, settingsFile{name, plain})
	}
	return files
}

// settingsWriter are the files that are written for a session, and their sources.
type settingsWriter struct {
	planner       *planner          // of the session as it was last planned
	dir           string            // where they are written; "" for none
	files         map[string]string // by their names below the home directory
	sources       records
	hasUnfollowed bool // there are more of toolFiles than are looked at again
}

// SettingsIn returns the file in a directory for settings of a session that is written in the place of the
// one with this name below the home directory.
func SettingsIn(dir, name string) string {
	return filepath.Join(dir, boundedName("settings", name))
}

// boundedName returns a name for what belongs to a path, which may be longer than a name can be.
func boundedName(kind, path string) string {
	sum := sha256.Sum256([]byte(path))
	return kind + "-" + hex.EncodeToString(sum[:16])
}

// writeFiles writes the files, if a source of them has changed since it was called last.
func (s *settingsWriter) writeFiles() error {
	if s.dir == "" || s.planner.home == "" || s.files != nil && !s.sources.isStale() {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	p, sources, files := s.planner, records{}, map[string]string{}
	texts := s.plainGitTexts(sources, p.homePath(".gitconfig"), p.homePath(".config/git/config"))
	for _, f := range settingsFiles {
		source := p.homePath(f.name)
		sources.recordFile(source)
		texts[f.name] = f.redact(s.readFile(source))
	}
	left := maxToolFiles
	follow := func(name string) {
		path := p.homePath(name)
		if _, follows := sources[path]; follows {
			return
		}
		if left--; left >= 0 {
			sources.recordFile(path)
		}
	}
	known := map[string][]string{}
	for _, f := range toolFiles {
		for _, dir := range p.formDirs(f.name, known) {
			follow(dir) // a tool may come
		}
		for _, name := range p.candidateNames(f.name, known) {
			source := p.homePath(name)
			follow(name)
			found := s.findFile(source)
			if st, err := os.Stat(found); err != nil || !st.Mode().IsRegular() {
				continue
			}
			if text := readText(openNoLinks(found)); text == nil || !bytes.Equal(f.redact(text), text) {
				texts[name] = append(f.redact(text), '\n') // of one that is too large, nothing
			}
		}
	}
	for name, text := range texts {
		file := SettingsIn(s.dir, name)
		switch {
		case len(text) > 0:
			if err := replaceIfChanged(file, text); err != nil {
				return err
			}
			files[name] = file
		case s.files[name] != "":
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	s.files, s.sources, s.hasUnfollowed = files, sources, left < 0
	return nil
}

// formDirs returns the directories in which a name that comes may have a form. The home directory is none: what comes
// there is not shown.
func (p *planner) formDirs(form string, known map[string][]string) []string {
	dir := filepath.Dir(form[:strings.LastIndexByte(form, '*')+1])
	if dir == "." {
		return nil
	}
	return p.candidateNames(dir, known)
}

// candidateNames returns the names that have a form, there or not, in directories that are there. It remembers what it
// has found.
func (p *planner) candidateNames(form string, known map[string][]string) (names []string) {
	last := strings.LastIndexByte(form, '*')
	if last < 0 {
		return []string{form}
	}
	end := last + strings.IndexByte(form[last:]+"/", '/')
	found, has := known[form[:end]]
	if !has {
		dir, pattern := filepath.Split(form[:end])
		for _, above := range p.candidateNames(strings.TrimSuffix(dir, "/"), known) {
			entries, _ := os.ReadDir(p.homePath(above))
			for _, e := range entries {
				if is, _ := filepath.Match(pattern, e.Name()); is {
					found = append(found, filepath.Join(above, e.Name()))
				}
			}
		}
		known[form[:end]] = found
	}
	for _, name := range found {
		names = append(names, name+form[end:])
	}
	return names
}

// replaceIfChanged replaces a file, unless it has that text already. It follows no link: a worker may have made one
// there.
func replaceIfChanged(file string, text []byte) error {
	if st, err := os.Lstat(file); err == nil && st.Mode().IsRegular() && bytes.Equal(readSettingsFile(file), text) {
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

// dropIfLogin returns what has no login in it, and nothing of what has.
func dropIfLogin(text []byte) []byte {
	if len(workers.LoginVariables([]string{"=" + string(text)})) > 0 {
		return nil
	}
	return text
}

// redactCondaState leaves out the variables of an environment of conda's that hold secrets.
func redactCondaState(text []byte) []byte {
	state := map[string]any{}
	if json.Unmarshal(text, &state) != nil {
		return nil
	}
	variables, _ := state["env_vars"].(map[string]any)
	whole := true
	for name, value := range variables {
		entry := fmt.Sprint(name, "=", value)
		if hasSecret(entry) || string(withoutAnyLogin([]byte(entry))) != entry {
			delete(variables, name)
			whole = false
		}
	}
	if whole {
		return text
	}
	plain, err := json.Marshal(state)
	if err != nil {
		return nil
	}
	return plain
}

// plainGitSettings are the settings of git's that name no programs, addresses or further files, by section and
// name. Without those of LFS git would commit the content of files in the place of their pointers.
var plainGitSettings = map[string][]string{
	"user": {"name", "email"}, "init": {"defaultbranch"}, "pull": {"rebase", "ff"}, "push": {"default", "autosetupremote"}, "safe": {"directory"},
	"core": {"autocrlf", "eol", "ignorecase", "precomposeunicode", "quotepath", "safecrlf", "symlinks"},
	"diff": {"algorithm", "renames"}, "fetch": {"prune"}, "filter": {"lfs.clean", "lfs.process", "lfs.required", "lfs.smudge"}, "merge": {"conflictstyle", "ff"}, "protocol": {"file.allow"}, "rebase": {"autosquash", "autostash"}, "rerere": {"enabled"},
}

// gitListFiles are the files that settings of git's name, and where git looks for them without a setting.
var gitListFiles = map[string]string{"core.excludesfile": ".config/git/ignore", "core.attributesfile": ".config/git/attributes"}

// plainGitTexts returns the plain part of settings of git's, as git reads them, and the lists that they name. It
// notes which files those are.
func (s *settingsWriter) plainGitTexts(sources records, files ...string) map[string][]byte {
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

// addGitSettings adds those of one file, once. git itself would include files that a session may have named.
func (s *settingsWriter) addGitSettings(texts map[string][]byte, plain *bytes.Buffer, sources records, file string) {
	if _, read := sources[file]; read || len(sources) >= maxSources {
		return
	}
	sources.recordFile(file)
	text := s.readFile(file)
	if text == nil {
		return
	}
	paths := &repoSearch{p: s.planner}
	found := gitOutput("/", nil, text, "config", "--file", "-", "--no-includes", "-z", "--list")
	for entry := range strings.SplitSeq(string(found), "\x00") { // the key, a line's end, the value
		key, value, ok := strings.Cut(entry, "\n")
		if key == "include.path" {
			s.addGitSettings(texts, plain, sources, paths.absolutePath(value, filepath.Dir(file)))
		}
		if name := gitListFiles[key]; name != "" && len(sources) < maxSources {
			list := paths.absolutePath(value, s.planner.home)
			sources.recordFile(list)
			if texts[name] = nil; s.planner.isUserMade(real(file)) || isGitList(list) {
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

// isGitList reports whether a file is a list of git's by its name. Settings that another session may have written
// name no other.
func isGitList(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return strings.Contains(name, "ignore") || strings.Contains(name, "attributes")
}

const (
	// maxSources bounds the files that are looked at for changes of git's settings when a turn begins.
	maxSources = 50
	// maxToolFiles bounds those of tools that may get a login.
	maxToolFiles = 4000
)

var gitQuoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// gitTimeout bounds the time of a git that reads settings: they may include a pipe.
const gitTimeout = 2 * time.Second

// gitOutput returns what git writes; nil where it fails or is not installed. It has an environment of
// its own and writes to a pipe, so it starts no other program.
func gitOutput(dir string, env []string, input []byte, args ...string) []byte {
	program := systempath.Find("git")
	if program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--no-pager"}, args...)...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, bytes.NewReader(input), append([]string{"PATH=" + strings.Join(systempath.Directories, ":")}, env...)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(out, maxSettingsBytes))
	if cmd.Wait() != nil || err != nil {
		return nil
	}
	return text
}

// gitVariables returns the variables that say where settings of git are.
func gitVariables(env []string) (all []string) {
	for _, entry := range env {
		if strings.HasPrefix(entry, "XDG_CONFIG_HOME=") || strings.HasPrefix(entry, "GIT_CONFIG_") {
			all = append(all, entry)
		}
	}
	return all
}
