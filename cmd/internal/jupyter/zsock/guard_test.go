package zsock

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

// A script is a connection whose peer has said everything already.
type script struct{ io.Reader }

func (script) Write(p []byte) (int, error)      { return len(p), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return nil }
func (script) RemoteAddr() net.Addr             { return nil }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

// chunks reads in pieces of the sizes that a list gives, again and again.
type chunks struct {
	in    io.Reader
	sizes []byte
	next  int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.sizes) > 0 {
		n := int(c.sizes[c.next%len(c.sizes)])%16 + 1
		c.next++
		p = p[:min(n, len(p))]
	}
	return c.in.Read(p)
}

// speak runs a handshake and reads what follows; it returns the messages.
func speak(in io.Reader) (messages [][][]byte, total int64) {
	var unread atomic.Int64
	c, err := handshake(context.Background(), script{in}, zmq4.Router, "", true, &unread)
	if err != nil {
		return nil, unread.Load()
	}
	for {
		frames, err := c.Recv()
		if err != nil {
			return messages, unread.Load()
		}
		messages = append(messages, frames)
	}
}

// FuzzGuard_SplitReadsChangeNothing holds that nothing a peer says, in pieces of any size, makes
// the library panic or allocate more than the bounds, that the pieces do not matter, and that
// what was announced is forgotten in the end.
func FuzzGuard_SplitReadsChangeNothing(f *testing.F) {
	hello := greeting("DEALER", "ada")
	f.Add(append(bytes.Clone(hello), 1, 1, 'a', 0, 2, 'b', 'c'), []byte{1})
	f.Add(append(bytes.Clone(hello), 3, 0, 0, 0, 0, 0, 0, 1, 0), []byte{3, 1})
	f.Add(append(bytes.Clone(hello), 2, 0x40, 0, 0, 0, 0, 0, 0, 0), []byte{})
	f.Add(append(bytes.Clone(hello[:64]), 4, 7, 5, 'R', 'E', 'A', 'D', 'Y', 0), []byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), []byte{2})
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		whole, left := speak(bytes.NewReader(data))
		if left != 0 {
			t.Errorf("%d bytes are still counted", left)
		}
		split, _ := speak(&chunks{in: bytes.NewReader(data), sizes: sizes})
		single, _ := speak(iotest.OneByteReader(bytes.NewReader(data)))
		if len(split) != len(whole) || len(single) != len(whole) {
			t.Fatalf("%d messages, %d in pieces, %d byte by byte", len(whole), len(split), len(single))
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
