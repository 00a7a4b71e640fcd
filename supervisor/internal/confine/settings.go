package confine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// Some settings in a home directory hold logins next to what the session needs. It gets files with the
// plain part of them.

// A settingsFile is one of them, by its name below the home directory.
type settingsFile struct {
	name  string
	plain func(text []byte) []byte
}

var settingsFiles = []settingsFile{
	{".Renviron", plainVariables},
	{".condarc", withoutLogins}, {".config/pip/pip.conf", withoutLogins}, {".pip/pip.conf", withoutLogins}, {".config/uv/uv.toml", withoutLogins},
}

// WriteSettings writes these files into dir for a session, and returns them by their names below the
// home directory. directories are as in an Origin.
func WriteSettings(home, dir string, directories map[string]string) (map[string]string, error) {
	if !filepath.IsAbs(home) {
		return nil, nil
	}
	p := &planner{home: home, directories: directories}
	written := map[string]string{}
	write := func(name string, text []byte) error {
		if len(text) == 0 {
			return nil
		}
		written[name] = filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(name, "."), "/", "-"))
		return writeNew(written[name], text)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := write(".gitconfig", plainGitSettings(home, p.at(".gitconfig"), p.at(".config/git/config"))); err != nil {
		return nil, err
	}
	for _, f := range settingsFiles {
		if err := write(f.name, f.plain(settingsOf(p.at(f.name)))); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// writeNew writes a file in the place of whatever has its name: an earlier worker may have made a link
// there.
func writeNew(file string, text []byte) error {
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

// plainVariables leaves out the lines of a file of variables that hold secrets.
func plainVariables(text []byte) []byte {
	var plain []byte
	for line := range bytes.Lines(text) {
		variable := strings.TrimPrefix(strings.TrimSpace(string(line)), "export ")
		if len(workers.SecretVariables([]string{variable})) == 0 {
			plain = append(plain, withoutLogins(line)...)
		}
	}
	return plain
}

// login matches what stands between the scheme and the host of a URL, and a token of conda's in its path.
var login = regexp.MustCompile(`(://)[^/\s"']*@|(/t/)[^/\s"']+(/)`)

// withoutLogins cuts the logins out of URLs.
func withoutLogins(text []byte) []byte { return login.ReplaceAll(text, []byte("$1$2$3")) }

// plainGit are the settings of git's that name no programs, addresses or further files, by section and
// name.
var plainGit = map[string][]string{
	"user": {"name", "email"}, "init": {"defaultbranch"}, "pull": {"rebase", "ff"}, "push": {"default", "autosetupremote"}, "safe": {"directory"},
	"core": {"autocrlf", "eol", "ignorecase", "precomposeunicode", "quotepath", "safecrlf", "symlinks"},
	"diff": {"algorithm", "renames"}, "fetch": {"prune"}, "merge": {"conflictstyle", "ff"}, "rebase": {"autosquash", "autostash"}, "rerere": {"enabled"},
}

// plainGitSettings returns the plain part of settings of git's, as git reads them.
func plainGitSettings(home string, files ...string) []byte {
	var plain bytes.Buffer
	for _, file := range files {
		if settingsOf(file) == nil {
			continue
		}
		for setting := range bytes.SplitSeq(gitOutput("/", home, "config", "--file", file, "--includes", "-z", "--list"), []byte{0}) {
			key, value, ok := strings.Cut(string(setting), "\n")
			section, name, _ := strings.Cut(key, ".")
			if ok && slices.Contains(plainGit[section], name) {
				plain.WriteString("[" + section + "]\n\t" + name + " = \"" + quoteGit.Replace(value) + "\"\n")
			}
		}
	}
	return plain.Bytes()
}

var quoteGit = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// gitLimit bounds the time of a git that reads settings: they may include a pipe.
const gitLimit = 2 * time.Second

// gitDirectories are where git is looked for. On the user's PATH may be a directory that sessions write.
var gitDirectories = []string{"/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin", "/nix/var/nix/profiles/default/bin"}

// gitOutput returns what git writes; nil where it fails or is not installed. It has an environment of
// its own and writes to a pipe, so it starts no other program.
func gitOutput(dir, home string, args ...string) []byte {
	program := ""
	for _, d := range slices.Backward(gitDirectories) {
		if name := filepath.Join(d, "git"); exists(name) {
			program = name
		}
	}
	if program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--no-pager"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + strings.Join(gitDirectories, ":"), "HOME=" + home}
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
