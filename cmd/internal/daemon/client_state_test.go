package daemon_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
)

const testIdentity = "0123456789abcdef-caller"

// connectAs connects as the client with an identity.
func (d *testDaemon) connectAs(epoch uint64) *client.Client {
	d.t.Helper()
	c := d.dialWithoutHello()
	if err := c.Call(d.t.Context(), protocol.MethodHello, protocol.HelloParams{ID: testIdentity, Epoch: epoch}, nil); err != nil {
		d.t.Fatal(err)
	}
	return c
}

// dialWithoutHello connects without a hello.
func (d *testDaemon) dialWithoutHello() *client.Client {
	d.t.Helper()
	conn, err := client.Socket(d.socket).Dial(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	c := client.FromConn(conn)
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (d *testDaemon) writeLockHolder(c *client.Client) string {
	d.t.Helper()
	now, err := c.GetSession(d.t.Context(), "main")
	if err != nil {
		d.t.Fatal(err)
	}
	return now.WriteLockHolder
}

func saveReadCursor(t *testing.T, c *client.Client, p protocol.ReadCursorParams) protocol.ReadCursor {
	t.Helper()
	p.Session = "main"
	m, err := c.SaveReadCursor(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHello(t *testing.T) {
	t.Parallel()

	t.Run("a new connection takes over the state of a silent one", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		other := r.dial()
		r.newSession(other)
		dark := r.connectAs(1)
		saveReadCursor(t, dark, protocol.ReadCursorParams{Reader: "agent", Own: true})
		saveReadCursor(t, dark, protocol.ReadCursorParams{Reader: "agent", Seq: 2})
		if err := dark.TakeWriteLock(t.Context(), "main", "agent", true); err != nil {
			t.Fatal(err)
		}
		begun, err := dark.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait go? ", Author: "agent", WaitMS: processTimeout.Milliseconds()})
		if err != nil || begun.InputRequest == nil {
			t.Fatalf("got %+v, %v", begun, err)
		}
		if _, err := other.CreateSession(t.Context(), protocol.CreateParams{Name: "side"}); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := dark.StartTurn(context.Background(), protocol.StartParams{Session: "side", Input: "sleep 1h", WaitMS: 3600 * 1000})
			waiting <- err
		}()
		wait.Until(t, "the long turn runs", func() bool {
			now, err := other.GetSession(t.Context(), "side")
			return err == nil && now.Turn == 1 && now.State == session.StateRunning
		})

		again := r.connectAs(2)
		<-dark.Done()
		if err := <-waiting; session.KindOf(err) != session.KindUnreachable {
			t.Errorf("the call on the old connection got %v", err)
		}
		if m := saveReadCursor(t, again, protocol.ReadCursorParams{Reader: "agent", Own: true}); m.Reader != "agent" || m.Seq != 2 {
			t.Errorf("it reads as %+v", m)
		}
		if w := r.writeLockHolder(other); w != "agent" {
			t.Errorf("the write lock belongs to %q", w)
		}
		input := protocol.InputParams{Session: "main", InputRequest: begun.InputRequest.ID, Input: "yes\n", WaitMS: processTimeout.Milliseconds()}
		if _, err := other.SendInput(t.Context(), input); session.KindOf(err) != session.KindLocked {
			t.Errorf("another client writes: %v", err)
		}
		if reply, err := again.SendInput(t.Context(), input); err != nil || reply.Outcome != timeline.OutcomeOK {
			t.Errorf("the turn did not go on for its client: %+v, %v", reply, err)
		}
		if now, err := other.GetSession(t.Context(), "side"); err != nil || now.State != session.StateRunning {
			t.Errorf("the turn of the old connection was interrupted: %+v, %v", now.State, err)
		}
	})

	t.Run("a write lock for a turn survives a reconnect", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		other := r.dial()
		r.newSession(other)
		for i, leave := range []func(*client.Client){func(*client.Client) {}, func(c *client.Client) { _ = c.Close() }} {
			first := r.connectAs(uint64(2*i + 1))
			reply, err := first.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait go? ", Author: "agent", WriteLock: true, WaitMS: processTimeout.Milliseconds()})
			if err != nil || reply.InputRequest == nil {
				t.Fatalf("got %+v, %v", reply, err)
			}
			leave(first)
			second := r.connectAs(uint64(2*i + 2))
			wait.Until(t, "it has its write lock", func() bool { return r.writeLockHolder(other) == "agent" })
			if _, err := second.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: reply.InputRequest.ID, Input: "x\n", WaitMS: processTimeout.Milliseconds()}); err != nil {
				t.Error(err)
			}
			if w := r.writeLockHolder(other); w != "" {
				t.Errorf("after the turn %q has the write lock", w)
			}
		}
	})

	// A client whose connection ends releases its write lock. It gets the lock back when it reconnects,
	// unless another client has the lock, or the client was detached.
	t.Run("returns a write lock unless another client has it", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		other := r.dial()
		r.newSession(other)
		epoch := uint64(0)
		take := func() *client.Client {
			epoch++
			c := r.connectAs(epoch)
			if err := c.TakeWriteLock(t.Context(), "main", "agent", true); err != nil {
				t.Fatal(err)
			}
			return c
		}
		returns := func() string {
			epoch++
			c := r.connectAs(epoch)
			defer c.Close()
			return r.writeLockHolder(c)
		}
		free := func() { wait.Until(t, "the write lock is free", func() bool { return r.writeLockHolder(other) == "" }) }

		_ = take().Close()
		free()
		if w := returns(); w != "agent" {
			t.Errorf("the lock was free, and now %q has it", w)
		}
		free()
		_ = take().Close()
		free()
		if err := other.TakeWriteLock(t.Context(), "main", "ada", true); err != nil {
			t.Fatal(err)
		}
		if w := returns(); w != "ada" {
			t.Errorf("it was taken from ada by %q", w)
		}
		if err := other.ReleaseWriteLock(t.Context(), "main", "ada"); err != nil {
			t.Fatal(err)
		}
		c := take()
		all, err := c.ListClients(t.Context(), "main")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if one.Self {
				if err := other.DetachClient(t.Context(), protocol.DetachParams{Client: one.Client}); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-c.Done()
		free()
		if w := returns(); w != "" {
			t.Errorf("it was taken away by another user, and %q has it again", w)
		}
	})

	t.Run("rejects invalid ids, epochs and late calls", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		setting := r.dial()
		r.newSession(setting)
		used := r.dial()
		saveReadCursor(t, used, protocol.ReadCursorParams{Reader: "me", Own: true})
		now := r.connectAs(5)
		for _, bad := range []struct {
			conn *client.Client
			p    protocol.HelloParams
			says string
		}{
			{r.dialWithoutHello(), protocol.HelloParams{ID: "short", Epoch: 1}, "16 to 64 random letters"},
			{r.dialWithoutHello(), protocol.HelloParams{ID: strings.Repeat("x", 65), Epoch: 1}, "16 to 64 random letters"},
			{r.dialWithoutHello(), protocol.HelloParams{ID: "0123456789abcde\x00", Epoch: 1}, "16 to 64 random letters"},
			{r.dialWithoutHello(), protocol.HelloParams{ID: testIdentity}, "epoch is required"},
			{r.dialWithoutHello(), protocol.HelloParams{ID: testIdentity, Epoch: 4}, "epoch is 4 and must be above 5"},
			{r.dialWithoutHello(), protocol.HelloParams{ID: testIdentity, Epoch: 5}, "must be above 5"},
			{now, protocol.HelloParams{ID: testIdentity, Epoch: 6}, "the first call of a connection"},
			{used, protocol.HelloParams{ID: testIdentity, Epoch: 6}, "the first call of a connection"},
		} {
			err := bad.conn.Call(t.Context(), protocol.MethodHello, bad.p, nil)
			if err == nil || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%+v: got %v", bad.p, err)
			}
		}
		if _, err := now.GetSession(t.Context(), "main"); err != nil {
			t.Errorf("the valid connection was affected: %v", err)
		}
	})

	// The state of a client without an identity ends with its connection.
	t.Run("forgets the oldest client beyond the limit", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		first := r.connectAs(7)
		_ = first.Close()
		late := r.dial()
		wait.Until(t, "the first is gone", func() bool {
			all, err := late.ListClients(t.Context(), "")
			return err == nil && len(all) == 1
		})
		for i := range 1024 {
			c := r.dialWithoutHello()
			if err := c.Call(t.Context(), protocol.MethodHello, protocol.HelloParams{ID: fmt.Sprintf("one-of-many-clients-%d", i), Epoch: 1}, nil); err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
			_ = c.Close()
		}
		if c := r.connectAs(1); c == nil { // it is forgotten, so an old epoch is new
			t.Error("it is still known")
		}
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()

	t.Run("runs once however often it is repeated", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		c := r.connectAs(1)
		p := protocol.StartParams{Session: "main", Input: "wait name? ", Request: "one", WaitMS: processTimeout.Milliseconds()}
		turns := map[uint64]bool{}
		var asked timeline.Seq
		for range 3 {
			reply, err := c.StartTurn(t.Context(), p)
			if err != nil || reply.InputRequest == nil {
				t.Fatalf("got %+v, %v", reply, err)
			}
			turns[reply.Turn] = true
			asked = reply.InputRequest.ID
		}
		again := r.connectAs(2) // also over another connection
		answer := protocol.InputParams{Session: "main", InputRequest: asked, Input: "Ada\n", Request: "two", WaitMS: processTimeout.Milliseconds()}
		for range 3 {
			reply, err := again.SendInput(t.Context(), answer)
			if err != nil || reply.Outcome != timeline.OutcomeOK {
				t.Fatalf("got %+v, %v", reply, err)
			}
			turns[reply.Turn] = true
		}
		if len(turns) != 1 {
			t.Errorf("there were the turns %v", turns)
		}
		if reply, err := again.StartTurn(t.Context(), p); err != nil || !turns[reply.Turn] || reply.Outcome != timeline.OutcomeOK {
			t.Errorf("a repetition after the end got %+v, %v", reply, err)
		}
		var first session.Info
		for i := range 3 {
			var now session.Info
			if err := again.Call(t.Context(), protocol.MethodReset, protocol.EndParams{Session: "main", Request: "three"}, &now); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = now
			}
			if now.Generation != first.Generation {
				t.Errorf("the reset was repeated: generation %d after %d", now.Generation, first.Generation)
			}
		}
		for range 3 {
			if _, err := again.CreateSession(t.Context(), protocol.CreateParams{Name: "new", Request: "four"}); err != nil {
				t.Errorf("a repetition of create: %v", err)
			}
		}
		for range 3 {
			if err := again.Call(t.Context(), protocol.MethodClose, protocol.EndParams{Session: "new", Request: "five"}, nil); err != nil {
				t.Errorf("a repetition of close: %v", err)
			}
		}
		if _, err := again.CreateSession(t.Context(), protocol.CreateParams{Name: "new", Request: "four"}); session.KindOf(err) != session.KindClosed {
			t.Errorf("repeating the creation of a closed session: %v", err)
		}
	})

	t.Run("repeats an error without a new attempt", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		c := r.connectAs(1)
		busy, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait name? ", WaitMS: processTimeout.Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		p := protocol.StartParams{Session: "main", Input: "print too early", Request: "early", WaitMS: processTimeout.Milliseconds()}
		if _, err := c.StartTurn(t.Context(), p); session.KindOf(err) != session.KindWaiting {
			t.Fatalf("got %v", err)
		}
		if _, err := c.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: busy.InputRequest.ID, Input: "x\n", WaitMS: processTimeout.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.StartTurn(t.Context(), p); session.KindOf(err) != session.KindWaiting {
			t.Errorf("the repetition was carried out: %v", err)
		}
	})

	t.Run("rejects reused ids and invalid params", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		plain := r.dial()
		r.newSession(plain)
		c := r.connectAs(1)
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print a", Request: "a", WaitMS: processTimeout.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		for _, bad := range []struct {
			conn *client.Client
			p    protocol.StartParams
			says string
		}{
			{plain, protocol.StartParams{Input: "print b", Request: "b"}, "call client/hello first"},
			{c, protocol.StartParams{Input: "print b", Request: "a"}, `request "a" was another call`},
			{c, protocol.StartParams{Input: "print a", Silent: true, Request: "a"}, `request "a" was another call`},
			{c, protocol.StartParams{Input: "print b", Request: strings.Repeat("r", 65)}, "at most 64 bytes"},
			{c, protocol.StartParams{Input: "print b", Request: "c", WaitMS: -1}, "wait_ms is -1"},
			{c, protocol.StartParams{Input: "print b", Request: "c", ReadCursor: 1}, "read_cursor needs author"},
			{c, protocol.StartParams{Input: "print b", Request: "c", Author: "me", ReadCursor: 1 << 40}, "the last event is"},
		} {
			bad.p.Session = "main"
			if _, err := bad.conn.StartTurn(t.Context(), bad.p); err == nil || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%+v: got %v", bad.p, err)
			}
		}
		if now, err := c.GetSession(t.Context(), "main"); err != nil || now.Turn != 2 {
			t.Errorf("something ran: turn %d, %v", now.Turn, err)
		}
	})

	t.Run("remembers the last 256", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		c := r.connectAs(1)
		run := func(n int) uint64 {
			reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print x", Request: fmt.Sprint(n), WaitMS: processTimeout.Milliseconds()})
			if err != nil {
				t.Fatal(err)
			}
			return reply.Turn
		}
		first := run(0)
		for n := 1; n < 256; n++ {
			run(n)
		}
		if again := run(0); again != first {
			t.Errorf("request 0 was forgotten: turn %d after %d", again, first)
		}
		for n := 256; n < 2*256; n++ { // the repetition was the last before them
			run(n)
		}
		if again := run(0); again == first {
			t.Error("more than 256 are remembered")
		}
	})

	// A long call is repeated when its connection is lost, however many other calls were made in the
	// meantime.
	t.Run("never forgets an unanswered call", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		plain := r.dial()
		r.newSession(plain)
		if _, err := plain.CreateSession(t.Context(), protocol.CreateParams{Name: "other"}); err != nil {
			t.Fatal(err)
		}
		c := r.connectAs(1)
		p := protocol.StartParams{Session: "main", Input: "sleep 1h", Request: "long", WaitMS: 3600 * 1000}
		lost := make(chan error, 1)
		go func() {
			_, err := c.StartTurn(context.Background(), p)
			lost <- err
		}()
		wait.Until(t, "the turn runs", func() bool { now, err := plain.GetSession(t.Context(), "main"); return err == nil && now.Turn == 2 })
		for n := range 300 {
			if _, err := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "other", Turn: 99, Request: fmt.Sprint(n)}); err != nil {
				t.Fatal(err)
			}
		}
		again := r.connectAs(2)
		<-lost
		if _, err := again.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "other", Turn: 99, Request: "new"}); err != nil { // a newer call comes before the repetition
			t.Fatal(err)
		}
		p.WaitMS = 0
		if reply, err := again.StartTurn(t.Context(), p); err != nil || reply.Turn != 2 {
			t.Errorf("the repetition: turn %d, %v", reply.Turn, err)
		}
	})

	t.Run("remembers a panic as an error", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, func(o *daemon.Options) {
			o.FindSpec = func(protocol.CreateParams) (workers.Spec, error) { panic("a defect") }
		})
		c := r.connectAs(1)
		for range 2 {
			if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: "main", Request: "a"}); err == nil || !strings.Contains(err.Error(), "a defect") {
				t.Errorf("got %v", err)
			}
		}
	})

	// The first call submits the input while the session is not ready; the second waits for it.
	t.Run("a repetition joins a running call", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newSession(r.dial())
		dark := r.connectAs(1)
		p := protocol.StartParams{Session: "main", Input: "wait go? ", Request: "r", WaitMS: processTimeout.Milliseconds()}
		lost := make(chan error, 1)
		go func() {
			_, err := dark.StartTurn(context.Background(), p)
			lost <- err
		}()
		again := r.connectAs(2)
		reply, err := again.StartTurn(t.Context(), p)
		if err != nil || reply.InputRequest == nil || reply.Turn != 2 {
			t.Errorf("got %+v, %v", reply, err)
		}
		<-lost
	})
}

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("a cancelled call with Continues leaves the turn running", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.StartTurn(ctx, protocol.StartParams{Session: "main", Input: "wait go? ", Continues: true, WaitMS: 24 * 3600 * 1000})
			ended <- err
		}()
		wait.Until(t, "the turn runs", func() bool {
			now, err := c.GetSession(t.Context(), "main")
			return err == nil && now.Turn == 2
		})
		cancel()
		<-ended
		reply, err := c.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", Turn: 2, WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.InputRequest == nil {
			t.Errorf("got %+v, %v", reply, err)
		}
	})

	t.Run("stores the read cursor of its author", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		r.newSession(c)
		first := r.runCode(c, "print one", "one\n")
		if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print two", Author: "agent", ReadCursor: first.Next, WaitMS: processTimeout.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		if m := saveReadCursor(t, c, protocol.ReadCursorParams{Reader: "agent"}); m.Seq != first.Next {
			t.Errorf("it had read up to %d, want %d", m.Seq, first.Next)
		}
	})
}

func TestCreate_ExistingName(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, func(o *daemon.Options) {
		plain := o.FindSpec
		o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
			s, err := plain(p)
			s.Limits.Turn = time.Duration(p.Limits.TurnMS) * time.Millisecond
			s.Sandbox = nil
			if p.Sandbox != "" {
				s.Sandbox = &sandbox.Policy{Level: sandbox.Level(p.Sandbox), Network: sandbox.NetworkNone}
			}
			return s, err
		}
	})
	c := r.dial()
	r.newSession(c)
	now, err := c.GetSession(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		params protocol.CreateParams
		kind   session.Kind
		text   string
	}{
		{protocol.CreateParams{}, session.KindExists, "already open"},
		{protocol.CreateParams{Language: now.Language, Sandbox: "full", Dir: t.TempDir()}, session.KindExists, "already open"},
		{protocol.CreateParams{Sandbox: "read-only"}, session.KindDiffers, "open with the sandbox full, not read-only"},
		{protocol.CreateParams{Limits: protocol.SessionLimits{TurnMS: 60_000}}, session.KindDiffers, "open with no limits, not turns of 1m"},
		{protocol.CreateParams{Network: "none"}, session.KindInvalid, "need a sandbox"},
		{protocol.CreateParams{Protected: []string{"/x"}}, session.KindInvalid, "need a sandbox"},
	} {
		test.params.Name = "main"
		if _, err := c.CreateSession(t.Context(), test.params); session.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%+v: got %v", test.params, err)
		}
	}
}
