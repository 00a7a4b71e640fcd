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
	name  string
	plain func(text []byte) []byte
}

var settingsFiles = []settingsFile{
	{".Renviron", plainVariables}, {".Rprofile", plainProfile},
	{".condarc", plainIndexes}, {".config/pip/pip.conf", plainIndexes}, {".pip/pip.conf", plainIndexes}, {".config/uv/uv.toml", plainIndexes},
}

// toolFiles are files that may hold logins in other shown places: addresses of repositories with a password in them,
// settings of one installation, variables of an environment. It gets files without those that have one.
var toolFiles = []settingsFile{
	{".asdf/.git/config", plainRepository}, {".asdf/plugins/*/.git/config", plainRepository}, {".nvm/.git/config", plainRepository}, {".pyenv/.git/config", plainRepository}, {".pyenv/plugins/*/.git/config", plainRepository},
	{".rbenv/.git/config", plainRepository}, {".rbenv/plugins/*/.git/config", plainRepository}, {".opam/config", withoutLogins}, {".opam/repo/repos-config", withoutLogins},
	{".cache/pre-commit/*/.git/config", plainRepository}, {".cache/uv/git-v*/db/*/config", plainRepository}, {".cache/uv/git-v*/db/*/FETCH_HEAD", withoutLogins},
	{".cargo/git/db/*/config", plainRepository}, {".cargo/git/db/*/FETCH_HEAD", withoutLogins}, {".cargo/registry/index/*/.git/config", plainRepository}, {".cargo/registry/index/*/.git/FETCH_HEAD", withoutLogins},
	{".julia/registries/*/.git/config", plainRepository}, {".julia/environments/*/Manifest.toml", withoutLogins}, {".julia/environments/*/Project.toml", withoutLogins}, {".npm/_npx/*/package-lock.json", withoutLogins}, {".npm/_npx/*/node_modules/.package-lock.json", withoutLogins},
	{".cache/pre-commit/db.db", nothingWithLogin}, {".julia/clones/*/config", plainRepository}, {".julia/clones/*/FETCH_HEAD", withoutLogins},
	{"go/pkg/mod/cache/vcs/*/config", plainRepository}, {"go/pkg/mod/cache/vcs/*/FETCH_HEAD", withoutLogins}, {"go/pkg/mod/cache/vcs/*.info", withoutLogins},
	{".conda/pkgs/urls", plainIndexes}, {".conda/pkgs/urls.txt", plainIndexes}, {"*conda*/pkgs/urls.txt", plainIndexes}, {"*forge*/pkgs/urls.txt", plainIndexes}, {".local/share/r-miniconda/pkgs/urls.txt", plainIndexes},
	{"*conda*/.condarc", plainIndexes}, {"*forge*/.condarc", plainIndexes}, {".local/share/r-miniconda/.condarc", plainIndexes},
	{".conda/envs/*/pip.conf", plainIndexes}, {".virtualenvs/*/pip.conf", plainIndexes}, {".local/share/virtualenvs/*/pip.conf", plainIndexes}, {".cache/pypoetry/virtualenvs/*/pip.conf", plainIndexes},
	{".asdf/installs/python/*/pip.conf", plainIndexes}, {".pyenv/versions/*/pip.conf", plainIndexes}, {".local/share/uv/python/*/pip.conf", plainIndexes}, {".local/share/mise/installs/python/*/pip.conf", plainIndexes},
	{".asdf/installs/nodejs/*/etc/npmrc", plainRegistries}, {".nvm/versions/node/*/etc/npmrc", plainRegistries}, {".volta/tools/image/node/*/etc/npmrc", plainRegistries}, {".local/share/mise/installs/node/*/etc/npmrc", plainRegistries}, {".local/share/pnpm/nodejs/*/etc/npmrc", plainRegistries},
	{".conda/envs/*/conda-meta/state", plainState}, {"*conda*/conda-meta/state", plainState}, {"*conda*/envs/*/conda-meta/state", plainState}, {"*forge*/conda-meta/state", plainState}, {"*forge*/envs/*/conda-meta/state", plainState}, {".local/share/r-miniconda/envs/*/conda-meta/state", plainState},
	{".conda/envs/*/etc/conda/activate.d/env_vars.sh", plainScript}, {"*conda*/envs/*/etc/conda/activate.d/env_vars.sh", plainScript}, {"*forge*/envs/*/etc/conda/activate.d/env_vars.sh", plainScript},
	{".virtualenvs/*/bin/postactivate", plainScript}, {".virtualenvs/*/bin/activate", plainScript}, {".virtualenvs/postactivate", plainScript}, {".local/share/virtualenvs/*/bin/activate", plainScript},
}

// settings are the files that are written for a session, and their sources.
type settings struct {
	p          *planner          // of the session as it was last planned
	dir        string            // where they are written; "" for none
	files      map[string]string // by their names below the home directory
	sources    records
	unfollowed bool // there are more of toolFiles than are looked at again
}

// SettingsIn returns the file in a directory for settings of a session that is written in the place of the
// one with this name below the home directory.
func SettingsIn(dir, name string) string {
	return filepath.Join(dir, nameOf("settings", name))
}

// nameOf returns a name for what belongs to a path, which may be longer than a name can be.
func nameOf(kind, path string) string {
	sum := sha256.Sum256([]byte(path))
	return kind + "-" + hex.EncodeToString(sum[:16])
}

// write writes the files, if a source of them has changed since it was called last.
func (s *settings) write() error {
	if s.dir == "" || s.p.home == "" || s.files != nil && !s.sources.isStale() {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	p, sources, files := s.p, records{}, map[string]string{}
	texts := s.plainGit(sources, p.at(".gitconfig"), p.at(".config/git/config"))
	for _, f := range settingsFiles {
		source := p.at(f.name)
		sources.note(source)
		texts[f.name] = f.plain(s.read(source))
	}
	left := maxToolFiles
	follow := func(name string) {
		if left--; left >= 0 {
			sources.note(p.at(name))
		}
	}
	for _, f := range toolFiles {
		for _, dir := range p.around(f.name) {
			follow(dir) // a tool may come
		}
		for _, name := range p.candidates(f.name) {
			source := p.at(name)
			follow(name)
			found := s.find(source)
			if st, err := os.Stat(found); err != nil || !st.Mode().IsRegular() {
				continue
			}
			if text := textOf(openUnlinked(found)); text == nil || !bytes.Equal(f.plain(text), text) {
				texts[name] = append(f.plain(text), '\n') // of one that is too large, nothing
			}
		}
	}
	for name, text := range texts {
		file := SettingsIn(s.dir, name)
		switch {
		case len(text) > 0:
			if err := writeNew(file, text); err != nil {
				return err
			}
			files[name] = file
		case s.files[name] != "":
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	s.files, s.sources, s.unfollowed = files, sources, left < 0
	return nil
}

// around returns the directories in which a name that comes may have a form. The home directory is none: what comes
// there is not shown.
func (p *planner) around(form string) []string {
	dir := filepath.Dir(form[:strings.LastIndexByte(form, '*')+1])
	if dir == "." {
		return nil
	}
	return p.matching(dir)
}

// candidates returns the names that have a form, there or not, in directories that are there.
func (p *planner) candidates(form string) (names []string) {
	if !strings.Contains(form, "*") {
		return []string{form}
	}
	last := strings.LastIndexByte(form, '*')
	end := last + strings.IndexByte(form[last:]+"/", '/')
	for _, name := range p.matching(form[:end]) {
		names = append(names, name+form[end:])
	}
	return names
}

// writeNew replaces a file, unless it has that text already. It follows no link: a worker may have made one
// there.
func writeNew(file string, text []byte) error {
	if st, err := os.Lstat(file); err == nil && st.Mode().IsRegular() && bytes.Equal(settingsOf(file), text) {
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

// nothingWithLogin returns what has no login in it, and nothing of what has.
func nothingWithLogin(text []byte) []byte {
	if len(workers.LoginVariables([]string{"=" + string(text)})) > 0 {
		return nil
	}
	return text
}

// plainState leaves out the variables of an environment of conda's that hold secrets.
func plainState(text []byte) []byte {
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

// plainGit are the settings of git's that name no programs, addresses or further files, by section and
// name. Without those of LFS git would commit the content of files in the place of their pointers.
var plainGit = map[string][]string{
	"user": {"name", "email"}, "init": {"defaultbranch"}, "pull": {"rebase", "ff"}, "push": {"default", "autosetupremote"}, "safe": {"directory"},
	"core": {"autocrlf", "eol", "ignorecase", "precomposeunicode", "quotepath", "safecrlf", "symlinks"},
	"diff": {"algorithm", "renames"}, "fetch": {"prune"}, "filter": {"lfs.clean", "lfs.process", "lfs.required", "lfs.smudge"}, "merge": {"conflictstyle", "ff"}, "protocol": {"file.allow"}, "rebase": {"autosquash", "autostash"}, "rerere": {"enabled"},
}

// listsOfGit are the files that settings of git's name, and where git looks for them without a setting.
var listsOfGit = map[string]string{"core.excludesfile": ".config/git/ignore", "core.attributesfile": ".config/git/attributes"}

// plainGit returns the plain part of settings of git's, as git reads them, and the lists that they name. It
// notes which files those are.
func (s *settings) plainGit(sources records, files ...string) map[string][]byte {
	texts, plain := map[string][]byte{}, &bytes.Buffer{}
	for _, name := range listsOfGit {
		texts[name] = nil
	}
	for _, file := range files {
		s.addGit(texts, plain, sources, file)
	}
	texts[".gitconfig"] = plain.Bytes()
	return texts
}

// addGit adds those of one file, once. git itself would include files that a session may have named.
func (s *settings) addGit(texts map[string][]byte, plain *bytes.Buffer, sources records, file string) {
	if _, read := sources[file]; read || len(sources) >= maxSources {
		return
	}
	sources.note(file)
	text := s.read(file)
	if text == nil {
		return
	}
	paths := &search{p: s.p}
	found := gitOutput("/", nil, text, "config", "--file", "-", "--no-includes", "-z", "--list")
	for entry := range strings.SplitSeq(string(found), "\x00") { // the key, a line's end, the value
		key, value, ok := strings.Cut(entry, "\n")
		if key == "include.path" {
			s.addGit(texts, plain, sources, paths.absolute(value, filepath.Dir(file)))
		}
		if name := listsOfGit[key]; name != "" && len(sources) < maxSources {
			list := paths.absolute(value, s.p.home)
			sources.note(list)
			if texts[name] = nil; s.p.isUsers(real(file)) || isList(list) {
				texts[name] = s.read(list)
			}
		}
		section, name, _ := strings.Cut(key, ".")
		if ok && slices.Contains(plainGit[section], name) {
			if sub, last, found := strings.Cut(name, "."); found {
				section, name = section+" \""+sub+"\"", last
			}
			plain.WriteString("[" + section + "]\n\t" + name + " = \"" + quoteGit.Replace(value) + "\"\n")
		}
	}
}

// isList reports whether a file is a list of git's by its name. Settings that another session may have written
// name no other.
func isList(file string) bool {
	name := strings.ToLower(filepath.Base(file))
	return strings.Contains(name, "ignore") || strings.Contains(name, "attributes")
}

const (
	// maxSources bounds the files that are looked at for changes of git's settings when a turn begins.
	maxSources = 50
	// maxToolFiles bounds those of tools that may get a login.
	maxToolFiles = 1000
)

var quoteGit = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// gitLimit bounds the time of a git that reads settings: they may include a pipe.
const gitLimit = 2 * time.Second

// gitOutput returns what git writes; nil where it fails or is not installed. It has an environment of
// its own and writes to a pipe, so it starts no other program.
func gitOutput(dir string, env []string, input []byte, args ...string) []byte {
	program := systempath.Find("git")
	if program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--no-pager"}, args...)...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, bytes.NewReader(input), append([]string{"PATH=" + strings.Join(systempath.Directories, ":")}, env...)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(out, maxSettings))
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
