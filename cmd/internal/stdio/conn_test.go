package stdio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func isEnded(c *Conn) bool {
	select {
	case <-c.InputEnded():
		return true
	default:
		return false
	}
}

// newPipedConn returns a Conn on pipes without buffers, and the client's ends of them.
func newPipedConn() (c *Conn, toConn *io.PipeWriter, fromConn *io.PipeReader) {
	in, toConn := io.Pipe()
	fromConn, out := io.Pipe()
	return &Conn{in: in, out: out, ended: make(chan struct{})}, toConn, fromConn
}

func TestConn(t *testing.T) {
	t.Parallel()

	t.Run("reports the end of input after the last byte", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, client, _ := newPipedConn()
			go func() {
				_, _ = client.Write([]byte("text"))
				_ = client.Close()
			}()
			b := make([]byte, 10)
			if n, err := c.Read(b); n != 4 || err != nil || isEnded(c) {
				t.Errorf("got %d, %v, ended %v", n, err, isEnded(c))
			}
			if _, err := c.Read(b); !errors.Is(err, io.EOF) || !isEnded(c) {
				t.Errorf("got %v, ended %v", err, isEnded(c))
			}
		})
	})

	t.Run("a client that reads gets what is written after CloseRead", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, _, client := newPipedConn()
			_ = c.CloseRead()
			go func() {
				time.Sleep(finalWriteTimeout - 1)
				_, _ = c.Write([]byte("last"))
				_ = c.Close()
			}()
			if text, err := io.ReadAll(client); string(text) != "last" || err != nil {
				t.Errorf("got %q, %v", text, err)
			}
		})
	})

	t.Run("a client that does not read delays the end for a bounded time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, _, _ := newPipedConn()
			began := time.Now()
			_ = c.CloseRead()
			_ = c.CloseRead()
			if _, err := c.Write([]byte("x")); err == nil || time.Since(began) != finalWriteTimeout {
				t.Errorf("it ended after %s with %v", time.Since(began), err)
			}
			if _, err := c.Read(make([]byte, 1)); err == nil || !isEnded(c) {
				t.Errorf("read: %v, ended %v", err, isEnded(c))
			}
		})
	})
}

// Pipes of the system can be read and written, and their waits end with Close.
func TestConn_Pipes(t *testing.T) {
	t.Parallel()
	in, client, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	unread, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	c := newConn(in, out)
	results := make(chan error, 2)
	go func() {
		_, err := c.Read(make([]byte, 10))
		results <- err
	}()
	go func() {
		_, err := c.Write(make([]byte, 10<<20)) // more than a pipe holds
		results <- err
	}()
	if _, err := unread.Read(make([]byte, 1)); err != nil { // the write has begun
		t.Fatal(err)
	}
	_ = c.Close()
	for range 2 {
		if err := <-results; err == nil {
			t.Error("a wait ended without an error")
		}
	}
}

// A stream without deadlines, such as a terminal or a Windows pipe, is read and written by
// goroutines.
func TestBlocking(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	text := strings.Repeat("some text\n", 20_000)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := newBlockingWriter(f)
	for part := text; part != ""; part = part[min(len(part), 12_345):] {
		if n, err := io.WriteString(w, part[:min(len(part), 12_345)]); err != nil {
			t.Fatal(n, err)
		}
	}
	_ = w.Close()
	if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	r := newBlockingReader(f)
	if got, err := io.ReadAll(r); string(got) != text || err != nil {
		t.Errorf("read %d bytes of %d, %v", len(got), len(text), err)
	}

	t.Run("Close ends the waits", func(t *testing.T) {
		t.Parallel()
		in, client, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r := newBlockingReader(in)
		got := make(chan error)
		go func() {
			_, err := r.Read(make([]byte, 1))
			got <- err
		}()
		_ = r.Close()
		if err := <-got; !errors.Is(err, os.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		_ = client.Close() // ends the goroutine
		unread, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w := newBlockingWriter(out)
		go func() {
			_, err := w.Write(make([]byte, 10<<20))
			got <- err
		}()
		if _, err := unread.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if err := <-got; !errors.Is(err, os.ErrClosed) {
			t.Errorf("write: %v", err)
		}
		_ = unread.Close()
	})
}

func TestListener(t *testing.T) {
	t.Parallel()
	c, _, _ := newPipedConn()
	l := NewListener(c)
	if got, err := l.Accept(); got != net.Conn(c) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	second := make(chan error)
	go func() {
		_, err := l.Accept()
		second <- err
	}()
	_, _ = l.Close(), l.Close()
	if err := <-second; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if isEnded(c) {
		t.Error("the client was disconnected")
	}
}

func TestLossyWriter(t *testing.T) {
	t.Parallel()

	t.Run("writes all lines in order", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			w := NewLossyWriter(&out)
			for range 3 {
				_, _ = io.WriteString(w, "a\n")
				_, _ = io.WriteString(w, "b\n")
			}
			w.Close(time.Second)
			if got := out.String(); got != "a\nb\na\nb\na\nb\n" {
				t.Errorf("got %q", got)
			}
		})
	})

	t.Run("leaves out what does not fit, and counts it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r, out := io.Pipe()
			w := NewLossyWriter(out)
			line := strings.Repeat("x", 1023) + "\n"
			const fit, more = maxLossyBytes / 1024, 36
			for range fit + more {
				_, _ = io.WriteString(w, line) // nobody reads
			}
			go func() {
				w.Close(time.Hour)
				_ = out.Close()
			}()
			got, err := io.ReadAll(r)
			if want := strings.Repeat(line, fit) + "repl: 36 lines were left out, because standard error was full\n"; string(got) != want || err != nil {
				t.Errorf("got %d bytes that end with %q, %v", len(got), got[max(0, len(got)-100):], err)
			}
		})
	})

	t.Run("Close waits for a bounded time", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r, out := io.Pipe()
			w := NewLossyWriter(out)
			_, _ = io.WriteString(w, "a\n")
			began := time.Now()
			w.Close(time.Second)
			if took := time.Since(began); took != time.Second {
				t.Errorf("it took %s", took)
			}
			_ = r.Close()
			synctest.Wait()
		})
	})
}
