package daemoncmd

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdflags"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/stdio"
)

// privateEndTimeout bounds how long a private daemon takes to close its sessions after the end of
// its client. The monitors of the sessions then end what is left.
const privateEndTimeout = 10 * time.Second

// finalLogTimeout bounds the writing of the last log lines to a standard error that may be full.
const finalLogTimeout = 200 * time.Millisecond

var (
	errInputEnded  = errors.New("the client closed its end")
	errParentEnded = errors.New("the parent ended")
)

// stdioFlags make repl serve a private daemon.
type stdioFlags struct {
	isOn   bool
	parent int
}

func (o *stdioFlags) addFlags(f *flag.FlagSet) {
	f.BoolVar(&o.isOn, "stdio", false, "serve only the program that starts it, on standard input and output, and end with it")
	f.IntVar(&o.parent, "parent", 0, "`PID` the process with which --stdio ends; default the one that starts repl")
}

// validate refuses flags that have no meaning for a private daemon.
func (o *stdioFlags) validate(f *flag.FlagSet) error {
	if !o.isOn {
		if cmdkit.IsFlagSet(f, "parent") {
			return cmdkit.UsageErrorf("--parent needs --stdio")
		}
		return nil
	}
	if cmdkit.IsFlagSet(f, "parent") && o.parent < 1 {
		return cmdkit.UsageErrorf("--parent %d: use the number of a process", o.parent)
	}
	for name, why := range map[string]string{
		"socket":              "it has no socket",
		"detach":              "it ends with the program that starts it",
		"daemon-idle-timeout": "it ends with the program that starts it",
	} {
		if cmdkit.IsFlagSet(f, name) {
			return cmdkit.UsageErrorf("--stdio excludes --%s: %s", name, why)
		}
	}
	return nil
}

// serveParent serves the program that started this one, on standard input and output.
func (o *serveOptions) serveParent(s cmdkit.Streams) (int, error) {
	out, ok := s.Out.(*os.File)
	if !ok {
		return cmdkit.StatusFailed, errors.New("--stdio needs files as standard streams")
	}
	ctx, stop := catchPrivateSignals(s.In)
	defer stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	context.AfterFunc(ctx, func() { // whatever still blocks, such as standard error
		time.AfterFunc(privateEndTimeout, func() { os.Exit(cmdkit.StatusFailed) })
	})
	stderr := stdio.NewLossyWriter(s.Err)
	defer stderr.Close(finalLogTimeout)
	s.Err = stderr
	log, err := o.openPrivateLogger(s.Err)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	parentEnded, err := stdio.WatchParent(o.stdio.parent)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	conn, err := stdio.Open(s.In, out)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	defer conn.Close()
	go func() {
		select {
		case <-conn.InputEnded():
			end(errInputEnded)
			<-parentEnded
		case <-parentEnded:
			end(errParentEnded)
		}
		_ = conn.Close() // nobody reads: a child of the parent may hold the other ends
	}()
	l := stdio.NewListener(conn)
	defer l.Close()
	return o.serveListener(ctx, s, l, log)
}

// catchPrivateSignals returns a context that a termination signal ends. A Ctrl-C at the terminal of
// the parent is for the parent alone, unless a person types into this daemon. It is caught and not
// ignored, because the workers would inherit that.
func catchPrivateSignals(in *os.File) (ctx context.Context, stop func()) {
	if cmdkit.IsTerminal(in) {
		return cmdkit.CatchSignals(os.Interrupt)
	}
	unheard := make(chan os.Signal, 1)
	cmdkit.NotifyUnlessIgnored(unheard, os.Interrupt)
	ctx, stopCatching := cmdkit.CatchSignals()
	return ctx, func() {
		stopCatching()
		signal.Stop(unheard)
	}
}

// openPrivateLogger opens the log of a private daemon: the chosen file, or else standard error,
// which belongs to the parent and gets only warnings.
func (o *serveOptions) openPrivateLogger(stderr io.Writer) (*slog.Logger, error) {
	if o.log.File != "" {
		return o.openLogger(stderr)
	}
	level, err := cmdflags.ParseLogLevel(o.log.Level, slog.LevelWarn)
	if err != nil {
		return nil, err
	}
	return cmdflags.NewLogger(cmdflags.NewTextHandler(stderr, level)), nil
}
