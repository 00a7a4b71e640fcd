package agents

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/testkit/faultdial"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// A remoteTestBackend opens sessions of a daemon at a remote, as repl mcp does.
type remoteTestBackend struct{ link *client.Client }

func (b remoteTestBackend) Open(ctx context.Context, name, _, _ string, _ func(*sandbox.Policy) *sandbox.Policy, _ func(string)) (*backend.SessionHandle, error) {
	there, now, made, err := b.link.OpenSession(ctx, protocol.CreateParams{Name: name, Language: "fake"})
	if err != nil {
		return nil, err
	}
	s, read, err := there.ReadAs(ctx, "agent")
	if err != nil {
		return nil, err
	}
	return &backend.SessionHandle{
		Session: s, InitialInfo: now, IsNew: made, LastSeen: read, Link: b.link, SaveCursor: s.NoteReadCursor,
		OutputPath: func() string { return "" },
		Leave:      func(ctx context.Context) error { return s.FlushReadCursor(ctx) },
	}, nil
}

func (b remoteTestBackend) Remotes() []string { return []string{"gpu"} }

func (b remoteTestBackend) Sessions(ctx context.Context, _ string) ([]session.Info, error) {
	return b.link.ListSessions(ctx)
}

// An mcpTestClient is a client of an MCP server whose sessions are at a remote.
type mcpTestClient struct {
	t     *testing.T
	in    io.Writer
	out   *bufio.Reader
	calls int
}

func newMCPTestClient(t *testing.T, l *client.Client) *mcpTestClient {
	t.Helper()
	l.SetReconnectTimeout(remoteReconnectTimeout)
	in, ours := io.Pipe()
	theirs, out := io.Pipe()
	served := make(chan error, 1)
	spec := func(string) workers.Spec { return workers.Spec{} }
	go func() {
		served <- mcpserver.Run(context.Background(), &mcpserver.Options{
			Backend: remoteTestBackend{l}, Author: "agent", In: in, Out: out, Default: "fake",
			Specs: map[string]func(string) workers.Spec{"fake": spec},
		})
	}()
	a := &mcpTestClient{t: t, in: ours, out: bufio.NewReader(theirs)}
	t.Cleanup(func() {
		_ = ours.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(testTimeout):
			t.Error("the MCP server does not end")
		}
	})
	a.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	a.receive("init")
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

func (mtc *mcpTestClient) send(line string) {
	mtc.t.Helper()
	if _, err := fmt.Fprintln(mtc.in, line); err != nil {
		mtc.t.Fatal(err)
	}
}

// receive returns the text of the answer to a call.
func (mtc *mcpTestClient) receive(id string) (text string, isError bool) {
	mtc.t.Helper()
	for {
		line, err := mtc.out.ReadBytes('\n')
		if err != nil {
			mtc.t.Fatal(err)
		}
		var m struct {
			ID     string
			Result struct {
				Content []struct{ Text string }
				IsError bool
			}
			Error json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil || m.ID != id {
			continue
		}
		if m.Error != nil {
			mtc.t.Fatalf("%s", line)
		}
		for _, c := range m.Result.Content {
			text += c.Text
		}
		return text, m.Result.IsError
	}
}

// startCall starts a call of the tool repl, and returns a function that waits for its answer.
func (mtc *mcpTestClient) startCall(input string, timeout time.Duration) func() (string, bool) {
	mtc.t.Helper()
	mtc.calls++
	id := fmt.Sprint("call-", mtc.calls)
	arguments, err := json.Marshal(map[string]any{"input": input, "timeout_ms": timeout.Milliseconds()})
	if err != nil {
		mtc.t.Fatal(err)
	}
	mtc.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"repl","arguments":%s}}`, id, arguments))
	return func() (string, bool) { return mtc.receive(id) }
}

func (mtc *mcpTestClient) callRepl(input string) string {
	mtc.t.Helper()
	text, failed := mtc.startCall(input, testTimeout)()
	if failed {
		mtc.t.Errorf("%s: %s", input, text)
	}
	return text
}

func TestRemoteAgent(t *testing.T) {
	t.Parallel()

	t.Run("a call takes one round trip", func(t *testing.T) {
		t.Parallel()
		r := startTestDaemon(t)
		w := faultdial.NewDialer(r.socket)
		l := newTestLink(t, w)
		a := newMCPTestClient(t, l)
		a.callRepl("print warm")
		before := len(w.SentLines())
		for range 3 {
			if text := a.callRepl("print hello"); text != "hello" {
				t.Errorf("got %q", text)
			}
			all := w.SentLines()[before:]
			before += len(all)
			sent, mark := withoutMarkCalls(all)
			if len(sent) != 1 || !strings.Contains(sent[0], protocol.MethodStart) || !mark && !strings.Contains(sent[0], `"read_cursor":`) {
				t.Errorf("the call sent %q", sent)
			}
		}
		if err := l.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		name := r.onlySession(l).Name
		for method, call := range map[string]func() error{
			protocol.MethodList: func() error { _, err := l.ListSessions(t.Context()); return err },
			protocol.MethodStart: func() error {
				_, err := l.StartTurn(t.Context(), protocol.StartParams{Session: name, Input: "print x", WaitMS: testTimeout.Milliseconds()})
				return err
			},
		} {
			before := len(w.SentLines())
			if err := call(); err != nil {
				t.Error(err)
			}
			if sent, _ := withoutMarkCalls(w.SentLines()[before:]); len(sent) != 1 || !strings.Contains(sent[0], method) {
				t.Errorf("%s sent %q", method, sent)
			}
		}
	})

	t.Run("an answer takes one round trip", func(t *testing.T) {
		t.Parallel()
		r := startTestDaemon(t)
		w := faultdial.NewDialer(r.socket)
		a := newMCPTestClient(t, newTestLink(t, w))
		const asked = "wait a? \nwait b? \nprint over"
		if text := a.callRepl(asked); text != `[waiting for input: "a? "]` {
			t.Errorf("got %q", text)
		}
		before := len(w.SentLines())
		if text := a.callRepl("ada"); text != "ada\n"+`[waiting for input: "b? "]` {
			t.Errorf("got %q", text)
		}
		if text := a.callRepl("bob"); text != "bob\nover" {
			t.Errorf("got %q", text)
		}
		sent, _ := withoutMarkCalls(w.SentLines()[before:])
		if len(sent) != 2 || !strings.Contains(sent[0], protocol.MethodInput) || !strings.Contains(sent[1], protocol.MethodInput) {
			t.Errorf("two answers sent %q", sent)
		}
		if text, _ := a.startCall(asked, testTimeout)(); text != `[waiting for input: "a? "]` {
			t.Errorf("got %q", text)
		}
		c, err := client.Dial(t.Context(), client.Socket(r.socket))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		now := r.onlySession(c)
		if _, err := c.SendInput(t.Context(), protocol.InputParams{Session: now.Name, InputRequest: now.InputRequest.ID, Input: "eve\n", WaitMS: testTimeout.Milliseconds()}); err != nil {
			t.Fatal(err)
		}
		if text, failed := a.startCall("ada", testTimeout)(); !failed || !strings.Contains(text, "your input was NOT run: the code no longer waits for it") {
			t.Errorf("an answer to an input request that was already answered: got %q", text)
		}
		if text := a.callRepl("bob"); text != "bob\nover" {
			t.Errorf("got %q", text)
		}
	})

	t.Run("an answer is used once when the link breaks", func(t *testing.T) {
		t.Parallel()
		r := startTestDaemon(t)
		w := faultdial.NewDialer(r.socket)
		a := newMCPTestClient(t, newTestLink(t, w))
		const turns = 12
		for i := range turns {
			if text := a.callRepl("wait a? \nprint one\nwait b? \nprint two"); !strings.Contains(text, `waiting for input: "a? "`) {
				t.Fatalf("got %q", text)
			}
			if i%2 == 0 {
				w.CutAfter(rand.IntN(200), -1) // cuts the answer to the input request
			} else {
				w.CutAfter(-1, rand.IntN(800)) // cuts the reply
			}
			if text := a.callRepl("ada"); !strings.HasPrefix(text, "ada\none\n") || !strings.Contains(text, `waiting for input: "b? "`) {
				t.Fatalf("turn %d got %q", i, text)
			}
			w.CutAfter(-1, -1)
			if text := a.callRepl("bob"); !strings.HasPrefix(text, "bob\ntwo") {
				t.Fatalf("turn %d got %q", i, text)
			}
		}
		if w.CutCount() == 0 {
			t.Error("nothing was cut")
		}
	})

	t.Run("a call survives an outage and reports it", func(t *testing.T) {
		t.Parallel()
		r := startTestDaemon(t)
		w := faultdial.NewDialer(r.socket)
		l := newTestLink(t, w)
		a := newMCPTestClient(t, l)
		a.callRepl("print warm")
		flag := filepath.Join(t.TempDir(), "go")
		answer := a.startCall("print before\nuntil "+flag+"\nprint after", testTimeout)
		r.waitUntil("the agent's side knows its turn", func() bool { return w.HasReceived(`"turn/accepted"`) && w.HasReceived(`"turn":2`) })
		w.SetBroken(true)
		r.waitUntil("the link is known to be down", func() bool { _, down := l.DownSince(); return down })
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.SetBroken(false)
		text, failed := answer()
		if failed || !regexp.MustCompile(`^before\nafter\n\[the connection to gpu was down for \d+\.\d s\]$`).MatchString(text) {
			t.Errorf("got %q", text)
		}
		if text := a.callRepl("print next"); text != "next" {
			t.Errorf("the next call got %q", text)
		}
	})

	t.Run("a call that times out in an outage names the running turn", func(t *testing.T) {
		t.Parallel()
		r := startTestDaemon(t)
		w := faultdial.NewDialer(r.socket)
		l := newTestLink(t, w)
		a := newMCPTestClient(t, l)
		a.callRepl("print warm")
		flag := filepath.Join(t.TempDir(), "go")
		answer := a.startCall("print before\nuntil "+flag+"\nprint after", 10*time.Second)
		r.waitUntil("the agent's side knows its turn", func() bool { return w.HasReceived(`"turn/accepted"`) && w.HasReceived(`"turn":2`) })
		w.SetBroken(true)
		text, failed := answer()
		if failed || !regexp.MustCompile(`^\[gpu has been unreachable since \d\d:\d\d:\d\d; turn 2 continues there\]$`).MatchString(text) {
			t.Errorf("got %q", text)
		}
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w.SetBroken(false)
		if text := a.callRepl(""); !strings.HasPrefix(text, "before\nafter") {
			t.Errorf("the next call got %q", text)
		}
	})
}

// withoutMarkCalls removes the calls that only report a read cursor. Such a call is sent if no
// other call carries the cursor within a second.
func withoutMarkCalls(sent []string) (rest []string, mark bool) {
	rest = slices.DeleteFunc(sent, func(line string) bool { return strings.Contains(line, protocol.MethodReadCursor) })
	return rest, len(rest) < len(sent)
}
