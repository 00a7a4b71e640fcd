package daemoncmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
	"github.com/turnstone-repl/turnstone/cmd/internal/osservice"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// ServiceIdleTimeout is how long an unused daemon of a service manager runs. It is long, because
// the sessions end with the daemon.
const ServiceIdleTimeout = 24 * time.Hour

// NewServiceCommand returns the command that lets a service manager start repl serve.
func NewServiceCommand(f *flag.FlagSet) cmdkit.Action {
	socket := f.String("socket", "", "`PATH` the daemon's socket, if not the default one")
	idleExit := f.Duration("daemon-idle-timeout", ServiceIdleTimeout, "`DURATION` the daemon exits after this time without use; 0 means never")
	dryRun := f.Bool("dry-run", false, "only print the steps")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(f, args)
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if len(words) == 0 || !slices.Contains([]string{"print", "install", "uninstall"}, words[0]) {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("service needs one of install, uninstall, print")
		}
		if len(words) > 2 || len(words) == 2 && words[0] != "print" {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("service %s takes no argument %q", words[0], words[len(words)-1])
		}
		if *idleExit < 0 || *idleExit > 0 && *idleExit < time.Second {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--daemon-idle-timeout %s: use at least 1s, or 0 for never", *idleExit)
		}
		o := osservice.Options{IdleTimeout: *idleExit, Path: os.Getenv("PATH"), State: userdirs.State(os.Getenv, "")}
		if *socket != "" {
			if o.Socket, err = filepath.Abs(*socket); err != nil {
				return cmdkit.StatusFailed, err
			}
		}
		start, err := install.SelfCommand(os.Args[0])
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if o.Executable = start[0]; len(start) > 1 && words[0] == "install" {
			return cmdkit.StatusFailed, fmt.Errorf("this program is in the cache of %s, which may be cleared; install it (uv tool install %[2]s, or npm install -g %[2]s), and run service install from there", start[0], installsource.Package)
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		dirs := osservice.UserDirs{Home: home, UID: os.Getuid(), Config: userdirs.Config(os.Getenv, "")}
		if len(words) == 2 {
			return printService(s, words[1], dirs, o)
		}
		manager, err := osservice.FindManager()
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if words[0] == "print" {
			return printService(s, manager.Name, dirs, o)
		}
		var steps []osservice.Step
		if words[0] == "install" {
			steps, err = manager.Install(dirs, o)
		} else {
			steps, err = manager.Uninstall(dirs)
		}
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if len(steps) == 0 {
			fmt.Fprintln(s.Err, "repl: no service is installed")
			return cmdkit.StatusDone, nil
		}
		status, err := runSteps(s, steps, *dryRun)
		if words[0] == "install" {
			if on, known := osservice.LingerState(context.Background(), strconv.Itoa(dirs.UID)); known && !on {
				fmt.Fprintf(s.Err, "repl: %s\n", osservice.NoLingerHint)
			}
		}
		return status, err
	}
}

// runSteps runs the steps, or only prints them. After a failed command it runs no other command,
// but still writes and removes files, which helps if the manager is just not reachable here.
func runSteps(s cmdkit.Streams, steps []osservice.Step, dryRun bool) (int, error) {
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	var failures []error
	for _, step := range steps {
		if step.Run != nil && len(failures) > 0 {
			fmt.Fprintln(s.Out, "not done:", step)
			continue
		}
		fmt.Fprintln(s.Out, step)
		if dryRun {
			if step.Write != nil {
				fmt.Fprintln(s.Out, "    "+strings.ReplaceAll(strings.TrimSpace(step.Write.Content), "\n", "\n    "))
			}
			continue
		}
		if err := step.Execute(ctx); err != nil {
			failures = append(failures, err)
			if step.Run == nil || ctx.Err() != nil {
				break
			}
		}
	}
	if status, ok := cmdkit.SignalStatus(ctx); ok {
		return status, nil
	}
	return cmdkit.StatusDone, errors.Join(failures...)
}

// printService prints the files for a service manager.
func printService(s cmdkit.Streams, name string, p osservice.UserDirs, o osservice.Options) (int, error) {
	var names []string
	for _, m := range osservice.Managers() {
		if m.Name != name {
			names = append(names, m.Name)
			continue
		}
		files, err := m.Files(p, o)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		for _, f := range files {
			fmt.Fprintf(s.Out, "==> %s\n%s", f.Path, f.Content)
		}
		if m.Note != "" {
			fmt.Fprintf(s.Err, "repl: %s\n", m.Note)
		}
		return cmdkit.StatusDone, nil
	}
	return cmdkit.StatusUsage, cmdkit.UsageErrorf("unknown service manager %q: use %s", name, strings.Join(names, ", "))
}
