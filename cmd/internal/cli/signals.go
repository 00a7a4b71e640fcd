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

// catchSignals returns a context that ends with the signals that ask a program
// to end, so that it can clean up. Only the first does: a second one has its
// default action, which also ends a program that fails to. One that was ignored when
// the program began stays so: that is how nohup, and a shell that runs something in
// the background, keep it from it. A broken pipe becomes an error of the write,
// since its signal does not tell which pipe it is. The caller calls stop.
func catchSignals(also ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	heed(caught, append(also, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)...)
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case s := <-caught:
			number, _ := s.(syscall.Signal)
			signal.Stop(caught) // before anybody can see that one came
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

// heed has signals sent to caught, but for those that whoever started the program has
// it ignore.
func heed(caught chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		// The runtime tells of SIGINT and SIGHUP only. A shell without job control has
		// its background jobs ignore SIGQUIT and SIGINT together (POSIX, 2.11).
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

// statusOf returns the exit status after ctx, of catchSignals, was ended by a signal.
func statusOf(ctx context.Context) (status int, ended bool) {
	var e *signalError
	if errors.As(context.Cause(ctx), &e) {
		return 128 + e.number, true // what a shell reports
	}
	return 0, false
}

// signalNumbers are those that a worker can be ended by, as they are called in
// death reports.
var signalNumbers = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT,
	"SIGILL": syscall.SIGILL, "SIGTRAP": syscall.SIGTRAP, "SIGABRT": syscall.SIGABRT,
	"SIGBUS": syscall.SIGBUS, "SIGFPE": syscall.SIGFPE, "SIGKILL": syscall.SIGKILL,
	"SIGSEGV": syscall.SIGSEGV, "SIGPIPE": syscall.SIGPIPE, "SIGALRM": syscall.SIGALRM,
	"SIGTERM": syscall.SIGTERM,
}

// exitStatus returns a worker's end as the status of a program: what it exited with,
// or 128 and the signal that ended it.
func exitStatus(end timeline.GenerationEnded) int {
	if number, ok := signalNumbers[end.Signal]; ok {
		return 128 + int(number)
	}
	if end.Signal != "" || end.Code < 0 {
		return statusFailed
	}
	return end.Code & 0xff
}
