package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxRunInterrupts bounds the interrupts of one turn. The second one has level 2, which code cannot
// catch.
const maxRunInterrupts = 2

// interruptCallTimeout bounds one call of Interrupt, which takes about a second if the code goes on.
const interruptCallTimeout = 10 * time.Second

// Why a turn is to end, or why it is no longer read.
var (
	errTimedOut     = errors.New("session: the time limit of a run")
	errPanicked     = errors.New("session: a function of the caller of Run has panicked")
	errRunOver      = errors.New("session: the run is over")
	errStillRunning = errors.New("session: the turn did not end")
)

func stillRunningText(turn uint64) string {
	return fmt.Sprintf("turn %d still runs after %d interrupts; reset the session to end it", turn, maxRunInterrupts)
}

// A turnStopper interrupts one turn until it is over. Any goroutine may call interrupt.
type turnStopper struct {
	target Runner
	turn   uint64        // set before the first interrupt
	grace  time.Duration // from one interrupt to the next

	reading     context.Context // ends with the run, or when the turn does not end
	stopReading context.CancelCauseFunc
	answering   context.Context // ends, too, when the turn is to end
	stopAnswers context.CancelFunc

	mu          sync.Mutex
	isFinished  bool          // guarded by mu; nothing is interrupted any more
	reason      error         // guarded by mu; why the turn is to end; nil while it may run
	interrupted bool          // guarded by mu; an interrupt has reached the turn
	stopped     chan struct{} // guarded by mu; closed when no more interrupts come; nil before the first
}

// open prepares the contexts, which have the values of ctx but not its end.
func (t *turnStopper) open(ctx context.Context, target Runner, grace time.Duration) (release func()) {
	t.target, t.grace = target, grace
	t.reading, t.stopReading = context.WithCancelCause(context.WithoutCancel(ctx))
	t.answering, t.stopAnswers = context.WithCancel(t.reading)
	return func() {
		t.stopAnswers()
		t.stopReading(errRunOver)
	}
}

// interrupt starts to interrupt the turn, for the first reason that is given. It does not block.
func (t *turnStopper) interrupt(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isFinished || t.reason != nil {
		return
	}
	t.reason, t.stopped = reason, make(chan struct{})
	t.stopAnswers()
	go func() {
		defer close(t.stopped)
		t.interruptUntilOver()
	}()
}

// interruptUntilOver interrupts the turn, and again after the grace. It gives up if the turn is then
// not over. An interrupt without effect takes a second, so the next one is of level 2.
func (t *turnStopper) interruptUntilOver() {
	for range maxRunInterrupts {
		next := time.Now().Add(t.grace)
		if t.interruptOnce() || t.awaitEnd(next) {
			return
		}
	}
	t.stopReading(errStillRunning)
}

// interruptOnce sends one interrupt, and reports whether the turn is over.
func (t *turnStopper) interruptOnce() (over bool) {
	ctx, stop := context.WithTimeout(t.reading, interruptCallTimeout)
	defer stop()
	result, err := t.target.Interrupt(ctx, t.turn)
	if err != nil || result == InterruptStale || result == InterruptNotRunning {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupted = true
	return result == InterruptIdle
}

// awaitEnd waits until the turn is over or nobody needs its end, which it reports, or until the next
// interrupt is due.
func (t *turnStopper) awaitEnd(next time.Time) (over bool) {
	o := WaitOptions{Timeout: time.Until(next), HeadBytes: 1, TailBytes: 1}
	o.Poll = o.Timeout <= 0
	if r, err := t.target.Wait(t.reading, t.turn, &o); err == nil && r.Outcome != "" {
		return true
	}
	timer := time.NewTimer(time.Until(next)) // the code asks for input again, or the call failed
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-t.reading.Done():
		return true
	}
}

// awaitInterrupts waits until no more interrupts come.
func (t *turnStopper) awaitInterrupts() {
	t.mu.Lock()
	stopped := t.stopped
	t.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// finish ends the interrupts and waits for them. It returns why the turn was to end, and whether an
// interrupt reached it.
func (t *turnStopper) finish() (reason error, interrupted bool) {
	t.mu.Lock()
	t.isFinished = true
	t.mu.Unlock()
	t.stopReading(errRunOver)
	t.awaitInterrupts()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reason, t.interrupted
}
