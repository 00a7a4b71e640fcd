package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/terminal"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// attach lets a person see what happened in a session of the daemon's, and take
// part in it.
func attach(s streams, args []string) (int, error) {
	r := newRemote("attach")
	watch := r.flags.Bool("watch", false, "")
	hold := r.flags.Bool("hold", false, "")
	given, err := r.parse(args, "NAME")
	if err != nil {
		return statusUsage, err
	}
	if *watch && *hold {
		return statusUsage, misuse("--watch and --hold exclude each other")
	}
	if *watch {
		return r.use(func(ctx context.Context, c *client.Client) (int, error) {
			return follow(ctx, s, c, given[0], 0, true, printEvent)
		})
	}
	if !terminal.Usable() {
		return statusUsage, misuse("repl attach needs a terminal; --watch shows the session without one")
	}
	return r.use(func(ctx context.Context, c *client.Client) (int, error) {
		session, err := c.Get(ctx, given[0])
		if err != nil {
			return statusFailed, err
		}
		a := &attached{client: c, name: session.Name, author: author(), hold: *hold}
		if *hold {
			if err := c.Take(ctx, a.name, a.author, true); err != nil {
				return statusFailed, err
			}
		}
		continuation, history := "", ""
		if l, err := languageNamed(session.Language); err == nil {
			continuation, history = l.continuation, historyPath(l.name)
		}
		status, err := terminal.Run(ctx, a, &terminal.Options{
			Continuation: continuation,
			HistoryPath:  history,
			Graphics:     terminal.DetectGraphics(os.Getenv),
			Plain:        os.Getenv("TERM") == "dumb",
			Self:         a.author,
			Replay:       session.LastSeq,
			ExitStatus:   exitStatus,
		})
		if err != nil {
			return status, err
		}
		if err := a.ended(); err != nil {
			return statusFailed, err
		}
		fmt.Fprintf(s.err, "[detached: %s goes on; repl close %s ends it]\n", a.name, a.name)
		return status, nil
	})
}

// attached is a session of the daemon's, for the terminal.
type attached struct {
	client       *client.Client
	name, author string
	hold         bool // the keyboard is taken for as long as the person is here

	mu    sync.Mutex
	taken bool  // guarded by mu: the keyboard, for a turn of the person's
	err   error // guarded by mu: why the session cannot be reached any more
}

// shortly bounds a call that the terminal makes without a context.
func shortly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

// ended is why the session cannot be reached any more, or nil.
func (a *attached) ended() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// lost remembers an error after which there is nothing to talk to.
func (a *attached) lost(err error) error {
	if client.IsKind(err, client.KindUnreachable) || client.IsKind(err, client.KindNoSession) || errors.Is(err, client.ErrEnded) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.err == nil {
			a.err = err
		}
	}
	return err
}

func (a *attached) Info() supervisor.Info {
	ctx, cancel := shortly()
	defer cancel()
	s, err := a.client.Get(ctx, a.name)
	if err != nil {
		_ = a.lost(err)
		return supervisor.Info{Name: a.name, State: supervisor.StateEnded}
	}
	i := supervisor.Info{
		Name: s.Name, State: stateNamed(s.State), Since: s.Since, Generation: s.Generation, Turn: s.Turn, Wait: localWait(s.Wait),
		Prompt: s.Prompt, Opened: s.Opened, PID: s.PID, Executable: s.Executable, Why: s.Why, Dir: s.Dir, LastSeq: s.LastSeq,
	}
	i.Worker.Language, i.Worker.RuntimeVersion = s.Language, s.Runtime
	return i
}

func (a *attached) Events(ctx context.Context, after timeline.Seq) iter.Seq[timeline.Event] {
	return func(yield func(timeline.Event) bool) {
		w, err := a.client.Subscribe(ctx, client.SubscribeParams{Session: a.name, After: after})
		for err == nil {
			var e timeline.Event
			if e, err = w.Next(ctx); err == nil && !yield(e) {
				return
			}
		}
		_ = a.lost(err)
	}
}

func (a *attached) Wait(ctx context.Context, o *supervisor.WaitOptions) (supervisor.Reply, error) {
	for {
		r, err := a.client.Wait(ctx, client.WaitParams{Session: a.name, WaitMS: time.Hour.Milliseconds(), After: o.After})
		if err != nil {
			return supervisor.Reply{}, a.lost(err)
		}
		reply := supervisor.Reply{
			Session: r.Session, Generation: r.Generation, Turn: r.Turn, State: stateNamed(r.State), Outcome: r.Outcome,
			Wait: localWait(r.Wait), Prompt: r.Prompt, Elapsed: time.Duration(r.ElapsedMS) * time.Millisecond,
			OutputBytes: r.OutputBytes, Next: r.Next,
		}
		for _, e := range r.Events {
			reply.Events = append(reply.Events, e.Timeline())
		}
		switch reply.State {
		case supervisor.StateIdle, supervisor.StateEnded:
			a.release()
			return reply, nil
		case supervisor.StateWaiting:
			return reply, nil
		case supervisor.StateStarting, supervisor.StateRunning, supervisor.StateStopping: // an hour is over
		}
	}
}

// Submit runs code, with the keyboard in the person's hands until the turn ends.
func (a *attached) Submit(ctx context.Context, code string) error {
	if err := a.take(ctx); err != nil {
		return err
	}
	_, err := a.client.Start(ctx, client.StartParams{Session: a.name, Input: code, Author: a.author})
	if err != nil {
		a.release()
	}
	return a.lost(err)
}

func (a *attached) take(ctx context.Context) error {
	if a.hold {
		return nil
	}
	err := a.client.Take(ctx, a.name, a.author, false)
	a.mu.Lock()
	a.taken = err == nil
	a.mu.Unlock()
	return a.lost(err)
}

func (a *attached) release() {
	a.mu.Lock()
	taken := a.taken
	a.taken = false
	a.mu.Unlock()
	if taken {
		ctx, cancel := shortly()
		defer cancel()
		_ = a.lost(a.client.Release(ctx, a.name, a.author))
	}
}

func (a *attached) Answer(ctx context.Context, wait timeline.Seq, in supervisor.Input) error {
	_, err := a.client.Input(ctx, client.InputParams{Session: a.name, Wait: wait, Input: string(in.Data), EOF: in.EOF, Author: a.author})
	if client.IsKind(err, client.KindStale) {
		return supervisor.ErrStale
	}
	return a.lost(err)
}

func (a *attached) Interrupt(ctx context.Context, turn uint64) (supervisor.InterruptResult, error) {
	if turn == 0 {
		s, err := a.client.Get(ctx, a.name)
		if err != nil {
			return "", a.lost(err)
		}
		turn = s.Turn
	}
	r, err := a.client.Interrupt(ctx, client.InterruptParams{Session: a.name, Turn: turn, Author: a.author})
	return supervisor.InterruptResult(r.Result), a.lost(err)
}

func (a *attached) Reset(ctx context.Context) error {
	_, err := a.client.Reset(ctx, a.name)
	return a.lost(err)
}

func (a *attached) Parse(ctx context.Context, text string) (supervisor.ParseStatus, error) {
	p, err := a.client.Parse(ctx, client.QueryParams{Session: a.name, Text: text})
	return supervisor.ParseStatus(p.Status), a.lost(err)
}

func (a *attached) Complete(ctx context.Context, text string, cursor int) (supervisor.Completion, error) {
	c, err := a.client.Complete(ctx, client.QueryParams{Session: a.name, Text: text, Cursor: cursor})
	return supervisor.Completion{Start: c.Start, Matches: c.Matches}, a.lost(err)
}

// Resize does nothing: the terminal of the session is not this one's alone.
func (a *attached) Resize(supervisor.Size) error { return nil }

// stateNamed is the state that a name of the wire's stands for.
func stateNamed(name string) supervisor.State {
	for s := supervisor.StateStarting; s < supervisor.StateEnded; s++ {
		if s.String() == name {
			return s
		}
	}
	return supervisor.StateEnded
}

func localWait(w *client.Wait) *supervisor.Wait {
	if w == nil {
		return nil
	}
	return &supervisor.Wait{ID: w.ID, Turn: w.Turn, Prompt: w.Prompt, Kind: w.Kind, Secret: w.Secret, Terminal: w.Terminal, Reader: w.Reader}
}

// follow shows a session's events behind a cursor: those that there are, and with
// live all that come.
func follow(ctx context.Context, s streams, c *client.Client, name string, after timeline.Seq, live bool, show eventPrinter) (int, error) {
	w, err := c.Subscribe(ctx, client.SubscribeParams{Session: name, After: after})
	if err != nil {
		return statusFailed, err
	}
	for last := after; live || last < w.Seq; {
		e, err := w.Next(ctx)
		if errors.Is(err, client.ErrEnded) || ctx.Err() != nil {
			return statusDone, nil
		}
		if err == nil {
			last = e.Seq
			err = show(s.out, e)
		}
		if err != nil {
			return statusFailed, err
		}
	}
	return statusDone, nil
}
