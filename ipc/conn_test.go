package ipc_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// A scriptedChannel accepts at most room bytes in TryWrite calls; its Write blocks until
// release is closed.
type scriptedChannel struct {
	release chan struct{}
	writes  atomic.Int32 // calls to Write

	mu   sync.Mutex
	room int          // guarded by mu
	got  bytes.Buffer // guarded by mu
}

func (c *scriptedChannel) TryWrite(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(b), c.room)
	c.room -= n
	return c.got.Write(b[:n])
}

func (c *scriptedChannel) Write(b []byte) (int, error) {
	c.writes.Add(1)
	<-c.release
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.Write(b)
}

func (c *scriptedChannel) Read([]byte) (int, error) { return 0, io.EOF }
func (c *scriptedChannel) Close() error             { return nil }

func (c *scriptedChannel) writtenBytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.got.Bytes())
}

func mustEncodeFrames(t testing.TB, messages ...ipc.Message) []byte {
	t.Helper()
	var stream []byte
	for _, m := range messages {
		var err error
		if stream, err = ipc.AppendFrame(stream, m); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

func TestConnSend(t *testing.T) {
	t.Run("writes directly while the pipe has room", func(t *testing.T) {
		ch := &scriptedChannel{room: 1 << 20, release: make(chan struct{})}
		c := ipc.NewConn(ch, ipc.FromWorker)
		defer c.Close()
		want := []ipc.Message{ipc.TurnStart{Turn: 1}, ipc.TurnStart{Turn: 2}}
		for _, m := range want {
			if err := c.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		if got := ch.writtenBytes(); !bytes.Equal(got, mustEncodeFrames(t, want...)) || ch.writes.Load() != 0 {
			t.Errorf("got %x after %d calls of Write, want both frames and none", got, ch.writes.Load())
		}
	})

	t.Run("the rest of a partly written frame follows in order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ch := &scriptedChannel{room: 7, release: make(chan struct{})}
			c := ipc.NewConn(ch, ipc.FromWorker)
			var want []ipc.Message
			for turn := range uint64(20) {
				want = append(want, ipc.Interrupt{Turn: turn, Seq: 1, Level: 1})
				if err := c.Send(want[turn]); err != nil { // would deadlock here if it waited
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if got := ch.writtenBytes(); len(got) != 7 {
				t.Errorf("got %d bytes before there was room, want 7", len(got))
			}
			close(ch.release)
			synctest.Wait()
			if got := ch.writtenBytes(); !bytes.Equal(got, mustEncodeFrames(t, want...)) {
				t.Errorf("got %x, want the frames in order", got)
			}
			// The pipe is free again, so the caller writes directly.
			ch.mu.Lock()
			ch.room = 1 << 20
			ch.mu.Unlock()
			before := ch.writes.Load()
			if err := c.Send(ipc.Shutdown{}); err != nil || ch.writes.Load() != before {
				t.Errorf("got %v and a call of Write, want a direct one", err)
			}
			c.Close()
		})
	})

	t.Run("a peer that does not read fills a bounded queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := ipc.NewConn(ours, ipc.FromWorker)
			large := ipc.TurnStart{Turn: 1, Input: make([]byte, ipc.MaxFrameBytes-100)}
			for range 2 {
				if err := c.Send(large); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Send(large); !errors.Is(err, ipc.ErrQueueFull) {
				t.Fatalf("got %v, want ErrQueueFull", err)
			}
			peer := ipc.NewConn(theirs, ipc.FromSupervisor)
			for range 2 {
				if _, err := peer.Receive(); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if err := c.Send(ipc.Shutdown{GraceMS: 5}); err != nil {
				t.Fatal(err)
			}
			if m, err := peer.Receive(); err != nil || m != (ipc.Shutdown{GraceMS: 5}) {
				t.Errorf("got %v, %v, want the frame after the full queue", m, err)
			}
			c.Close()
			peer.Close()
		})
	})

	t.Run("refuses an oversized message with ErrTooLarge", func(t *testing.T) {
		ch := &scriptedChannel{room: 1 << 30, release: make(chan struct{})}
		close(ch.release)
		c := ipc.NewConn(ch, ipc.FromWorker)
		defer c.Close()
		worker := ipc.NewConn(ch, ipc.FromSupervisor)
		defer worker.Close()
		for name, send := range map[string]func() error{
			"input over a frame":   func() error { return c.Send(ipc.TurnStart{Turn: 1, Input: make([]byte, ipc.MaxFrameBytes)}) },
			"input far over":       func() error { return c.Send(ipc.TurnStart{Turn: 1, Input: make([]byte, ipc.MaxFrameBytes+1)}) },
			"output over 64 KiB":   func() error { return worker.Send(ipc.Output{Stream: ipc.Stdout, Data: make([]byte, 64<<10+1)}) },
			"prompt over 64 KiB":   func() error { return worker.Send(ipc.Idle{Prompt: strings.Repeat("x", 64<<10+1), Outcome: "ok"}) },
			"too many variables":   func() error { return worker.Send(ipc.QueryResult{Status: "ok", Variables: make([]ipc.Variable, 201)}) },
			"too many completions": func() error { return worker.Send(ipc.QueryResult{Status: "ok", Matches: make([]string, 201)}) },
		} {
			if err := send(); !errors.Is(err, ipc.ErrTooLarge) {
				t.Errorf("%s: got %v, want ErrTooLarge", name, err)
			}
		}
		if got := ch.writtenBytes(); len(got) != 0 {
			t.Errorf("got %d bytes on the channel, want none", len(got))
		}
	})

	t.Run("refuses a message that violates the protocol", func(t *testing.T) {
		ch := &scriptedChannel{room: 1 << 30, release: make(chan struct{})}
		worker := ipc.NewConn(ch, ipc.FromSupervisor)
		defer worker.Close()
		for _, m := range []ipc.Message{
			ipc.Shutdown{},                          // for the other direction
			ipc.Idle{},                              // no outcome
			ipc.Idle{Outcome: "fine"},               // unknown outcome
			ipc.Idle{Outcome: "ok", Prompt: "\xff"}, // not UTF-8
			ipc.Idle{Outcome: "ok", Error: new(ipc.RuntimeError)}, // an empty error
			ipc.InputLine{Text: "hunter2", Secret: true},          // a secret in plain text
			ipc.StdinWait{Kind: "line", Want: "line"},             // wait 0
			&ipc.Sigint{Owner: "ours"},                            // not by value
			nil,
		} {
			if err := worker.Send(m); err == nil {
				t.Errorf("%#v was sent", m)
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the secret: %v", err)
			}
		}
		if got := ch.writtenBytes(); len(got) != 0 {
			t.Errorf("got %d bytes on the channel, want none", len(got))
		}
	})

	t.Run("keeps the frames of each sender in order", func(t *testing.T) {
		ours, theirs := newDuplexPair(t)
		c := ipc.NewConn(ours, ipc.FromSupervisor)
		defer c.Close()
		peer := ipc.NewConn(theirs, ipc.FromWorker)
		defer peer.Close()
		const senders, each = 8, 500
		var wg sync.WaitGroup
		for s := range uint64(senders) {
			wg.Go(func() {
				for i := range uint64(each) {
					if err := c.Send(ipc.InterruptAck{Turn: s, Seq: i + 1, Result: ipc.InterruptRaised}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		last := make([]uint64, senders)
		for range senders * each {
			m, err := peer.Receive()
			if err != nil {
				t.Fatal(err)
			}
			ack := m.(ipc.InterruptAck)
			if ack.Seq != last[ack.Turn]+1 {
				t.Fatalf("sender %d: got %d after %d", ack.Turn, ack.Seq, last[ack.Turn])
			}
			last[ack.Turn] = ack.Seq
		}
		wg.Wait()
	})

	t.Run("reports that the peer has gone", func(t *testing.T) {
		ours, theirs := newDuplexPair(t)
		c := ipc.NewConn(ours, ipc.FromWorker)
		defer c.Close()
		theirs.Close()
		var err error
		for err == nil { // if the pipe cannot be written to at once, the writer notices
			err = c.Send(ipc.Shutdown{})
		}
		if errors.Is(err, ipc.ErrQueueFull) {
			t.Error("sent without a peer")
		}
		if _, err := c.Receive(); err != io.EOF {
			t.Errorf("got %v, want io.EOF", err)
		}
	})
}

func TestConnReceive(t *testing.T) {
	t.Run("ends with EOF between frames, unexpected EOF inside one", func(t *testing.T) {
		frame := mustEncodeFrames(t, ipc.Sigint{Owner: ipc.SigintUser})
		for cut := range len(frame) + 1 {
			stream := slices.Concat(frame, frame[:cut])
			c := ipc.NewConn(readOnlyChannel{bytes.NewReader(stream)}, ipc.FromWorker)
			whole := 1 + cut/len(frame)
			for range whole {
				if m, err := c.Receive(); err != nil || m != (ipc.Sigint{Owner: ipc.SigintUser}) {
					t.Fatalf("cut at %d: got %v, %v", cut, m, err)
				}
			}
			want := io.ErrUnexpectedEOF
			if cut%len(frame) == 0 {
				want = io.EOF
			}
			for range 2 { // the error persists
				if _, err := c.Receive(); err != want {
					t.Errorf("cut at %d: got %v, want %v", cut, err, want)
				}
			}
			c.Close()
		}
	})

	t.Run("reads frames in pieces of any size", func(t *testing.T) {
		var want []ipc.Message
		for i := range 40 {
			want = append(want, ipc.Output{Stream: ipc.Stdout, Data: bytes.Repeat([]byte{byte(i)}, i*i*40+1)})
		}
		stream := mustEncodeFrames(t, want...)
		for name, r := range map[string]io.Reader{
			"all at once":          bytes.NewReader(stream),
			"byte by byte":         iotest.OneByteReader(bytes.NewReader(stream)),
			"halves":               iotest.HalfReader(bytes.NewReader(stream)),
			"the end with a piece": iotest.DataErrReader(bytes.NewReader(stream)),
		} {
			c := ipc.NewConn(readOnlyChannel{r}, ipc.FromWorker)
			var got []ipc.Message
			for {
				m, err := c.Receive()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				got = append(got, m)
			}
			// Compared at the end, when the read buffer has been reused many times.
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got different messages", name)
			}
			c.Close()
		}
	})

	t.Run("Close ends a pending Receive and a stuck writer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe() // no peer reads it: the writer is stuck
			defer theirs.Close()
			c := ipc.NewConn(ours, ipc.FromWorker)
			if err := c.Send(ipc.Shutdown{}); err != nil {
				t.Fatal(err)
			}
			received := make(chan error, 1)
			go func() {
				_, err := c.Receive()
				received <- err
			}()
			synctest.Wait()
			for range 2 {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-received; err != ipc.ErrClosed {
				t.Errorf("Receive: got %v, want ErrClosed", err)
			}
			if err := c.Send(ipc.Shutdown{}); err != ipc.ErrClosed {
				t.Errorf("Send: got %v, want ErrClosed", err)
			}
		}) // a writer that still runs would be reported as a deadlock
	})
}

// newDuplexPair returns a channel of two one-way pipes, as between supervisor and worker.
func newDuplexPair(t testing.TB) (ours, theirs *duplex) {
	t.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = newDuplex(t, r1, w2), newDuplex(t, r2, w1)
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestConnClose(t *testing.T) {
	t.Parallel()
	t.Run("delivers queued frames, even to a slow peer", func(t *testing.T) {
		for name, channel := range map[string]func(t *testing.T) (ours, theirs io.ReadWriteCloser){
			"pipes":   func(t *testing.T) (io.ReadWriteCloser, io.ReadWriteCloser) { a, b := newDuplexPair(t); return a, b },
			"no room": func(*testing.T) (io.ReadWriteCloser, io.ReadWriteCloser) { a, b := net.Pipe(); return a, b },
		} {
			t.Run(name, func(t *testing.T) {
				ours, theirs := channel(t)
				c, peer := ipc.NewConn(ours, ipc.FromSupervisor), ipc.NewConn(theirs, ipc.FromWorker)
				defer peer.Close()
				large := ipc.Output{Stream: ipc.Stdout, Data: bytes.Repeat([]byte("x"), 64<<10)}
				for range 16 { // much more than the capacity of a pipe
					if err := c.Send(large); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Send(ipc.SessionEnd{Reason: ipc.EndExit}); err != nil {
					t.Fatal(err)
				}
				closed := make(chan error, 1)
				go func() { closed <- c.Close() }()
				var last ipc.Message
				for n := 0; ; n++ {
					m, err := peer.Receive()
					if err == io.EOF {
						if n != 17 {
							t.Errorf("got %d messages, want 17", n)
						}
						break
					}
					if err != nil {
						t.Fatalf("after %d messages: %v", n, err)
					}
					last = m
				}
				if end, ok := last.(ipc.SessionEnd); !ok || end.Reason != ipc.EndExit {
					t.Errorf("the last message is %v, want session_end", last)
				}
				if err := <-closed; err != nil {
					t.Error(err)
				}
			})
		}
	})
	t.Run("refuses further frames, and waits at most a second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe() // no peer reads it
			defer theirs.Close()
			c := ipc.NewConn(ours, ipc.FromWorker)
			if err := c.Send(ipc.Shutdown{}); err != nil {
				t.Fatal(err)
			}
			started, closed := time.Now(), make(chan error, 1)
			go func() { closed <- c.Close() }()
			synctest.Wait()
			if err := c.Send(ipc.Shutdown{}); err != ipc.ErrClosed {
				t.Errorf("Send: got %v, want ErrClosed", err)
			}
			if err := <-closed; err != nil || time.Since(started) != time.Second {
				t.Errorf("got %v after %s, want a second", err, time.Since(started))
			}
		})
	})
}
