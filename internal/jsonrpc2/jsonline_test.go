package jsonrpc2

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReader(t *testing.T) {
	t.Run("skips a line over the limit and reports its id", func(t *testing.T) {
		const most = 8 << 10
		long := strings.Repeat("x", 3*most)
		for name, test := range map[string]struct{ line, id string }{
			"the id comes first":     {`{"jsonrpc":"2.0","id":41,"params":{"id":1,"long":"` + long + `"}}`, `41`},
			"the id comes last":      {`{"params":{"id":1,"long":"` + long + `"},"id":"a\"b" }`, `"a\"b"`},
			"the id is hidden":       {`{"id":[1],"long":"` + long + `","params":{"id":43}}`, ``},
			"no message":             {long, ``},
			"one byte over":          {strings.Repeat("x", most+1), ``},
			"many ids, none of them": {`[` + strings.Repeat(`{"id":1},`, most) + `1]`, ``},
		} {
			r := NewReader(strings.NewReader(test.line+"\nnext\n"), most)
			_, err := r.Next()
			tooLong, ok := errors.AsType[*TooLongError](err)
			if !ok || string(tooLong.ID) != test.id {
				t.Errorf("%s: got %v, %+v, want the id %s", name, err, tooLong, test.id)
			}
			if line, err := r.Next(); string(line) != "next" || err != nil {
				t.Errorf("%s: behind it came %q, %v", name, line, err)
			}
		}
	})

	t.Run("returns the last text together with the error", func(t *testing.T) {
		fits := strings.Repeat("x", 100)
		r := NewReader(strings.NewReader(fits+"\n\r\nrest"), len(fits))
		for _, want := range []struct {
			line string
			err  error
		}{{fits, nil}, {"", nil}, {"rest", io.EOF}, {"", io.EOF}} {
			if line, err := r.Next(); string(line) != want.line || err != want.err {
				t.Errorf("got %q, %v, want %q, %v", line, err, want.line, want.err)
			}
		}
	})
}

func TestDecode(t *testing.T) {
	for line, want := range map[string]Message{
		`{"jsonrpc":"2.0","id":1.50,"method":"m","params":[]}`: {ID: json.RawMessage(`1.50`), Method: "m", Params: json.RawMessage(`[]`)},
		`{"method":"m","jsonrpc":"2.0"}`:                       {Method: "m"},
		`{"jsonrpc":"2.0","id":"é","result":null}`:             {ID: json.RawMessage(`"é"`), Result: json.RawMessage(`null`)},
		`{"jsonrpc":"2.0","id":null,"error":{}}`:               {Error: json.RawMessage(`{}`)},
	} {
		m, err := Decode([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got, want := mustJSON(t, m), mustJSON(t, &want); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
	for line, want := range map[string]Problem{
		`{`:                                {Code: CodeParse},
		``:                                 {Code: CodeParse},
		`7`:                                {Code: CodeInvalidRequest},
		`null`:                             {Code: CodeInvalidRequest},
		`[{"jsonrpc":"2.0","method":"m"}]`: {Code: CodeInvalidRequest},
		`{"id":3,"method":"m"}`:            {Code: CodeInvalidRequest, ID: json.RawMessage(`3`), NotJSONRPC: true},
		`{"type":"status"}`:                {Code: CodeInvalidRequest, NotJSONRPC: true},
		`{"jsonrpc":2.0,"id":"x"}`:         {Code: CodeInvalidRequest, ID: json.RawMessage(`"x"`)},
		`{"jsonrpc":"2.0","id":4}`:         {Code: CodeInvalidRequest, ID: json.RawMessage(`4`)},
		`{"jsonrpc":"2.0","method":[]}`:    {Code: CodeInvalidRequest},
		`{"jsonrpc":"2.0","method":null}`:  {Code: CodeInvalidRequest},
		`{"jsonrpc":"2.0","METHOD":"m"}`:   {Code: CodeInvalidRequest},
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:               {Code: CodeInvalidRequest},
		`{"jsonrpc":"2.0","id":{},"method":"m"}`:                 {Code: CodeInvalidRequest},
		"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"m\"}": {Code: CodeInvalidRequest},
	} {
		_, err := Decode([]byte(line))
		got, ok := errors.AsType[*Problem](err)
		if !ok || got.Code != want.Code || string(got.ID) != string(want.ID) || got.NotJSONRPC != want.NotJSONRPC {
			t.Errorf("%s: got %+v, want %+v", line, got, want)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestIDKey(t *testing.T) {
	if IDKey(json.RawMessage(`"\u00e9"`)) != IDKey(json.RawMessage(`"é"`)) {
		t.Error("a string is two ids")
	}
	if IDKey(json.RawMessage(`"1"`)) == IDKey(json.RawMessage(`1`)) {
		t.Error("a string and a number are one id")
	}
	for params, want := range map[string]string{`{"requestId":7}`: `7`, `{"requestId":{}}`: ``, `[]`: ``, ``: ``} {
		if got := CancelledKey(json.RawMessage(params)); got != want {
			t.Errorf("%s: got %q, want %q", params, got, want)
		}
	}
}

func TestProgressToken(t *testing.T) {
	for params, want := range map[string]string{
		`{"_meta":{"progressToken":9007199254740993}}`: `9007199254740993`,
		`{"_meta":{"progressToken":"a"}}`:              `"a"`,
		`{"_meta":{"progressToken":null}}`:             ``,
		`{"_meta":{"progressToken":[1]}}`:              ``,
		`{"progressToken":1}`:                          ``,
		`["progressToken"]`:                            ``,
		``:                                             ``,
	} {
		if got := string(ProgressToken(json.RawMessage(params))); got != want {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
	}
}

// newConnPair returns the ends of a connection that both call and are called. Each answers "echo"
// with its params, and nothing else.
func newConnPair(t *testing.T, o Options) (c, d *Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	open := func(stream net.Conn) *Conn {
		var c *Conn
		o := o
		o.OnMessage = func(m *Message) {
			if m.IsRequest() && m.Method == "echo" {
				if err := c.SendResult(m.ID, m.Params); err != nil {
					t.Error(err)
				}
			}
		}
		c = New(stream, &o)
		return c
	}
	c, d = open(ours), open(theirs)
	for _, c := range []*Conn{c, d} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Read()
		}()
		t.Cleanup(func() {
			c.Drop(ErrClosed)
			_ = c.FinishWriting()
			<-done
		})
	}
	return c, d
}

var plainOptions = Options{MaxLine: 1 << 20, StallTimeout: time.Minute}

func TestCall(t *testing.T) {
	t.Run("both sides can call at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, d := newConnPair(t, plainOptions)
			answers := make(chan error)
			for _, c := range []*Conn{c, d} {
				for i := range 100 {
					go func() {
						result, err := c.Call(t.Context(), "echo", i)
						if err == nil && string(result.Result) != mustJSON(t, i) {
							err = errors.New("got " + string(result.Result))
						}
						answers <- err
					}()
				}
			}
			for range 200 {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
		})
	})

	t.Run("a cancelled call notifies the peer and leaves nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, lastWord := range []time.Duration{0, 3 * time.Second} {
				o := plainOptions
				o.CancelTimeout = lastWord
				c, d := newConnPair(t, o)
				told := make(chan string, 1)
				d.options.OnMessage = func(m *Message) {
					if m.Method == MethodCancelled {
						told <- CancelledKey(m.Params)
					}
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				begun := time.Now()
				if _, err := c.Call(ctx, "never", nil); err != context.DeadlineExceeded || time.Since(begun) != time.Second+lastWord {
					t.Errorf("got %v after %s", err, time.Since(begun))
				}
				stop()
				if id := <-told; id != "1" {
					t.Errorf("%s was cancelled", id)
				}
				if len(c.calls) != 0 {
					t.Errorf("%d calls are left", len(c.calls))
				}
			}
		})
	})

	t.Run("an answer that crosses the cancel is used", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := plainOptions
			o.CancelTimeout = time.Second
			c, d := newConnPair(t, o)
			var id json.RawMessage
			d.options.OnMessage = func(m *Message) {
				if m.IsRequest() {
					id = m.ID
				} else if err := d.SendResult(id, "done"); err != nil {
					t.Error(err)
				}
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if result, err := c.Call(ctx, "slow", nil); err != nil || string(result.Result) != `"done"` {
				t.Errorf("got %s, %v", result, err)
			}
		})
	})

	t.Run("errors arrive as they were sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, d := newConnPair(t, plainOptions)
			d.options.OnMessage = func(m *Message) {
				if err := d.SendError(m.ID, &Error{Code: -7, Message: "no", Data: json.RawMessage(`{"kind":"x"}`)}); err != nil {
					t.Error(err)
				}
			}
			_, err := c.Call(t.Context(), "any", nil)
			if got, ok := errors.AsType[*Error](err); !ok || got.Code != -7 || got.Message != "no" || string(got.Data) != `{"kind":"x"}` {
				t.Errorf("got %v", err)
			}
			d.options.OnMessage = nil
			if _, err := c.Call(t.Context(), "any", nil); err == nil || err.Error() != `method not found: "any"` {
				t.Errorf("got %v of a side that has no methods", err)
			}
		})
	})

	t.Run("the end of the connection fails every call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, d := newConnPair(t, plainOptions)
			d.options.OnMessage = func(*Message) {}
			failed := make(chan error)
			for range 10 {
				go func() {
					_, err := c.Call(t.Context(), "never", nil)
					failed <- err
				}()
			}
			synctest.Wait()
			d.Drop(ErrClosed)
			for range 10 {
				if _, ended := errors.AsType[*EndedError](<-failed); !ended {
					t.Error("a call outlived its connection")
				}
			}
			if _, err := c.Call(t.Context(), "never", nil); !errors.Is(err, io.EOF) {
				t.Errorf("a call after the end: %v", err)
			}
		})
	})
}

func TestKeepAlive(t *testing.T) {
	t.Run("a probe drops a peer that does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := plainOptions
			o.Probe, o.ProbeInterval = "echo", 10*time.Second
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			c := New(ours, &o)
			go func() { _ = c.Read() }()
			begun := time.Now()
			if _, err := c.Call(t.Context(), "never", nil); err == nil || time.Since(begun) > 30*time.Second {
				t.Errorf("got %v after %s", err, time.Since(begun))
			}
		})
	})

	t.Run("drops a silent peer after two intervals while in use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for name, wants := range map[string]func(*Conn){
				"a call":         func(c *Conn) { _, _ = c.Call(t.Context(), "never", nil) },
				"a subscription": func(c *Conn) { defer c.AddKeepAlive()(); <-c.Context().Done() },
			} {
				c, _ := newKeepAlivePair(t, func(*Conn) func(*Message) { return func(*Message) {} })
				time.Sleep(time.Hour) // nothing wants it: nothing happens
				if c.Context().Err() != nil {
					t.Fatal("an idle connection was dropped")
				}
				begun := time.Now()
				wants(c)
				if took := time.Since(begun); took != 10*time.Second {
					t.Errorf("%s: it took %s", name, took)
				}
			}
		})
	})

	// A process that was stopped received nothing in the meantime, so it pings first.
	t.Run("pings before it drops even if the timer is late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newKeepAlivePair(t, func(*Conn) func(*Message) { return func(*Message) {} })
			release := c.AddKeepAlive()
			release()
			release() // counts once
			defer c.AddKeepAlive()()
			c.mu.Lock()
			c.aliveTimer.Reset(time.Minute) // it comes late
			c.mu.Unlock()
			time.Sleep(time.Minute + 4*time.Second)
			if c.Context().Err() != nil {
				t.Error("the connection was dropped without a ping")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if c.Context().Err() == nil {
				t.Error("the connection was kept without an answer")
			}
		})
	})

	t.Run("pings only a silent peer and keeps one that answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			c, theirs := newKeepAlivePair(t, func(c *Conn) func(*Message) {
				return func(m *Message) {
					if m.Method == "ping" {
						asked.Add(1)
						_ = c.SendResult(m.ID, struct{}{})
					}
				}
			})
			release := c.AddKeepAlive()
			for range 60 { // news every second: no question
				time.Sleep(time.Second)
				_ = theirs.Notify("news", nil)
			}
			synctest.Wait()
			if n := asked.Load(); n != 0 {
				t.Errorf("got %d pings while the other side was sending", n)
			}
			time.Sleep(time.Minute)
			if n := asked.Load(); n < 10 || n > 12 || c.Context().Err() != nil {
				t.Errorf("got %d pings within a minute of silence; %v", n, context.Cause(c.Context()))
			}
			release()
			before := asked.Load()
			time.Sleep(time.Hour)
			if n := asked.Load() - before; n > 1 {
				t.Errorf("got %d pings without a call or a keep-alive", n)
			}
		})
	})

	// A side sends heartbeats while it is idle, and also while it only receives: received lines do not
	// show the other side that this side is alive.
	t.Run("sends a heartbeat when nothing else was sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := plainOptions
			o.Heartbeat, o.HeartbeatInterval = "ping", 30*time.Second
			near, far := net.Pipe()
			c, theirs := New(near, &o), New(far, &plainOptions)
			var signs atomic.Int64
			theirs.options.OnMessage = func(m *Message) {
				if m.Method == "ping" {
					signs.Add(1)
					_ = theirs.SendResult(m.ID, struct{}{})
				}
			}
			for _, side := range []*Conn{c, theirs} {
				go func() { _ = side.Read() }()
			}
			defer theirs.Drop(ErrClosed)
			// after is called when a heartbeat has just been sent.
			after := func(what string, often int, do func(), want int64) {
				t.Helper()
				before := signs.Load()
				for range often {
					time.Sleep(time.Second)
					do()
				}
				synctest.Wait()
				if n := signs.Load() - before; n != want {
					t.Errorf("%s: got %d heartbeats in %d s, want %d", what, n, often, want)
				}
			}
			after("idle", 300, func() {}, 10)
			after("it only receives", 300, func() { _ = theirs.Notify("news", nil) }, 10)
			after("it sends other lines", 300, func() { _ = c.Notify("news", nil) }, 0)
			c.Drop(ErrClosed)
			after("it has ended", 300, func() {}, 0)
		})
	})
}

// newKeepAlivePair returns a Conn with a keep-alive, and its other side, which handles messages with other.
func newKeepAlivePair(t *testing.T, other func(c *Conn) func(*Message)) (c *Conn, theirs *Conn) {
	t.Helper()
	o := plainOptions
	o.KeepAlive, o.KeepAliveInterval = "ping", 5*time.Second
	near, far := net.Pipe()
	c = New(near, &o)
	theirs = New(far, &plainOptions)
	theirs.options.OnMessage = other(theirs)
	for _, side := range []*Conn{c, theirs} {
		go func() { _ = side.Read() }()
	}
	t.Cleanup(func() {
		c.Drop(ErrClosed)
		theirs.Drop(ErrClosed)
	})
	return c, theirs
}

func TestWrite(t *testing.T) {
	// The writing of a long line may take any time, as long as the other side reads parts of it.
	t.Run("writes a long line as slowly as it is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			o := plainOptions
			o.StallTimeout, o.KeepAlive, o.KeepAliveInterval = 10*time.Second, "ping", 5*time.Second
			c := New(near, &o)
			go func() { _ = c.Read() }()
			defer c.Drop(ErrClosed)
			c.AddKeepAlive()
			if err := c.Notify("long", strings.Repeat("x", 1<<20)); err != nil {
				t.Fatal(err)
			}
			part := make([]byte, 64<<10)
			for range 16 {
				time.Sleep(4 * time.Second)
				if _, err := io.ReadFull(far, part); err != nil {
					t.Fatal(err, context.Cause(c.Context()))
				}
			}
		})
	})

	t.Run("drops a peer that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			c := New(ours, &plainOptions)
			begun := time.Now()
			if err := c.Notify("news", nil); err != nil {
				t.Fatal(err)
			}
			if err := c.Read(); err == nil || !strings.Contains(err.Error(), "does not read") || time.Since(begun) != time.Minute {
				t.Errorf("got %v after %s", err, time.Since(begun))
			}
			if err := c.Notify("news", nil); err == nil {
				t.Error("a notification is queued for it")
			}
		})
	})

	t.Run("limits the size of the queue", func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := New(ours, &plainOptions)
		line := []byte(strings.Repeat("x", 1<<20))
		sent := 0
		for ; sent < 2*MaxQueuedBytes>>20; sent++ {
			if c.Send(line[:len(line):len(line)]) != nil {
				break
			}
		}
		if sent != MaxQueuedBytes>>20 {
			t.Errorf("%d MiB were queued, want %d", sent, MaxQueuedBytes>>20)
		}
		_ = c.FinishWriting()
	})

	t.Run("a long call is rejected or waits for room", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			o := plainOptions
			o.MaxLine, o.MaxSend = 1<<20, 2*MaxQueuedBytes
			c := New(ours, &o)
			go func() { _ = c.Read() }()
			defer c.Drop(ErrClosed)
			var long *SizeError
			if _, err := c.Call(t.Context(), "echo", strings.Repeat("x", o.MaxSend)); !errors.As(err, &long) || long.Max != o.MaxSend {
				t.Fatalf("got %v", err)
			}
			// Each call is larger than the bound of the queue, and nothing has been read yet.
			text := []string{strings.Repeat("<", MaxQueuedBytes+1)}
			answers := make(chan error, 3)
			for range cap(answers) {
				go func() {
					_, err := c.Call(t.Context(), "echo", text)
					answers <- err
				}()
			}
			synctest.Wait()
			go func() {
				in := NewReader(theirs, 2*MaxQueuedBytes)
				for line, err := in.Next(); err == nil; line, err = in.Next() {
					m, _ := Decode(line)
					_, _ = theirs.Write(append(ResultLine(m.ID, []byte("1")), '\n'))
				}
			}()
			for range cap(answers) {
				if err := <-answers; err != nil {
					t.Errorf("got %v", err)
				}
			}
		})
	})

	t.Run("writes queued lines before it closes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := New(ours, &plainOptions)
			for range 3 {
				if err := c.Notify("news", map[string]int{"n": 1}); err != nil {
					t.Fatal(err)
				}
			}
			finished := make(chan error)
			go func() { finished <- c.FinishWriting() }()
			lines := bufio.NewScanner(theirs)
			for range 3 {
				if !lines.Scan() || lines.Text() != `{"jsonrpc":"2.0","method":"news","params":{"n":1}}` {
					t.Errorf("got %s, %v", lines.Text(), lines.Err())
				}
			}
			if err := <-finished; err != nil {
				t.Error(err)
			}
			if c.Notify("late", nil) != ErrClosed {
				t.Error("something is queued behind the end")
			}
		})
	})

	t.Run("refuses an answer over the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, d := newConnPair(t, plainOptions)
			d.options.OnMessage = func(m *Message) {
				err := d.SendResult(m.ID, strings.Repeat("x", plainOptions.MaxLine))
				if err == nil {
					t.Error("it was sent")
				}
				if err := d.SendError(m.ID, &Error{Message: err.Error()}); err != nil {
					t.Error(err)
				}
			}
			if _, err := c.Call(t.Context(), "large", nil); err == nil || !strings.Contains(err.Error(), "are allowed") {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestMalformed(t *testing.T) {
	t.Run("drops the connection only without a handler", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			o := plainOptions
			o.MaxLine = 100
			var problems []int
			o.OnMalformed = func(_ []byte, p *Problem) { problems = append(problems, p.Code) }
			c := New(ours, &o)
			go func() {
				_, _ = io.WriteString(theirs, "{\n\n  \n7\n\"\xff\"\n"+strings.Repeat("x", 200)+"\n")
				_ = theirs.Close()
			}()
			if err := c.Read(); err != io.EOF {
				t.Errorf("got %v", err)
			}
			_ = c.FinishWriting()
			if got := mustJSON(t, problems); got != `[-32700,-32600,-32700,-32600]` {
				t.Errorf("got %s", got)
			}

			ours, theirs = net.Pipe()
			c = New(ours, &plainOptions)
			go func() { _, _ = io.WriteString(theirs, "hello\n") }()
			if err := c.Read(); err == nil || !strings.Contains(err.Error(), "malformed message") {
				t.Errorf("got %v", err)
			}
			_ = c.FinishWriting()
		})
	})

	// A connection that is cut in the middle of a line counts as ended, not as malformed.
	t.Run("a partial last line is the end of the stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, half := range []string{`{"jsonrpc":"`, `{"jsonrpc":"2.0","id":1,"result":{}}`, "x"} {
				ours, theirs := net.Pipe()
				c := New(ours, &plainOptions)
				go func() {
					_, _ = io.WriteString(theirs, half)
					_ = theirs.Close()
				}()
				if err := c.Read(); err != io.EOF {
					t.Errorf("%q: got %v", half, err)
				}
				_ = c.FinishWriting()
			}
		})
	})
}
