package remote

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/remote/bridge"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// The values of repl bridge --start.
const (
	startAuto  = "auto"
	startNever = "never"
)

// minAliveTimeout is the smallest value of --silence-timeout.
const minAliveTimeout = time.Second

// NewBridgeCommand returns the command that connects standard input and output to the daemon of this
// machine. --via and --remote run it at the remote end.
func NewBridgeCommand(f *flag.FlagSet) cmdkit.Action {
	socket := f.String("socket", "", cmdkit.SocketUsage)
	start := f.String("start", startAuto, "`auto|never` start a daemon if none answers; it exits after "+text.DurationWords(daemonlink.DaemonIdleTimeout)+" without use")
	login := f.Bool("login-env", false, "start the daemon with the environment of a login")
	alive := f.Duration("silence-timeout", 0, "`DURATION` exit when nothing arrives for this long; 0 means never")
	nonce := f.String("nonce", "", "`WORD` a random word for the greeting")
	return func(s cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if err := cmdkit.RequireNoArgs(f); err != nil {
			return cmdkit.StatusUsage, err
		}
		switch {
		case *start != startAuto && *start != startNever:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--start %s: use auto or never", *start)
		case *alive != 0 && *alive < minAliveTimeout:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--silence-timeout %s: use at least %s, or 0 for never", *alive, minAliveTimeout)
		case term.IsTerminal(int(s.In.Fd())) || term.IsTerminal(int(os.Stdout.Fd())):
			return cmdkit.StatusUsage, errors.New("bridge serves a program at the other end, but has a terminal here; the command that leads here must not allocate one (ssh -T, docker exec -i without -t, kubectl exec -i without -t)")
		}
		o := bridge.Options{Dialer: client.Socket(*socket), SocketPath: func() string { return *socket }, Nonce: *nonce, SilenceTimeout: *alive}
		if *socket == "" {
			o.Dialer, o.SocketPath = client.DefaultDialer(os.Getenv), func() string { return client.DefaultSocket(os.Getenv) }
		}
		if *start == startAuto {
			o.StartDaemon = func(ctx context.Context) error {
				if err := refuseInSlurmStep(os.Getenv); err != nil {
					return err
				}
				if *login {
					return restartInLoginShell(args)
				}
				return daemonlink.EnsureDaemon(ctx, cmp.Or(*socket, persistentSocket(os.Getenv)), s.Err)
			}
		}
		ctx, stop := cmdkit.CatchSignals(os.Interrupt)
		defer stop()
		err := bridge.Run(ctx, o, s.In, s.Out)
		switch {
		case err == nil:
			return cmdkit.StatusDone, nil
		case session.KindOf(err) == session.KindUnreachable:
			return cmdkit.StatusUnreachable, err
		}
		return cmdkit.StatusFailed, err
	}
}

// refuseInSlurmStep refuses to start a daemon in a step of a Slurm job: it would end with the step,
// or outlive the job and escape its limits. A job that needs a daemon runs repl serve itself.
func refuseInSlurmStep(getenv func(string) string) error {
	job, node := getenv("SLURM_JOB_ID"), getenv("SLURMD_NODENAME")
	if job == "" || node == "" {
		return nil
	}
	return fmt.Errorf("this is a step of a Slurm job: a daemon would end with the step, or outlive the job and its limits; let job %s on %s itself run repl serve --socket PATH, and name that socket", job, node)
}
