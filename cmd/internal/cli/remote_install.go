package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/remote/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

// minPromptTimeout is the least time that the remote end gets to answer if the user at the terminal
// may be asked something first.
const minPromptTimeout = 2 * time.Minute

// viaKey returns the key under which the state of an unnamed remote is saved. Names of remotes
// contain no plus sign.
func viaKey(words []string) string {
	return fmt.Sprintf("+%x", sha256.Sum256([]byte(transportcmd.JoinWords(words))))[:17]
}

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

// A remoteInstall copies the program to a remote.
type remoteInstall struct {
	command   *client.CommandDialer
	remoteKey string // the key of the saved state
	dir       string // a directory there to try first; "" is the last one

	terminal *os.File  // the user's; nil for none
	notes    io.Writer // gets one line before the program is sent
}

// installProgram installs the program at the remote and saves where.
func (i remoteInstall) installProgram(ctx context.Context) (install.InstalledProgram, error) {
	from, err := sendablePrograms()
	if err != nil {
		return install.InstalledProgram{}, err
	}
	known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), i.remoteKey)
	if err != nil {
		return install.InstalledProgram{}, err
	}
	if i.dir != "" {
		known.Dir = i.dir
	}
	o := install.Options{
		Prefix: i.command.Prefix, Env: i.command.Env, LastAsked: i.command.LastPrompt, Terminal: i.terminal, Dir: known.Dir, Programs: from, Timeout: i.command.GreetingTimeout,
		OnSend: func(bytes int, dir string) {
			fmt.Fprintf(i.notes, "repl: installing repl at %s: sending %.1f MB to %s\n", i.command.DisplayName(), float64(bytes)/1e6, dir)
		},
	}
	if i.terminal != nil {
		o.Timeout = max(o.Timeout, minPromptTimeout)
		o.Stderr = i.notes
	}
	installed, err := install.Install(ctx, o)
	if err != nil {
		return installed, err
	}
	known.Program = installed.Path
	if err := userconfig.WriteRemoteState(cmdkit.StateDir(), i.remoteKey, known); err != nil {
		return installed, fmt.Errorf("repl is installed there at %s, but that cannot be saved: %w", installed.Path, err)
	}
	return installed, nil
}

// setInstaller lets a command install the program if it is missing at the remote. That happens if
// the remote's settings allow it, if it was installed there before, or for a user at the terminal.
// Others must not find our programs at a remote.
func (t *daemonTarget) setInstaller(transport *client.CommandDialer, p userconfig.Remote, key string, known userconfig.RemoteState) {
	watched := transport.Terminal != nil && transport.Stderr != nil
	d := remoteInstall{command: transport, remoteKey: key, terminal: transport.Terminal, notes: os.Stderr}
	install := "repl remote install" + t.remoteArg()
	transport.InstallProgram = func(ctx context.Context) (string, error) {
		switch {
		case p.Program != "":
			return "", fmt.Errorf("correct repl = %q of the remote in %s, or remove the line; then %s installs the program", p.Program, remotesFile(), install)
		case !p.Install && known.Program == "" && !watched:
			return "", fmt.Errorf("%s installs it", install)
		}
		installed, err := d.installProgram(ctx)
		return installed.Path, err
	}
}

// installRemote installs the program at a remote, and prints its path and which daemon is running
// there.
func installRemote(s cmdkit.Streams, w *daemonTarget, dir string) (int, error) {
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	to, err := w.dialer(ctx)
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	transport, ok := to.(*client.CommandDialer)
	if !ok {
		return cmdkit.StatusUsage, errors.New("no remote is given; this program is the local one")
	}
	if transport.Program != "" && w.remote != "" {
		if p, err := findRemote(w.remote); err == nil && p.Program != "" {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("the remote names its program, repl = %q in %s; remove that line first", p.Program, remotesFile())
		}
	}
	installed, err := remoteInstall{command: transport, remoteKey: w.remoteKey(), dir: dir, terminal: transport.Terminal, notes: s.Err}.installProgram(ctx)
	if signalled, ok := cmdkit.SignalStatus(ctx); ok {
		return signalled, nil
	}
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	fmt.Fprintf(s.Out, "%s: %s\n", installed.Path, installed.Version)
	if installed.Sent == 0 {
		fmt.Fprintln(s.Err, "repl: already installed")
	}
	if installed.Linked {
		fmt.Fprintln(s.Err, "repl: this program was built with cgo; it runs there because the C library is like the one here")
	}
	transport.Program, transport.StartDaemon, transport.InstallProgram = installed.Path, false, nil
	reportOtherVersion(ctx, s.Err, transport, w)
	return cmdkit.StatusDone, nil
}

// reportOtherVersion reports a daemon of another version. That daemon goes on: it may have sessions
// of others.
func reportOtherVersion(ctx context.Context, notes io.Writer, transport *client.CommandDialer, w *daemonTarget) {
	conn, err := transport.Dial(ctx)
	if err != nil {
		return // none is running
	}
	defer closeAndWait(conn)
	g := conn.(interface{ Greeting() client.Greeting }).Greeting()
	if g.Version == cmdkit.ProgramVersion() {
		return
	}
	use := "and is used unchanged"
	if g.Protocol != client.Protocol {
		use = fmt.Sprintf("and speaks protocol %d, which this program does not support", g.Protocol)
	}
	fmt.Fprintf(notes, "repl: the daemon there is %s %s; repl daemon drain%s ends it when its work is done, and the next command starts the new one\n", g.Version, use, w.sameTargetFlags())
}

// remoteKey returns the key under which the state of the remote is saved.
func (t *daemonTarget) remoteKey() string {
	if t.remote != "" {
		return t.remote
	}
	words, _ := transportcmd.SplitWords(t.via) // dialer has already split it
	return viaKey(words)
}

// remoteArg returns the remote as an argument of repl remote, with a space before it.
func (t *daemonTarget) remoteArg() string {
	if t.remote != "" {
		return " " + t.remote
	}
	return " --via " + shellword.Quote(t.via)
}
