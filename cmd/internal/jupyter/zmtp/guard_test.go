package zmtp

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/go-zeromq/zmq4"
)

// A scriptConn is a connection whose peer has already sent everything.
type scriptConn struct{ io.Reader }

func (scriptConn) Write(p []byte) (int, error)      { return len(p), nil }
func (scriptConn) Close() error                     { return nil }
func (scriptConn) LocalAddr() net.Addr              { return nil }
func (scriptConn) RemoteAddr() net.Addr             { return nil }
func (scriptConn) SetDeadline(time.Time) error      { return nil }
func (scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (scriptConn) SetWriteDeadline(time.Time) error { return nil }

// A chunkReader reads in chunks of the sizes in a list, which it repeats.
type chunkReader struct {
	in    io.Reader
	sizes []byte
	next  int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.sizes) > 0 {
		n := int(c.sizes[c.next%len(c.sizes)])%16 + 1
		c.next++
		p = p[:min(n, len(p))]
	}
	return c.in.Read(p)
}

// readMessages runs a handshake and reads what follows; it returns the messages.
func readMessages(in io.Reader) (messages [][][]byte, total int64) {
	var unread atomic.Int64
	c, err := newConn(context.Background(), scriptConn{in}, zmq4.Router, "", true, &unread)
	if err != nil {
		return nil, unread.Load()
	}
	for {
		frames, err := c.Receive()
		if err != nil {
			return messages, unread.Load()
		}
		messages = append(messages, frames)
	}
}

// FuzzGuard_SplitReadsChangeNothing checks that no input of a peer, in chunks of any size, makes the
// library panic or allocate more than the bounds. The chunks must not matter, and no bytes may stay
// counted at the end.
func FuzzGuard_SplitReadsChangeNothing(f *testing.F) {
	hello := greetingBytes("DEALER", "ada")
	f.Add(append(bytes.Clone(hello), 1, 1, 'a', 0, 2, 'b', 'c'), []byte{1})
	f.Add(append(bytes.Clone(hello), 3, 0, 0, 0, 0, 0, 0, 1, 0), []byte{3, 1})
	f.Add(append(bytes.Clone(hello), 2, 0x40, 0, 0, 0, 0, 0, 0, 0), []byte{})
	f.Add(append(bytes.Clone(hello[:64]), 4, 7, 5, 'R', 'E', 'A', 'D', 'Y', 0), []byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte{2})
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		whole, left := readMessages(bytes.NewReader(data))
		if left != 0 {
			t.Errorf("got %d bytes still counted, want 0", left)
		}
		split, _ := readMessages(&chunkReader{in: bytes.NewReader(data), sizes: sizes})
		single, _ := readMessages(iotest.OneByteReader(bytes.NewReader(data)))
		if len(split) != len(whole) || len(single) != len(whole) {
			t.Fatalf("got %d messages, %d in chunks, %d byte by byte", len(whole), len(split), len(single))
		}
		for i := range whole {
			for j := range whole[i] {
				if !bytes.Equal(whole[i][j], split[i][j]) {
					t.Errorf("frame %d of message %d differs", j, i)
				}
			}
		}
	})
}
