package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor:      supervisor.MonitorMain,
		Programs:     []testmain.Program{fakeworker.Program, {Variable: chaosEnv, Main: runChaosClient}},
		PrivateState: true,
		RunAll:       sandboxcheck.RunTests,
	})
}

// processTimeout bounds every wait for a process.
const processTimeout = 2 * time.Minute

// A testDaemon is a daemon under test, with its socket and supervisor.
type testDaemon struct {
	t      testing.TB
	socket string
	served chan error
	cancel context.CancelFunc
}

func startDaemon(t testing.TB, change func(*daemon.Options)) *testDaemon {
	t.Helper()
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), MaxSessions: 200}) // the suite opens one for each promise
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	o := &daemon.Options{
		Supervisor:  sup,
		Languages:   func() []string { return []string{"fake"} },
		HasLanguage: func(name string) bool { return name == "fake" },
		FindSpec: func(protocol.CreateParams) (workers.Spec, error) {
			return fakeworker.NewSpec(testexec.OwnPath(), nil), nil
		},
		Version: "test",
	}
	if change != nil {
		change(o)
	}
	d, err := daemon.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &testDaemon{t: t, socket: newSocketName(t), served: make(chan error, 1)}
	l, err := daemon.Listen(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.served <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-r.served:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(processTimeout):
			t.Error("the daemon does not end")
		}
	})
	return r
}

func (d *testDaemon) dial() *client.Client {
	d.t.Helper()
	c, err := client.Dial(d.t.Context(), client.Socket(d.socket))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// newSession creates a session "main" and waits until it is idle.
func (d *testDaemon) newSession(c *client.Client) {
	d.t.Helper()
	if _, err := c.CreateSession(d.t.Context(), protocol.CreateParams{Name: "main"}); err != nil {
		d.t.Fatal(err)
	}
	d.runCode(c, "print ready", "ready\n")
}

func (d *testDaemon) runCode(c *client.Client, code, want string) session.Reply {
	d.t.Helper()
	reply, err := c.StartTurn(d.t.Context(), protocol.StartParams{Session: "main", Input: code, WaitMS: processTimeout.Milliseconds()})
	if err != nil {
		d.t.Fatalf("%s: %v", code, err)
	}
	if got := render.Events(reply.Events, nil).Text(); got != want {
		d.t.Fatalf("%s: got %q, want %q", code, got, want)
	}
	return reply
}

func TestDaemon(t *testing.T) {
	t.Parallel()

	t.Run("sessions outlive their clients", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		first := r.dial()
		r.newSession(first)
		if _, err := first.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print before\nwait name? \nprint after"}); err != nil {
			t.Fatal(err)
		}
		waiting, err := first.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
		if err != nil || waiting.InputRequest == nil {
			t.Fatalf("got %+v, %v", waiting, err)
		}
		_ = first.Close()

		second := r.dial()
		s, err := second.GetSession(t.Context(), "main")
		if err != nil || s.InputRequest == nil || s.InputRequest.ID != waiting.InputRequest.ID || s.InputRequest.Prompt != "name? " {
			t.Fatalf("the input request is not re-delivered: %+v, %v", s, err)
		}
		reply, err := second.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: s.InputRequest.ID, Input: "bob\n", WaitMS: processTimeout.Milliseconds(), After: waiting.Next})
		if err != nil {
			t.Fatal(err)
		}
		if got := render.Events(reply.Events, nil).Text(); !strings.Contains(got, "bob\nafter\n") {
			t.Errorf("got %q", got)
		}
		_, err = second.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: s.InputRequest.ID, Input: "eve\n"})
		if session.KindOf(err) != session.KindStale {
			t.Errorf("a second answer: got %v, want it to be stale", err)
		}
	})

	t.Run("reports each refusal with its own kind", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		for _, test := range []struct {
			name string
			kind session.Kind
			call func() error
		}{
			{"no such session", session.KindClosed, func() error {
				_, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "nope", Input: "x"})
				return err
			}},
			{"no session named", "invalid_params", func() error {
				_, err := c.StartTurn(t.Context(), protocol.StartParams{Input: "x"})
				return err
			}},
			{"the name is taken", session.KindExists, func() error {
				_, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "main"})
				return err
			}},
			{"a bad name", "invalid_params", func() error {
				_, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "../x"})
				return err
			}},
			{"a bad name of a terminal", "invalid_params", func() error {
				_, err := c.CreateSession(t.Context(), protocol.CreateParams{Term: "../xterm"})
				return err
			}},
			{"no such language", session.KindUnknownLanguage, func() error {
				_, err := c.CreateSession(t.Context(), protocol.CreateParams{Language: "cobol"})
				return err
			}},
			{"an interrupt without a turn", "invalid_params", func() error {
				_, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main"})
				return err
			}},
			{"a misspelt param", "invalid_params", func() error {
				return c.Call(t.Context(), protocol.MethodGet, map[string]string{"sesion": "main"}, nil)
			}},
		} {
			if err := test.call(); session.KindOf(err) != test.kind {
				t.Errorf("%s: got %v, want the kind %s", test.name, err, test.kind)
			}
		}
		turn, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print on\nsleep"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print no"})
		if session.KindOf(err) != session.KindBusy {
			t.Errorf("got %v, want busy", err)
		}
		stale, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: turn.Turn - 1})
		if err != nil || stale.Result != "stale" {
			t.Errorf("an interrupt of the turn before: %+v, %v", stale, err)
		}
		done, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: turn.Turn})
		if err != nil || done.Result != "idle" {
			t.Errorf("the interrupt: %+v, %v", done, err)
		}
	})

	t.Run("a cancelled start interrupts the turn, a wait does not", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() {
			_, err := c.StartTurn(ctx, protocol.StartParams{Session: "main", Input: "sleep", WaitMS: processTimeout.Milliseconds()})
			over <- err
		}()
		wait.Until(t, "the turn runs", func() bool {
			s, err := c.GetSession(t.Context(), "main")
			return err == nil && s.State == session.StateRunning
		})
		poll, stop := context.WithCancel(t.Context())
		polled := make(chan error, 1)
		go func() {
			_, err := r.dial().WaitTurn(poll, protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
			polled <- err
		}()
		stop()
		if err := <-polled; !errors.Is(err, context.Canceled) {
			t.Errorf("the poll ended with %v", err)
		}
		if s, err := c.GetSession(t.Context(), "main"); err != nil || s.State != session.StateRunning {
			t.Errorf("after the poll was cancelled: %+v, %v", s, err)
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("the call ended with %v", err)
		}
		reply, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.State != session.StateIdle || reply.Outcome != "interrupted" {
			t.Errorf("after the call was cancelled: %+v, %v", reply, err)
		}
	})

	t.Run("shutdown ends every waiting call", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		over := make(chan error, 2)
		go func() {
			_, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sleep", WaitMS: processTimeout.Milliseconds()})
			over <- err
		}()
		go func() {
			_, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
			over <- err
		}()
		wait.Until(t, "the turn runs", func() bool {
			s, err := c.GetSession(t.Context(), "main")
			return err == nil && s.State == session.StateRunning
		})
		r.cancel()
		for range 2 {
			if err := <-over; err == nil {
				continue // the call returned the last state of the session
			} else if session.KindOf(err) != session.KindUnreachable && session.KindOf(err) != "shutting_down" && session.KindOf(err) != "internal" {
				t.Errorf("got %v", err)
			}
		}
	})

	t.Run("serves ten clients at once", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				c := r.dial()
				name := fmt.Sprintf("s%d", i)
				if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name}); err != nil {
					t.Error(err)
					return
				}
				for range 5 {
					reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: name, Input: "print hello", WaitMS: processTimeout.Milliseconds()})
					if err != nil || !strings.Contains(render.Events(reply.Events, nil).Text(), "hello") {
						t.Errorf("got %+v, %v", reply, err)
					}
				}
			})
		}
		wg.Wait()
	})

	t.Run("lists the variables of an idle session", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		want := session.Variables{List: []session.Variable{{Name: "answer", Type: "number", Shape: "1", Bytes: 8}}, More: 1}
		wait.Until(t, "the worker answers in time", func() bool { // a busy machine may take longer than a query
			got, err := c.ListVariables(t.Context(), "main")
			if session.KindOf(err) == session.KindNoAnswer {
				return false
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
			return true
		})
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait ? "}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ListVariables(t.Context(), "main"); session.KindOf(err) != session.KindBusy && session.KindOf(err) != session.KindWaiting {
			t.Errorf("got %v, want it to be busy", err)
		}
	})

	// A logout, or the time limit of a batch job, ends the daemon by a signal.
	t.Run("shutdown tells subscribers the reason", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		r.cancel()
		var notices []string
		for {
			e, err := w.Next(t.Context())
			if err != nil {
				break
			}
			if n, ok := e.Body.(timeline.Notice); ok {
				notices = append(notices, n.Message)
			}
		}
		if len(notices) != 1 || !strings.HasPrefix(notices[0], "the daemon is stopping and closes this session: ") {
			t.Errorf("they read %q", notices)
		}
	})
}

// collectEvents reads a subscription until an event satisfies last.
func collectEvents(t testing.TB, w *client.Subscription, last func(timeline.Event) bool) []timeline.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), processTimeout)
	defer cancel()
	var events []timeline.Event
	for {
		e, err := w.Next(ctx)
		if err != nil {
			t.Errorf("after %d events: %v", len(events), err)
			return events
		}
		events = append(events, e)
		if last(e) {
			return events
		}
	}
}

func isEndOfTurn(n uint64) func(timeline.Event) bool {
	return func(e timeline.Event) bool {
		_, ended := e.Body.(timeline.TurnEnded)
		return ended && e.Turn == n
	}
}

// wantNoGaps fails unless events are numbered from first without a gap.
func wantNoGaps(t testing.TB, events []timeline.Event, first timeline.Seq) {
	t.Helper()
	for i, e := range events {
		if e.Seq != first+timeline.Seq(i) {
			t.Fatalf("event %d has the number %d, want %d", i, e.Seq, first+timeline.Seq(i))
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()

	t.Run("live events follow the snapshot without gap or repeat", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		turn := r.runCode(c, "print one", "one\n").Turn
		w, err := r.dial().Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		r.runCode(c, "print two", "two\n")
		events := collectEvents(t, w, isEndOfTurn(turn+1))
		wantNoGaps(t, events, 1)
		if got := render.Events(events, nil).Text(); !strings.Contains(got, "one\n") || !strings.Contains(got, "two\n") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("many subscribers that pause and resume miss nothing", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		const turns, watchers = 40, 16
		last := r.runCode(c, "print begin", "begin\n").Turn + turns
		var wg sync.WaitGroup
		for range watchers {
			wg.Go(func() {
				own := r.dial()
				w, err := own.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
				if err != nil {
					t.Error(err)
					return
				}
				stop := make(chan struct{})
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						err := w.Pause(t.Context())
						if err == nil && rand.IntN(2) == 0 {
							err = own.Call(t.Context(), protocol.MethodInfo, struct{}{}, nil)
						}
						if err == nil {
							err = w.Resume(t.Context())
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
				wantNoGaps(t, collectEvents(t, w, isEndOfTurn(last)), 1)
				close(stop)
			})
		}
		for range turns {
			r.runCode(c, "print a\nerr b\nprint c", "a\n[stderr] b\nc\n")
		}
		wg.Wait()
	})

	t.Run("a paused stream sends nothing and resumes without a gap", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		turn := r.runCode(c, "print one", "one\n").Turn
		events := collectEvents(t, w, isEndOfTurn(turn))
		if err := w.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.runCode(c, "print two", "two\n") // a stream would have sent its events before the answer of this call
		short, cancel := context.WithCancel(t.Context())
		cancel()
		if e, err := w.Next(short); err == nil {
			t.Errorf("while paused came %+v", e)
		}
		if err := w.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNoGaps(t, append(events, collectEvents(t, w, isEndOfTurn(turn+1))...), 1)
	})

	t.Run("starts after a cursor", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		next := r.runCode(c, "print one", "one\n").Next
		turn := r.runCode(c, "print two", "two\n").Turn
		w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main", After: next})
		if err != nil {
			t.Fatal(err)
		}
		wantNoGaps(t, collectEvents(t, w, isEndOfTurn(turn)), next+1)
		if _, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main", After: 1 << 40}); session.KindOf(err) != "invalid_params" {
			t.Errorf("from the future: %v", err)
		}
	})

	t.Run("ends with its session", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CloseSession(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := w.Next(t.Context()); err != nil {
				if !errors.Is(err, session.ErrClosed) {
					t.Errorf("got %v", err)
				}
				break
			}
		}
	})

	t.Run("never contains a secret", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		w, err := r.dial().Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "secret Password: "}); err != nil {
			t.Fatal(err)
		}
		waiting, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
		if err != nil || waiting.InputRequest == nil || !waiting.InputRequest.Secret {
			t.Fatalf("got %+v, %v", waiting, err)
		}
		reply, err := c.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: waiting.InputRequest.ID, Input: "hunter2\n", WaitMS: processTimeout.Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		all, err := json.Marshal(collectEvents(t, w, isEndOfTurn(reply.Turn)))
		if err != nil || strings.Contains(string(all), "hunter2") {
			t.Errorf("the secret is in the stream: %s, %v", all, err)
		}
	})
}

func TestWriteLock_OneHolder(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	agent, user := r.dial(), r.dial()
	r.newSession(agent)
	if err := user.TakeWriteLock(t.Context(), "main", "ada", true); err != nil {
		t.Fatal(err)
	}
	_, err := agent.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print x"})
	if session.KindOf(err) != session.KindLocked || !strings.Contains(err.Error(), "ada") {
		t.Errorf("got %v, want to learn that ada writes", err)
	}
	if err := agent.TakeWriteLock(t.Context(), "main", "bot", false); session.KindOf(err) != session.KindLocked {
		t.Errorf("got %v", err)
	}
	if s, err := agent.GetSession(t.Context(), "main"); err != nil || s.WriteLockHolder != "ada" {
		t.Errorf("got %+v, %v", s, err)
	}
	if _, err := user.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print by ada", Author: "ada", WaitMS: processTimeout.Milliseconds()}); err != nil {
		t.Error(err)
	}
	_ = user.Close()
	for {
		s, err := agent.GetSession(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		if s.WriteLockHolder == "" {
			break
		}
	}
	reply, err := agent.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print by bot", Author: "bot", WaitMS: processTimeout.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	if got := render.Events(reply.Events, &render.Options{Self: "bot"}).Text(); got != "by bot\n" {
		t.Errorf("got %q", got)
	}
}

// sendRawLine sends one raw line and returns the next one that comes.
func sendRawLine(t testing.TB, socket, line string) string {
	t.Helper()
	conn, err := client.Socket(socket).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, line); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := conn.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(buf[:n]))
}

func TestControl(t *testing.T) {
	t.Parallel()

	t.Run("queues commands for the main loop", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		if got := sendRawLine(t, r.socket, `{"type":"status"}`); !strings.Contains(got, `"ok":true`) || !strings.Contains(got, `"sessions":1`) {
			t.Errorf("status: %s", got)
		}
		if got := sendRawLine(t, r.socket, `{"type":"sleep"}`); !strings.Contains(got, "unknown_message_type") {
			t.Errorf("an unknown one: %s", got)
		}
		if got := sendRawLine(t, r.socket, `{"type":"pause"}`); got != `{"ok":true,"data":{"queued":"pause"}}` {
			t.Errorf("pause: %s", got)
		}
		for paused := false; !paused; {
			i, err := c.DaemonInfo(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			paused = i.Paused
		}
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print x"}); session.KindOf(err) != session.KindDraining {
			t.Errorf("while paused: %v", err)
		}
		sendRawLine(t, r.socket, `{"type":"resume"}`)
		for paused := true; paused; {
			i, err := c.DaemonInfo(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			paused = i.Paused
		}
		r.runCode(c, "print x", "x\n")
	})

	t.Run("a drain waits for turns and not for clients", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c, idle := r.dial(), r.dial()
		r.newSession(c)
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print on\nsleep 300ms\nprint over"}); err != nil {
			t.Fatal(err)
		}
		w, err := idle.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		sendRawLine(t, r.socket, `{"type":"drain"}`)
		var text strings.Builder
		for {
			e, err := w.Next(t.Context())
			if err != nil {
				break
			}
			if b, ok := e.Body.(timeline.Text); ok {
				text.Write(b.Data)
			}
		}
		if !strings.Contains(text.String(), "over\n") {
			t.Errorf("the turn was cut: %q", text.String())
		}
		if err := <-r.served; err != nil {
			t.Error(err)
		}
		r.served <- nil
		if _, err := client.Dial(t.Context(), client.Socket(r.socket)); session.KindOf(err) != session.KindUnreachable {
			t.Errorf("got %v", err)
		}
	})
}

func TestCreate_ConcurrentSameName(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	for n := range 10 {
		name := fmt.Sprintf("s%d", n)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				_, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name})
				if err != nil && session.KindOf(err) != session.KindExists {
					t.Error(err)
				}
				if _, err := c.GetSession(t.Context(), name); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
