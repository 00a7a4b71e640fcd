package daemon_test

import (
	"bufio"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// An idleClock is the clock of a daemon that stops after a minute without use. It stands still until a
// test moves it.
type idleClock struct {
	*testDaemon
	looks chan time.Time

	mu sync.Mutex
	at time.Time // guarded by mu
}

const idleTimeout = time.Minute

func startWithClock(t *testing.T, change func(*daemon.Options)) *idleClock {
	t.Helper()
	c := &idleClock{at: time.Now(), looks: make(chan time.Time)}
	c.testDaemon = startDaemon(t, func(o *daemon.Options) {
		o.DaemonIdleTimeout = idleTimeout
		o.SetClock(c.now, c.looks)
		if change != nil {
			change(o)
		}
	})
	return c
}

func (c *idleClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *idleClock) setTime(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// triggerCheck makes the daemon check its clock, and reports whether it did.
func (c *idleClock) triggerCheck() bool {
	c.t.Helper()
	select {
	case c.looks <- c.now():
		return true
	case err := <-c.served:
		c.served <- err // for the clean-up of the test
		return false
	case <-time.After(processTimeout):
		c.t.Fatal("the daemon does not look at its clock, and does not end")
		return false
	}
}

// wantRunningAt moves the clock and fails if the daemon stops. The last check of the daemon may
// still be under way.
func (c *idleClock) wantRunningAt(at time.Time) {
	c.t.Helper()
	c.setTime(at)
	if !c.isRunning() {
		c.t.Fatal("the daemon has stopped")
	}
}

// wantEndAt moves the clock and fails unless the daemon stops.
func (c *idleClock) wantEndAt(at time.Time) {
	c.t.Helper()
	c.setTime(at)
	if c.isRunning() {
		c.t.Fatal("the daemon has not ended")
	}
}

// isRunning reports whether the daemon continues after two checks of its clock.
func (c *idleClock) isRunning() bool {
	for range 2 {
		if !c.triggerCheck() {
			return false
		}
	}
	return true
}

// lastTurnEnd returns when the last turn of the session ended.
func (c *idleClock) lastTurnEnd(of *client.Client) time.Time {
	c.t.Helper()
	info, err := of.GetSession(c.t.Context(), "main")
	if err != nil {
		c.t.Fatal(err)
	}
	return info.StateSince
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()

	t.Run("listing sessions does not reset it", func(t *testing.T) {
		t.Parallel()
		clock := startWithClock(t, nil)
		c := clock.dial()
		clock.newSession(c)
		used := clock.lastTurnEnd(c)
		clock.wantRunningAt(used.Add(idleTimeout - 1))
		if _, err := c.ListSessions(t.Context()); err != nil {
			t.Error(err)
		}
		clock.wantEndAt(used.Add(idleTimeout))
	})

	t.Run("starts when the last turn ends", func(t *testing.T) {
		t.Parallel()
		clock := startWithClock(t, nil)
		c := clock.dial()
		clock.newSession(c)
		clock.runCode(c, "sleep 5ms", "")
		used := clock.lastTurnEnd(c)
		clock.wantRunningAt(used.Add(idleTimeout - 1))
		clock.wantEndAt(used.Add(idleTimeout))
	})

	t.Run("does not run while an input request is open", func(t *testing.T) {
		t.Parallel()
		clock := startWithClock(t, nil)
		c := clock.dial()
		clock.newSession(c)
		reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait name? ", WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.InputRequest == nil {
			t.Fatalf("got %+v, %v", reply, err)
		}
		late := clock.now().Add(3 * idleTimeout)
		clock.wantRunningAt(late)
		reply, err = c.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: reply.InputRequest.ID, Input: "Ada\n", WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.Outcome != "ok" {
			t.Fatalf("got %+v, %v", reply, err)
		}
		clock.wantRunningAt(late.Add(idleTimeout - 1))
		clock.wantEndAt(late.Add(idleTimeout))
	})

	t.Run("does not run while a named reader is connected", func(t *testing.T) {
		t.Parallel()
		clock := startWithClock(t, nil)
		agent, onlooker := clock.dial(), clock.dial()
		clock.newSession(agent)
		if _, err := agent.SaveReadCursor(t.Context(), protocol.ReadCursorParams{Session: "main", Reader: "bot", Own: true}); err != nil {
			t.Fatal(err)
		}
		late := clock.now().Add(3 * idleTimeout)
		clock.wantRunningAt(late)
		_ = agent.Close()
		wait.Until(t, "the agent is gone", func() bool {
			clients, err := onlooker.ListClients(t.Context(), "")
			return err == nil && len(clients) == 1
		})
		clock.wantEndAt(late.Add(2 * idleTimeout))
	})
}

func TestReaderName_OneConnection(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	one, two := r.dial(), r.dial()
	r.newSession(one)
	ask := func(c *client.Client, want string, seq timeline.Seq) {
		t.Helper()
		got, err := c.SaveReadCursor(t.Context(), protocol.ReadCursorParams{Session: "main", Reader: "bot", Own: true})
		if err != nil || got.Reader != want || got.Seq != seq {
			t.Errorf("got %+v, %v, want %s at %d", got, err, want, seq)
		}
	}
	ask(one, "bot", 0)
	ask(two, "bot#2", 0)
	for c, name := range map[*client.Client]string{one: "bot", two: "bot#2"} {
		seq := map[string]timeline.Seq{"bot": 1, "bot#2": 2}[name]
		if _, err := c.SaveReadCursor(t.Context(), protocol.ReadCursorParams{Session: "main", Reader: name, Seq: seq}); err != nil {
			t.Fatal(err)
		}
	}
	ask(one, "bot", 1)
	ask(two, "bot#2", 2)
	_ = two.Close()
	ask(r.dial(), "bot#2", 2)
	_ = one.Close()
	ask(r.dial(), "bot", 1) // at once, or when the daemon has noticed the end of the connection
}

func TestControl_StopDuringDrain(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	if _, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sleep 100s"}); err != nil {
		t.Fatal(err)
	}
	raw := r.dialRaw()
	raw.send(`{"type":"drain"}`, `{"type":"stop"}`)
	begun := time.Now()
	select {
	case <-c.Done():
	case <-time.After(processTimeout):
		t.Fatalf("it still drains after %s", time.Since(begun))
	}
}

func TestWriteLock_Unused(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	agent, user := r.dial(), r.dial()
	r.newSession(agent)
	for range 1000 { // each lock replaces the previous one
		if err := user.TakeWriteLock(t.Context(), "main", "ada", false); err != nil {
			t.Fatal(err)
		}
	}
	reply, err := agent.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait name? ", WaitMS: processTimeout.Milliseconds()})
	if err != nil || reply.InputRequest == nil {
		t.Fatalf("got %+v, %v", reply, err)
	}
	if _, err := agent.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: reply.InputRequest.ID, Input: "x\n", WaitMS: processTimeout.Milliseconds()}); err != nil {
		t.Errorf("the agent cannot answer for its own turn: %v", err)
	}
	if _, err := user.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait name? "}); err != nil {
		t.Fatal(err)
	}
	reply, err = agent.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
	if err != nil || reply.InputRequest == nil {
		t.Fatalf("got %+v, %v", reply, err)
	}
	if _, err := agent.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: reply.InputRequest.ID, Input: "x\n"}); session.KindOf(err) != session.KindLocked {
		t.Errorf("the agent answers in a turn for which ada has the write lock: %v", err)
	}
}

func TestLongCall_Progress(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	r.newSession(r.dial())
	raw := r.dialRaw()
	raw.send(`{"jsonrpc":"2.0","id":1,"method":"turn/start","params":{"session":"main","input":"sleep 3s","wait_ms":60000,"_meta":{"progressToken":"t"}}}`)
	told := 0
	for {
		var m struct {
			ID     int
			Method string
			Params struct {
				Token    string `json:"progressToken"`
				Progress float64
				Message  string
			}
		}
		if err := json.Unmarshal([]byte(raw.receive()), &m); err != nil {
			t.Fatal(err)
		}
		if m.ID == 1 {
			break
		}
		if m.Method != "notifications/progress" || m.Params.Token != "t" || m.Params.Progress < 1 || !strings.Contains(m.Params.Message, "running") {
			t.Errorf("got %+v", m)
		}
		told++
	}
	if told == 0 {
		t.Error("nothing was reported")
	}
}

func TestStream_ResumeInputRequest(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "wait name? ", WaitMS: processTimeout.Milliseconds()})
	if err != nil || reply.InputRequest == nil {
		t.Fatalf("got %+v, %v", reply, err)
	}
	var w protocol.SubscribeReply
	if err := c.Call(t.Context(), protocol.MethodSubscribe, protocol.SubscribeParams{Session: "main"}, &w); err != nil {
		t.Fatal(err)
	}
	p := protocol.SubscriptionParams{Subscription: w.Subscription}
	if err := c.Call(t.Context(), protocol.MethodPause, p, nil); err != nil {
		t.Fatal(err)
	}
	var again protocol.SubscribeReply
	if err := c.Call(t.Context(), protocol.MethodResume, p, &again); err != nil || again.InputRequest == nil || again.InputRequest.ID != reply.InputRequest.ID {
		t.Errorf("got %+v, %v, want input request %d", again, err, reply.InputRequest.ID)
	}
}

func TestStart_OmitsOldEvents(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range reply.Events {
		if e.Turn != reply.Turn {
			t.Errorf("got %+v of turn %d", e, e.Turn)
		}
	}
}

// A rawClient is a client that sends and receives plain lines.
type rawClient struct {
	t     testing.TB
	conn  net.Conn
	lines *bufio.Scanner
}

func (d *testDaemon) dialRaw() *rawClient {
	d.t.Helper()
	conn, err := client.Socket(d.socket).Dial(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(processTimeout))
	return &rawClient{d.t, conn, bufio.NewScanner(conn)}
}

func (c *rawClient) send(lines ...string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(strings.Join(lines, "\n") + "\n")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) receive() string {
	c.t.Helper()
	if !c.lines.Scan() {
		c.t.Fatalf("no answer: %v", c.lines.Err())
	}
	return c.lines.Text()
}
