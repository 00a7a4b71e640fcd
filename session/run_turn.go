package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// firstWait is how long the start of a turn waits for its end. A short turn then needs one call
	// and no subscription.
	firstWait = 50 * time.Millisecond

	// longCode is the size, in bytes, from which code may take longer than firstWait to be sent.
	longCode = 64 << 10

	// startSettleTimeout is how long a start over a connection may continue after the end of its
	// context. If such a call were cancelled at once, nobody would know whether its turn had started.
	startSettleTimeout = time.Second
)

// A codeRun is one call of Run. Its fields belong to the goroutine of that call.
type codeRun struct {
	session Session
	options RunOptions
	cursor  timeline.Seq  // everything up to it has been read
	failure error         // of a writer or of RunOptions.Answer
	timer   *time.Timer   // interrupts the code; nil until it is needed
	elapsed time.Duration // how long the turn had run when its start was read
	isOver  bool          // the turn was over when its start was read
	resultCollector
	turnStopper
}

func (r *codeRun) run(ctx context.Context, code string) (*Result, error) {
	defer r.open(ctx, r.session, r.options.Grace)()
	reply, err := r.start(ctx, code)
	if r.turn == 0 {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // a writer or a function of the caller has panicked
			r.interrupt(errPanicked)
			r.awaitInterrupts()
		}
	}()
	stopWatching := context.AfterFunc(ctx, func() { r.interrupt(ctx.Err()) })
	defer stopWatching()
	err = r.follow(reply, err)
	returned = true
	if r.timer != nil {
		r.timer.Stop()
	}
	reason, interrupted := r.finish()
	interrupted = interrupted || r.interruptRecorded || r.result.Outcome == timeline.OutcomeInterrupted // the answer to the interrupt may be lost
	r.complete(r.turn, interrupted && reason == errTimedOut)
	switch {
	case err != nil && context.Cause(r.reading) == errStillRunning:
		err = &Error{Kind: KindStillRunning, Turn: r.turn, Message: stillRunningText(r.turn)}
		if reason != errTimedOut {
			err.(*Error).Cause = reason
		}
	case err != nil:
	case r.failure != nil:
		err = r.failure
	case interrupted && reason == ctx.Err():
		err = reason
	}
	return &r.result, err
}

// start starts the turn and waits for it briefly. If it returns an error and the turn is known, the
// turn has started, but its events are not known.
func (r *codeRun) start(ctx context.Context, code string) (Reply, error) {
	pending, err := newTurn(r.session, code, r.options.Queue)
	if err != nil {
		return Reply{}, err
	}
	starting := ctx
	if _, overConnection := r.session.(TurnStarter); overConnection && !r.options.Queue {
		var stop context.CancelFunc
		starting, stop = context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(startSettleTimeout, stop) })()
	}
	wait := WaitOptions{Timeout: firstWait}
	if r.options.Timeout > 0 {
		wait.Timeout = min(wait.Timeout, r.options.Timeout)
	}
	if r.options.areLive() || len(code) > longCode {
		wait = WaitOptions{Poll: true}
	}
	reply, err := pending.Wait(starting, &wait)
	if KindOf(err) == KindUnreachable && !wait.Poll { // an outage may be longer than the first wait
		reply, err = pending.Wait(starting, &WaitOptions{Poll: true})
	}
	r.turn = pending.Turn()
	switch {
	case r.turn == 0 && err == nil:
		err = errAnsweredStart
	case r.turn == 0 && starting.Err() != nil && ctx.Err() != nil:
		err = ctx.Err()
	}
	return reply, err
}

// errAnsweredStart is the error for an input that became an answer to a prompt of the start-up.
var errAnsweredStart = Errorf(KindStale, "the input was not run: it answered a prompt of the start-up")

// follow reads the events of the turn up to its end: first those of the reply to its start, unless
// startErr says that there is none.
func (r *codeRun) follow(reply Reply, startErr error) error {
	if startErr != nil {
		before, err := waitForTurnStart(r.reading, r.session, r.turn)
		if err != nil {
			return err
		}
		r.cursor = before
	} else if over, err := r.addReply(reply); over || err != nil {
		return err
	}
	for e, err := range r.session.Events(r.reading, r.cursor) {
		switch {
		case err != nil && r.awaitsExit: // the session was closed with its worker
			return nil
		case err != nil:
			return err
		case r.add(e):
			return nil
		case r.mayNeverStart(e):
			if over, err := r.checkNotRun(); over || err != nil {
				return err
			}
		}
	}
	return ErrClosed // unreachable: the events end with an error
}

// addReply adds the events of a reply up to the first that the reply lacks or has cut, and reports
// whether the turn is over.
func (r *codeRun) addReply(reply Reply) (over bool, err error) {
	r.isOver, r.elapsed = reply.Outcome != "", reply.Elapsed
	r.cursor = reply.Next
	for _, e := range reply.Events {
		switch gone := e.Body.(type) {
		case timeline.Omitted:
			r.cursor = min(r.cursor, gone.From-1)
		case timeline.Gap:
			r.cursor = min(r.cursor, gone.From-1)
		}
	}
	for _, e := range reply.Events {
		if e.Seq <= r.cursor && r.add(e) {
			return true, nil
		}
	}
	r.elapsed = 0
	if !r.started && r.cursor == reply.Next { // the reply may have the notice that the turn will not start
		return r.checkNotRun()
	}
	return false, nil
}

// startTimer starts the time limit when the turn has started, unless it is known to be over.
func (r *codeRun) startTimer() {
	if r.options.Timeout > 0 && !r.isOver {
		r.timer = time.AfterFunc(r.options.Timeout-r.elapsed, func() { r.interrupt(errTimedOut) })
	}
}

// mayNeverStart reports whether an event may mean that the turn will never start.
func (r *codeRun) mayNeverStart(e timeline.Event) bool {
	if r.started {
		return false
	}
	switch e.Body.(type) {
	case timeline.WorkerExited, timeline.Gap, timeline.Notice: // the notice may be of an interrupt
		return true
	}
	return false
}

// checkNotRun asks whether the turn has ended without having started.
func (r *codeRun) checkNotRun() (over bool, err error) {
	reply, err := r.session.Wait(r.reading, r.turn, &WaitOptions{Poll: true, HeadBytes: 1, TailBytes: 1})
	switch {
	case err != nil:
		return false, err
	case reply.Turn != r.turn:
		return true, errAnsweredStart
	case reply.Outcome == "":
		return false, nil
	}
	if _, err = cursorBeforeTurn(r.reading, r.session, r.turn); !errors.Is(err, ErrStale) {
		return false, err // it has events, which are still to come
	}
	r.endTurn(timeline.TurnEnded{Outcome: reply.Outcome, Message: r.exitReason})
	return true, nil
}

// add adds an event, calls the functions of the caller for it, and reports whether the turn is over.
func (r *codeRun) add(e timeline.Event) (over bool) {
	if !r.wants(e) {
		return false
	}
	if r.options.OnEvent != nil {
		r.options.OnEvent(e)
	}
	switch b := e.Body.(type) {
	case timeline.TurnStarted:
		r.started = true
		r.startTimer()
	case timeline.Text:
		if e.Turn != r.turn {
			r.startText.add(b.Data, maxStartText)
			break
		}
		r.write(b)
		r.addText(b)
	case timeline.Display:
		b = r.fetchOmitted(b)
		if r.options.OnDisplay != nil {
			r.options.OnDisplay(b)
		}
		r.addDisplay(b)
	case timeline.Interrupt:
		r.interruptRecorded = true
	case timeline.InputRequested:
		r.answer(e, b)
	case timeline.TurnEnded:
		r.endTurn(b)
		return !r.awaitsExit
	case timeline.WorkerExited:
		r.addExit(b)
		return r.awaitsExit
	default:
		r.addOther(e)
	}
	return false
}

// wants reports whether an event belongs to the turn or, before it, to the start of its worker.
func (r *codeRun) wants(e timeline.Event) bool {
	switch e.Body.(type) {
	case timeline.Gap:
		return true
	case timeline.Notice, timeline.AccessDenied, timeline.AccessGranted, timeline.Limit, timeline.WorkerExited:
		return e.Turn == r.turn || !r.started
	case timeline.Text:
		if e.Turn == 0 {
			return !r.started && !e.BetweenTurns
		}
	}
	return e.Turn == r.turn && !e.BetweenTurns
}

// write passes text on to the caller's writer as it arrives.
func (r *codeRun) write(b timeline.Text) {
	w := r.options.Stdout
	if b.Stream == timeline.Stderr {
		w = r.options.Stderr
	}
	if w == nil || b.Kind != "" || r.failure != nil {
		return
	}
	n, err := w.Write(b.Data)
	if err == nil && n < len(b.Data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		r.fail(err)
	}
}

// answer answers a request for input, unless it is the user's or the code is to end. Otherwise an
// answer could make the next interrupt a first one again, which code can catch.
func (r *codeRun) answer(e timeline.Event, b timeline.InputRequested) {
	if !b.Kind.WantsLine() || r.answering.Err() != nil {
		return
	}
	in := Input{EOF: true}
	if r.options.Answer != nil {
		var err error
		in, err = r.options.Answer(r.answering, InputRequest{
			ID: e.Seq, Turn: e.Turn, Prompt: b.Prompt, Kind: b.Kind, Secret: b.Kind == timeline.InputKindSecret,
			Terminal: b.Terminal, Reader: b.Reader, Raw: b.Raw, Polls: b.Polls,
		})
		if r.answering.Err() != nil {
			return
		}
		if err != nil {
			r.fail(err)
			return
		}
	}
	if _, err := r.session.Answer(r.answering, e.Seq, in); err != nil && !errors.Is(err, ErrStale) && r.answering.Err() == nil {
		r.fail(err)
	}
}

// fail ends the code because of an error of the caller.
func (r *codeRun) fail(err error) {
	if r.failure == nil {
		r.failure = err
	}
	r.interrupt(err)
}

// fetchOmitted returns a display with the data that its event left out, if the Result or the caller
// takes it. Data that the session has dropped stays left out.
func (r *codeRun) fetchOmitted(d timeline.Display) timeline.Display {
	if len(d.Omitted) == 0 || r.options.OnDisplay == nil && !r.hasRoom(d) {
		return d
	}
	data, left := make(map[string][]byte, len(d.Data)+len(d.Omitted)), make(map[string]timeline.Blob)
	for mime, b := range d.Data {
		data[mime] = b
	}
	for mime, blob := range d.Omitted {
		b, err := ReadBlob(r.reading, r.session, blob)
		if err != nil {
			left[mime] = blob
			continue
		}
		data[mime] = b
	}
	d.Data, d.Omitted = data, nil
	if len(left) > 0 {
		d.Omitted = left
	}
	return d
}
