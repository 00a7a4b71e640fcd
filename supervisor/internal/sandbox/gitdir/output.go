package gitdir

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/systempath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
)

// gitTimeout bounds how long git may take to read settings, because these may include a pipe.
const gitTimeout = 2 * time.Second

// GitOutput returns the output of git, or nil if it fails or is not installed. Git gets a minimal
// environment and writes to a pipe, so it starts no pager or other program.
func GitOutput(dir string, env []string, input []byte, args ...string) []byte {
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
	text, err := io.ReadAll(io.LimitReader(out, linkpath.MaxSettingsBytes))
	if cmd.Wait() != nil || err != nil {
		return nil
	}
	return text
}

// GitVariables returns the variables that name git settings files.
func GitVariables(env []string) (all []string) {
	for _, entry := range env {
		if strings.HasPrefix(entry, "XDG_CONFIG_HOME=") || strings.HasPrefix(entry, "GIT_CONFIG_") {
			all = append(all, entry)
		}
	}
	return all
}

// SettingPath resolves a path in a settings file of git, relative to dir. A name with a tilde is
// relative to home, or to the home directory of another user.
func SettingPath(path, dir, home string) string {
	if name, rest, ok := strings.Cut(path, "/"); ok && strings.HasPrefix(name, "~") {
		if account, err := user.Lookup(name[1:]); err == nil {
			return filepath.Join(account.HomeDir, rest)
		}
		return filepath.Join(home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}
