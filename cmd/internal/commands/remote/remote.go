package remote

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

// The actions of repl remote.
const (
	actionList    = "list"
	actionCheck   = "check"
	actionInstall = "install"
	actionForget  = "forget"
)

// checkRoundTrips is how many round trips a check measures.
const checkRoundTrips = 5

// NewRemoteCommand returns the command that lists remotes, and checks, installs or forgets one.
func NewRemoteCommand(f *flag.FlagSet) cmdkit.Action {
	via := f.String("via", "", "`COMMAND` check, install, forget: a remote that has no name")
	dir := f.String("dir", "", "`DIR` install: try this directory there first")
	asJSON := f.Bool("json", false, "list: print JSON, for programs")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		const use = "use repl remote list, check REMOTE, install REMOTE, or forget REMOTE"
		switch {
		case len(words) == 1 && words[0] == actionList:
			return listRemotes(s, *asJSON)
		case len(words) == 0 || len(words) > 2 || !slices.Contains([]string{actionCheck, actionInstall, actionForget}, words[0]):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf(use)
		}
		w := daemonlink.DaemonTarget{Via: *via, Remote: strings.Join(words[1:], ""), IsAttended: true}
		if (w.Via == "") == (w.Remote == "") {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("remote %s needs the name of a remote, or --via COMMAND; repl remote list shows the names", words[0])
		}
		switch words[0] {
		case actionForget:
			return forgetRemote(s, &w)
		case actionInstall:
			return installRemote(s, &w, *dir)
		}
		return checkRemote(s, &w)
	}
}

// A remoteEntry describes a remote in repl remote list --json.
type remoteEntry struct {
	Name string `json:"name"`
	Via  string `json:"via"`
	userconfig.RemoteState
}

func listRemotes(s cmdkit.Streams, asJSON bool) (int, error) {
	all, err := userconfig.ReadRemotes(daemonlink.RemotesFile())
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	entries := []remoteEntry{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), name)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		entries = append(entries, remoteEntry{name, all[name].Command, known})
	}
	if asJSON {
		return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, entries)
	}
	if len(entries) == 0 {
		fmt.Fprintf(s.Err, "repl: no remotes; write [remotes.NAME] and via = \"ssh HOST\" into %s\n", daemonlink.RemotesFile())
		return cmdkit.StatusDone, nil
	}
	w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "REMOTE\tJOB\tPROGRAM\tVIA")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Name, cmp.Or(e.Job, "-"), cmp.Or(all[e.Name].Program, e.Program, "repl"), e.Via)
	}
	return cmdkit.StatusDone, w.Flush()
}

// forgetRemote removes the saved state of a remote. The file of remotes does not change.
func forgetRemote(s cmdkit.Streams, w *daemonlink.DaemonTarget) (int, error) {
	if w.Remote != "" && !userconfig.IsRemoteName(w.Remote) {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("%q is not a valid remote name", w.Remote)
	}
	if _, err := transportcmd.SplitWords(w.Via); w.Via != "" && err != nil {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("--via %v", err)
	}
	was, err := userconfig.RemoveRemoteState(cmdkit.StateDir(), w.RemoteKey())
	if err == nil && !was {
		fmt.Fprintf(s.Err, "repl: nothing is saved about %s\n", cmp.Or(w.Remote, w.Via))
	}
	return cmdkit.StatusDone, err
}

// A remoteCheck prints the steps of a check with their times.
type remoteCheck struct {
	out       io.Writer
	stepStart time.Time
}

// printStep prints a step that succeeded.
func (c *remoteCheck) printStep(what, detail string) {
	fmt.Fprintf(c.out, "ok    %6.2f s  %s: %s\n", time.Since(c.stepStart).Seconds(), what, detail)
	c.stepStart = time.Now()
}

// printNote prints a fact worth knowing that is not a fault.
func (c *remoteCheck) printNote(what, detail string) {
	fmt.Fprintf(c.out, "note            %s: %s\n", what, detail)
}

// printFailure prints a step that failed, with a hint what to do, and returns the status.
func (c *remoteCheck) printFailure(what string, err error, hint string) (int, error) {
	fmt.Fprintf(c.out, "fail  %6.2f s  %s: %s\n", time.Since(c.stepStart).Seconds(), what, cmdkit.ErrorLine(err))
	if hint != "" {
		fmt.Fprintf(c.out, "      hint: %s\n", hint)
	}
	return cmdkit.StatusFailed, nil
}

// checkRemote tests the connection to a remote step by step. It starts nothing there.
func checkRemote(s cmdkit.Streams, w *daemonlink.DaemonTarget) (int, error) {
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	c := &remoteCheck{s.Out, time.Now()}
	if w.Remote != "" {
		p, err := daemonlink.FindRemote(w.Remote)
		if err != nil {
			return c.printFailure("remote", err, "")
		}
		c.printStep("remote", w.Remote+" in "+daemonlink.RemotesFile())
		if known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), w.Remote); err != nil {
			return c.printFailure("job", err, "repl remote forget "+w.Remote)
		} else if p.NeedsJob() && known.Job == "" {
			c.printNote("job", "not started; the first command for this remote starts it with "+p.Start)
			return cmdkit.StatusDone, nil
		} else if p.NeedsJob() {
			c.printNote("job", known.Job+" is saved; repl remote forget "+w.Remote+" lets the next command start another")
		}
	}
	dialer, err := w.Dialer(ctx)
	if err != nil {
		return c.printFailure("command", err, "")
	}
	transport := dialer.(*remote.CommandDialer)
	transport.InstallProgram = nil // a check changes nothing there
	return c.dialDaemon(ctx, transport, w)
}

// dialDaemon checks the connection from the transport command to the daemon.
func (c *remoteCheck) dialDaemon(ctx context.Context, transport *remote.CommandDialer, w *daemonlink.DaemonTarget) (int, error) {
	const get, far, serves = "command", "remote end", "daemon"
	conn, err := transport.Dial(ctx)
	if refused, ok := errors.AsType[*remote.RefusedError](err); ok {
		c.printStep(get, transportcmd.JoinWords(transport.Prefix)+" connected")
		c.printNote(far, describeRemoteEnd(refused.Greeting))
		c.printNote(serves, refused.Greeting.Error)
		c.printNote(serves, "repl exec SESSION"+w.SameTargetFlags()+" starts one")
		return cmdkit.StatusDone, nil
	}
	if err != nil {
		return c.printFailure(get, err, hintFor(transport, err, w))
	}
	defer daemonlink.CloseAndWait(conn)
	g := conn.(interface{ Greeting() remote.Greeting }).Greeting()
	c.printStep(get, transportcmd.JoinWords(transport.Prefix)+" connected")
	c.printNote(far, describeRemoteEnd(g))
	if g.Protocol != protocol.Version {
		return c.printFailure(serves, fmt.Errorf("its version %s speaks protocol %d; this program speaks %d", g.Version, g.Protocol, protocol.Version),
			"repl daemon drain"+w.SameTargetFlags()+" with the older program, then start the daemon of this version")
	}
	remoteConn := client.FromConn(conn)
	defer remoteConn.Close()
	return c.measureRoundTrip(ctx, remoteConn, g)
}

// measureRoundTrip measures several round trips to the daemon.
func (c *remoteCheck) measureRoundTrip(ctx context.Context, remoteConn *client.Client, g remote.Greeting) (int, error) {
	c.stepStart = time.Now()
	var took []time.Duration
	var i protocol.DaemonInfo
	for range checkRoundTrips {
		start := time.Now()
		var err error
		if i, err = remoteConn.DaemonInfo(ctx); err != nil {
			return c.printFailure("daemon", err, "")
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	c.printStep("daemon", fmt.Sprintf("repl %s, process %d, %d sessions, at %s", i.Version, i.PID, i.Sessions, g.Socket))
	c.printNote("round trip", fmt.Sprintf("%.1f ms, the median of %d", float64(took[checkRoundTrips/2].Microseconds())/1000, checkRoundTrips))
	return cmdkit.StatusDone, nil
}

func describeRemoteEnd(g remote.Greeting) string {
	return fmt.Sprintf("%s on %s, %s/%s", g.User, g.Host, g.OS, g.Arch)
}

// hintFor returns what a user can do about a connection that fails, or "" if the cause is unknown.
func hintFor(transport *remote.CommandDialer, err error, w *daemonlink.DaemonTarget) string {
	ssh := len(transport.Prefix) > 1 && strings.HasPrefix(transport.Prefix[0], "ssh")
	ended, ok := errors.AsType[*remote.CommandError](err)
	switch {
	case ok && ended.NoProgram:
		return "repl remote install" + w.RemoteArg() + " installs it; or name an installed one with repl = \"/path/of/repl\" in " + daemonlink.RemotesFile()
	case ok && ended.Status == 255 && ssh:
		return "run " + transportcmd.JoinWords(transport.Prefix) + " true once in a terminal to see what ssh asks or refuses"
	case ok && ended.Status == 0:
		return "the command must run the words that follow it; try " + transportcmd.JoinWords(transport.Prefix) + " echo hello"
	case errors.Is(err, remote.ErrTerminal):
		return "remove the option for a terminal from the command"
	case !ok && ssh:
		return "try " + transportcmd.JoinWords(transport.Prefix) + " true; a shared connection that hangs is ended by ssh -O exit " + transport.Prefix[len(transport.Prefix)-1]
	}
	return ""
}
