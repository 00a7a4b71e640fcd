package daemoncmd

import (
	"context"
	"errors"
	"flag"
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
	ctx, stop := cmdkit.CatchSignals()
	defer stop()
	// A Ctrl-C at the terminal of the parent is meant for the parent. It is caught, not ignored,
	// because workers would inherit that.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	out, ok := s.Out.(*os.File)
	if !ok {
		return cmdkit.StatusFailed, errors.New("--stdio needs files as standard streams")
	}
	conn, err := stdio.Open(s.In, out)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	defer conn.Close()
	parentEnded, err := stdio.WatchParent(o.stdio.parent)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	go func() {
		select {
		case <-conn.InputEnded():
			end(errInputEnded)
		case <-parentEnded:
			end(errParentEnded)
			_ = conn.Close() // nobody reads: a child of the parent may hold the other ends
		}
	}()
	context.AfterFunc(ctx, func() {
		time.AfterFunc(privateEndTimeout, func() { os.Exit(cmdkit.StatusFailed) })
	})
	log, err := o.openPrivateLogger(s)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	l := stdio.NewListener(conn)
	defer l.Close()
	return o.serveListener(ctx, s, l, log)
}

// openPrivateLogger opens the log of a private daemon: the chosen file, or else standard error,
// which belongs to the parent and gets only warnings.
func (o *serveOptions) openPrivateLogger(s cmdkit.Streams) (*slog.Logger, error) {
	if o.log.File != "" {
		return o.openLogger(s.Err)
	}
	level, err := cmdflags.ParseLogLevel(o.log.Level, slog.LevelWarn)
	if err != nil {
		return nil, err
	}
	return cmdflags.NewLogger(cmdflags.NewTextHandler(s.Err, level)), nil
}
