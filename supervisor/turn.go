package supervisor

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A Turn is one input and everything up to the worker's idle. It is made by
// Session.Submit and safe for concurrent use.
type Turn struct {
	s    *Session
	done chan struct{} // closed when the turn has ended

	// The rest is guarded by s.mu.
	id       uint64
	input    []byte // until it was sent
	lastLine string // of the input, for a death report
	author   string
	before   timeline.Seq // everything up to it came before the turn
	started  time.Time
	elapsed  time.Duration   // when ended
	outcome  string          // "" until ended
	bytes    int64           // of output
	joined   *Turn           // an input that was held and answered this turn instead of starting one
	took     []ipc.InputLine // the first and the last of its own lines that answered prompts, until it is told

	interrupts uint64 // the Seq of the last interrupt
	unacked    bool   // the worker has not seen that one yet
	escalate   bool   // the last interrupt did not end the turn
}

// ID is the turn's number. An input that was submitted while the session
// started, and that a start-up prompt consumed, belongs to turn 0.
func (t *Turn) ID() uint64 {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.id
}

// Done is closed when the turn has ended.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Input answers a wait.
type Input struct {
	Data   []byte // a reader of lines wants it to end in a newline
	EOF    bool   // one end of file after Data
	Author string // who answers; may be empty
}

// Answer answers the wait with this id. What a reader does not consume stays
// queued for later waits of the same turn. ErrStale means that the wait is over
// and nothing was consumed.
func (t *Turn) Answer(ctx context.Context, wait timeline.Seq, in Input) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.s.answer(t, wait, in)
}

// A Wait says that the active turn asks for standard input.
type Wait struct {
	ID       timeline.Seq
	Turn     uint64
	Prompt   string
	Kind     string // "line", "secret", "continue", "debugger"
	Secret   bool   // the answer must not be shown or logged
	Terminal bool   // a program reads the terminal; the runtime did not ask
	Reader   string // Terminal: that program's name
}

// WaitOptions say how far Wait goes.
type WaitOptions struct {
	// Until is how long to wait at most; 0 means that only ctx bounds it.
	Until time.Duration

	// Poll means not to wait at all.
	Poll bool

	// After is the caller's cursor: the reply holds the events after it. 0 means
	// from the turn's start for Turn.Wait, and from the session's for Session.Wait.
	After timeline.Seq

	// HeadBytes and TailBytes bound the text and images in the reply; what lies
	// between is one timeline.Elided. 0 means DefaultReplyBytes each.
	HeadBytes, TailBytes int
}

// DefaultReplyBytes is half of what a reply holds at most, in bytes.
const DefaultReplyBytes = 64 << 10

// Until waits at most d.
func Until(d time.Duration) *WaitOptions { return &WaitOptions{Until: d} }

// A Reply is what happened between a caller's cursor and now.
type Reply struct {
	Session     string
	Generation  uint64
	Turn        uint64
	State       State
	Outcome     string // of Turn: "ok", "error", "interrupted", "ended"; "" while it runs
	Wait        *Wait  // set when State is StateWaiting
	Prompt      string // what the runtime would show now
	Elapsed     time.Duration
	OutputBytes int64 // text that Turn has written so far

	Events []timeline.Event
	Next   timeline.Seq // the caller's new cursor
}

// Text renders the reply for a reader of text, as timeline.Render does.
func (r Reply) Text() string { return timeline.Render(r.Events, nil).Text() }

// Wait returns when the turn has ended, at once when it asks for input, and
// else at opts.Until or when ctx ends. Only the last is an error, ctx's own, and
// the reply is filled all the same. It never touches the turn.
func (t *Turn) Wait(ctx context.Context, opts *WaitOptions) (Reply, error) {
	return t.s.wait(ctx, t, opts)
}

// wait is Wait for one turn, or for whatever is active when t is nil.
func (s *Session) wait(ctx context.Context, t *Turn, opts *WaitOptions) (Reply, error) {
	var o WaitOptions
	if opts != nil {
		o = *opts
	}
	var timeout <-chan time.Time
	var err error
	if o.Until > 0 && !o.Poll {
		timer := time.NewTimer(o.Until)
		defer timer.Stop()
		timeout = timer.C
	}
	for over := o.Poll; ; {
		s.mu.Lock()
		if over || s.settledLocked(t) {
			r := s.replyLocked(t)
			if o.After == 0 && t != nil {
				o.After = t.before
			}
			s.mu.Unlock()
			s.fill(&r, o)
			return r, err
		}
		changed := s.changedLocked()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			over = true
		case <-ctx.Done():
			err = ctx.Err()
			over = true
		}
	}
}

// settledLocked reports whether there is nothing to wait for.
func (s *Session) settledLocked(t *Turn) bool {
	if t == nil {
		if s.state == StateStopping {
			return s.worker.stopping != "" // else it ends by itself, and how is what matters
		}
		return !s.state.active() || s.state == StateWaiting
	}
	return t.outcome != "" || s.state == StateWaiting && (s.turn == t || s.turn != nil && s.turn.joined == t)
}

func (s *Session) replyLocked(t *Turn) Reply {
	if t == nil {
		if t = s.turn; t == nil {
			t = s.previous
		}
	}
	r := Reply{
		Session:    s.name,
		Generation: s.generation,
		State:      s.state,
		Prompt:     s.prompt,
		Next:       s.log.Last(),
	}
	if t != nil {
		r.Turn = t.id
		r.Outcome = t.outcome
		r.OutputBytes = t.bytes
		r.Elapsed = t.elapsed
		if t.outcome == "" && !t.started.IsZero() {
			r.Elapsed = time.Since(t.started)
		}
	}
	if s.state == StateWaiting && s.shown != nil {
		w := s.shown.Wait
		r.Wait = &w
		r.Prompt = w.Prompt
	}
	return r
}

// fill reads the events of a reply, which may need the disk.
func (s *Session) fill(r *Reply, o WaitOptions) {
	if o.HeadBytes == 0 {
		o.HeadBytes = DefaultReplyBytes
	}
	if o.TailBytes == 0 {
		o.TailBytes = DefaultReplyBytes
	}
	r.Events = s.log.Window(o.After, o.HeadBytes, o.TailBytes)
	if n := len(r.Events); n > 0 {
		// Events may have come since the state was taken: they are part of the
		// reply, and so the cursor is behind them.
		last := r.Events[n-1]
		r.Next = last.Seq
		switch body := last.Body.(type) {
		case timeline.Elided:
			r.Next = body.To
		case timeline.Gap:
			r.Next = body.To
		}
	}
}
