package cmdkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// A SignalError is the cause of a context that a signal cancelled.
type SignalError struct{ Number int }

// Error names the signal by its number.
func (e *SignalError) Error() string { return fmt.Sprintf("ended by signal %d", e.Number) }

// repeatedSignalInterval is how long further signals count as the first one. timeout(1) signals its
// child and then the child's process group, so the child gets the signal twice.
const repeatedSignalInterval = 500 * time.Millisecond

// CatchSignals returns a context that the first termination signal cancels, so that the program can
// clean up. A second signal, half a second later or more, has its default action, in case the
// program hangs. A signal that was ignored at the start stays ignored: nohup, and shells that run a
// program in the background, rely on that. A broken pipe becomes a write error, since its signal
// does not say which pipe it is. The caller must call stop, at least once.
func CatchSignals(also ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	NotifyUnlessIgnored(caught, append(also, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)...)
	unheard := make(chan os.Signal, 1)
	signal.Notify(unheard, syscall.SIGPIPE)
	over, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		handleSignals(over, caught, cancel, func() { signal.Stop(caught) })
	})
	return ctx, func() {
		cancel(nil)
		end()
		wg.Wait()
		signal.Stop(caught)
		signal.Stop(unheard)
	}
}

// handleSignals calls cancel at the first signal that is caught. It then drops signals for
// repeatedSignalInterval, and stops catching them. It returns early when the program is over.
func handleSignals(over context.Context, caught <-chan os.Signal, cancel context.CancelCauseFunc, stopCatching func()) {
	select {
	case s := <-caught:
		number, _ := s.(syscall.Signal)
		cancel(&SignalError{Number: int(number)})
	case <-over.Done():
		return
	}
	interval := time.NewTimer(repeatedSignalInterval)
	defer interval.Stop()
	for {
		select {
		case <-caught:
		case <-interval.C:
			stopCatching()
			return
		case <-over.Done():
			return
		}
	}
}

// NotifyUnlessIgnored sends signals to caught, except those that the parent of the program has
// ignored.
func NotifyUnlessIgnored(caught chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		// The runtime tracks this only for SIGINT and SIGHUP. A shell without job control lets
		// background jobs ignore SIGQUIT together with SIGINT (POSIX, 2.11).
		tracked := s
		if s == syscall.SIGQUIT {
			tracked = os.Interrupt
		}
		if !signal.Ignored(tracked) {
			signal.Notify(caught, s)
			continue
		}
		signal.Ignore(s)
	}
}

// SignalStatus returns the exit status if a signal has ended ctx, which comes from CatchSignals.
func SignalStatus(ctx context.Context) (status int, ended bool) {
	var e *SignalError
	if errors.As(context.Cause(ctx), &e) {
		return 128 + e.Number, true // the status by which a shell reports a signal
	}
	return 0, false
}
