package run

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/workers"
)

// runProcess runs a program that does not need a session. It runs the runtime in place of this
// program, so the code behaves as if the runtime had been started directly.
func runProcess(s cmdkit.Streams, lang languages.Language, spec workers.Spec, log *slog.Logger, g *programFlags) (int, error) {
	if spec.Notice != "" {
		fmt.Fprintf(s.Err, "repl: %s\n", spec.Notice)
	}
	spec, status, err := prepareSpec(s, spec)
	if err != nil || status != cmdkit.StatusDone {
		return status, err
	}
	option, text, args := g.invocationArgs()
	if option == "" && text != languages.StandardInput && spec.Dir != "" { // a file is named relative to the current directory
		if text, err = filepath.Abs(text); err != nil {
			return cmdkit.StatusFailed, err
		}
	}
	if err := enterSpec(spec); err != nil {
		return cmdkit.StatusFailed, err
	}
	log.Info("program started", "path", spec.Path)
	status, err = cmdkit.ExecProgram(s, spec.Path, lang.ProcessArgs(option, text, args))
	if err != nil {
		err = fmt.Errorf("cannot start %s: %w", spec.Path, err)
	}
	return status, err
}

// prepareSpec runs the preparations of a spec and shows their progress. After a signal it returns a
// status.
func prepareSpec(s cmdkit.Streams, spec workers.Spec) (workers.Spec, int, error) {
	if len(spec.Preparations) == 0 {
		return spec, cmdkit.StatusDone, nil
	}
	ctx, stop := cmdkit.CatchSignals(os.Interrupt)
	defer stop()
	b := cmdkit.NewProgressBar(s.Err)
	defer b.Close()
	title := "preparing " + spec.Preparations[0].Name
	made, err := spec.RunPreparations(ctx, func(p workers.PreparationProgress) { b.SetProgress(title, p.Done, p.Total, p.Message) })
	if status, signalled := cmdkit.SignalStatus(ctx); signalled {
		return made, status, nil
	}
	return made, cmdkit.StatusDone, err
}

// enterSpec applies the directory and the environment of a spec to this process.
func enterSpec(spec workers.Spec) error {
	for _, change := range spec.Env {
		name, value, set := strings.Cut(change, "=")
		err := os.Unsetenv(name)
		if set {
			err = os.Setenv(name, value)
		}
		if err != nil {
			return fmt.Errorf("the variable %s: %w", name, err)
		}
	}
	if spec.Dir == "" {
		return nil
	}
	return os.Chdir(spec.Dir)
}
