package run

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/console"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// NewReplCommand is the command without a subcommand: an interactive session, or one program.
// nearestCommand returns the command that a misspelled word may mean, or "".
func NewReplCommand(f *flag.FlagSet, nearestCommand func(name string) string) cmdkit.Action {
	var c cmdflags.RuntimeFlags
	c.AddFlags(f)
	var g programFlags
	g.AddFlags(f)
	var with cmdflags.PackageList
	f.Var(&with, "with", cmdkit.WithUsage)
	var scripts cmdflags.ScriptFlags
	scripts.AddFlags(f)
	var servers cmdflags.ToolServerFlags
	servers.AddFlags(f)
	var terminal cmdflags.TerminalFlags
	terminal.AddFlags(f)
	var notes cmdflags.LogFlags
	notes.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := g.parseArgs(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if name, ok := g.namedFile(); ok {
			if err := checkFile(name, nearestCommand); err != nil {
				return cmdkit.StatusUsage, err
			}
		}
		if err := terminal.ValidateHistory(); err != nil {
			return cmdkit.StatusUsage, err
		}
		if (!g.hasProgram || g.interactive) && console.IsUsable() {
			if err := notes.KeepOffTerminal(f); err != nil {
				return cmdkit.StatusUsage, err
			}
		}
		log, err := notes.OpenLogger(nil)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := servers.ResolveSources(); err != nil {
			return cmdkit.StatusUsage, err
		}
		set, err := servers.NewToolSet(s.Err, log, nil)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		defer set.Close()
		more := localSessionOptions{log, set.Functions()}
		if c.Sandbox, err = c.SandboxFlags.BuildSandbox(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		c.IsProgram = g.hasProgram || !console.IsUsable()
		c.AsProcess = g.hasProgram && !g.hasE && !g.interactive && len(servers.Sources) == 0 && !c.NeedsSession()
		if g.isFile() && c.HasNoLanguage() {
			c.Lang = languages.OfFile(g.fileArgs[0])
		}
		needs, err := scripts.ReadScripts(s.Err, g.scriptFile(), c.IsPython())
		if err == nil {
			err = needs.CheckConfined(g.scriptFile(), c.Sandbox.Confines())
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		c.RequiresPython = needs.RequiresPython
		lang, spec, err := c.ResolveRuntime()
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		names, err := append(with, needs.Packages...).CanonicalNames([]languages.Language{lang})
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		spec = cmdflags.WithPreparation(lang, spec, names)
		if err := g.checkLanguage(lang); err != nil {
			return cmdkit.StatusUsage, err
		}
		if c.AsProcess && lang.ProcessArgs != nil {
			return runProcess(s, lang, spec, log, &g)
		}
		return runProgramSession(s, &g, lang, spec, more, terminal)
	}
}

// runProgramSession runs the program, or the prompt of a user, in a session of this process.
func runProgramSession(s cmdkit.Streams, p *programFlags, lang languages.Language, spec workers.Spec, more localSessionOptions, terminal cmdflags.TerminalFlags) (int, error) {
	first := ""
	if p.hasProgram {
		var err error
		if first, err = p.programInput(lang, &spec); err != nil {
			return cmdkit.StatusFailed, err
		}
	}
	switch {
	case p.interactive, !p.hasProgram && console.IsUsable():
		return runInteractive(s, lang, spec, more, terminal, first)
	case p.hasProgram:
		return runProgram(s, lang, spec, more, oneShotProgram{code: first, stdin: s.In})
	}
	if term.IsTerminal(int(s.In.Fd())) {
		fmt.Fprintln(s.Err, "repl: the output is not a terminal, so this reads a whole program; Ctrl-D ends it")
	}
	text, err := languages.ReadInput(s.In)
	if err != nil {
		return cmdkit.StatusFailed, fmt.Errorf("cannot read the program from standard input: %w", err)
	}
	return runProgram(s, lang, spec, more, oneShotProgram{code: text})
}

// isRunnableDir reports whether python could run a directory.
func isRunnableDir(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "__main__.py"))
	return err == nil && info.Mode().IsRegular()
}

// checkFile returns an error if a word is neither a command nor a file.
func checkFile(name string, nearestCommand func(name string) string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.IsDir():
		return nil
	case err == nil && isRunnableDir(name):
		return nil
	case err == nil:
		return cmdkit.UsageErrorf("%s is a directory without a __main__.py to run", name)
	case !errors.Is(err, fs.ErrNotExist):
		return cmdkit.UsageErrorf("cannot run %s: %v", name, errors.Unwrap(err))
	}
	if l, err := languages.Find(name); err == nil {
		return cmdkit.UsageErrorf("%q is neither a command nor a file; did you mean repl --lang %s?", name, l.Name)
	}
	if n := nearestCommand(name); n != "" {
		return cmdkit.UsageErrorf("%q is neither a command nor a file; did you mean repl %s?", name, n)
	}
	return cmdkit.UsageErrorf("%q is neither a command nor a file (see repl help)", name)
}

// runInteractive runs a session for a user at the terminal, after a first input if there is one.
func runInteractive(s cmdkit.Streams, lang languages.Language, spec workers.Spec, more localSessionOptions, terminal cmdflags.TerminalFlags, first string) (int, error) {
	spec.UserTerminal = !cmdkit.IsDumbTerminal()
	return withSession(s, spec, more, func(ctx context.Context, session *supervisor.Session) (int, error) {
		if first != "" {
			if _, err := session.Submit(ctx, first); err != nil { // an exit leads to the prompt, as with python -i
				return cmdkit.StatusFailed, err
			}
		}
		o := terminal.TerminalOptions(lang, spec.Dir)
		if spec.UserTerminal {
			o.Programs = session
		}
		return console.Run(ctx, session, o)
	})
}
