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

// clientSecrets returns variables that a client uses for itself and passes to a server
// without need: code that has them can act as the client. The user's own keys, such as
// OPENAI_API_KEY, stay, because the code may need them. docs/mcp.md names the source of
// each.
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

// projectDir returns the project's directory as Claude Code names it; "" when there is none.
// Claude Code may start the server in another directory.
func projectDir() string {
	dir := os.Getenv("CLAUDE_PROJECT_DIR")
	if i, err := os.Stat(dir); err != nil || !i.IsDir() || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// usualPath is where a shell looks for programs if the environment does not say it.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// supplyPath sets a PATH if there is none: some clients start servers with an empty environment.
func supplyPath() {
	if _, has := os.LookupEnv("PATH"); !has && os.PathListSeparator == ':' {
		_ = os.Setenv("PATH", usualPath)
	}
}

// minImageSize is too small for a model to read anything.
const minImageSize = 64

// offered returns the languages of an agent: the chosen ones, or all.
func (c choice) offered() ([]language, error) {
	if chosen, err := c.chosen(); err != nil || len(chosen) > 0 {
		return chosen, err
	}
	return allLanguages()
}

// mcp serves agents, on standard input and output or over HTTP.
func mcp(f *flag.FlagSet) action {
	var c choice
	c.define(f)
	c.confinement.ofAgents(f)
	sessionDir := f.String("session-dir", "", sessionDirWords)
	imageSize := f.Int("image-size", mcpserver.DefaultImageSide, "`N` shrink pictures to so many pixels a side; 0 is never")
	stdin := f.String("stdin", string(mcpserver.StdinAuto), stdinWords())
	var away daemonChoice
	away.define(f)
	var web webChoice
	web.define(f)
	var with wanted
	f.Var(&with, "with", withWords+"; needs --lang")
	var servers serverChoice
	servers.define(f)
	var notes logChoice
	notes.define(f)
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if err := nothingAfter(f); err != nil {
			return statusUsage, err
		}
		switch {
		case *imageSize == 0:
			*imageSize = -1
		case *imageSize < minImageSize:
			return statusUsage, misuse("--image-size %d: use at least %d pixels, or 0 to leave pictures as they are", *imageSize, minImageSize)
		}
		policy := mcpserver.StdinPolicy(*stdin)
		if !slices.Contains(mcpserver.StdinPolicies(), policy) {
			return statusUsage, misuse("--stdin %s: use one of %v", *stdin, mcpserver.StdinPolicies())
		}
		supplyPath()
		offered, err := c.offered()
		if err != nil {
			return statusUsage, err
		}
		names, err := with.canonical(offered)
		if err != nil {
			return statusUsage, err
		}
		if err := errors.Join(web.check(f), away.check(web)); err != nil {
			return statusUsage, err
		}
		c.away, c.confinement.away = away.isAway(), away.isAway()
		if c.atPlaces, err = c.confinement.elsewhere(f); err != nil && len(away.places) > 0 {
			return statusUsage, err
		}
		if err := errors.Join(c.resolvePaths(), servers.check()); err != nil {
			return statusUsage, err
		}
		if c.init != "" && c.lang == "" {
			return statusUsage, misuse("--init: name the language of the file with --lang")
		}
		if away.use && (c.init != "" || c.envFile != "") {
			return statusUsage, misuse("--init and --env-file do not work with --daemon: they are for the server's own sessions")
		}
		if away.use && len(servers.sources) > 0 {
			return statusUsage, misuse("--servers does not work with --daemon: the sessions are the daemon's, so give it to repl serve")
		}
		if c.sandbox, err = c.confinement.sandbox(f); err != nil {
			return statusUsage, err
		}
		specs := make(map[string]func(dir string) workers.Spec)
		for _, l := range offered {
			if c.executable(l) != "" && !c.away { // otherwise the search waits until a session is opened
				if _, err := c.specOf(l); err != nil {
					return statusUsage, err
				}
			}
			specs[l.name] = func(dir string) workers.Spec {
				s := l.spec(c.executable(l), dir, c.surroundings())
				s.Sandbox, s.Limits = c.sandbox, c.limits.Limits
				return l.needing(s, names)
			}
		}
		if c.dir == "" && !c.away {
			c.dir = projectDir()
		}
		logger, err := notes.logger(s.err)
		if err != nil {
			return statusUsage, err
		}
		logger.Info("repl mcp begins", "version", programVersion())
		defer logger.Info("repl mcp ends")
		var callerOf func(string) string
		if web.address != "" {
			callerOf = mcpserver.ClientOfSession
		}
		set, err := servers.set(s.err, logger, callerOf)
		if err != nil {
			return statusUsage, err
		}
		defer set.Close()
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		if web.address == "" && term.IsTerminal(int(s.in.Fd())) {
			fmt.Fprintln(s.err, "repl: this waits for the messages of an MCP client, not of a person: repl install tells a client to start it, repl is for you; Ctrl-D ends it")
		}
		ctx, unread := context.WithCancelCause(ctx)
		defer unread(nil)
		if out, ok := s.out.(*os.File); ok && web.address == "" { // who made the calls that still run is gone
			whenUnread(out, func() { unread(&signalError{int(syscall.SIGPIPE)}) })
		}
		options := &mcpserver.Options{
			Specs:      specs,
			Dir:        c.dir,
			Stdin:      policy,
			ImageSide:  *imageSize,
			Default:    c.lang,
			Sandbox:    c.sandbox,
			CanConfine: agentsLevel != workers.Full,
			With:       names,
			In:         s.in,
			Out:        s.out,
			Version:    programVersion(),
			Logger:     logger,
			Servers:    set.Groups(),
		}
		if away.use {
			status, err := away.serve(ctx, options, c, s.err)
			if signalled, ok := statusOf(ctx); ok {
				status = signalled
			}
			return status, err
		}
		sup, err := supervisor.New(&supervisor.Options{Dir: *sessionDir, ScrubEnv: clientSecrets(), RecoverCommand: recoverCommand, Logger: logger, Memory: c.limits.together(), Grants: keptFile(), GrantHint: remedyLater, Functions: set.Functions()})
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
		if status, ok := statusOf(ctx); ok {
			return status, nil
		}
		return statusDone, err
	}

}
