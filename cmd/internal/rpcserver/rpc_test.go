package rpcserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// A testClient is a raw client of a server in a test.
type testClient struct {
	t     testing.TB
	conn  net.Conn
	lines *bufio.Scanner
	done  chan error
}

// newTestClient serves one client over the transport of this system: a Unix socket or a named pipe.
func newTestClient(t testing.TB, s *Server) *testClient {
	t.Helper()
	conn, served := newConnPair(t)
	p := &testClient{t: t, conn: conn, lines: bufio.NewScanner(conn), done: make(chan error, 1)}
	p.lines.Buffer(nil, MaxLine+100)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { p.done <- s.Serve(ctx, served) }()
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		<-p.done
	})
	return p
}

func (c *testClient) send(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, strings.Join(lines, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *testClient) receive() string {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	if !c.lines.Scan() {
		c.t.Fatalf("no answer: %v", c.lines.Err())
	}
	return c.lines.Text()
}

func (c *testClient) wantLine(want string) {
	c.t.Helper()
	if got := c.receive(); got != want {
		c.t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func handleEcho(_ context.Context, r *Request) (any, error) {
	if r.Params == nil {
		return nil, nil
	}
	return r.Params, nil
}

type putParams struct {
	Data []byte `json:"data"`
}

func (p *putParams) SetData(data []byte) bool {
	isSet := p.Data != nil
	p.Data = bytes.Clone(data)
	return !isSet
}

func TestMessages(t *testing.T) {
	t.Run("answers a malformed line and goes on", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		for _, test := range []struct{ name, line, id, kind string }{
			{"no JSON", `{`, `null`, KindParse},
			{"not UTF-8", "{\"jsonrpc\":\"\xff\"}", `null`, KindParse},
			{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"echo"}]`, `null`, KindInvalidRequest},
			{"a number", `7`, `null`, KindInvalidRequest},
			{"null", `null`, `null`, KindInvalidRequest},
			{"an empty object", `{}`, `null`, KindInvalidRequest},
			{"another version", `{"jsonrpc":"1.0","id":3,"method":"echo"}`, `3`, KindInvalidRequest},
			{"a version that is a number", `{"jsonrpc":2.0,"id":"x","method":"echo"}`, `"x"`, KindInvalidRequest},
			{"no method", `{"jsonrpc":"2.0","id":4}`, `4`, KindInvalidRequest},
			{"a method that is a list", `{"jsonrpc":"2.0","id":4,"method":[]}`, `4`, KindInvalidRequest},
			{"id null", `{"jsonrpc":"2.0","id":null,"method":"echo"}`, `null`, KindInvalidRequest},
			{"id an object", `{"jsonrpc":"2.0","id":{},"method":"echo"}`, `null`, KindInvalidRequest},
			{"id a bool", `{"jsonrpc":"2.0","id":true,"method":"echo"}`, `null`, KindInvalidRequest},
			{"params a number", `{"jsonrpc":"2.0","id":5,"method":"echo","params":5}`, `5`, KindInvalidRequest},
			{"type a list", `{"type":[]}`, `null`, KindInvalidRequest},
			{"type an object", `{"type":{}}`, `null`, KindInvalidRequest},
			{"an unknown method", `{"jsonrpc":"2.0","id":6,"method":"nope"}`, `6`, KindUnknownMethod},
		} {
			p.send(test.line)
			var got struct {
				ID    json.RawMessage
				Error *Error
			}
			if err := json.Unmarshal([]byte(p.receive()), &got); err != nil {
				t.Fatal(err)
			}
			if string(got.ID) != test.id || got.Error == nil || got.Error.Kind != test.kind {
				t.Errorf("%s: got id %s, %+v; want id %s, kind %s", test.name, got.ID, got.Error, test.id, test.kind)
			}
			p.send(`{"jsonrpc":"2.0","id":0,"method":"echo","params":{}}`)
			p.wantLine(`{"jsonrpc":"2.0","id":0,"result":{}}`)
		}
	})

	t.Run("skips a line over the limit", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		go func() { // the line is larger than the buffer of a socket
			_, _ = io.WriteString(p.conn, `{"jsonrpc":"2.0","id":1,"method":"echo","params":["`+strings.Repeat("x", jsonrpc2.MaxRequestBytes)+"\"]}\n")
			_, _ = io.WriteString(p.conn, `{"jsonrpc":"2.0","id":2,"method":"echo"}`+"\n")
		}()
		if got := p.receive(); !strings.Contains(got, "line skipped") || !strings.Contains(got, `"too_large"`) {
			t.Errorf("got %.200s", got)
		}
		p.wantLine(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})

	t.Run("answers a line of several megabytes", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		text := strings.Repeat("x", 15<<20)
		go func() {
			_, _ = io.WriteString(p.conn, `{"jsonrpc":"2.0","id":1,"method":"echo","params":["`+text+"\"]}\n")
		}()
		if got, want := p.receive(), `{"jsonrpc":"2.0","id":1,"result":["`+text+`"]}`; got != want {
			t.Errorf("got %d bytes, want %d", len(got), len(want))
		}
	})

	t.Run("takes bytes after a line as the data of a method that has data", func(t *testing.T) {
		decode := func(p any) Handler {
			return func(_ context.Context, r *Request) (any, error) { return p, r.Decode(p) }
		}
		p := newTestClient(t, &Server{InlineMethods: map[string]Handler{"put": decode(&putParams{}), "get": decode(&struct{}{})}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"put","buffer":3}` + "\na\nb" + `{"jsonrpc":"2.0","id":2,"method":"get","buffer":1}` + "\n{" + `{"jsonrpc":"2.0","id":3,"method":"nope","buffer":1}` + "\n{" + `{"jsonrpc":"2.0","id":4,"method":"put","params":{"data":"eA=="},"buffer":1}` + "\nx" + `{"jsonrpc":"2.0","id":5,"method":"put","buffer":-1}`)
		p.wantLine(`{"jsonrpc":"2.0","id":1,"result":{"data":"YQpi"}}`)
		const refused = ` takes no buffer, or its data was given twice","data":{"kind":"invalid_params"}}}`
		p.wantLine(`{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"get` + refused)
		p.wantLine(`{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"method not found: \"nope\"","data":{"kind":"unknown_method"}}}`)
		p.wantLine(`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"put` + refused)
		p.wantLine(`{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"buffer is -1: use 1 to 1048576 bytes","data":{"kind":"invalid_request"}}}`)
		if p.lines.Scan() {
			t.Errorf("the connection goes on: %s", p.lines.Text())
		}
	})

	t.Run("says which parameter has another type", func(t *testing.T) {
		handler := func(_ context.Context, r *Request) (any, error) {
			var p struct {
				Limits struct {
					Memory int64 `json:"memory"`
				} `json:"limits"`
				Names []string          `json:"names"`
				On    bool              `json:"on"`
				Env   map[string]string `json:"env"`
				Scale float64           `json:"scale"`
			}
			return nil, r.Decode(&p)
		}
		p := newTestClient(t, &Server{InlineMethods: map[string]Handler{"set": handler}})
		for params, want := range map[string]string{
			`{"limits":{"memory":"x"}}`: "limits.memory has a JSON string: use an integer",
			`{"limits":{"memory":1.5}}`: "limits.memory has a JSON number 1.5: use an integer",
			`{"limits":3}`:              "limits has a JSON number: use an object",
			`{"names":"a"}`:             "names has a JSON string: use an array",
			`{"on":[]}`:                 "on has a JSON array: use true or false",
			`{"env":true}`:              "env has a JSON bool: use an object",
			`{"env":{"a":1}}`:           "env has a JSON number: use a string",
			`{"scale":{}}`:              "scale has a JSON object: use a number",
		} {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"set","params":` + params + `}`)
			p.wantLine(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"set: ` + want + `","data":{"kind":"invalid_params"}}}`)
		}
	})

	t.Run("returns ids unchanged", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		for _, id := range []string{`1`, `"1"`, `""`, `0`, `-1`, `9007199254740993`, `1.50`, `1e3`, `"é\n"`} {
			p.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"echo"}`)
			p.wantLine(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		}
	})

	t.Run("never answers a notification", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		p.send(`{"jsonrpc":"2.0","method":"echo"}`,
			`{"jsonrpc":"2.0","method":"nope","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{}}`,
			``, `   `,
			`{"jsonrpc":"2.0","id":2,"method":"echo"}`)
		p.wantLine(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})

	t.Run("rejects half of a surrogate pair", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":"a\ud800"}}`)
		p.wantLine(`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"the params contain \\ud800, which is half of a character and cannot be decoded","data":{"kind":"invalid_params"}}}`)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"echo","params":{"x":"\ud83d\ude00 \\ud800"}}`)
		p.wantLine(`{"jsonrpc":"2.0","id":2,"result":{"x":"\ud83d\ude00 \\ud800"}}`)
	})

	t.Run("reports a missing control plane", func(t *testing.T) {
		p := newTestClient(t, &Server{})
		p.send(`{"type":"status"}`)
		p.wantLine(`{"ok":false,"reason":"control_plane_unwired","error":"this server has no control plane"}`)
	})
}

// blockingMethod is a method that runs until its context ends, or release is closed.
type blockingMethod struct {
	started chan *Request
	release chan struct{}
	ran     atomic.Int64
}

func newBlockingMethod() *blockingMethod {
	return &blockingMethod{make(chan *Request, 100), make(chan struct{}), atomic.Int64{}}
}

func (b *blockingMethod) handle(ctx context.Context, r *Request) (any, error) {
	b.ran.Add(1)
	b.started <- r
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.release:
		return map[string]bool{"done": true}, nil
	}
}

func TestCancel(t *testing.T) {
	t.Run("cancels one request while others run", func(t *testing.T) {
		b := newBlockingMethod()
		p := newTestClient(t, &Server{Methods: map[string]Handler{"block": b.handle, "echo": handleEcho}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"block"}`, `{"jsonrpc":"2.0","id":"1","method":"block"}`)
		<-b.started
		<-b.started
		p.send(`{"jsonrpc":"2.0","id":2,"method":"echo"}`)
		p.wantLine(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
		p.wantLine(`{"jsonrpc":"2.0","id":"1","error":{"code":-32800,"message":"cancelled","data":{"kind":"cancelled"}}}`)
		close(b.release)
		p.wantLine(`{"jsonrpc":"2.0","id":1,"result":{"done":true}}`)
	})

	t.Run("ignores unknown ids without leaking memory", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		memory := func() uint64 {
			p.send(`{"jsonrpc":"2.0","id":"sync","method":"echo"}`)
			p.wantLine(`{"jsonrpc":"2.0","id":"sync","result":{}}`)
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := memory()
		for i := range 1000 {
			var lines []string
			for j := range 100 {
				lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 100*i+j))
			}
			p.send(lines...)
		}
		if after := memory(); after > before+(1<<20) {
			t.Errorf("the heap grew by %d bytes", after-before)
		}
	})

	t.Run("a closed connection cancels its calls", func(t *testing.T) {
		b := newBlockingMethod()
		s := &Server{Methods: map[string]Handler{"block": b.handle}}
		p := newTestClient(t, s)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"block"}`)
		r := <-b.started
		_ = p.conn.Close()
		<-r.ctx.Done()
		if err := <-p.done; err != nil {
			t.Errorf("Serve returned %v", err)
		}
		p.done <- nil
		if a := s.Activity(); a.Connections != 0 || a.Calls != 0 {
			t.Errorf("left behind: %+v", a)
		}
	})

	t.Run("matches a string id in any escaping", func(t *testing.T) {
		running := make(chan struct{}, 1)
		p := newTestClient(t, &Server{Methods: map[string]Handler{"held": newBlockingHandler(running)}})
		p.send(`{"jsonrpc":"2.0","id":"é","method":"held"}`)
		<-running
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u00e9"}}`)
		p.wantLine(`{"jsonrpc":"2.0","id":"é","error":{"code":-32800,"message":"cancelled","data":{"kind":"cancelled"}}}`)
	})

	t.Run("has no effect after Commit", func(t *testing.T) {
		committed, goOn := make(chan bool), make(chan struct{})
		p := newTestClient(t, &Server{
			Methods: map[string]Handler{"commit": func(_ context.Context, r *Request) (any, error) {
				committed <- r.Commit()
				<-goOn
				return "done", nil
			}},
			InlineMethods: map[string]Handler{"go on": func(context.Context, *Request) (any, error) { close(goOn); return nil, nil }},
		})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"commit"}`)
		if <-committed {
			t.Error("it is reported as cancelled")
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":2,"method":"go on"}`)
		got := p.receive() + p.receive()
		if !strings.Contains(got, `{"jsonrpc":"2.0","id":1,"result":"done"}`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestServer(t *testing.T) {
	t.Run("rejects an id that is in use", func(t *testing.T) {
		b := newBlockingMethod()
		p := newTestClient(t, &Server{Methods: map[string]Handler{"block": b.handle}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"block"}`, `{"jsonrpc":"2.0","id":1,"method":"block"}`)
		if got := p.receive(); !strings.Contains(got, "under way") {
			t.Errorf("got %s", got)
		}
		close(b.release)
		p.wantLine(`{"jsonrpc":"2.0","id":1,"result":{"done":true}}`)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"block"}`)
		p.wantLine(`{"jsonrpc":"2.0","id":1,"result":{"done":true}}`)
	})

	t.Run("a panic fails only its call", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{
			"panic": func(context.Context, *Request) (any, error) { panic("oh") },
			"fail":  func(context.Context, *Request) (any, error) { return nil, errors.New("no disk") },
			"echo":  handleEcho,
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"panic"}`)
		p.wantLine(`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"panic failed: oh","data":{"kind":"internal"}}}`)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"fail"}`)
		p.wantLine(`{"jsonrpc":"2.0","id":2,"error":{"code":-32001,"message":"no disk","data":{"kind":"internal"}}}`)
		p.send(`{"jsonrpc":"2.0","id":3,"method":"echo"}`)
		p.wantLine(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	})

	t.Run("drops a client that does not read and serves others", func(t *testing.T) {
		big := strings.Repeat("x", 1<<20)
		s := &Server{StallTimeout: 200 * time.Millisecond, Methods: map[string]Handler{
			"echo": handleEcho,
			"big":  func(context.Context, *Request) (any, error) { return map[string]string{"x": big}, nil },
		}}
		slow, other := newTestClient(t, s), newTestClient(t, s)
		for i := range 20 {
			slow.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"big"}`, i))
		}
		other.send(`{"jsonrpc":"2.0","id":1,"method":"echo"}`)
		other.wantLine(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		if err := <-slow.done; err == nil || !strings.Contains(err.Error(), "does not read") {
			t.Errorf("the slow client's connection ended with %v", err)
		}
		slow.done <- nil
		other.send(`{"jsonrpc":"2.0","id":2,"method":"echo"}`)
		other.wantLine(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	})

	t.Run("serves many clients with many calls", func(t *testing.T) {
		s := &Server{Methods: map[string]Handler{"echo": handleEcho}}
		done := make(chan struct{})
		const clients, calls = 10, 200
		for range clients {
			p := newTestClient(t, s)
			go func() {
				defer func() { done <- struct{}{} }()
				go func() {
					for i := range calls {
						_, _ = fmt.Fprintf(p.conn, `{"jsonrpc":"2.0","id":%d,"method":"echo","params":{"n":%d}}`+"\n", i, i)
					}
				}()
				seen := make(map[int]bool)
				for range calls {
					if !p.lines.Scan() {
						t.Error(p.lines.Err())
						return
					}
					var a struct {
						ID     int
						Result struct{ N int }
					}
					if err := json.Unmarshal(p.lines.Bytes(), &a); err != nil || a.ID != a.Result.N || seen[a.ID] {
						t.Errorf("got %s, %v", p.lines.Text(), err)
					}
					seen[a.ID] = true
				}
			}()
		}
		for range clients {
			<-done
		}
	})

	// Sixty-four streams wait for room at the same time. Each has more to send than there is room for.
	t.Run("lets streams send one by one when room is free", func(t *testing.T) {
		text := strings.Repeat("x", 3<<20)
		const streams = 64
		p := newTestClient(t, &Server{Methods: map[string]Handler{"stream": func(ctx context.Context, r *Request) (any, error) {
			return nil, r.Conn.NotifyWhenRoom(ctx, "text", text)
		}}})
		for i := range streams {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"stream"}`, i))
		}
		for range 2 * streams { // an answer and a notification of each
			if got := p.receive(); strings.Contains(got, "error") {
				t.Fatal(got)
			}
		}
	})
}

func TestProgress(t *testing.T) {
	t.Run("grows, is paced and ends with the answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var kept *Request
			s := &Server{Methods: map[string]Handler{"work": func(ctx context.Context, r *Request) (any, error) {
				kept = r
				for i, step := range []float64{1, 2, 2, 1, 3} { // every second one after the pause
					if err := r.ReportProgress(step, 10, "step"); err != nil {
						return nil, err
					}
					if i > 0 {
						time.Sleep(time.Second)
					}
				}
				return nil, nil
			}}}
			ours, theirs := net.Pipe()
			go func() { _ = s.Serve(t.Context(), theirs) }()
			go func() {
				_, _ = io.WriteString(ours, `{"jsonrpc":"2.0","id":1,"method":"work","params":{"_meta":{"progressToken":9007199254740993}}}`+"\n")
			}()
			lines := bufio.NewScanner(ours)
			for _, want := range []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9007199254740993,"progress":1,"total":10,"message":"step"}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9007199254740993,"progress":2,"total":10,"message":"step"}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9007199254740993,"progress":3,"total":10,"message":"step"}}`,
				`{"jsonrpc":"2.0","id":1,"result":{}}`,
			} {
				if !lines.Scan() || lines.Text() != want {
					t.Fatalf("got  %s\nwant %s", lines.Text(), want)
				}
			}
			if err := kept.ReportProgress(9, 10, "late"); err != nil {
				t.Error(err)
			}
			go func() { _, _ = io.WriteString(ours, `{"jsonrpc":"2.0","id":2,"method":"none"}`+"\n") }()
			if lines.Scan(); !strings.Contains(lines.Text(), `"id":2`) {
				t.Errorf("after the answer came %s", lines.Text())
			}
			_ = ours.Close()
		})
	})

	t.Run("is not sent without a valid token", func(t *testing.T) {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"work": func(_ context.Context, r *Request) (any, error) {
			return nil, r.ReportProgress(1, 2, "")
		}}})
		for _, meta := range []string{``, `"_meta":{}`, `"_meta":{"progressToken":null}`, `"_meta":{"progressToken":[1]}`, `"_meta":{"progressToken":true}`} {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"work","params":{` + meta + `}}`)
			p.wantLine(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		}
	})
}

// FuzzLines_OfEitherSide checks three claims for any input: a reader finds its lines, a server
// answers the next line, and a client's call ends.
func FuzzLines_OfEitherSide(f *testing.F) {
	for _, text := range []string{
		`{`, `[]`, `{"type":[]}`, "\xff", "\n\r\n", strings.Repeat("x", 300) + "\n7",
		`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"error":7}`, `{"jsonrpc":"2.0","id":"probe","result":{}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		wantReaderLines(t, text)

		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		p.send(text, `{"jsonrpc":"2.0","id":"the last","method":"echo"}`)
		for !strings.Contains(p.receive(), `"id":"the last","result":{}`) {
		}

		ours, theirs := net.Pipe()
		c := jsonrpc2.New(ours, &jsonrpc2.Options{MaxLine: MaxLine, StallTimeout: time.Minute})
		read := make(chan error, 1)
		go func() { read <- c.Read() }()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = io.WriteString(theirs, text+"\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n")
			_ = theirs.Close()
		}()
		_, _ = c.Call(t.Context(), "any", nil) // the text may be an answer to the call, or end the connection
		<-read
		_ = c.FinishWriting()
	})
}

// wantReaderLines compares the lines of a reader with the lines of the text. Long lines must be
// errors.
func wantReaderLines(t *testing.T, text string) {
	const most = 100
	r := jsonrpc2.NewReader(strings.NewReader(text), most)
	lines := strings.SplitAfter(text, "\n")
	for _, want := range lines[:len(lines)-1] {
		line, err := r.Next()
		long := (*jsonrpc2.TooLongError)(nil)
		switch {
		case len(want) > most+1:
			if !errors.As(err, &long) {
				t.Fatalf("got %q, %v of %q", line, err, want)
			}
		case err != nil || string(line) != strings.TrimRight(want, "\r\n"):
			t.Fatalf("got %q, %v, want %q", line, err, want)
		}
	}
}

// newBlockingHandler returns a handler that signals its start, and returns when its call is cancelled.
func newBlockingHandler(running chan<- struct{}) Handler {
	return func(ctx context.Context, _ *Request) (any, error) {
		running <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}
