package worker

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/templates"
)

// NewWorkerCommand returns the command for authors of workers: it checks a worker, or creates one
// from a template.
func NewWorkerCommand(f *flag.FlagSet) cmdkit.Action {
	var c workerCheck
	f.StringVar(&c.dialect, "dialect", "", "`"+languages.Choices()+"|FILE` the code for the checks: that of a language, or a JSON file; checks without code are skipped")
	f.DurationVar(&c.timeout, "timeout", 10*time.Second, "`DURATION` time limit for each answer")
	c.log.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		what := f.Arg(0)
		if what == "check" || what == "new" {
			if err := cmdkit.ParseFlags(f, f.Args()[1:]); err != nil {
				return cmdkit.StatusUsage, err
			}
		}
		switch what {
		case "check":
			return c.runChecks(s, f.Args())
		case "new":
			return writeWorkerTemplate(s, f.Args())
		}
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("use repl worker check COMMAND [ARG ...], or repl worker new %s DIR", strings.Join(templates.Names(), "|"))
	}
}

// writeWorkerTemplate writes a worker as a starting point.
func writeWorkerTemplate(s cmdkit.Streams, args []string) (int, error) {
	if len(args) != 2 {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("worker new needs one of %s, and a directory", strings.Join(templates.Names(), ", "))
	}
	next, err := templates.Write(args[0], args[1])
	if err != nil {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("worker new: %s", strings.TrimPrefix(err.Error(), "templates: "))
	}
	_, err = fmt.Fprint(s.Out, next)
	return cmdkit.StatusDone, err
}

// A workerCheck holds the options of repl worker check.
type workerCheck struct {
	dialect string
	timeout time.Duration
	log     cmdflags.LogFlags
}

// loadDialect returns the dialect of a language, or reads it from a file.
func (c *workerCheck) loadDialect() (conformance.Dialect, error) {
	if c.dialect == "" {
		return conformance.Dialect{}, nil
	}
	l, err := languages.Find(c.dialect)
	if err == nil {
		return l.Dialect()
	}
	if _, missing := os.Stat(c.dialect); missing != nil {
		return conformance.Dialect{}, cmdkit.UsageErrorf("--dialect %s: no such file, and %v", c.dialect, err)
	}
	d, err := languages.ReadDialect(c.dialect)
	if err != nil {
		return d, cmdkit.UsageErrorf("--dialect %v", err)
	}
	return d, nil
}

// runChecks checks a worker and prints the result of each check.
func (c *workerCheck) runChecks(s cmdkit.Streams, command []string) (int, error) {
	if len(command) == 0 {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("worker check needs the command of a worker")
	}
	log, err := c.log.OpenLogger(nil)
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	dialect, err := c.loadDialect()
	if err != nil {
		return cmdkit.StatusUsage, err
	}
	path, err := languages.FindProgram(command[0])
	if err != nil {
		return cmdkit.StatusUsage, cmdkit.UsageErrorf("cannot run %s: %v", command[0], err)
	}
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	spec := workers.Spec{Name: filepath.Base(path), Path: path, Args: command[1:]}
	passed, failed := c.printResults(ctx, s, spec, conformance.Options{Timeout: c.timeout, Logger: log, Dialect: dialect})
	if status, ok := cmdkit.SignalStatus(ctx); ok {
		return status, nil
	}
	if failed > 0 || passed == 0 {
		return cmdkit.StatusFailed, nil
	}
	return cmdkit.StatusDone, nil
}

// printResults prints how many checks passed, failed and were skipped.
func (c *workerCheck) printResults(ctx context.Context, s cmdkit.Streams, spec workers.Spec, o conformance.Options) (passed, failed int) {
	skipped := 0
	for _, r := range conformance.Run(ctx, spec, &o) {
		switch {
		case r.Err != nil:
			failed++
			fmt.Fprintf(s.Out, "failed   %s\n         %s\n", r.Name, cmdkit.ErrorLine(r.Err))
		case r.Skipped != "":
			skipped++
			fmt.Fprintf(s.Out, "skipped  %s: %s\n", r.Name, r.Skipped)
		default:
			passed++
			fmt.Fprintf(s.Out, "passed   %s\n", r.Name)
		}
	}
	fmt.Fprintf(s.Out, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return passed, failed
}
