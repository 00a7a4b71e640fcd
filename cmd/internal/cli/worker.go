package cli

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// worker helps people who write a worker.
func worker(f *flag.FlagSet) action {
	dialect := f.String("dialect", "", "`"+languageChoices()+"` the language of the worker; without it, checks that need one are skipped")
	timeout := f.Duration("timeout", 10*time.Second, "`DURATION` the time for each answer")
	var notes logChoice
	notes.define(f)
	return func(s streams, args []string) (int, error) {
		if err := parse(f, args); err != nil {
			return statusUsage, err
		}
		if f.Arg(0) != "check" {
			return statusUsage, misuse("use repl worker check COMMAND [ARG ...]")
		}
		if err := parse(f, f.Args()[1:]); err != nil {
			return statusUsage, err
		}
		if f.NArg() == 0 {
			return statusUsage, misuse("worker check needs the command of a worker")
		}
		log, err := notes.logger(nil)
		if err != nil {
			return statusUsage, err
		}
		o := conformance.Options{Timeout: *timeout, Logger: log}
		if *dialect != "" {
			l, err := languageNamed(*dialect)
			if err != nil {
				return statusUsage, err
			}
			o.Dialect = l.dialect
		}
		path, err := exec.LookPath(f.Arg(0))
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return statusUsage, misuse("cannot run %s: %v", f.Arg(0), err)
		}
		ctx, stop := catchSignals(os.Interrupt)
		defer stop()
		spec := workers.Spec{Name: filepath.Base(path), Path: path, Args: f.Args()[1:]}
		results := conformance.Run(ctx, spec, &o)
		kept, skipped := 0, 0
		for _, r := range results {
			switch {
			case r.Err != nil:
				fmt.Fprintf(s.out, "broken   %s\n         %s\n", r.Name, oneLine(r.Err))
			case r.Skipped != "":
				skipped++
				fmt.Fprintf(s.out, "skipped  %s: %s\n", r.Name, r.Skipped)
			default:
				kept++
				fmt.Fprintf(s.out, "kept     %s\n", r.Name)
			}
		}
		broken := len(results) - kept - skipped
		fmt.Fprintf(s.out, "%d kept, %d broken, %d skipped\n", kept, broken, skipped)
		if status, ok := statusOf(ctx); ok {
			return status, nil
		}
		if broken > 0 || kept == 0 {
			return statusFailed, nil
		}
		return statusDone, nil
	}

}
