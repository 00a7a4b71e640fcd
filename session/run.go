package session

import (
	"context"
	"io"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// DefaultRunBytes is the default of RunOptions.MaxText, in bytes.
	DefaultRunBytes = 32 << 20

	// DefaultGrace is the default of RunOptions.Grace.
	DefaultGrace = 5 * time.Second
)

// RunOptions hold the time limit, the bounds and the functions of one [Run]. The zero value sets no time limit, collects up to
// DefaultRunBytes, and refuses code while the session is busy.
//
// The writers and functions are called one at a time, in the goroutine that called Run. While one of
// them blocks, the code continues and Timeout still interrupts it, but Run does not return. Output
// that the session drops in the meantime is counted in Result.LeftOut. A panic in one of them ends
// the turn, as the end of ctx does, and then continues in the caller of Run.
type RunOptions struct {
	// Timeout interrupts the code once it has run for this long. It includes waits for input, but
	// not the start of a worker or a wait in the queue, which only ctx bounds. 0 means no limit.
	Timeout time.Duration

	// Grace is how long the code may take to end after an interrupt. A stronger one follows then:
	// Python raises an exception that only code for every exception catches. After another Grace,
	// Run returns an error of KindStillRunning. 0 means DefaultGrace; less than a second has the
	// effect of a second.
	Grace time.Duration

	// MaxText bounds Result.Text, its Value, its traceback, and the data of its displays, in bytes
	// each. LeftOut counts the rest. 0 means DefaultRunBytes.
	MaxText int

	// Queue waits while the session is busy, in the order of arrival; see [TurnQueuer]. Without it,
	// Run refuses the code with ErrBusy or ErrWaiting.
	Queue bool

	// Stdout and Stderr get text as it arrives, without a bound. They do not get the echoes of
	// values and the traceback, which are in the Result. If a write fails, the code is interrupted,
	// and Run returns the error. nil discards the text.
	Stdout, Stderr io.Writer

	// OnDisplay gets each display as it arrives, with all of its data. It may be nil.
	OnDisplay func(timeline.Display)

	// OnEvent gets every event that Run reads: those of the turn, and before them those of the
	// worker's start. It may be nil.
	OnEvent func(timeline.Event)

	// Answer answers a request for input. Its context ends when the code is to end. If it returns
	// an error, the code is interrupted, and Run returns the error. Without Answer, the code reads
	// an end of file. On systems other than Linux, a program that reads the terminal itself is not
	// seen, and waits. Permissions and forms are left to the user; see InputRequest.NeedsUser.
	Answer func(context.Context, InputRequest) (Input, error)
}

// withDefaults returns the options with a value in each field that has a default.
func (o *RunOptions) withDefaults() (RunOptions, error) {
	var all RunOptions
	if o != nil {
		all = *o
	}
	if all.Timeout < 0 || all.Grace < 0 || all.MaxText < 0 {
		return all, Errorf(KindInvalid, "timeout %s, grace %s, max text %d: use 0 or more", all.Timeout, all.Grace, all.MaxText)
	}
	if all.Grace == 0 {
		all.Grace = DefaultGrace
	}
	if all.MaxText == 0 {
		all.MaxText = DefaultRunBytes
	}
	return all, nil
}

// areLive reports whether the caller wants to see events as they arrive.
func (o *RunOptions) areLive() bool {
	return o.Stdout != nil || o.Stderr != nil || o.OnDisplay != nil || o.OnEvent != nil
}

// Run runs code in a session and returns everything that became of it. An error of the code is data:
// it is in Result.Error. nil options are the zero value.
//
// When Run returns, its turn is over and the session is free. If ctx ends, or the code takes longer
// than RunOptions.Timeout, Run interrupts the code and waits for its end. It may be called from any
// goroutine, and from several at once with RunOptions.Queue.
//
// The Result is nil if the code was not started: then the error is that of Session.Submit, of
// KindQueueFull, or of ctx. If the code was started, there is a Result, and the error says what else
// happened:
//   - the error of ctx, if it ended first
//   - the error of a writer or of RunOptions.Answer
//   - an error of KindStillRunning, if two interrupts did not end the code: Session.Reset does
//   - an error of KindClosed, if the session was closed, or of KindStale, if the input was not run
//     because it answered a prompt of the worker's start-up
//   - an error of the connection to a daemon. The turn may then continue.
func Run(ctx context.Context, s Session, code string, opts *RunOptions) (*Result, error) {
	o, err := opts.withDefaults()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	r := &codeRun{session: s, options: o}
	r.limit = o.MaxText
	return r.run(ctx, code)
}

// A TurnQueuer is a Session in which inputs can wait for their turn. supervisor.Session and
// client.Session are.
type TurnQueuer interface {
	// SubmitQueued is like Session.Submit, but waits while the session is busy or asks for input.
	// Inputs that wait are started in the order of their arrival, over all callers. No other input
	// is accepted before them: Submit is refused with ErrBusy while one waits.
	//
	// At most MaxQueuedInputs wait: a further one is refused with an error of KindQueueFull. The end
	// of ctx takes the input out of the queue. Reset and Close refuse all that wait, because they
	// were written for variables that are gone, with an error of KindReset or KindClosed.
	SubmitQueued(ctx context.Context, code string) (turn uint64, err error)
}

// MaxQueuedInputs bounds the inputs that wait in one session; see TurnQueuer.
const MaxQueuedInputs = 64

// newTurn prepares the start of the turn of a Run.
func newTurn(s Session, code string, queue bool) (PendingTurn, error) {
	if !queue {
		return StartTurn(s, code, nil), nil
	}
	q, ok := s.(TurnQueuer)
	if !ok {
		return nil, Errorf(KindUnsupported, "session %q has no queue", s.Name())
	}
	return &twoStepTurn{s: s, start: func(ctx context.Context) (uint64, error) { return q.SubmitQueued(ctx, code) }}, nil
}
