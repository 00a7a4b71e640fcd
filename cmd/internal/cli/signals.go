package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A signalError is the cause of a context that a signal ended.
type signalError struct{ number int }

func (e *signalError) Error() string { return fmt.Sprintf("ended by signal %d", e.number) }

// catchSignals returns a context that ends with the first signal that asks a program to end,
// so that it can clean up. A second signal has its default action, in case the program
// hangs. A signal that was ignored when the program began stays ignored: nohup, and a shell
// that runs a program in the background, rely on that. A broken pipe becomes an error of
// the write, since its signal does not say which pipe it is. The caller must call stop.
func catchSignals(also ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	notifyUnlessIgnored(caught, append(also, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)...)
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-caught:
			number, _ := s.(syscall.Signal)
			signal.Stop(caught) // before the context shows that one came
			cancel(&signalError{int(number)})
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
		signal.Stop(caught)
		signal.Stop(unheard)
	}
}

// notifyUnlessIgnored has signals sent to caught, except those that the parent of the program ignores for
// it.
func notifyUnlessIgnored(caught chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		// The runtime shows this only for SIGINT and SIGHUP. A shell without job control
		// lets background jobs ignore SIGQUIT together with SIGINT (POSIX, 2.11).
		told := s
		if s == syscall.SIGQUIT {
			told = os.Interrupt
		}
		if !signal.Ignored(told) {
			signal.Notify(caught, s)
			continue
		}
		signal.Ignore(s)
	}
}

// signalStatus returns the exit status after ctx, of catchSignals, was ended by a signal.
func signalStatus(ctx context.Context) (status int, ended bool) {
	var e *signalError
	if errors.As(context.Cause(ctx), &e) {
		return 128 + e.number, true // as a shell reports it
	}
	return 0, false
}

// signalNumbers has the signals that can end a worker, by their names in death reports.
var signalNumbers = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT,
	"SIGILL": syscall.SIGILL, "SIGTRAP": syscall.SIGTRAP, "SIGABRT": syscall.SIGABRT,
	"SIGBUS": syscall.SIGBUS, "SIGFPE": syscall.SIGFPE, "SIGKILL": syscall.SIGKILL,
	"SIGSEGV": syscall.SIGSEGV, "SIGPIPE": syscall.SIGPIPE, "SIGALRM": syscall.SIGALRM,
	"SIGTERM": syscall.SIGTERM,
}

// exitStatus returns a worker's end as the exit status of a program: its own, or 128 plus the
// signal that ended it.
func exitStatus(end timeline.WorkerExited) int { return exitStatusOf(end, exitStatusMask) }

// exitStatusOf is exitStatus where a status has the bits of mask.
func exitStatusOf(end timeline.WorkerExited, mask int) int {
	if number, ok := signalNumbers[end.Signal]; ok {
		return 128 + int(number)
	}
	if end.Signal != "" || end.ExitCode < 0 {
		return statusFailed
	}
	return end.ExitCode & mask
}
