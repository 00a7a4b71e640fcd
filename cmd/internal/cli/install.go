package cli

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

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/internal/shellword"
	"github.com/turnstone-repl/turnstone/workers"
)

// An installation has the choices of a repl install.
type installation struct {
	clients   []install.Client
	all       bool
	uninstall bool
	server    install.Server
	options   install.Options
	places    install.Places
	sandbox   *workers.Sandbox // of the sessions
}

// installInto puts this program into the configuration of agents and editors.
func installInto(f *flag.FlagSet) action {
	read := installationFlags(f)
	return func(s streams, args []string) (int, error) {
		i, err := read(args)
		if err != nil {
			return statusUsage, err
		}
		start, err := install.Self(os.Args[0])
		if err != nil {
			return statusFailed, err
		}
		i.server.Command, i.server.Args = start[0], slices.Concat(start[1:], i.server.Args)
		if i.options.Project { // the file goes to other machines, with other paths
			name := strings.TrimSuffix(filepath.Base(i.server.Command), ".exe") // nor its system is
			if path, err := exec.LookPath(name); err == nil && path == i.server.Command {
				i.server.Command = name
			}
		}
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		status, err := i.run(ctx, s.out)
		if signalled, ok := statusOf(ctx); ok {
			return signalled, nil
		}
		return status, err
	}
}

// installationFlags defines the flags of repl install, and returns a function that reads a
// command line with them.
func installationFlags(f *flag.FlagSet) func(args []string) (*installation, error) {
	var c choice
	c.define(f)
	c.confinement.ofAgents(f)
	i := &installation{}
	f.BoolVar(&i.all, "all", false, "every client that is found on this machine")
	f.BoolVar(&i.uninstall, "uninstall", false, "remove the entry again")
	f.BoolVar(&i.options.DryRun, "dry-run", false, "only show what would change")
	f.BoolVar(&i.server.Approve, "approve", false, "the tools run unasked, where the client has a setting for that")
	f.StringVar(&i.server.Name, "name", "turnstone", "`NAME` the name of the entry")
	var with wanted
	f.Var(&with, "with", withWords)
	var env wanted
	f.Var(&env, "env", "`NAME` the client passes this variable of its environment on; may be repeated")
	scope := f.String("scope", "user", "`user|project` the configuration to change")
	return func(args []string) (*installation, error) {
		names, err := parseAnywhere(f, args)
		if err != nil {
			return nil, err
		}
		if err := i.choose(names); err != nil {
			return nil, err
		}
		switch *scope {
		case "user":
		case "project":
			i.options.Project = true
		default:
			return nil, misuse("--scope %s: use user or project", *scope)
		}
		if !install.ValidName(i.server.Name) {
			return nil, misuse("--name %q: use up to 64 letters, digits, - and _", i.server.Name)
		}
		if i.places, err = install.Here(); err != nil {
			return nil, err
		}
		for _, client := range i.clients {
			if i.server.Approve && !client.Approves() && !i.all {
				return nil, misuse("--approve: %s has no such setting; you choose there when it asks", client.Title)
			}
		}
		i.server.Env = env
		for _, name := range env {
			if !variableName.MatchString(name) {
				return nil, misuse("--env %q: name a variable, whose value stays with the client", name)
			}
		}
		for _, client := range i.clients {
			if len(env) > 0 && !client.HandsOver() && !i.all {
				return nil, misuse("--env: %s has no setting for that; use --env-file", client.Title)
			}
		}
		if i.sandbox, err = c.confinement.sandbox(f); err != nil {
			return nil, err
		}
		if i.server.Args, err = c.serverArgs(f); err != nil {
			return nil, err
		}
		asked, _, err := c.languages()
		if err != nil {
			return nil, err
		}
		if len(with) > 0 && c.lang == "" { // naming an interpreter does not fix the language
			asked = languages()
		}
		wants, err := with.canonical(asked)
		for _, name := range wants {
			i.server.Args = append(i.server.Args, "--with", name)
		}
		return i, err
	}
}

// choose finds the clients by their names.
func (i *installation) choose(names []string) error {
	if i.all {
		if len(names) > 0 {
			return misuse("use either --all or %s, not both", names[0])
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
		return misuse("install needs a client: %s", offer)
	}
	for _, name := range names {
		c, ok := install.Named(name)
		if !ok {
			if n := nearest(name, known); n != "" {
				return misuse("unknown client %q; did you mean %s? The clients are %s", name, n, offer)
			}
			return misuse("unknown client %q; the clients are %s", name, offer)
		}
		i.clients = append(i.clients, c)
	}
	return nil
}

// serverArgs returns the arguments with which a client starts the server: the choices in f,
// with paths that do not depend on the client's working directory.
func (c *choice) serverArgs(f *flag.FlagSet) ([]string, error) {
	asked, _, err := c.languages()
	if err == nil {
		err = c.resolvePaths()
	}
	if err != nil {
		return nil, err
	}
	for _, l := range asked {
		if c.executable(l) != "" { // otherwise the search waits until a session is opened
			if _, err := c.specOf(l); err != nil {
				return nil, err
			}
		}
	}
	if c.init != "" && c.lang == "" {
		return nil, misuse("--init: name the language of the file with --lang")
	}
	chosen := newFlags("")
	new(choice).define(chosen)
	args := []string{"mcp"}
	if c.sandbox, err = c.confinement.sandbox(f); err != nil {
		return nil, err
	}
	f.Visit(func(given *flag.Flag) {
		if dirs, ok := given.Value.(*directories); ok {
			for _, dir := range *dirs {
				whole, e := filepath.Abs(dir)
				err = errors.Join(err, e)
				args = append(args, "--"+given.Name, whole)
			}
			return
		}
		if hosts, ok := given.Value.(*names); ok {
			for _, host := range *hosts {
				args = append(args, "--"+given.Name, host)
			}
			return
		}
		if own, ok := given.Value.(*workerFlag); ok {
			for _, value := range own.values() {
				args = append(args, "--"+given.Name, value)
			}
			return
		}
		value := given.Value.String()
		if chosen.Lookup(given.Name) == nil || value == "" {
			return
		}
		if _, e := os.Stat(value); e == nil && !slices.Contains([]string{"lang", "sandbox", "sandbox-accept", "network", "ask", "memory", "processes", "cpus", "files", "disk", "turn-limit"}, given.Name) {
			value, e = filepath.Abs(value)
			err = errors.Join(err, e)
		}
		args = append(args, "--"+given.Name, value)
	})
	return args, err
}

// run installs into each client and prints the result.
func (i *installation) run(ctx context.Context, out io.Writer) (status int, err error) {
	seen := 0
	for _, c := range i.clients {
		if ctx.Err() != nil {
			return statusFailed, nil
		}
		by, looked := c.Found(i.places)
		if i.all && by == "" {
			fmt.Fprintf(out, "%s: not on this machine (looked for %s)\n", c.Title, strings.Join(looked, ", "))
			continue
		}
		if i.all && i.options.Project && !c.HasProject() {
			fmt.Fprintf(out, "%s: it has no configuration for a project\n", c.Title)
			continue
		}
		seen++
		apply := c.Install
		if i.uninstall {
			apply = c.Uninstall
		}
		r, err := apply(ctx, i.places, i.server, i.options)
		if err != nil {
			status = statusFailed
			fmt.Fprintf(out, "%s: FAILED: %s\n", c.Title, oneLine(err))
			continue
		}
		i.print(out, r)
		if by == "" && !i.uninstall {
			fmt.Fprintf(out, "  %s was not seen on this machine (looked for %s)\n", c.Title, strings.Join(looked, ", "))
		}
	}
	if !i.uninstall && i.sandbox.Confines() && seen > 0 {
		if _, err := sandboxHere(ctx, i.sandbox.AcceptMechanism); err != nil && ctx.Err() == nil {
			fmt.Fprintf(out, "NOTE: sessions will be refused here: %s\n", oneLine(err))
		}
	}
	if seen == 0 {
		return statusFailed, errors.New("found no client; name one to configure it anyway")
	}
	return status, nil
}

// print reports the changes for one client.
func (i *installation) print(out io.Writer, r install.Report) {
	words := map[install.Outcome][2]string{
		install.Added:   {"added %q to %s", "would add %q to %s"},
		install.Updated: {"updated %q in %s", "would update %q in %s"},
		install.Removed: {"removed %q from %s", "would remove %q from %s"},
		install.Already: {"%q is already in %s", "%q is already in %s"},
		install.Absent:  {"%q is not in %s", "%q is not in %s"},
	}[r.Done]
	say := words[0]
	if i.options.DryRun {
		say = words[1]
	}
	fmt.Fprintf(out, "%s: "+say+"\n", r.Client.Title, i.server.Name, r.File)
	for _, command := range r.Ran {
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
	if r.Done != install.Removed && r.Done != install.Absent && i.options.Project {
		if path := i.absolute(); path != "" {
			fmt.Fprintf(out, "  this file is for other machines too, which may not have %s\n", path)
		}
	}
	if changed := r.Done == install.Added || r.Done == install.Updated; changed && !i.options.DryRun {
		fmt.Fprintf(out, "  read by %s at: %s\n", r.Client.Title, r.Client.Reload())
	}
}

// absolute returns an absolute path in the entry; "" when there is none.
func (i *installation) absolute() string {
	for _, word := range append([]string{i.server.Command}, i.server.Args...) {
		if filepath.IsAbs(word) {
			return word
		}
	}
	return ""
}
