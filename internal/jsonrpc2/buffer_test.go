package jsonrpc2

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func TestBuffer(t *testing.T) {
	t.Parallel()

	t.Run("bytes of any value follow the lines of requests and answers", func(t *testing.T) {
		t.Parallel()
		near, far := net.Pipe()
		o := &Options{MaxLine: 1 << 16, StallTimeout: time.Minute}
		server := make(chan *Conn, 1)
		withEcho := *o
		withEcho.OnMessage = func(m *Message) {
			c := <-server
			server <- c
			if err := c.SendResult(m.ID, Buffered{len(m.Buffer), bytes.Clone(m.Buffer)}); err != nil {
				t.Error(err)
			}
			c.Recycle(m.Buffer)
		}
		c, d := New(near, o), New(far, &withEcho)
		server <- d
		go func() { _ = c.Read() }()
		go func() { _ = d.Read() }()
		var calls sync.WaitGroup
		for i, size := range []int{1, 2, MaxBufferBytes/2 - 1, MaxBufferBytes / 2, MaxBufferBytes, 0} {
			buffer := bytes.Repeat([]byte{'\n', '{', 0xff, byte(i)}, size/4+1)[:size]
			calls.Go(func() {
				for range 5 {
					a, err := c.Call(t.Context(), "echo", Buffered{map[string]int{"a": 1}, buffer})
					if err != nil || string(a.Result) != fmt.Sprint(size) || !bytes.Equal(a.Buffer, buffer) {
						t.Errorf("%d bytes: got %s, %d bytes, %v", size, a.Result, len(a.Buffer), err)
					}
				}
			})
		}
		calls.Wait()
		if _, err := c.Call(t.Context(), "echo", Buffered{nil, make([]byte, MaxBufferBytes+1)}); !isSizeError(err) {
			t.Errorf("too many bytes: got %v", err)
		}
		c.Drop(ErrClosed)
		d.Drop(ErrClosed)
	})

	t.Run("a size that is not allowed is refused, and ends the connection", func(t *testing.T) {
		t.Parallel()
		for _, size := range []string{"0", "-1", "1048577", "1.5", `"1"`, "null", "[1]", "99999999999999999999"} {
			in := bytes.NewBufferString(`{"jsonrpc":"2.0","id":1,"method":"a","buffer":` + size + "}\nabc")
			var refused *Problem
			c := New(halfStream{in}, &Options{MaxLine: 1 << 16, StallTimeout: time.Minute,
				OnMessage:   func(m *Message) { t.Errorf("%s: got %+v", size, m) },
				OnMalformed: func(_ []byte, p *Problem) { refused = p },
			})
			err := c.Read()
			if err == nil || errors.Is(err, io.EOF) || refused == nil || string(refused.ID) != "1" || refused.Text != err.Error() {
				t.Errorf("%s: got %v, %+v", size, err, refused)
			}
			c.Drop(ErrClosed)
		}
	})

	t.Run("bytes that end too early are not delivered", func(t *testing.T) {
		t.Parallel()
		c := New(halfStream{bytes.NewBufferString(`{"jsonrpc":"2.0","id":1,"method":"a","buffer":4}` + "\nabc")}, &Options{
			MaxLine: 1 << 16, StallTimeout: time.Minute, OnMessage: func(m *Message) { t.Errorf("got %+v", m) },
		})
		if err := c.Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
		c.Drop(ErrClosed)
	})
}

func isSizeError(err error) bool {
	_, ok := errors.AsType[*SizeError](err)
	return ok
}

// A halfStream is a stream that nobody reads at the other end.
type halfStream struct{ io.Reader }

func (halfStream) Write(p []byte) (int, error) { return len(p), nil }
func (halfStream) Close() error                { return nil }

func TestWithBuffer(t *testing.T) {
	line := withBuffer([]byte(`{"id":1,"result":{}}`), []byte("abc"))
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil || string(m["buffer"]) != "3" || string(m["result"]) != "{}" {
		t.Errorf("got %s, %v", line, err)
	}
}
