package daemonlink

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

const (
	// minJobTimeout is the minimum time to wait for a job that was just started, because its daemon
	// must start, too.
	minJobTimeout = 20 * time.Second

	// jobStartTimeout bounds the command that starts a remote's job, and jobStatusTimeout the one
	// that diagnoses a failure.
	jobStartTimeout  = time.Minute
	jobStatusTimeout = 10 * time.Second

	// remoteSilenceTimeout is how long the remote end waits without receiving anything before it
	// exits. This end gives up a silent connection after 10 s, but an idle one may be kept longer:
	// connecting again may require a password.
	remoteSilenceTimeout = 5 * time.Minute

	// maxCommandOutputBytes bounds the output that is read from each of these two commands.
	maxCommandOutputBytes = 2 << 10
)

// Descriptions of the flags that choose the daemon.
const (
	viaUsage    = "`COMMAND` reach the daemon through this command, such as 'ssh gpu1' or 'docker exec -i box'; default TURNSTONE_VIA"
	remoteUsage = "`REMOTE` use the daemon of this remote in remotes.toml, or here for the local one; default TURNSTONE_REMOTE"
)

// A DaemonTarget is the user's choice of a daemon, on this machine or at a remote.
type DaemonTarget struct {
	Socket, Via, Remote string

	RemoteDir string // where sessions start at the remote; "" is the daemon's own directory; set by Dialer

	// IsAttended means that a user is at the terminal and may be asked there.
	IsAttended bool

	// StartsDaemon means that a daemon is started at a remote if none is running.
	StartsDaemon bool
}

// AddFlags adds the flags that choose the daemon.
func (t *DaemonTarget) AddFlags(f *flag.FlagSet) {
	f.StringVar(&t.Socket, "socket", "", cmdkit.SocketUsage)
	f.StringVar(&t.Via, "via", "", viaUsage)
	f.StringVar(&t.Remote, "remote", "", remoteUsage)
}

// ResolveTarget adds the environment's choice to the choice of the flags, which must be parsed
// before. It returns a usage error if both --via and --remote are given.
func (t *DaemonTarget) ResolveTarget() error {
	if t.Via != "" && t.Remote != "" {
		return cmdkit.UsageErrorf("use either --via or --remote, not both")
	}
	if t.Via == "" && t.Remote == "" {
		t.Via, t.Remote = os.Getenv("TURNSTONE_VIA"), os.Getenv("TURNSTONE_REMOTE")
		if t.Via != "" && t.Remote != "" {
			return cmdkit.UsageErrorf("TURNSTONE_VIA and TURNSTONE_REMOTE are both set: use one of them")
		}
	}
	if t.Remote == userconfig.LocalRemote {
		t.Remote = ""
	}
	if t.Socket != "" && !t.IsRemote() {
		var err error
		t.Socket, err = AbsoluteSocket(t.Socket)
		return err
	}
	return nil
}

// IsRemote reports whether the daemon is at a remote.
func (t *DaemonTarget) IsRemote() bool { return t.Via != "" || t.Remote != "" }

// LocalSocket returns the socket on this machine.
func (t *DaemonTarget) LocalSocket() string { return cmp.Or(t.Socket, client.DefaultSocket(os.Getenv)) }

// TargetArgs returns the flags with which another process makes the same choice.
func (t *DaemonTarget) TargetArgs() (all []string) {
	for _, one := range []struct{ name, value string }{{"--remote", t.Remote}, {"--via", t.Via}, {"--socket", t.Socket}} {
		if one.value != "" {
			all = append(all, one.name, one.value)
		}
	}
	return all
}

// SameTargetFlags returns the flags that make the same choice, for commands quoted in messages.
// Unless empty, they start with a space.
func (t *DaemonTarget) SameTargetFlags() string {
	text := ""
	for _, word := range t.TargetArgs() {
		text += " " + shellword.Quote(word)
	}
	return text
}

// Dialer returns the dialer for the daemon.
func (t *DaemonTarget) Dialer(ctx context.Context) (client.Dialer, error) {
	switch {
	case t.Remote != "":
		p, err := FindRemote(t.Remote)
		if err != nil {
			return nil, err
		}
		return t.remoteDialer(ctx, t.Remote, p)
	case t.Via != "":
		words, err := transportcmd.SplitWords(t.Via)
		if err != nil {
			return nil, cmdkit.UsageErrorf("--via %v", err)
		}
		known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), viaKey(words))
		if err != nil {
			return nil, err
		}
		transport := t.completeCommand(&remote.CommandDialer{Prefix: words, Program: known.Program, Socket: t.Socket})
		t.setInstaller(transport, userconfig.Remote{}, viaKey(words), known)
		return transport, nil
	}
	if t.Socket == "" {
		return client.DefaultDialer(os.Getenv), nil // the daemon may move to another socket
	}
	return client.Socket(t.Socket), nil
}

// completeCommand adds the settings that all transport commands share, and the terminal at which
// the user may be asked.
func (t *DaemonTarget) completeCommand(c *remote.CommandDialer) *remote.CommandDialer {
	c.Prefix[0] = languages.ExpandHome(c.Prefix[0])
	c.StartDaemon, c.KeepAlive = t.StartsDaemon, remoteSilenceTimeout
	if t.IsAttended {
		c.Terminal = controllingTerminal()
		if term.IsTerminal(int(os.Stderr.Fd())) {
			c.Stderr = os.Stderr
		}
	}
	return c
}

// RemotesFile returns the path of the user's file of remotes.
func RemotesFile() string { return userconfig.RemotesFile(os.Getenv) }

// FindRemote finds a remote by its name.
func FindRemote(name string) (userconfig.Remote, error) {
	all, err := userconfig.ReadRemotes(RemotesFile())
	if err != nil {
		return userconfig.Remote{}, cmdkit.UsageErrorf("%v", err)
	}
	p, ok := all[name]
	if ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(all))
	hint := "known: " + strings.Join(names, ", ")
	if n := cmdkit.NearestName(name, names); n != "" {
		hint = "did you mean " + n + "?"
	} else if len(names) == 0 {
		hint = "add [remotes." + name + "] with via = \"…\" to it"
	}
	return p, cmdkit.UsageErrorf("unknown remote %q in %s; %s", name, RemotesFile(), hint)
}

// remoteDialer returns the dialer for a named remote. It starts the remote's job if it needs one.
func (t *DaemonTarget) remoteDialer(ctx context.Context, name string, p userconfig.Remote) (client.Dialer, error) {
	known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), name)
	if err != nil {
		return nil, err
	}
	if p.NeedsJob() && known.Job == "" {
		if known.Job, err = startJob(ctx, name, p); err != nil {
			return nil, err
		}
		known.Started = time.Now()
		if err := userconfig.WriteRemoteState(cmdkit.StateDir(), name, known); err != nil {
			return nil, fmt.Errorf("job %s of %s was started, but cannot be saved: %w", known.Job, name, err)
		}
	}
	t.RemoteDir = p.Dir
	transport := t.completeCommand(&remote.CommandDialer{
		Name: name, Prefix: p.FillWords(p.Prefix, known.Job),
		Program: cmp.Or(p.Program, known.Program), Socket: cmp.Or(t.Socket, p.Socket), LoginEnv: p.Login, GreetingTimeout: p.Timeout,
	})
	t.setInstaller(transport, p, name, known)
	if p.NeedsJob() {
		transport.StartDaemon = false // a daemon started by a job step would end with the step
		transport.RetryUntil = known.Started.Add(max(p.Timeout, minJobTimeout))
	}
	if len(p.DiagnoseWords) > 0 {
		transport.DescribeFailure = func(ctx context.Context) string {
			ctx, stop := context.WithTimeout(ctx, jobStatusTimeout)
			defer stop()
			output, err := commandOutput(ctx, p.FillWords(p.DiagnoseWords, known.Job))
			if err != nil {
				output = strings.TrimSpace(output + "\n" + err.Error())
			}
			return fmt.Sprintf("%s says: %s", p.FillWords(p.DiagnoseWords, known.Job)[0], output)
		}
	}
	return transport, nil
}

// startJob runs the command that starts a remote's job and returns the job's name.
func startJob(ctx context.Context, name string, p userconfig.Remote) (string, error) {
	ctx, stop := context.WithTimeout(ctx, jobStartTimeout)
	defer stop()
	output, err := commandOutput(ctx, p.FillWords(p.StartWords, ""))
	if err != nil {
		if output != "" {
			err = fmt.Errorf("%w: %s", err, cmdkit.ErrorLine(errors.New(output)))
		}
		return "", fmt.Errorf("start of %s: %w", name, err)
	}
	job, _, _ := strings.Cut(output, ";") // sbatch --parsable may append the cluster
	if !transportcmd.IsPlainWord(job) {
		return "", fmt.Errorf("start of %s printed %q, which is not the name of a job; it must print the name and nothing else, as sbatch --parsable does", name, output)
	}
	return job, nil
}

// commandOutput runs a local command and returns its standard output, or its standard error along
// with an error.
func commandOutput(ctx context.Context, words []string) (string, error) {
	p, err := transportcmd.Command{Words: words}.Start()
	if err != nil {
		return "", err
	}
	defer p.Terminate()
	_ = p.CloseWrite()
	defer context.AfterFunc(ctx, p.Terminate)()
	text := make([]byte, 0, maxCommandOutputBytes)
	for {
		n, err := p.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil || len(text) == cap(text) {
			break
		}
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return p.Stderr(), fmt.Errorf("%s took too long", words[0])
	case <-time.After(jobStatusTimeout):
		p.Terminate()
	}
	if s := p.ExitState(); s == nil || !s.Success() {
		return p.Stderr(), fmt.Errorf("%s failed: %v", words[0], s)
	}
	return strings.TrimSpace(string(text)), nil
}

// OpenTimeout bounds opening a session, including starting the daemon but not preparing the
// session.
const OpenTimeout = 30 * time.Second

// viaKey returns the key under which the state of an unnamed remote is saved. Names of remotes
// contain no plus sign.
func viaKey(words []string) string {
	return fmt.Sprintf("+%x", sha256.Sum256([]byte(transportcmd.JoinWords(words))))[:17]
}

// RemoteKey returns the key under which the state of the remote is saved.
func (t *DaemonTarget) RemoteKey() string {
	if t.Remote != "" {
		return t.Remote
	}
	words, _ := transportcmd.SplitWords(t.Via) // dialer has already split it
	return viaKey(words)
}

// RemoteArg returns the remote as an argument of repl remote, with a space before it.
func (t *DaemonTarget) RemoteArg() string {
	if t.Remote != "" {
		return " " + t.Remote
	}
	return " --via " + shellword.Quote(t.Via)
}

// DefaultRemote returns the remote of sessions whose names contain no remote. It returns "" if that
// is this machine, or a remote without a name.
func (t *DaemonTarget) DefaultRemote() string {
	if t.IsRemote() {
		return t.Remote
	}
	return userconfig.LocalRemote
}

// CloseAndWait closes a connection and waits for its transport command to exit, if it has one.
func CloseAndWait(conn net.Conn) {
	_ = conn.Close()
	if transport, ok := conn.(interface{ Terminate() }); ok {
		transport.Terminate()
	}
}
