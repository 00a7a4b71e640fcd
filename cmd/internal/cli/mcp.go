package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"golang.org/x/term"
)

// clientSecrets returns variables that a client needs only itself but passes on to servers. Code
// that has them can act as the client. The user's own keys, such as OPENAI_API_KEY, stay, because
// the code may need them. docs/mcp.md names the source of each variable.
func clientSecrets() []string {
	return []string{
		"CLAUDE_CODE_MESSAGING_*",
		"CLAUDE_CODE_OAUTH_*",
		"CLAUDE_CODE_SESSION_ACCESS_TOKEN",
		"GEMINI_CLI_IDE_AUTH_TOKEN",
		"CODEX_API_KEY",
		"CODEX_ACCESS_TOKEN",
		"OPENCODE_SERVER_PASSWORD",
	}
}

// projectDir returns the project's directory according to Claude Code, or "" if there is none.
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

// minImageSize is the smallest size at which a model can read anything in an image.
const minImageSize = 64

// offeredLanguages returns the languages for an agent: the chosen ones, or all.
func (c runtimeFlags) offeredLanguages() ([]languageInfo, error) {
	if chosen, err := c.chosenLanguages(); err != nil || len(chosen) > 0 {
		return chosen, err
	}
	return allLanguages()
}

// newMCPCommand serves agents over standard input and output, or over HTTP.
func newMCPCommand(f *flag.FlagSet) action {
	var c runtimeFlags
	c.addFlags(f)
	c.sandboxFlags.useAgentDefaults(f)
	sessionDir := f.String("session-dir", "", sessionDirUsage)
	imageSize := f.Int("max-image-size", 0, fmt.Sprintf("`N` shrink larger images to this many pixels a side; 0 is %d, -1 never shrinks", mcpserver.DefaultImageSide))
	stdin := f.String("stdin", string(mcpserver.StdinAuto), stdinUsage())
	var daemon daemonFlags
	daemon.addFlags(f)
	var web httpFlags
	web.addFlags(f)
	var with packageList
	f.Var(&with, "with", withUsage+"; needs --lang")
	var servers mcpServerFlags
	servers.addFlags(f)
	var notes logFlags
	notes.addFlags(f)
	return func(s streams, args []string) (int, error) {
		if err := parseFlags(f, args); err != nil {
			return statusUsage, err
		}
		if err := requireNoArgs(f); err != nil {
			return statusUsage, err
		}
		if *imageSize != 0 && *imageSize != -1 && *imageSize < minImageSize {
			return statusUsage, usageErrorf("--max-image-size %d: use at least %d pixels, 0 for the default, or -1 to leave images as they are", *imageSize, minImageSize)
		}
		policy := mcpserver.StdinPolicy(*stdin)
		if !slices.Contains(mcpserver.StdinPolicies(), policy) {
			return statusUsage, usageErrorf("--stdin %s: use one of %v", *stdin, mcpserver.StdinPolicies())
		}
		setDefaultPath()
		offered, err := c.offeredLanguages()
		if err != nil {
			return statusUsage, err
		}
		names, err := with.canonicalNames(offered)
		if err != nil {
			return statusUsage, err
		}
		if err := errors.Join(web.validateHTTP(f), daemon.resolveDaemon(web)); err != nil {
			return statusUsage, err
		}
		c.isRemote, c.sandboxFlags.isRemote = daemon.isRemote(), daemon.isRemote()
		if c.remoteSandbox, err = c.sandboxFlags.remoteSandbox(f); err != nil && len(daemon.remotes) > 0 {
			return statusUsage, err
		}
		if err := errors.Join(c.resolvePaths(), servers.resolveSources()); err != nil {
			return statusUsage, err
		}
		if c.initFile != "" && c.lang == "" {
			return statusUsage, usageErrorf("--init: name the language of the file with --lang")
		}
		if daemon.enabled && (c.initFile != "" || c.envFile != "") {
			return statusUsage, usageErrorf("--init and --env-file do not work with --daemon; they are for the server's own sessions")
		}
		if daemon.enabled && len(servers.sources) > 0 {
			return statusUsage, usageErrorf("--mcp-servers does not work with --daemon; pass it to repl serve instead")
		}
		if c.sandbox, err = c.sandboxFlags.buildSandbox(f); err != nil {
			return statusUsage, err
		}
		specs := make(map[string]func(dir string) workers.Spec)
		for _, l := range offered {
			if c.interpreterFor(l) != "" && !c.isRemote { // otherwise the search waits until a session is opened
				if _, err := c.languageSpec(l); err != nil {
					return statusUsage, err
				}
			}
			specs[l.name] = func(dir string) workers.Spec {
				s := l.newSpec(c.interpreterFor(l), dir, c.runtimeSettings())
				s.Sandbox, s.Limits = c.sandbox, c.limits.Limits
				return l.withPreparation(s, names)
			}
		}
		if c.dir == "" && !c.isRemote {
			c.dir = projectDir()
		}
		logger, err := notes.openLogger(s.err)
		if err != nil {
			return statusUsage, err
		}
		logger.Info("mcp server started", "version", programVersion())
		defer logger.Info("mcp server stopped")
		var callerOf func(string) string
		if web.address != "" {
			callerOf = mcpserver.ClientOfSession
		}
		set, err := servers.newToolSet(s.err, logger, callerOf)
		if err != nil {
			return statusUsage, err
		}
		defer set.Close()
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		if web.address == "" && term.IsTerminal(int(s.in.Fd())) {
			fmt.Fprintln(s.err, "repl: waiting for messages of an MCP client; repl install configures a client to start this, and repl alone starts a session for you; Ctrl-D ends it")
		}
		ctx, readerGone := context.WithCancelCause(ctx)
		defer readerGone(nil)
		if out, ok := s.out.(*os.File); ok && web.address == "" { // the client whose calls are still running is gone
			onReaderGone(out, func() { readerGone(&signalError{int(syscall.SIGPIPE)}) })
		}
		options := &mcpserver.Options{
			Specs:      specs,
			Dir:        c.dir,
			Stdin:      policy,
			ImageSide:  *imageSize,
			Default:    c.lang,
			Sandbox:    c.sandbox,
			CanConfine: defaultAgentLevel != workers.Full,
			With:       names,
			In:         s.in,
			Out:        s.out,
			Version:    programVersion(),
			Logger:     logger,
			Servers:    set.Groups(),
		}
		if daemon.enabled {
			status, err := daemon.serve(ctx, options, c, s.err)
			if signalled, ok := signalStatus(ctx); ok {
				status = signalled
			}
			return status, err
		}
		sup, err := supervisor.New(&supervisor.Options{Dir: *sessionDir, ScrubEnv: clientSecrets(), RecoverCommand: recoverCommand, Logger: logger, Memory: c.limits.totalMemory(), Grants: userConfigFile(), GrantHint: laterGrantHint, Functions: set.Functions()})
		if err != nil {
			return statusFailed, err
		}
		defer sup.Close()
		options.Supervisor = sup
		if web.address != "" {
			err = web.serve(ctx, options, s.err)
		} else {
			err = mcpserver.Run(ctx, options)
		}
		if status, ok := signalStatus(ctx); ok {
			return status, nil
		}
		return statusDone, err
	}

}
