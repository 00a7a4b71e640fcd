package daemonlink

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/remote/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
)

// minPromptTimeout is the minimum time for the remote end to answer if the user may first be asked
// at the terminal, such as for a password.
const minPromptTimeout = 2 * time.Minute

// sendablePrograms finds the programs that can be sent to a remote: this one, and those for other
// systems next to it or in the cache.
func sendablePrograms() (install.ProgramFinder, error) {
	self, err := os.Executable()
	if err != nil {
		return install.ProgramFinder{}, fmt.Errorf("cannot find the path of this program: %w", err)
	}
	p := install.ProgramFinder{Self: self, Dirs: []string{filepath.Dir(self)}}
	if cache, err := os.UserCacheDir(); err == nil {
		p.Dirs = append(p.Dirs, filepath.Join(cache, "turnstone", "programs"))
	}
	return p, nil
}

// A RemoteInstall copies the program to a remote.
type RemoteInstall struct {
	Command   *remote.CommandDialer
	RemoteKey string // the key of the saved state
	Dir       string // a directory there to try first; "" is the last one

	Terminal *os.File  // the user's; nil for none
	Notes    io.Writer // gets one line before the program is sent
}

// InstallProgram installs the program at the remote and saves where.
func (i RemoteInstall) InstallProgram(ctx context.Context) (install.InstalledProgram, error) {
	from, err := sendablePrograms()
	if err != nil {
		return install.InstalledProgram{}, err
	}
	known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), i.RemoteKey)
	if err != nil {
		return install.InstalledProgram{}, err
	}
	if i.Dir != "" {
		known.Dir = i.Dir
	}
	o := install.Options{
		Prefix: i.Command.Prefix, Env: i.Command.Env, LastAsked: i.Command.LastPrompt, Terminal: i.Terminal, Dir: known.Dir, Programs: from, Timeout: i.Command.GreetingTimeout,
		OnSend: func(bytes int, dir string) {
			fmt.Fprintf(i.Notes, "repl: installing repl at %s: sending %.1f MB to %s\n", i.Command.DisplayName(), float64(bytes)/1e6, dir)
		},
	}
	if i.Terminal != nil {
		o.Timeout = max(o.Timeout, minPromptTimeout)
		o.Stderr = i.Notes
	}
	installed, err := install.Install(ctx, o)
	if err != nil {
		return installed, err
	}
	known.Program = installed.Path
	if err := userconfig.WriteRemoteState(cmdkit.StateDir(), i.RemoteKey, known); err != nil {
		return installed, fmt.Errorf("repl is installed there at %s, but that cannot be saved: %w", installed.Path, err)
	}
	return installed, nil
}

// setInstaller lets a command install the program if it is missing at the remote. This happens if
// the remote's settings allow it, if the program was installed there before, or if a user is at the
// terminal. Otherwise nothing is copied to the remote.
func (t *DaemonTarget) setInstaller(transport *remote.CommandDialer, p userconfig.Remote, key string, known userconfig.RemoteState) {
	watched := transport.Terminal != nil && transport.Stderr != nil
	d := RemoteInstall{Command: transport, RemoteKey: key, Terminal: transport.Terminal, Notes: os.Stderr}
	install := "repl remote install" + t.RemoteArg()
	transport.InstallProgram = func(ctx context.Context) (string, error) {
		switch {
		case p.Program != "":
			return "", fmt.Errorf("correct repl = %q of the remote in %s, or remove the line; then %s installs the program", p.Program, RemotesFile(), install)
		case !p.Install && known.Program == "" && !watched:
			return "", fmt.Errorf("%s installs it", install)
		}
		installed, err := d.InstallProgram(ctx)
		return installed.Path, err
	}
}
