package conn

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// newConn returns a connection that is neither remote nor greeted.
func newConn(stream net.Conn) *Conn {
	return New(stream, Options{Protocol: 1, Methods: Methods{Info: "server/info"}})
}

// askDaemon asks the daemon for its process.
func askDaemon(ctx context.Context, c *Conn) (g DaemonGreeting, err error) {
	err = c.Call(ctx, c.options.Methods.Info, struct{}{}, &g)
	return g, err
}

// newSilentConn returns a connection to a daemon that reads but never answers.
func newSilentConn(t *testing.T) *Conn {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	c := newConn(ours)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestStuckDaemon(t *testing.T) {
	t.Run("a cancelled call returns without an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newSilentConn(t)
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			started := time.Now()
			_, err := askDaemon(ctx, c)
			if err != context.DeadlineExceeded || time.Since(started) > time.Second+cancelTimeout {
				t.Errorf("got %v after %s", err, time.Since(started))
			}
		})
	})

	t.Run("a call fails when nothing answers its probes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newSilentConn(t)
			started := time.Now()
			_, err := askDaemon(t.Context(), c)
			if session.KindOf(err) != session.KindUnreachable || time.Since(started) > 3*probeInterval {
				t.Errorf("got %v after %s", err, time.Since(started))
			}
			if _, err := askDaemon(t.Context(), c); session.KindOf(err) != session.KindUnreachable {
				t.Errorf("another call: %v", err)
			}
		})
	})

	t.Run("a call waits while its probes are answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := newConn(ours)
			defer c.Close()
			go func() { // it answers the first call after an hour, and probes at once
				b := make([]byte, 1<<10)
				for {
					n, err := theirs.Read(b)
					if err != nil {
						return
					}
					if strings.Contains(string(b[:n]), `"id":"probe"`) {
						_, _ = io.WriteString(theirs, `{"jsonrpc":"2.0","id":"probe","result":{}}`+"\n")
						continue
					}
					time.AfterFunc(time.Hour, func() { _, _ = io.WriteString(theirs, `{"jsonrpc":"2.0","id":1,"result":{"pid":7}}`+"\n") })
				}
			}()
			if i, err := askDaemon(t.Context(), c); err != nil || i.PID != 7 {
				t.Errorf("got %+v, %v", i, err)
			}
		})
	})
}
