package agents

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/sandbox"
)

// An installRequest holds the choices of a repl install.
type installRequest struct {
	clients   []install.ClientConfig
	all       bool
	uninstall bool
	server    install.ServerSpec
	options   install.Options
	paths     install.ConfigDirs
	sandbox   *sandbox.Policy // the sandbox of the sessions
}

// NewInstallCommand returns the command that adds this program to the configuration of agents and
// editors.
func NewInstallCommand(f *flag.FlagSet) cmdkit.Action {
	parse := addInstallFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		i, err := parse(args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		start, err := install.SelfCommand(os.Args[0])
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		i.server.Command, i.server.Args = start[0], slices.Concat(start[1:], i.server.Args)
		if i.options.Project { // the file is shared with other machines, which have other paths
			name := strings.TrimSuffix(filepath.Base(i.server.Command), ".exe") // and may have another system
			if path, err := exec.LookPath(name); err == nil && path == i.server.Command {
				i.server.Command = name
			}
		}
		ctx, stop := cmdkit.CatchSignals(os.Interrupt)
		defer stop()
		status, err := i.runInstall(ctx, s.Out)
		if signalled, ok := cmdkit.SignalStatus(ctx); ok {
			return signalled, nil
		}
		return status, err
	}
}

// addInstallFlags defines the flags of repl install and returns a function that parses a command
// line with them.
func addInstallFlags(f *flag.FlagSet) func(args []string) (*installRequest, error) {
	var c cmdflags.RuntimeFlags
	c.AddFlags(f)
	c.SandboxFlags.UseAgentDefaults(f)
	i := &installRequest{}
	f.BoolVar(&i.all, "all", false, "all clients that are found on this machine")
	f.BoolVar(&i.uninstall, "uninstall", false, "remove the entry")
	f.BoolVar(&i.options.DryRun, "dry-run", false, "only show the changes")
	f.BoolVar(&i.server.AutoApprove, "auto-approve", false, "let the client run the tools without asking, if it has a setting for that")
	f.StringVar(&i.server.Name, "name", "turnstone", "`NAME` the name of the entry")
	var with cmdflags.PackageList
	f.Var(&with, "with", cmdkit.WithUsage)
	var scripts cmdflags.ScriptFlags
	scripts.AddFileFlag(f)
	var env cmdflags.PackageList
	f.Var(&env, "env", "`NAME` a variable that the client passes on from its environment; may be repeated")
	scope := f.String("scope", "user", "`user|project` the configuration to change")
	return func(args []string) (*installRequest, error) {
		names, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return nil, err
		}
		if err := i.selectClients(names); err != nil {
			return nil, err
		}
		switch *scope {
		case "user":
		case "project":
			i.options.Project = true
		default:
			return nil, cmdkit.UsageErrorf("--scope %s: use user or project", *scope)
		}
		if !install.ValidName(i.server.Name) {
			return nil, cmdkit.UsageErrorf("--name %q: use up to 64 letters, digits, - and _", i.server.Name)
		}
		if i.paths, err = install.FindConfigDirs(); err != nil {
			return nil, err
		}
		for _, client := range i.clients {
			if i.server.AutoApprove && !client.CanAutoApprove() && !i.all {
				return nil, cmdkit.UsageErrorf("--auto-approve: %s does not support this; choose when it asks you", client.Title)
			}
		}
		i.server.Env = env
		for _, name := range env {
			if !cmdflags.VariableName().MatchString(name) {
				return nil, cmdkit.UsageErrorf("--env %q: give only the name of a variable; the client passes on its value", name)
			}
		}
		for _, client := range i.clients {
			if len(env) > 0 && !client.PassesEnv() && !i.all {
				return nil, cmdkit.UsageErrorf("--env: %s does not support this; use --env-file", client.Title)
			}
		}
		if i.sandbox, err = c.SandboxFlags.BuildSandbox(f); err != nil {
			return nil, err
		}
		if i.server.Args, err = cmdflags.ClientServerArgs(&c, f); err != nil {
			return nil, err
		}
		offered, _, err := c.LanguagesOrAll()
		if err != nil {
			return nil, err
		}
		if len(with) > 0 && c.Lang == "" { // naming an interpreter does not choose the language
			offered = languages.Available()
		}
		packages, err := with.CanonicalNames(offered)
		for _, name := range packages {
			i.server.Args = append(i.server.Args, "--with", name)
		}
		if err == nil && scripts.File != "" {
			err = i.addScript(scripts, c)
		}
		return i, err
	}
}

// addScript passes --with-script on to the server. It only checks the file; the server installs what
// the file asks for at each start.
func (i *installRequest) addScript(scripts cmdflags.ScriptFlags, c cmdflags.RuntimeFlags) error {
	if c.Lang == "" {
		return cmdkit.UsageErrorf("--with-script: add --lang python, the language of the file")
	}
	if _, err := scripts.ReadScripts(io.Discard, "", c.IsPython()); err != nil {
		return err
	}
	path, err := filepath.Abs(scripts.File)
	i.server.Args = append(i.server.Args, "--with-script", path)
	return err
}

// selectClients finds the clients by their names.
func (i *installRequest) selectClients(names []string) error {
	if i.all {
		if len(names) > 0 {
			return cmdkit.UsageErrorf("use either --all or %s, not both", names[0])
		}
		i.clients = install.Clients()
		return nil
	}
	var known []string
	for _, c := range install.Clients() {
		known = append(known, c.Name)
	}
	offer := strings.Join(known, ", ") + ", or --all"
	if len(names) == 0 {
		return cmdkit.UsageErrorf("install needs a client: %s", offer)
	}
	for _, name := range names {
		c, ok := install.FindClient(name)
		if !ok {
			if n := cmdkit.NearestName(name, known); n != "" {
				return cmdkit.UsageErrorf("unknown client %q; did you mean %s? The clients are %s", name, n, offer)
			}
			return cmdkit.UsageErrorf("unknown client %q; the clients are %s", name, offer)
		}
		i.clients = append(i.clients, c)
	}
	return nil
}

// runInstall installs into each client and prints the result.
func (i *installRequest) runInstall(ctx context.Context, out io.Writer) (status int, err error) {
	configured := 0
	for _, c := range i.clients {
		if ctx.Err() != nil {
			return cmdkit.StatusFailed, nil
		}
		by, searched := c.FindInstalled(i.paths)
		if i.all && by == "" {
			fmt.Fprintf(out, "%s: not on this machine (looked for %s)\n", c.Title, strings.Join(searched, ", "))
			continue
		}
		if i.all && i.options.Project && !c.HasProject() {
			fmt.Fprintf(out, "%s: does not support a project configuration\n", c.Title)
			continue
		}
		configured++
		apply := c.Install
		if i.uninstall {
			apply = c.Uninstall
		}
		r, err := apply(ctx, i.paths, i.server, i.options)
		if err != nil {
			status = cmdkit.StatusFailed
			fmt.Fprintf(out, "%s: FAILED: %s\n", c.Title, cmdkit.ErrorLine(err))
			continue
		}
		i.printReport(out, r)
		if by == "" && !i.uninstall {
			fmt.Fprintf(out, "  %s was not found on this machine (looked for %s)\n", c.Title, strings.Join(searched, ", "))
		}
	}
	if !i.uninstall && i.sandbox.Confines() && configured > 0 {
		if _, err := cmdflags.TrySandboxHere(ctx, i.sandbox.AcceptMechanism); err != nil && ctx.Err() == nil {
			fmt.Fprintf(out, "NOTE: sessions will be refused here: %s\n", cmdkit.ErrorLine(err))
		}
	}
	if configured == 0 {
		return cmdkit.StatusFailed, errors.New("found no client; name one to configure it anyway")
	}
	return status, nil
}

// printReport reports the changes for one client.
func (i *installRequest) printReport(out io.Writer, r install.Report) {
	words := map[install.InstallOutcome][2]string{
		install.Added:         {"added %q to %s", "would add %q to %s"},
		install.Updated:       {"updated %q in %s", "would update %q in %s"},
		install.Removed:       {"removed %q from %s", "would remove %q from %s"},
		install.Unchanged:     {"%q is already in %s", "%q is already in %s"},
		install.NotConfigured: {"%q is not in %s", "%q is not in %s"},
	}[r.Outcome]
	say := words[0]
	if i.options.DryRun {
		say = words[1]
	}
	fmt.Fprintf(out, "%s: "+say+"\n", r.Client.Title, i.server.Name, r.File)
	for _, command := range r.Commands {
		var quoted []string
		for _, word := range command {
			quoted = append(quoted, shellword.Quote(word))
		}
		fmt.Fprintf(out, "  $ %s\n", strings.Join(quoted, " "))
	}
	if r.Diff != "" {
		fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(strings.TrimSuffix(r.Diff, "\n"), "\n", "\n  "))
	}
	if r.Backup != "" {
		fmt.Fprintf(out, "  backup: %s\n", r.Backup)
	}
	if r.Note != "" {
		fmt.Fprintf(out, "  %s\n", r.Note)
	}
	if r.Outcome != install.Removed && r.Outcome != install.NotConfigured && i.options.Project {
		if path := i.absolutePath(); path != "" {
			fmt.Fprintf(out, "  this file is shared with other machines, which may not have %s\n", path)
		}
	}
	if changed := r.Outcome == install.Added || r.Outcome == install.Updated; changed && !i.options.DryRun {
		fmt.Fprintf(out, "  %s reads it: %s\n", r.Client.Title, r.Client.ReloadHint())
	}
}

// absolutePath returns an absolute path in the entry, or "" if it has none.
func (i *installRequest) absolutePath() string {
	for _, word := range append([]string{i.server.Command}, i.server.Args...) {
		if filepath.IsAbs(word) {
			return word
		}
	}
	return ""
}

// InstallClientNames returns the names of the clients that repl install can configure.
func InstallClientNames() []string {
	var names []string
	for _, c := range install.Clients() {
		names = append(names, c.Name)
	}
	return names
}
