package client

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

// newSilentConn returns a connection to a daemon that reads but never answers.
func newSilentConn(t *testing.T) *Conn {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	c := NewConn(ours)
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
			_, err := c.DaemonInfo(ctx)
			if err != context.DeadlineExceeded || time.Since(started) > time.Second+cancelTimeout {
				t.Errorf("got %v after %s", err, time.Since(started))
			}
		})
	})

	t.Run("a call fails when nothing answers its probes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newSilentConn(t)
			started := time.Now()
			_, err := c.DaemonInfo(t.Context())
			if session.KindOf(err) != KindUnreachable || time.Since(started) > 3*probeInterval {
				t.Errorf("got %v after %s", err, time.Since(started))
			}
			if _, err := c.DaemonInfo(t.Context()); session.KindOf(err) != KindUnreachable {
				t.Errorf("another call: %v", err)
			}
		})
	})

	t.Run("a call waits while its probes are answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := NewConn(ours)
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
			if i, err := c.DaemonInfo(t.Context()); err != nil || i.PID != 7 {
				t.Errorf("got %+v, %v", i, err)
			}
		})
	})
}

func TestDial_OtherProtocol(t *testing.T) {
	l, socket := listenAsDaemon(t)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"result":{"version":"9.0","protocol":2}}`+"\n")
		_, _ = io.Copy(io.Discard, conn)
	}()
	if _, err := Dial(t.Context(), Socket(socket)); session.KindOf(err) != KindProtocol || !strings.Contains(err.Error(), "speaks protocol 2") {
		t.Errorf("got %v", err)
	}
}
