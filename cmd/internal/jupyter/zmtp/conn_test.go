package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// newTestListener returns the endpoint of a listener that ends with the test.
func newTestListener(t *testing.T, kind SocketType, serve func(*Conn)) string {
	t.Helper()
	l, err := Listen("tcp://127.0.0.1:0", kind, serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "tcp://" + l.Addr().String()
}

// echoMessages sends back what it receives, like a heartbeat.
func echoMessages(c *Conn) {
	for {
		frames, err := c.Receive()
		if err != nil || c.Send(frames...) != nil {
			return
		}
	}
}

func dialTest(t *testing.T, endpoint string, kind SocketType, identity string) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), endpoint, kind, identity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wantEcho fails the test unless a message comes back over a new connection.
func wantEcho(t *testing.T, endpoint string) {
	t.Helper()
	c := dialTest(t, endpoint, Dealer, "")
	defer c.Close()
	if err := c.Send([]byte("ping"), nil, bytes.Repeat([]byte("x"), 300)); err != nil {
		t.Fatal(err)
	}
	frames, err := c.Receive()
	if err != nil || len(frames) != 3 || string(frames[0]) != "ping" || len(frames[1]) != 0 || len(frames[2]) != 300 {
		t.Fatalf("got %q, %v, want the message back", frames, err)
	}
}

// sendAsStranger connects, writes, and returns once the other side has closed the connection.
func sendAsStranger(t *testing.T, endpoint string, data []byte) {
	t.Helper()
	raw := dialRaw(t, endpoint)
	raw.Write(data)
	io.Copy(io.Discard, raw)
}

func dialRaw(t *testing.T, endpoint string) net.Conn {
	t.Helper()
	raw, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return raw
}

// greetingBytes returns a peer's half of a handshake, for a socket of the kind and identity.
func greetingBytes(kind, identity string) []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	ready := "\x05READY" + metadataProperty("Socket-Type", kind) + metadataProperty("Identity", identity)
	return append(g, "\x04"+string(rune(len(ready)))+ready...)
}

func metadataProperty(name, value string) string {
	return string(rune(len(name))) + name + string(binary.BigEndian.AppendUint32(nil, uint32(len(value)))) + value
}

func longHeader(flags byte, size uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{flags | 2}, size)
}

func TestListenerPeers(t *testing.T) {
	t.Parallel()

	t.Run("drops peers that break the protocol", func(t *testing.T) {
		t.Parallel()
		good := greetingBytes("DEALER", "")
		after := func(b []byte) []byte { return append(bytes.Clone(good), b...) }
		for name, data := range map[string][]byte{
			"2^36 bytes":                     after(longHeader(0, 1<<36)),
			"2^45 bytes":                     after(longHeader(0, 1<<45)),
			"2^62 bytes":                     after(longHeader(0, 1<<62)),
			"2^64-1 bytes":                   after(longHeader(0, 1<<64-1)),
			"a frame one byte too large":     after(longHeader(0, MaxMessage+1)),
			"two frames, together too large": after(append(append([]byte{1, 1, 'x'}, longHeader(0, MaxMessage)...), 'x')),
			"65 frames":                      after(bytes.Repeat([]byte{1, 0}, 65)),
			"unknown flags":                  after([]byte{0x88, 0}),
			"a command after the handshake":  after([]byte("\x04\x05\x04PING")),
			"a message before the handshake": append(bytes.Clone(good[:64]), 0, 1, 'x'),
			"a command of 2^40 bytes":        append(bytes.Clone(good[:64]), longHeader(4, 1<<40)...),
			"a property cut short":           append(bytes.Clone(good[:64]), "\x04\x08\x05READY\x09S"...),
			"a property without value":       append(bytes.Clone(good[:64]), "\x04\x07\x05READY\x00"...),
			"an empty command":               append(bytes.Clone(good[:64]), 4, 0),
			"the wrong kind":                 greetingBytes("SUB", ""),
			"HTTP":                           []byte("GET / HTTP/1.1\r\nHost: localhost\r\nX-Filler: " + strings.Repeat("x", 100) + "\r\n\r\n"),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				endpoint := newTestListener(t, Router, echoMessages)
				sendAsStranger(t, endpoint, data)
				wantEcho(t, endpoint)
			})
		}
	})

	t.Run("serves new peers despite unfinished handshakes", func(t *testing.T) {
		t.Parallel()
		endpoint := newTestListener(t, Router, echoMessages)
		for i := range 3 * MaxPeers {
			raw := dialRaw(t, endpoint)
			raw.Write(greetingBytes("DEALER", "")[:i%64])
		}
		wantEcho(t, endpoint)
	})

	t.Run("limits the number of peers", func(t *testing.T) {
		t.Parallel()
		endpoint := newTestListener(t, Router, echoMessages)
		var first *Conn
		for range MaxPeers {
			c := dialTest(t, endpoint, Dealer, "")
			c.Send([]byte("x"))
			if _, err := c.Receive(); err != nil {
				t.Fatal(err)
			}
			first = c
		}
		sendAsStranger(t, endpoint, greetingBytes("DEALER", "")) // returns once it was rejected
		first.Close()
		wantEcho(t, endpoint) // Dial retries until there is room
	})

	t.Run("rejects a duplicate identity until it is free", func(t *testing.T) {
		t.Parallel()
		endpoint := newTestListener(t, Router, echoMessages)
		first := dialTest(t, endpoint, Dealer, "ada")
		first.Send([]byte("x"))
		if _, err := first.Receive(); err != nil {
			t.Fatal(err)
		}
		sendAsStranger(t, endpoint, greetingBytes("DEALER", "ada"))
		first.Send([]byte("still"))
		if frames, err := first.Receive(); err != nil || string(frames[0]) != "still" {
			t.Fatalf("the first peer got %q, %v", frames, err)
		}
		first.Close()
		wait.Until(t, "the identity is free", func() bool { // the listener notices it a moment later
			c := dialTest(t, endpoint, Dealer, "ada")
			c.Send([]byte("again"))
			_, err := c.Receive()
			return err == nil
		})
	})
}

func TestMessageSize(t *testing.T) {
	t.Parallel()

	t.Run("delivers a message of the maximum size", func(t *testing.T) {
		t.Parallel()
		got := make(chan int, 1)
		endpoint := newTestListener(t, Router, func(c *Conn) {
			frames, err := c.Receive()
			if err != nil {
				t.Error(err)
			}
			n := 0
			for _, f := range frames {
				n += len(f)
			}
			got <- n
		})
		c := dialTest(t, endpoint, Dealer, "")
		if err := c.Send([]byte("x"), make([]byte, MaxMessage-1)); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != MaxMessage {
			t.Errorf("got %d bytes", n)
		}
	})

	t.Run("skips messages that are too large for a subscriber", func(t *testing.T) {
		t.Parallel()
		endpoint := newTestListener(t, XPub, func(c *Conn) {
			if _, err := c.Receive(); err != nil {
				return
			}
			c.Send([]byte("topic"), make([]byte, MaxMessage), []byte("end"))
			c.Send([]byte("topic"), []byte("small"))
			c.Receive()
		})
		c := dialTest(t, endpoint, Sub, "")
		if err := c.Subscribe(""); err != nil {
			t.Fatal(err)
		}
		var large *TooLargeError
		if frames, err := c.Receive(); !errors.As(err, &large) || large.Bytes != MaxMessage {
			t.Fatalf("got %d frames, %v", len(frames), err)
		}
		if frames, err := c.Receive(); err != nil || len(frames) != 2 || string(frames[1]) != "small" {
			t.Errorf("next message: got %q, %v", frames, err)
		}
	})
}

func TestSlowPeer(t *testing.T) {
	t.Parallel()

	t.Run("does not block other subscribers", func(t *testing.T) {
		t.Parallel()
		const messages, size = 300, 100 << 10
		asleep := make(chan struct{})
		endpoint := newTestListener(t, XPub, func(c *Conn) {
			topic, err := c.Receive()
			if err != nil || len(topic) != 1 || topic[0][0] != 1 {
				t.Errorf("got %q, %v, want a subscription", topic, err)
			}
			for i := range messages {
				if c.Send([]byte{byte(i)}, make([]byte, size)) != nil {
					return
				}
				if i == 0 && string(topic[0][1:]) == "asleep" {
					close(asleep)
				}
			}
		})
		dialTest(t, endpoint, Sub, "").Subscribe("asleep")
		<-asleep
		c := dialTest(t, endpoint, Sub, "")
		c.Subscribe("")
		for i := range messages {
			if frames, err := c.Receive(); err != nil || frames[0][0] != byte(i) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
	})

	t.Run("closes the connection of a peer that does not read", func(t *testing.T) {
		t.Parallel()
		left := make(chan error, 1)
		endpoint := newTestListener(t, Router, func(c *Conn) {
			for {
				if err := c.Enqueue(make([]byte, 1<<20)); err != nil {
					left <- err
					return
				}
			}
		})
		dialTest(t, endpoint, Dealer, "")
		if err := <-left; !errors.Is(err, ErrSlowPeer) {
			t.Errorf("got %v, want ErrSlowPeer", err)
		}
	})
}

func TestConn(t *testing.T) {
	t.Parallel()

	t.Run("delivers queued messages in order", func(t *testing.T) {
		t.Parallel()
		endpoint := newTestListener(t, Router, func(c *Conn) {
			for i := range 500 {
				c.Enqueue([]byte(fmt.Sprint(i)))
			}
			c.Receive()
		})
		c := dialTest(t, endpoint, Dealer, "")
		for i := range 500 {
			if frames, err := c.Receive(); err != nil || string(frames[0]) != fmt.Sprint(i) {
				t.Fatalf("message %d: got %q, %v", i, frames, err)
			}
		}
	})

	t.Run("closes peers in every state with the listener", func(t *testing.T) {
		t.Parallel()
		served := make(chan struct{})
		l, err := Listen("tcp://127.0.0.1:0", Router, func(c *Conn) { close(served); c.Receive() })
		if err != nil {
			t.Fatal(err)
		}
		endpoint := "tcp://" + l.Addr().String()
		dialRaw(t, endpoint).Write([]byte{0xff})
		dialTest(t, endpoint, Dealer, "")
		<-served
		if err := l.Close(); err != nil { // waits for both peers
			t.Error(err)
		}
	})

	t.Run("dials again until its context ends", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Dial(ctx, "ipc://"+t.TempDir()+"/none", Dealer, "")
		if err == nil || !strings.Contains(err.Error(), "cannot connect to ipc://") {
			t.Errorf("got %v", err)
		}
		for _, endpoint := range []string{"", "tcp://", "127.0.0.1:1", "pgm://x"} {
			if _, err := Dial(t.Context(), endpoint, Dealer, ""); err == nil {
				t.Errorf("%q was accepted as an endpoint", endpoint)
			}
		}
	})
}
