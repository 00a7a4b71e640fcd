package agents

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpclient"
	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// projectDir returns the project's directory according to Claude Code, or "" if it names none.
// Claude Code may start the server in another directory.
func projectDir() string {
	dir := os.Getenv("CLAUDE_PROJECT_DIR")
	if i, err := os.Stat(dir); err != nil || !i.IsDir() || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// defaultPath is where a shell looks for programs if PATH is not set.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// setDefaultPath sets PATH if it is missing: some clients start servers with an empty environment.
func setDefaultPath() {
	if _, has := os.LookupEnv("PATH"); !has && os.PathListSeparator == ':' {
		_ = os.Setenv("PATH", defaultPath)
	}
}

// minImageSize is the smallest size at which a model can recognize anything in an image, in pixels a side.
const minImageSize = 64

// mcpFlags holds the flags of repl mcp.
type mcpFlags struct {
	flags      *flag.FlagSet
	runtime    cmdflags.RuntimeFlags
	sessionDir string
	imageSize  int
	stdin      string
	daemon     daemonFlags
	web        httpFlags
	packages   cmdflags.PackageList
	scripts    cmdflags.ScriptFlags
	servers    cmdflags.ToolServerFlags
	log        cmdflags.LogFlags
}

func (m *mcpFlags) AddFlags(f *flag.FlagSet) {
	m.flags = f
	m.runtime.AddFlags(f)
	m.runtime.SandboxFlags.UseAgentDefaults(f)
	f.StringVar(&m.sessionDir, "session-dir", "", cmdkit.SessionDirUsage)
	f.IntVar(&m.imageSize, "max-image-size", 0, fmt.Sprintf("`N` shrink larger images to this many pixels a side; 0 is %d, -1 never shrinks", mcpserver.DefaultImageSide))
	f.StringVar(&m.stdin, "stdin", string(mcpserver.StdinAuto), stdinUsage())
	cmdkit.AddFlagGroups(f, &m.daemon, &m.web)
	f.Var(&m.packages, "with", cmdkit.WithUsage+"; needs --lang")
	m.scripts.AddFileFlag(f)
	cmdkit.AddFlagGroups(f, &m.servers, &m.log)
}

// NewMCPCommand returns the command that serves agents over standard input and output, or over HTTP.
func NewMCPCommand(f *flag.FlagSet) cmdkit.Action {
	var o mcpFlags
	o.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		if o.imageSize != 0 && o.imageSize != -1 && o.imageSize < minImageSize {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--max-image-size %d: use at least %d pixels, 0 for the default, or -1 to leave images as they are", o.imageSize, minImageSize)
		}
		if !slices.Contains(mcpserver.StdinPolicies(), mcpserver.StdinPolicy(o.stdin)) {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--stdin %s: use one of %v", o.stdin, mcpserver.StdinPolicies())
		}
		setDefaultPath()
		if err := o.addNeeds(s.Err); err != nil {
			return cmdkit.StatusUsage, err
		}
		offered, err := o.runtime.OfferedLanguages()
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		names, err := o.packages.CanonicalNames(offered)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := o.resolveFlags(); err != nil {
			return cmdkit.StatusUsage, err
		}
		specs, err := o.specFinders(offered, names)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		return o.run(s, specs, names)
	}
}

// resolveFlags checks the combination of the flags and makes their paths absolute.
func (m *mcpFlags) resolveFlags() (err error) {
	c := &m.runtime
	if err := errors.Join(m.web.validateHTTP(m.flags), m.daemon.resolveDaemon(m.web)); err != nil {
		return err
	}
	c.IsRemote, c.SandboxFlags.IsRemote = m.daemon.IsRemote(), m.daemon.IsRemote()
	if c.RemoteSandbox, err = c.SandboxFlags.RemoteSandbox(m.flags); err != nil && len(m.daemon.remotes) > 0 {
		return err
	}
	if err := errors.Join(c.ResolvePaths(), m.servers.ResolveSources()); err != nil {
		return err
	}
	switch {
	case c.InitFile != "" && c.Lang == "":
		return cmdkit.UsageErrorf("--init: name the language of the file with --lang")
	case m.daemon.enabled && (c.InitFile != "" || c.EnvFile != ""):
		return cmdkit.UsageErrorf("--init and --env-file do not work with --daemon; they are for the server's own sessions")
	case m.daemon.enabled && len(m.servers.Sources) > 0:
		return cmdkit.UsageErrorf("--mcp-servers does not work with --daemon; pass it to repl serve instead")
	}
	if c.Sandbox, err = c.SandboxFlags.BuildSandbox(m.flags); err != nil {
		return err
	}
	return m.scripts.ProtectFile(c.Sandbox)
}

// addNeeds adds what the file of --with-script asks for.
func (m *mcpFlags) addNeeds(notices io.Writer) error {
	if m.scripts.File != "" && m.runtime.Lang == "" {
		return cmdkit.UsageErrorf("--with-script: add --lang python, the language of the file")
	}
	needs, err := m.scripts.ReadScripts(notices, "", m.runtime.IsPython())
	m.packages = append(m.packages, needs.Packages...)
	m.runtime.RequiresPython = needs.RequiresPython
	return err
}

// specFinders returns a function for each offered language that finds the runtime for a directory.
// The runtimes get the packages, which are given by canonical names.
func (m *mcpFlags) specFinders(offered []languages.Language, packages []string) (map[string]func(dir string) workers.Spec, error) {
	c := &m.runtime
	specs := make(map[string]func(dir string) workers.Spec)
	for _, l := range offered {
		if c.InterpreterFor(l) != "" && !c.IsRemote { // otherwise the search waits until a session is opened
			if _, err := c.LanguageSpec(l); err != nil {
				return nil, err
			}
		}
		specs[l.Name] = func(dir string) workers.Spec {
			s := l.NewSpec(c.InterpreterFor(l), dir, c.RuntimeSettings())
			s.Term, s.Sandbox, s.Limits = c.Term, c.Sandbox, c.Limits.Limits
			return cmdflags.WithPreparation(l, s, packages)
		}
	}
	return specs, nil
}

// run serves until the client leaves or a signal arrives.
func (m *mcpFlags) run(s cmdkit.Streams, specs map[string]func(dir string) workers.Spec, packages []string) (int, error) {
	c := &m.runtime
	if c.Dir == "" && !c.IsRemote {
		c.Dir = projectDir()
	}
	logger, err := m.log.OpenLogger(s.Err)
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	logger.Info("mcp server started", "version", cmdkit.ProgramVersion())
	defer logger.Info("mcp server stopped")
	var callerOf func(string) string
	if m.web.address != "" {
		callerOf = mcpserver.ClientOfSession
	}
	set, err := m.servers.NewToolSet(s.Err, logger, callerOf)
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	defer set.Close()
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	if m.web.address == "" && term.IsTerminal(int(s.In.Fd())) {
		fmt.Fprintln(s.Err, "repl: waiting for messages of an MCP client; repl install configures a client to start this, and repl alone starts a session for you; Ctrl-D ends it")
	}
	ctx, readerGone := context.WithCancelCause(ctx)
	defer readerGone(nil)
	if out, ok := s.Out.(*os.File); ok && m.web.address == "" { // ends the running calls of a client that is gone
		cmdkit.OnReaderGone(out, func() { readerGone(&cmdkit.SignalError{Number: int(syscall.SIGPIPE)}) })
	}
	options := &mcpserver.Options{
		Specs:      specs,
		Dir:        c.Dir,
		Stdin:      mcpserver.StdinPolicy(m.stdin),
		ImageSide:  m.imageSize,
		Default:    c.Lang,
		Sandbox:    c.Sandbox,
		CanConfine: cmdflags.DefaultAgentLevel != sandbox.Full,
		With:       packages,
		In:         s.In,
		Out:        s.Out,
		Version:    cmdkit.ProgramVersion(),
		Logger:     logger,
		Servers:    set.Groups(),
		HasBrowser: browserprompt.HasBrowser(os.Getenv),
	}
	if m.daemon.enabled {
		status, err := m.daemon.serve(ctx, options, *c, s.Err)
		if signalled, ok := cmdkit.SignalStatus(ctx); ok {
			status = signalled
		}
		return status, err
	}
	err = m.serveOwnSessions(ctx, options, set, s.Err)
	if status, ok := cmdkit.SignalStatus(ctx); ok {
		return status, nil
	}
	return cmdkit.StatusDone, err
}

// serveOwnSessions serves sessions of this process, over HTTP or on the standard streams.
func (m *mcpFlags) serveOwnSessions(ctx context.Context, options *mcpserver.Options, set *mcpclient.ServerSet, stderr io.Writer) error {
	sup, err := supervisor.New(&supervisor.Options{Dir: m.sessionDir, ScrubEnv: cmdflags.ClientSecrets(), RecoverCommand: cmdkit.RecoverCommand, Logger: options.Logger, Memory: m.runtime.Limits.TotalMemory(), Grants: cmdflags.UserConfigFile(), GrantHint: cmdflags.LaterGrantHint, Functions: set.Functions()})
	if err != nil {
		return err
	}
	defer sup.Close()
	options.Supervisor = sup
	if m.web.address != "" {
		return m.web.serve(ctx, options, stderr)
	}
	return mcpserver.Run(ctx, options)
}

func stdinUsage() string {
	var all []string
	for _, p := range mcpserver.StdinPolicies() {
		all = append(all, string(p))
	}
	return "`" + strings.Join(all, "|") + "` who answers when code reads input: auto (the model, but you for secrets), model, ask (you), or deny (end of file)"
}
