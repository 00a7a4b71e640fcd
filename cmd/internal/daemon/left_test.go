package daemon_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
	"github.com/turnstone-repl/turnstone/workers"
)

func (d *testDaemon) sessionNames(c *client.Client) string {
	d.t.Helper()
	all, err := c.ListSessions(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// A session whose name no client knows can be neither used nor closed.
func TestCreate_AbandonedUnnamed(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	raw := r.dialRaw()
	for i := range 20 {
		raw.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/create"}`, i),
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		known := raw.receive()
		if !strings.Contains(known, "-32800") { // the cancel came too late: the name is known
			name := strings.Split(strings.Split(known, `"name":"`)[1], `"`)[0]
			if err := c.CloseSession(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw.send(`{"jsonrpc":"2.0","id":"kept","method":"session/create","params":{"name":"mine"}}`)
	_ = raw.receive()
	wait.Until(t, "only the one with a name is left", func() bool { return r.sessionNames(c) == "mine" })
	const tries = 20
	for range tries {
		gone := r.dialRaw()
		gone.send(`{"jsonrpc":"2.0","id":1,"method":"session/create"}`)
		_ = gone.conn.Close() // on a busy machine, the daemon may have answered before
	}
	wait.Until(t, "few are left whose clients have gone", func() bool { return len(strings.Fields(r.sessionNames(c))) <= tries/2 })
}

// logLines collects the lines of a log.
type logLines chan string

func (l logLines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// Otherwise the turn would continue in a session that no client can reach.
func TestClose_CancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir(), StopGrace: processTimeout}) // its worker ends at a time that the test chooses
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	asked := make(logLines, 99)
	r := startDaemon(t, func(o *daemon.Options) {
		o.Supervisor, o.Logger = sup, slog.New(slog.NewTextHandler(asked, nil))
	})
	c := r.dial()
	r.newSession(c)
	w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "ignore"}); err != nil {
		t.Fatal(err)
	}
	collectEvents(t, w, func(e timeline.Event) bool { // an interrupt before that would end the worker
		said, isText := e.Body.(timeline.Text)
		return isText && strings.Contains(string(said.Data), "ignoring")
	})
	before, err := c.GetSession(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	raw := r.dialRaw()
	raw.send(`{"jsonrpc":"2.0","id":1,"method":"session/reset","params":{"session":"main"}}`)
	wait.Until(t, "the worker is being ended", func() bool {
		s, err := c.GetSession(t.Context(), "main")
		return err == nil && s.State == session.StateStopping
	})
	raw.send(`{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"session":"main"}}`)
	for line := range asked {
		if strings.Contains(line, "session closed") {
			break
		}
	}
	raw.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if answer := raw.receive(); !strings.Contains(answer, "-32800") {
		t.Errorf("got %s", answer)
	}
	if names := r.sessionNames(c); names != "main" {
		t.Errorf("the sessions are %q", names)
	}
	worker, err := os.FindProcess(before.PID)
	if err == nil {
		err = worker.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	if answer := raw.receive(); !strings.Contains(answer, `"generation":2`) {
		t.Errorf("the reset: %s", answer)
	}
	r.runCode(c, "print on", "[session restarted: reset, state lost]\non\n")
}

func TestStreamLimit(t *testing.T) {
	t.Parallel()

	t.Run("an ended subscription no longer counts", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, func(o *daemon.Options) { o.DaemonIdleTimeout = 5 * time.Second }) // time for the first steps
		c := r.dial()
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "kept"}); err != nil {
			t.Fatal(err)
		}
		kept := r.dial() // between two rounds only this connection keeps the daemon alive
		if _, err := kept.Subscribe(t.Context(), protocol.SubscribeParams{Session: "kept"}); err != nil {
			t.Fatal(err)
		}
		for range 70 {
			r.newSession(c)
			w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.CloseSession(t.Context(), "main"); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = w.Next(t.Context())
			}
			if err != session.ErrClosed {
				t.Fatal(err)
			}
		}
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-r.served; err != nil { // though the connection is there
			t.Errorf("it ended with %v", err)
		}
		r.served <- nil
	})

	// A paused subscription of a closed session can still be read to its end, until a new one needs its room.
	t.Run("a paused subscription of a closed session makes room", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		var watches []*client.Subscription
		for range 65 {
			r.newSession(c)
			w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			watches = append(watches, w)
			if err := c.CloseSession(t.Context(), "main"); err != nil {
				t.Fatal(err)
			}
		}
		if err := watches[0].Resume(t.Context()); session.KindOf(err) != session.KindUnknownSubscription {
			t.Errorf("the oldest: %v", err)
		}
		if err := watches[1].Resume(t.Context()); err != nil {
			t.Errorf("the next: %v", err)
		}
	})
}

func TestReadCursor_NameLimit(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c, other := r.dial(), r.dial()
	r.newSession(c)
	mark := func(c *client.Client, i int) error {
		_, err := c.SaveReadCursor(t.Context(), protocol.ReadCursorParams{Session: "main", Reader: fmt.Sprint("reader", i), Seq: 1})
		return err
	}
	for i := range 64 {
		if err := mark(c, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := mark(c, 64); session.KindOf(err) != session.KindLimit {
		t.Errorf("one reader too many: %v", err)
	}
	if err := mark(c, 0); err != nil {
		t.Errorf("an existing reader: %v", err)
	}
	if err := mark(other, 64); err != nil {
		t.Errorf("a reader of another connection: %v", err)
	}
}

func TestWriteLock_SingleTurn(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	ada, bob, eve := r.dial(), r.dial(), r.dial()
	r.newSession(ada)
	for _, err := range []error{ada.TakeWriteLock(t.Context(), "main", "ada", false), bob.TakeWriteLock(t.Context(), "main", "bob", false)} {
		if err != nil {
			t.Fatal(err) // no lock excludes another client before a turn has started
		}
	}
	ask := func(c *client.Client) session.Reply {
		t.Helper()
		reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait name? ", WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.InputRequest == nil {
			t.Fatalf("got %+v, %v", reply, err)
		}
		return reply
	}
	answer := func(c *client.Client, reply session.Reply) error {
		_, err := c.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: reply.InputRequest.ID, Input: "x\n", WaitMS: processTimeout.Milliseconds()})
		return err
	}
	reply := ask(ada)
	for name, c := range map[string]*client.Client{"bob": bob, "eve": eve} {
		if err := answer(c, reply); session.KindOf(err) != session.KindLocked {
			t.Errorf("%s answers for ada's turn: %v", name, err)
		}
		if err := c.TakeWriteLock(t.Context(), "main", name, false); session.KindOf(err) != session.KindLocked {
			t.Errorf("%s takes the write lock of ada: %v", name, err)
		}
	}
	if err := answer(ada, reply); err != nil {
		t.Errorf("ada cannot answer: %v", err)
	}
	// Bob's lock is not for a turn that eve has started.
	reply = ask(eve)
	if err := bob.TakeWriteLock(t.Context(), "main", "bob", false); err != nil {
		t.Error(err)
	}
	if err := answer(eve, reply); err != nil {
		t.Errorf("eve cannot answer for her own turn: %v", err)
	}
}

func TestClients_ListAndDetach(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	ada, bob := r.dial(), r.dial()
	r.newSession(ada)
	w, err := ada.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main", Author: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if err := ada.TakeWriteLock(t.Context(), "main", "ada", true); err != nil {
		t.Fatal(err)
	}
	all, err := bob.ListClients(t.Context(), "main")
	if err != nil || len(all) != 1 || all[0].Author != "ada" || all[0].Self || len(all[0].Sessions) != 1 {
		t.Fatalf("got %+v, %v", all, err)
	}
	if got, want := all[0].Sessions[0], (protocol.Attachment{Session: "main", Watches: true, WriteLock: true, LongLock: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := bob.DetachClient(t.Context(), protocol.DetachParams{Client: all[0].Client, Author: "bob"}); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = w.Next(t.Context())
	}
	if session.KindOf(err) != session.KindDetached || !strings.Contains(err.Error(), "bob") {
		t.Errorf("ada got %v", err)
	}
	<-ada.Done()
	wait.Until(t, "the write lock is free", func() bool {
		s, err := bob.GetSession(t.Context(), "main")
		return err == nil && s.WriteLockHolder == ""
	})
	if all, err = bob.ListClients(t.Context(), ""); err != nil || len(all) != 1 || !all[0].Self {
		t.Errorf("afterwards: %+v, %v", all, err)
	}
}

func TestSessionIdleTimeout_UnusedOnly(t *testing.T) {
	t.Parallel()
	const unused = 3 * time.Second // a busy machine may take a while from one call to the next
	r := startDaemon(t, func(o *daemon.Options) { o.SessionIdleTimeout = unused })
	c := r.dial()
	for name, input := range map[string]string{"idle": "print x", "running": "sleep", "waiting": "wait name? ", "watched": "sleep"} {
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: name, Input: input}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "kept", SessionIdleTimeoutMS: processTimeout.Milliseconds() * 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "watched"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "watched", Turn: 1}); err != nil { // the turn kept the session open until a client subscribed
		t.Fatal(err)
	}
	wait.Until(t, "the idle one is closed", func() bool { return r.sessionNames(c) == "kept running waiting watched" })
	if _, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "running", Turn: 1}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the one that ran is closed after it", func() bool { return r.sessionNames(c) == "kept waiting watched" })
}

// Cleanup programs remove directories that were unused for long.
func TestSessionDirectory_Removed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/turnstone"
	sup, err := supervisor.New(&supervisor.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	self := testexec.OwnPath()
	r := startDaemon(t, func(o *daemon.Options) {
		o.Supervisor = sup
		o.FindSpec = func(protocol.CreateParams) (workers.Spec, error) { return fakeworker.NewSpec(self, nil), nil }
	})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	r.newSession(c)
	if err := os.RemoveAll(dir); err != nil {
		t.Skipf("a directory in use cannot be removed here: %v", err)
	}
	if _, err := c.ReadOutput(t.Context(), protocol.OutputParams{Session: "main", OutputQuery: session.OutputQuery{From: 1, To: 1}}); session.KindOf(err) != session.KindNoOutput {
		t.Errorf("its output: %v", err)
	}
	for range 2 {
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print x", WaitMS: processTimeout.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
	}
	reply, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(render.Events(reply.Events, nil).Text(), "was removed"); got != 1 {
		t.Errorf("it is reported %d times in %q", got, render.Events(reply.Events, nil).Text())
	}
	if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "second"}); err != nil {
		t.Errorf("another session: %v", err)
	}
}

func TestWait_CursorPastEnd(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	if _, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", After: 1 << 40}); session.KindOf(err) != "invalid_params" {
		t.Errorf("got %v", err)
	}
}

// A misspelt or ignored parameter would silently become a default.
func TestParams_Strict(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dialRaw()
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"session/get","params":{"SESSION":"main"}}`:                  `unknown field \"SESSION\"`,
		`{"jsonrpc":"2.0","id":1,"method":"session/get","params":{"session":"a","session":"b"}}`:       `duplicate field \"session\"`,
		`{"jsonrpc":"2.0","id":1,"method":"session/create","params":{"progressToken":1,"name":"a b"}}`: `name \"a b\"`,
		`{"type":null}`: `"code":-32600`,
	} {
		c.send(line)
		if got := c.receive(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want it to have %s", line, got, want)
		}
	}
}

func TestIsAuthor(t *testing.T) {
	for name, want := range map[string]bool{"ada": true, "Zoë 李": true, "\u202egro.live": false, "a\u200bb": false, "\x1b[2J": false, "a\nb": false} {
		if got := protocol.IsAuthor(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}
