package daemon_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// maxAhead bounds how many bytes of an unread stream may arrive. It covers what the client stores,
// what the daemon queues before the pause reaches it, and the buffers of both ends.
const maxAhead = 12 << 20

// A countingConn counts what is read from a connection.
type countingConn struct {
	net.Conn
	read atomic.Int64
}

func (cc *countingConn) Read(b []byte) (int, error) {
	n, err := cc.Conn.Read(b)
	cc.read.Add(int64(n))
	return n, err
}

// dialCounting connects another client to the daemon. It also returns the connection, which counts
// the received bytes.
func (d *testDaemon) dialCounting() (*client.Client, *countingConn) {
	d.t.Helper()
	conn, err := client.Socket(d.socket).Dial(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	m := &countingConn{Conn: conn}
	c := client.FromConn(m)
	d.t.Cleanup(func() { _ = c.Close() })
	return c, m
}

// waitUntilStill makes calls until only their answers arrive.
func (cc *countingConn) waitUntilStill(t *testing.T, c *client.Client) {
	t.Helper()
	for still, before := 0, int64(-1); still < 50; still++ {
		if err := c.Call(t.Context(), protocol.MethodPing, struct{}{}, nil); err != nil {
			t.Fatal(err)
		}
		now := cc.read.Load()
		if now-before > 1<<10 {
			still = 0
		}
		before = now
	}
}

// newBulkySession makes a session "main", and has it write half as much again as maxAhead. It returns the last turn.
func (d *testDaemon) newBulkySession() uint64 {
	d.t.Helper()
	c := d.dial()
	d.newSession(c)
	return d.writeBulk(c)
}

func (d *testDaemon) writeBulk(c *client.Client) (last uint64) {
	d.t.Helper()
	for range 3 * maxAhead / 2 >> 20 {
		reply, err := c.StartTurn(d.t.Context(), protocol.StartParams{Session: "main", Input: "bulk 1048576", WaitMS: processTimeout.Milliseconds()})
		if err != nil || reply.Outcome != timeline.OutcomeOK {
			d.t.Fatalf("got %+v, %v", reply.State, err)
		}
		last = reply.Turn
	}
	return last
}

func TestSlowReader(t *testing.T) {
	t.Parallel()

	t.Run("pauses an unread stream and resumes it when it is read", func(t *testing.T) {
		t.Parallel()
		for name, before := range map[string]bool{"live": false, "snapshot": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := startDaemon(t, nil)
				c, m := r.dialCounting()
				var w *client.Subscription
				var last uint64
				subscribe := func() {
					var err error
					if w, err = c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"}); err != nil {
						t.Fatal(err)
					}
				}
				if before {
					last = r.newBulkySession()
					subscribe()
				} else {
					r.newSession(r.dial())
					subscribe()
					last = r.writeBulk(r.dial())
				}
				m.waitUntilStill(t, c)
				if got := m.read.Load(); got > maxAhead {
					t.Errorf("a reader that reads nothing got %d bytes, more than %d", got, maxAhead)
				}
				wantNoGaps(t, collectEvents(t, w, isEndOfTurn(last)), 1)
			})
		}
	})

	t.Run("ends a paused stream when its session closes", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		r.newBulkySession()
		c, m := r.dialCounting()
		w, err := c.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		m.waitUntilStill(t, c)
		if err := c.CloseSession(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		for last := timeline.Seq(0); ; {
			e, err := w.Next(t.Context())
			if errors.Is(err, session.ErrClosed) {
				return
			}
			from := e.Seq
			if g, lost := e.Body.(timeline.Gap); lost {
				from = g.From
			}
			if err != nil || from != last+1 {
				t.Fatalf("after event %d: got event %d, %v", last, e.Seq, err)
			}
			last = e.Seq
		}
	})
}
