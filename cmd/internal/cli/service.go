package cli

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

	"github.com/turnstone-repl/turnstone/cmd/internal/install"
	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
	"github.com/turnstone-repl/turnstone/cmd/internal/osservice"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// serviceIdleTimeout is how long a daemon that its clients start stays without use. It is long,
// because the sessions end with it.
const serviceIdleTimeout = 24 * time.Hour

// newServiceCommand lets a service manager start repl serve.
func newServiceCommand(f *flag.FlagSet) action {
	socket := f.String("socket", "", "`PATH` the daemon's socket, if not the default one")
	idleExit := f.Duration("daemon-idle-timeout", serviceIdleTimeout, "`DURATION` the daemon exits after this time without use; 0 is never")
	dryRun := f.Bool("dry-run", false, "only print the steps")
	return func(s streams, args []string) (int, error) {
		words, err := parseInterspersed(f, args)
		if err != nil {
			return statusUsage, err
		}
		if len(words) == 0 || !slices.Contains([]string{"print", "install", "uninstall"}, words[0]) {
			return statusUsage, usageErrorf("service needs one of install, uninstall, print")
		}
		if len(words) > 2 || len(words) == 2 && words[0] != "print" {
			return statusUsage, usageErrorf("service %s takes no argument %q", words[0], words[len(words)-1])
		}
		if *idleExit < 0 || *idleExit > 0 && *idleExit < time.Second {
			return statusUsage, usageErrorf("--daemon-idle-timeout %s: use at least 1s, or 0 for never", *idleExit)
		}
		o := osservice.Options{IdleTimeout: *idleExit, Path: os.Getenv("PATH"), State: userdirs.State(os.Getenv, "")}
		if *socket != "" {
			if o.Socket, err = filepath.Abs(*socket); err != nil {
				return statusFailed, err
			}
		}
		start, err := install.SelfCommand(os.Args[0])
		if err != nil {
			return statusFailed, err
		}
		if o.Executable = start[0]; len(start) > 1 && words[0] == "install" {
			return statusFailed, fmt.Errorf("this program is in the cache of %s, which may be cleared; install it (uv tool install %[2]s, or npm install -g %[2]s), and run service install from there", start[0], installsource.Package)
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return statusFailed, err
		}
		dirs := osservice.UserDirs{Home: home, UID: os.Getuid(), Config: userdirs.Config(os.Getenv, "")}
		if len(words) == 2 {
			return printService(s, words[1], dirs, o)
		}
		manager, err := osservice.FindManager()
		if err != nil {
			return statusFailed, err
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
			return statusFailed, err
		}
		if len(steps) == 0 {
			fmt.Fprintln(s.err, "repl: no service is installed")
			return statusDone, nil
		}
		status, err := runSteps(s, steps, *dryRun)
		if words[0] == "install" {
			if on, known := lingerState(context.Background(), strconv.Itoa(dirs.UID)); known && !on {
				fmt.Fprintf(s.err, "repl: %s\n", noLingerHint)
			}
		}
		return status, err
	}
}

// runSteps runs the steps, or only prints them. After a failed command it runs no other command,
// but still writes and removes files, which helps if the manager is just not reachable here.
func runSteps(s streams, steps []osservice.Step, dryRun bool) (int, error) {
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	var failures []error
	for _, step := range steps {
		if step.Run != nil && len(failures) > 0 {
			fmt.Fprintln(s.out, "not done:", step)
			continue
		}
		fmt.Fprintln(s.out, step)
		if dryRun {
			if step.Write != nil {
				fmt.Fprintln(s.out, "    "+strings.ReplaceAll(strings.TrimSpace(step.Write.Content), "\n", "\n    "))
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
	if status, ok := signalStatus(ctx); ok {
		return status, nil
	}
	return statusDone, errors.Join(failures...)
}

// printService prints the files for a service manager.
func printService(s streams, name string, p osservice.UserDirs, o osservice.Options) (int, error) {
	var names []string
	for _, m := range osservice.Managers() {
		if m.Name != name {
			names = append(names, m.Name)
			continue
		}
		files, err := m.Files(p, o)
		if err != nil {
			return statusFailed, err
		}
		for _, f := range files {
			fmt.Fprintf(s.out, "==> %s\n%s", f.Path, f.Content)
		}
		if m.Note != "" {
			fmt.Fprintf(s.err, "repl: %s\n", m.Note)
		}
		return statusDone, nil
	}
	return statusUsage, usageErrorf("unknown service manager %q: use %s", name, strings.Join(names, ", "))
}
