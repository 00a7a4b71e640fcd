package agents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/askpass"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// remoteReconnectTimeout is how long a request about a session waits for an unreachable remote. A
	// call that waits for running code uses its own timeout instead.
	remoteReconnectTimeout = 10 * time.Second
)

// A daemonChoices holds the user's choices for the sessions that an MCP server keeps in a daemon.
type daemonChoices struct {
	targetFlags string // for repl attach, unless the daemon is the default one
	isRemote    bool   // the daemon is on another machine, where local directories mean nothing
	runtime     cmdflags.RuntimeFlags
	packages    []string // required in its sessions
}

// daemonFlags holds the user's choice whether sessions are in a daemon, and in which one.
type daemonFlags struct {
	enabled, autoStart bool
	sessionPrefix      string
	remotes            remotesFlag // for sessions named REMOTE/NAME
	daemonlink.DaemonTarget
}

// AddFlags adds the flags. --daemon needs no value.
func (d *daemonFlags) AddFlags(f *flag.FlagSet) {
	f.BoolFunc("daemon", "`auto` keep sessions in the daemon of repl serve, where they outlive the client; auto starts it if needed, and it exits after "+text.DurationWords(daemonlink.DaemonIdleTimeout)+" without use", func(how string) error {
		d.enabled, d.autoStart = how != "false", how == "auto"
		if !slices.Contains([]string{"true", "false", "auto"}, how) {
			return errors.New("use --daemon or --daemon=auto")
		}
		return nil
	})
	d.DaemonTarget.AddFlags(f)
	f.Var(&d.remotes, "remotes", remotesUsage)
	f.StringVar(&d.sessionPrefix, "name", "", "`NAME` the prefix of the names of sessions in the daemon; default the client and the directory")
}

// resolveDaemon rejects flags that contradict each other.
func (d *daemonFlags) resolveDaemon(web httpFlags) error {
	if err := d.ResolveTarget(); err != nil {
		return err
	}
	if err := d.remotes.resolveNames(&d.DaemonTarget); err != nil {
		return err
	}
	d.autoStart = d.autoStart || len(d.remotes) > 0 && !d.enabled
	d.enabled = d.enabled || d.IsRemote() || len(d.remotes) > 0
	d.StartsDaemon = true
	switch {
	case (d.IsRemote() || len(d.remotes) > 0) && web.address != "":
		return cmdkit.UsageErrorf("--http serves only its own sessions; start it at the remote itself, or use --via, --remote and --remotes without it")
	case d.enabled && web.address != "":
		return cmdkit.UsageErrorf("use either --daemon or --http, not both")
	case !d.enabled && (d.Socket != "" || d.sessionPrefix != ""):
		return cmdkit.UsageErrorf("--socket and --name are for --daemon")
	case d.sessionPrefix != "" && (len(d.sessionPrefix) > maxBaseName || !session.IsValidName(d.sessionPrefix)):
		return cmdkit.UsageErrorf("--name %s: use up to %d letters, digits, dots, underscores and hyphens", d.sessionPrefix, maxBaseName)
	}
	return nil
}

// serve serves an agent whose sessions are in a daemon. Messages for a user who reads the client's
// log go to notes.
func (d *daemonFlags) serve(ctx context.Context, o *mcpserver.Options, c cmdflags.RuntimeFlags, notes io.Writer) (int, error) {
	var starter func(context.Context) error
	if d.autoStart && !d.IsRemote() {
		starter = func(ctx context.Context) error { return daemonlink.EnsureDaemon(ctx, d.LocalSocket(), notes) }
	}
	defaultDaemon, err := d.newBackend(ctx, o, c, starter)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	hosts := &backend.DaemonSet{
		DefaultRemote: d.DefaultRemote(), DefaultDaemon: defaultDaemon, IsJobMissing: isJobMissing,
		Connect: func(ctx context.Context, remote string) (*backend.SingleDaemon, error) {
			flags := daemonFlags{sessionPrefix: defaultDaemon.BaseName, DaemonTarget: daemonlink.DaemonTarget{Remote: remote, StartsDaemon: true}}
			return flags.newBackend(ctx, o, c.ForRemotes(), nil)
		},
	}
	hosts.AllowRemotes(d.remotes)
	defer hosts.Close()
	o.Backend, o.Author = hosts, defaultDaemon.BaseName
	return cmdkit.StatusDone, mcpserver.Run(ctx, o)
}

// newBackend returns a backend for the chosen daemon. It connects at the first use; only a remote's
// job is started at once.
func (d *daemonFlags) newBackend(ctx context.Context, o *mcpserver.Options, c cmdflags.RuntimeFlags, starter func(context.Context) error) (*backend.SingleDaemon, error) {
	dialer, err := d.Dialer(ctx)
	if err != nil {
		return nil, err
	}
	noMoreAsking := func() {}
	if transport, ok := dialer.(*remote.CommandDialer); ok {
		noMoreAsking = askpass.Start(transport, o.Logger)
	}
	c.Dir = cmp.Or(c.Dir, d.RemoteDir)
	link := client.New(dialer, starter)
	link.LogTo(o.Logger)
	link.SetReconnectTimeout(remoteReconnectTimeout)
	return &backend.SingleDaemon{
		Client:   link,
		BaseName: cmp.Or(d.sessionPrefix, mcpClientName()+"-"+directoryName(c.Dir)),
		Packages: o.With,
		Choices:  &daemonChoices{targetFlags: d.SameTargetFlags(), isRemote: d.IsRemote(), runtime: c, packages: o.With},
		Close: func() {
			link.Close()
			noMoreAsking()
		},
	}, nil
}

// maxBaseName leaves room after --name for the name of a language.
const maxBaseName = 64 - len("-python")

// mcpClientName distinguishes clients that work in the same directory, if they identify themselves.
func mcpClientName() string {
	switch {
	case os.Getenv("CLAUDECODE") != "":
		return "claude"
	case os.Getenv("GEMINI_CLI") != "":
		return "gemini"
	}
	return "mcp"
}

// directoryName returns the part of a session's name that stands for a directory. It differs for
// directories with the same base name.
func directoryName(dir string) string {
	if dir == "" {
		dir, _ = os.Getwd()
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	name := daemonlink.SessionNamePart(filepath.Base(dir))
	if name == "" {
		name = "root"
	}
	sum := sha256.Sum256([]byte(dir))
	return fmt.Sprintf("%s-%x", name[:min(len(name), 30)], sum[:2])
}

// IsLanguage implements backend.DaemonChoices.
func (c *daemonChoices) IsLanguage(name string) bool {
	_, isCustom := c.runtime.Worker.FindWorker(name)
	return isCustom || slices.Contains(languages.Names(), name)
}

// NewParams implements backend.DaemonChoices.
func (c *daemonChoices) NewParams(lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy) (protocol.CreateParams, *sandbox.Policy, error) {
	if c.isRemote {
		dir = ""
	}
	p := protocol.CreateParams{Language: lang, Dir: dir, Term: c.runtime.Term, Limits: c.runtime.Limits.ClientLimits()}
	policy := narrow(c.runtime.Sandbox)
	if configured := c.runtime.Sandbox; policy != configured && (configured == nil || len(policy.Hidden) > len(configured.Hidden)) && len(policy.Hidden) > 0 {
		return p, nil, errors.New("the client hides some files from its own commands, which sessions of a daemon cannot do; start repl mcp without --daemon")
	}
	cmdflags.SetSandboxParams(policy, &p)
	if p.Dir == "" {
		p.Dir = c.runtime.Dir
	}
	if !c.isRemote {
		p.Env = cmdflags.LoginEnv(policy)
	}
	if p.Dir == "" && !c.isRemote {
		var err error
		if p.Dir, err = cmdkit.WorkingDir(); err != nil {
			return p, nil, err
		}
	}
	if custom, ok := c.runtime.Worker.FindWorker(lang); ok {
		p.Command = custom.Command
	} else if l, err := languages.Find(lang); err == nil {
		r := c.runtime
		r.IsRemote, r.Dir = c.isRemote, p.Dir
		p.Runtime = r.RuntimeInDaemon(l)
		if l.Name == "python" {
			p.RequiresPython = r.RequiresPython
		}
	}
	return p, policy, nil
}

// CheckExisting implements backend.DaemonChoices.
func (c *daemonChoices) CheckExisting(policy *sandbox.Policy, now session.Info) error {
	return errors.Join(cmdflags.RequireSandbox(policy, now), cmdflags.RequireLimits(c.runtime.Limits.Limits, now))
}

// MissingPackages implements backend.DaemonChoices.
func (c *daemonChoices) MissingPackages(has []string) ([]string, error) {
	l, err := languages.Find(c.runtime.Lang)
	if err != nil {
		return nil, err
	}
	if has, err = l.Packages.Canonical(has); err != nil { // a session of another language
		return c.packages, nil
	}
	return slices.DeleteFunc(slices.Clone(c.packages), func(name string) bool { return slices.Contains(has, name) }), nil
}

// AddCommands implements backend.DaemonChoices.
func (c *daemonChoices) AddCommands(h *backend.SessionHandle, name string, now session.Info) {
	h.AttachCommand = "repl attach " + name + c.targetFlags
	h.AllowCommand = func(g session.Grant) string {
		return "repl grant " + name + c.targetFlags + " " + cmdflags.RightOption(g)
	}
	if c.isRemote {
		h.IsRemote, h.ImageDir = true, daemonlink.SessionImageDir(c.targetFlags, name)
		h.RewriteEvent = daemonlink.CrashNoticeRewriter(now, c.targetFlags)
		h.FetchCommand = cmdkit.FilesCommand + " " + name + " " + timeline.OutputName + c.targetFlags
	}
}
