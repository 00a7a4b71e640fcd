package mcpserver_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A fakeTerminal is a session in which a test plays the program that reads the terminal. While its
// turn runs, the program may have an open input request.
type fakeTerminal struct {
	session.Session
	onType func(session.Keys) // what the program does; called in Type

	mu       sync.Mutex
	typed    []session.Keys
	typeErr  error
	screen   session.Screen
	request  *session.InputRequest
	version  int           // of request
	reported int           // the version that the last reply had
	changed  chan struct{} // closed at the next version
}

// setRequest opens or replaces the program's input request, or ends it with nil.
func (f *fakeTerminal) setRequest(w *session.InputRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setRequestLocked(w)
}

func (f *fakeTerminal) setRequestLocked(w *session.InputRequest) {
	f.request = w
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeTerminal) setScreen(s session.Screen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.screen = s
}

func (f *fakeTerminal) setTypeError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.typeErr = err
}

// allTyped returns all keys so far.
func (f *fakeTerminal) allTyped() []session.Keys {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.typed)
}

func (f *fakeTerminal) As(string) session.Session { return f }

func (f *fakeTerminal) Type(ctx context.Context, keys session.Keys) (uint64, error) {
	now, err := f.Session.Info(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case f.typeErr != nil:
		return 0, f.typeErr
	case now.State == session.StateWaiting:
		return 0, session.NewWaitingError(*now.InputRequest)
	case now.State != session.StateRunning:
		return 0, session.ErrStale
	}
	f.typed = append(f.typed, keys)
	f.setRequestLocked(nil)
	if f.onType != nil {
		go f.onType(keys)
	}
	return now.Turn, nil
}

func (f *fakeTerminal) Screen(ctx context.Context) (session.Screen, error) {
	if now, err := f.Session.Info(ctx); err != nil || now.State != session.StateRunning {
		return session.Screen{}, session.ErrStale
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.screen, nil
}

func (f *fakeTerminal) Info(ctx context.Context) (session.Info, error) {
	now, err := f.Session.Info(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && now.State == session.StateRunning && f.request != nil {
		w := *f.request
		w.Turn = now.Turn
		now.State, now.InputRequest = session.StateWaiting, &w
	}
	return now, err
}

func (f *fakeTerminal) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	for {
		f.mu.Lock()
		version, request, changed := f.version, f.request, f.changed
		f.mu.Unlock()
		own := *o
		own.Poll = own.Poll || request != nil
		waiting, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			select {
			case <-changed:
				stop()
			case <-waiting.Done():
			}
		}()
		r, err := f.Session.Wait(waiting, turn, &own)
		stop()
		<-ended
		if err != nil && ctx.Err() == nil && waiting.Err() != nil && isClosed(changed) {
			continue
		}
		f.mu.Lock()
		f.reported = version
		f.mu.Unlock()
		if err == nil && r.State == session.StateRunning && request != nil {
			w := *request
			w.Turn = r.Turn
			r.State, r.InputRequest = session.StateWaiting, &w
		}
		return r, err
	}
}

// Events has an event of its own when the program's input request changes.
func (f *fakeTerminal) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		f.mu.Lock()
		changed, isNew := f.changed, f.version != f.reported
		f.mu.Unlock()
		if isNew {
			yield(timeline.Event{Body: timeline.InputRequestEnded{}}, nil)
			return
		}
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-changed:
				stop()
			case <-watching.Done():
			}
		}()
		for e, err := range f.Session.Events(watching, after) {
			if err != nil && ctx.Err() == nil && isClosed(changed) {
				e, err = timeline.Event{Body: timeline.InputRequestEnded{}}, nil
				yield(e, err)
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A terminalBackend opens sessions whose programs a test plays.
type terminalBackend struct {
	backend.Backend
	opened chan *fakeTerminal
}

func (b *terminalBackend) Open(ctx context.Context, name, lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy, report func(string)) (*backend.SessionHandle, error) {
	h, err := b.Backend.Open(ctx, name, lang, dir, narrow, report)
	if err == nil {
		f := &fakeTerminal{Session: h.Session, changed: make(chan struct{})}
		h.Session = f
		b.opened <- f
	}
	return h, err
}

// A terminalClient is a client with one session, whose program a test plays.
type terminalClient struct {
	*client
	*fakeTerminal
	finish func() // ends the running turn
}

// newTerminalClient returns a client whose program runs, and is not seen.
func newTerminalClient(t *testing.T, s *setup) *terminalClient {
	t.Helper()
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	b := &terminalBackend{opened: make(chan *fakeTerminal, 1), Backend: &backend.Local{
		Supervisor: sup, Specs: map[string]func(string) workers.Spec{"fake": fakeSpec(nil)}, MakeRoom: func() bool { return false },
	}}
	s.backend = b
	c := &terminalClient{client: newInitializedClient(t, s)}
	c.runRepl("")
	c.fakeTerminal = <-b.opened
	return c
}

// start starts the program.
func (c *terminalClient) start() {
	c.t.Helper()
	c.startScript("")
}

// startScript starts the program, with lines for the fake worker before the program can end.
func (c *terminalClient) startScript(lines string) {
	c.t.Helper()
	line, open := newGate(c.t)
	c.finish = open
	wantPart(c.t, c.call("repl", map[string]any{"input": lines + line + "print over", "timeout_ms": 0}).text(), "call repl_output to wait")
	wait.Until(c.t, "the program runs", func() bool {
		now, err := c.fakeTerminal.Info(c.t.Context())
		return err == nil && now.State == session.StateRunning
	})
}

// typeKeys calls repl with keys.
func (c *terminalClient) typeKeys(keys string) toolResult {
	c.t.Helper()
	return c.call("repl", map[string]any{"keys": keys})
}

// wantTyped compares everything that was typed.
func (c *terminalClient) wantTyped(want ...session.Keys) {
	c.t.Helper()
	got := c.allTyped()
	if !slices.EqualFunc(got, want, func(a, b session.Keys) bool {
		return a.Text == b.Text && a.Secret == b.Secret && len(a.Bytes) == 0 && !a.Live
	}) {
		c.t.Errorf("typed %+v, want %+v", got, want)
	}
}
