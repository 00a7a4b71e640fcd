package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// runProcess runs a program that needs nothing of a session. The program is the runtime's own
// process, and looks like that to a shell, a child and itself.
func runProcess(s streams, lang languageInfo, spec workers.Spec, log *slog.Logger, g *programFlags) (int, error) {
	if spec.Notice != "" {
		fmt.Fprintf(s.err, "repl: %s\n", spec.Notice)
	}
	spec, status, err := prepareSpec(s, spec)
	if err != nil || status != statusDone {
		return status, err
	}
	option, text, args := g.invocationArgs()
	if option == "" && text != standardInput && spec.Dir != "" { // a file is named relative to the current directory
		if text, err = filepath.Abs(text); err != nil {
			return statusFailed, err
		}
	}
	if err := enterSpec(spec); err != nil {
		return statusFailed, err
	}
	log.Info("program started", "path", spec.Path)
	status, err = execProgram(s, spec.Path, lang.processArgs(option, text, args))
	if err != nil {
		err = fmt.Errorf("cannot start %s: %w", spec.Path, err)
	}
	return status, err
}

// prepareSpec runs the preparations of a spec and shows their progress. After a signal it returns a
// status.
func prepareSpec(s streams, spec workers.Spec) (workers.Spec, int, error) {
	if len(spec.Preparations) == 0 {
		return spec, statusDone, nil
	}
	ctx, stop := catchSignals(os.Interrupt)
	defer stop()
	b := newProgressBar(s.err)
	defer b.close()
	title := "preparing " + spec.Preparations[0].Name
	made, err := spec.RunPreparations(ctx, func(p workers.PreparationProgress) { b.setProgress(title, p.Done, p.Total, p.Message) })
	if status, signalled := signalStatus(ctx); signalled {
		return made, status, nil
	}
	return made, statusDone, err
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
