package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
)

// installRemote installs the program at a remote, and prints its path and which daemon is running
// there.
func installRemote(s cmdkit.Streams, w *daemonlink.DaemonTarget, dir string) (int, error) {
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	to, err := w.Dialer(ctx)
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	transport, ok := to.(*remote.CommandDialer)
	if !ok {
		return cmdkit.StatusUsage, errors.New("no remote is given; this program is the local one")
	}
	if transport.Program != "" && w.Remote != "" {
		if p, err := daemonlink.FindRemote(w.Remote); err == nil && p.Program != "" {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("the remote names its program, repl = %q in %s; remove that line first", p.Program, daemonlink.RemotesFile())
		}
	}
	installed, err := daemonlink.RemoteInstall{Command: transport, RemoteKey: w.RemoteKey(), Dir: dir, Terminal: transport.Terminal, Notes: s.Err}.InstallProgram(ctx)
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

// reportOtherVersion reports a daemon of another version. That daemon continues to run, because it
// may have sessions of other clients.
func reportOtherVersion(ctx context.Context, notes io.Writer, transport *remote.CommandDialer, w *daemonlink.DaemonTarget) {
	conn, err := transport.Dial(ctx)
	if err != nil {
		return // none is running
	}
	defer daemonlink.CloseAndWait(conn)
	g := conn.(interface{ Greeting() remote.Greeting }).Greeting()
	if g.Version == cmdkit.ProgramVersion() {
		return
	}
	use := "and is used unchanged"
	if g.Protocol != protocol.Version {
		use = fmt.Sprintf("and speaks protocol %d, which this program does not support", g.Protocol)
	}
	fmt.Fprintf(notes, "repl: the daemon there is %s %s; repl daemon drain%s ends it when its work is done, and the next command starts the new one\n", g.Version, use, w.SameTargetFlags())
}
