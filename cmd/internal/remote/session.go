package remote

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// shortCall bounds a call that is made without a context.
	shortCall = 5 * time.Second

	// longPoll is how long one call waits at most; a longer wait is several calls.
	longPoll = time.Hour

	// leastPoll is the least time between two of them, whatever the daemon does.
	leastPoll = 100 * time.Millisecond
)

// A Session is one of a daemon's. It is safe for concurrent use, once ReadAs has
// returned, if that is called.
type Session struct {
	hub    *Hub
	name   string
	author string
}

// Name is the session's name.
func (s *Session) Name() string { return s.name }

// call calls a method for the session, and makes the daemon's errors the
// supervisor's.
func call[R any](ctx context.Context, s *Session, do func(*client.Client) (R, error)) (R, error) {
	r, err := use(ctx, s.hub, do)
	return r, local(err)
}

// supervisors are a daemon's kinds of errors as the supervisor has them.
var supervisors = map[string]error{
	client.KindBusy:        supervisor.ErrBusy,
	client.KindWaiting:     supervisor.ErrWaiting,
	client.KindStale:       supervisor.ErrStale,
	client.KindLimit:       supervisor.ErrLimit,
	client.KindExists:      supervisor.ErrExists,
	client.KindTooLarge:    supervisor.ErrTooLarge,
	client.KindUnsupported: supervisor.ErrUnsupported,
	client.KindNoAnswer:    supervisor.ErrNoAnswer,
	client.KindNoSession:   supervisor.ErrClosed,
	client.KindNoOutput:    timeline.ErrNoOutput,
}

// local is a daemon's error as the supervisor has it.
func local(err error) error {
	if said, ok := errors.AsType[*client.Error](err); ok {
		if is := supervisors[said.Kind]; is != nil {
			return &translated{err, is}
		}
	}
	return err
}

// translated has a daemon's words and is a supervisor's error.
type translated struct{ said, is error }

func (t *translated) Error() string   { return t.said.Error() }
func (t *translated) Unwrap() []error { return []error{t.said, t.is} }

// Info describes the session; one that cannot be reached has ended.
func (s *Session) Info() supervisor.Info {
	ctx, cancel := context.WithTimeout(context.Background(), shortCall)
	defer cancel()
	w, err := call(ctx, s, func(c *client.Client) (client.Session, error) { return c.Get(ctx, s.name) })
	if err != nil {
		return supervisor.Info{Name: s.name, State: supervisor.StateEnded}
	}
	return infoOf(w)
}

func infoOf(w client.Session) supervisor.Info {
	i := supervisor.Info{
		Name: w.Name, State: stateNamed(w.State), Since: w.Since, Generation: w.Generation, Turn: w.Turn,
		Running: time.Duration(w.RunningMS) * time.Millisecond, Wait: waitOf(w.Wait), Prompt: w.Prompt, Opened: w.Opened,
		PID: w.PID, MemoryBytes: w.MemoryBytes, Executable: w.Executable, Why: w.Why, Notice: w.Notice, Dir: w.Dir, OutputPath: w.OutputPath, Lost: w.Lost, LastSeq: w.LastSeq,
	}
	i.Worker.Language, i.Worker.RuntimeVersion = w.Language, w.Runtime
	return i
}

// Events is every event after the cursor, and then each one as it happens, until
// ctx ends, the session is closed, or the daemon is gone.
func (s *Session) Events(ctx context.Context, after timeline.Seq) iter.Seq[timeline.Event] {
	return func(yield func(timeline.Event) bool) { _ = s.Watch(ctx, after, yield) }
}

// Watch is Events for one who wants to know why there are no more: it returns when
// yield returns false, and else with the error, [client.ErrEnded] for a session
// that was closed.
func (s *Session) Watch(ctx context.Context, after timeline.Seq, yield func(timeline.Event) bool) error {
	w, err := call(ctx, s, func(c *client.Client) (*client.Subscription, error) {
		return c.Subscribe(ctx, client.SubscribeParams{Session: s.name, After: after, Author: s.author})
	})
	if err != nil {
		return err
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.Background(), shortCall)
		defer cancel()
		_ = w.Cancel(bounded)
	}()
	for {
		e, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if !yield(e) {
			return nil
		}
	}
}

// Wait is supervisor.Session.Wait. Of its options, HeadBytes and TailBytes are the
// daemon's own.
func (s *Session) Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error) {
	return s.wait(ctx, 0, o)
}

func (s *Session) wait(ctx context.Context, turn uint64, o *supervisor.WaitOptions) (supervisor.Reply, error) {
	var opts supervisor.WaitOptions
	if o != nil {
		opts = *o
	}
	deadline := time.Now().Add(opts.Until)
	for {
		pause := longPoll
		switch {
		case opts.Poll:
			pause = 0
		case opts.Until > 0:
			pause = min(pause, max(time.Until(deadline), 0))
		}
		asked := time.Now()
		r, err := call(ctx, s, func(c *client.Client) (client.Reply, error) {
			return c.Wait(ctx, client.WaitParams{Session: s.name, Turn: turn, WaitMS: pause.Milliseconds(), After: opts.After})
		})
		if err != nil {
			return supervisor.Reply{}, err
		}
		reply := replyOf(r)
		over := reply.Outcome != "" || reply.State != supervisor.StateStarting && reply.State != supervisor.StateRunning
		if over || pause < time.Millisecond || opts.Until > 0 && !time.Now().Before(deadline) {
			return reply, nil
		}
		if rest := min(leastPoll, pause) - time.Since(asked); rest > 0 { // it should have waited
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return supervisor.Reply{}, ctx.Err()
			}
		}
	}
}

func replyOf(r client.Reply) supervisor.Reply {
	reply := supervisor.Reply{
		Session: r.Session, Generation: r.Generation, Turn: r.Turn, State: stateNamed(r.State), Outcome: r.Outcome,
		Wait: waitOf(r.Wait), Prompt: r.Prompt, Elapsed: time.Duration(r.ElapsedMS) * time.Millisecond,
		OutputBytes: r.OutputBytes, Next: r.Next,
	}
	for _, e := range r.Events {
		reply.Events = append(reply.Events, e.Timeline())
	}
	return reply
}

// A Turn is one that this process started or fed.
type Turn struct {
	session *Session
	id      uint64
}

// TurnOf is a turn of the session by its number.
func (s *Session) TurnOf(id uint64) *Turn { return &Turn{s, id} }

// ID is the turn's number.
func (t *Turn) ID() uint64 { return t.id }

// Wait is supervisor.Turn.Wait.
func (t *Turn) Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error) {
	return t.session.wait(ctx, t.id, o)
}

// Submit starts a turn, in this reader's name.
func (s *Session) Submit(ctx context.Context, code string) (*Turn, error) {
	r, err := call(ctx, s, func(c *client.Client) (client.Reply, error) {
		return c.Start(ctx, client.StartParams{Session: s.name, Input: code, Author: s.author})
	})
	if err != nil {
		return nil, err
	}
	return &Turn{s, r.Turn}, nil
}

// Answer answers a wait of the active turn, and returns that.
func (s *Session) Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) (*Turn, error) {
	author := in.Author
	if author == "" {
		author = s.author
	}
	r, err := call(ctx, s, func(c *client.Client) (client.Reply, error) {
		return c.Input(ctx, client.InputParams{Session: s.name, Wait: wait, Input: string(in.Data), EOF: in.EOF, Author: author})
	})
	if err != nil {
		return nil, err
	}
	return &Turn{s, r.Turn}, nil
}

// Interrupt interrupts a turn; 0 means the one that is active now.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (supervisor.InterruptResult, error) {
	r, err := call(ctx, s, func(c *client.Client) (client.Interrupted, error) {
		if turn == 0 {
			now, err := c.Get(ctx, s.name)
			if err != nil {
				return client.Interrupted{}, err
			}
			if turn = now.Turn; turn == 0 {
				return client.Interrupted{Result: string(supervisor.InterruptNotRunning)}, nil
			}
		}
		return c.Interrupt(ctx, client.InterruptParams{Session: s.name, Turn: turn, Author: s.author})
	})
	return supervisor.InterruptResult(r.Result), err
}

// Reset ends the worker, whatever it does, and starts a new one.
func (s *Session) Reset(ctx context.Context) error {
	_, err := call(ctx, s, func(c *client.Client) (client.Session, error) { return c.Reset(ctx, s.name) })
	return err
}

// Parse asks whether text is a whole input.
func (s *Session) Parse(ctx context.Context, text string) (supervisor.ParseStatus, error) {
	p, err := call(ctx, s, func(c *client.Client) (client.Parsed, error) {
		return c.Parse(ctx, client.QueryParams{Session: s.name, Text: text})
	})
	return supervisor.ParseStatus(p.Status), err
}

// Complete asks how text could go on at cursor, in bytes.
func (s *Session) Complete(ctx context.Context, text string, cursor int) (supervisor.Completion, error) {
	p, err := call(ctx, s, func(c *client.Client) (client.Completion, error) {
		return c.Complete(ctx, client.QueryParams{Session: s.name, Text: text, Cursor: cursor})
	})
	return supervisor.Completion{Start: p.Start, Matches: p.Matches}, err
}

// End ends the session for good, for everybody.
func (s *Session) End(ctx context.Context) error {
	_, err := call(ctx, s, func(c *client.Client) (struct{}, error) { return struct{}{}, c.CloseSession(ctx, s.name) })
	return err
}

// Variables lists what user code has made.
func (s *Session) Variables(ctx context.Context) (supervisor.Variables, error) {
	v, err := call(ctx, s, func(c *client.Client) (client.Variables, error) { return c.Variables(ctx, s.name) })
	r := supervisor.Variables{More: v.More}
	for _, one := range v.List {
		r.List = append(r.List, supervisor.Variable(one))
	}
	return r, err
}

// Grep returns the lines of the rendered output that match, the first max of them.
func (s *Session) Grep(re *regexp.Regexp, max int) ([]timeline.Line, error) {
	out, err := s.output(client.OutputParams{Grep: re.String(), Max: max})
	lines := make([]timeline.Line, 0, len(out.Lines))
	for _, l := range out.Lines {
		lines = append(lines, timeline.Line(l))
	}
	return lines, err
}

// Lines returns these lines of the rendered output, as timeline.Log.Lines does.
func (s *Session) Lines(from, to int) ([]string, error) {
	out, err := s.output(client.OutputParams{From: from, To: to})
	lines := make([]string, 0, len(out.Lines))
	for _, l := range out.Lines {
		lines = append(lines, l.Text)
	}
	return lines, err
}

// LineCount is the number of finished lines of the rendered output.
func (s *Session) LineCount() int {
	out, _ := s.output(client.OutputParams{From: 1, To: 1})
	return out.Total
}

func (s *Session) output(p client.OutputParams) (client.Output, error) {
	ctx, cancel := context.WithTimeout(context.Background(), shortCall)
	defer cancel()
	p.Session = s.name
	return call(ctx, s, func(c *client.Client) (client.Output, error) { return c.Output(ctx, p) })
}

// ReadAs has a reader go on where it stopped: under its name, or under another one if
// somebody who is there reads under that. It waits for a session that is being
// prepared. What the reader writes from now on is in that name.
func (s *Session) ReadAs(ctx context.Context, reader string) (name string, read timeline.Seq, err error) {
	m, err := call(ctx, s, func(c *client.Client) (client.Marked, error) {
		return c.Mark(ctx, client.MarkParams{Session: s.name, Reader: reader, Own: true})
	})
	if err == nil {
		s.author = m.Reader
	}
	return m.Reader, m.Seq, err
}

// Author is in whose name it writes.
func (s *Session) Author() string { return s.author }

// Mark remembers how far this reader has read; 0 only asks. It returns how far.
func (s *Session) Mark(ctx context.Context, reader string, seq timeline.Seq) (timeline.Seq, error) {
	m, err := call(ctx, s, func(c *client.Client) (client.Marked, error) {
		return c.Mark(ctx, client.MarkParams{Session: s.name, Reader: reader, Seq: seq})
	})
	return m.Seq, err
}

// Take takes the keyboard, and Release gives it back.
func (s *Session) Take(ctx context.Context, long bool) error {
	_, err := call(ctx, s, func(c *client.Client) (struct{}, error) {
		return struct{}{}, c.Take(ctx, s.name, s.author, long)
	})
	return err
}

// Release gives the keyboard back, if this process has it.
func (s *Session) Release(ctx context.Context) error {
	_, err := call(ctx, s, func(c *client.Client) (struct{}, error) {
		return struct{}{}, c.Release(ctx, s.name, s.author)
	})
	return err
}

// stateNamed is the state that a name of the wire's stands for.
func stateNamed(name string) supervisor.State {
	for s := supervisor.StateStarting; s < supervisor.StateEnded; s++ {
		if s.String() == name {
			return s
		}
	}
	return supervisor.StateEnded
}

func waitOf(w *client.Wait) *supervisor.Wait {
	if w == nil {
		return nil
	}
	return &supervisor.Wait{ID: w.ID, Turn: w.Turn, Prompt: w.Prompt, Kind: w.Kind, Secret: w.Secret, Terminal: w.Terminal, Reader: w.Reader}
}

// Gone reports whether err says that the daemon cannot be reached, or that the
// session is not there any more.
func Gone(err error) bool {
	return client.IsKind(err, client.KindUnreachable) || client.IsKind(err, client.KindDetached) || errors.Is(err, supervisor.ErrClosed) || errors.Is(err, client.ErrEnded)
}
