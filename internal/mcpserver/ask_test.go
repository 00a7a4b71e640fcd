package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// A question is a request of the server for user input, in either protocol era.
type question struct {
	ID      json.RawMessage // the id of elicitation/create
	State   string          // of an input_required result
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	URL     string          `json:"url"`
	Schema  struct {
		Properties map[string]struct{ Type, Title string } `json:"properties"`
		Required   []string                                `json:"required"`
	} `json:"requestedSchema"`
}

// A testUser is the user of a client that can ask for input, in either protocol era.
type testUser struct {
	*client
	modern   bool
	args     map[string]any  // of the last call
	askedIDs map[string]bool // ids of the questions so far; only with a handshake
}

var formCapabilities = map[string]any{"elicitation": map[string]any{}}

// runWithTestUser runs a test with a client of each protocol era that can ask its user.
func runWithTestUser(t *testing.T, s setup, caps map[string]any, test func(t *testing.T, p *testUser)) {
	for _, modern := range []bool{false, true} {
		name := map[bool]string{false: "handshake", true: "modern"}[modern]
		t.Run(name, func(t *testing.T) {
			s := s
			c := newClient(t, &s)
			c.caps = caps
			if modern {
				c.useStateless()
			} else {
				c.initialize("2025-11-25")
			}
			test(t, &testUser{client: c, modern: modern})
		})
	}
}

// startRepl starts a call and returns its id.
func (u *testUser) startRepl(args map[string]any) string {
	u.t.Helper()
	u.args = args
	return u.startCall("repl", args)
}

// waitQuestion waits for the question that a call leads to.
func (u *testUser) waitQuestion(call string) (q question) {
	u.t.Helper()
	if u.modern {
		var r struct {
			ResultType    string `json:"resultType"`
			RequestState  string `json:"requestState"`
			InputRequests map[string]struct {
				Method string   `json:"method"`
				Params question `json:"params"`
			} `json:"inputRequests"`
			Content []any `json:"content"`
		}
		a := u.waitAnswer(call)
		if err := json.Unmarshal(a.Result, &r); err != nil || r.ResultType != "input_required" || len(r.Content) > 0 {
			u.t.Fatalf("got %s, want a question", a.Line)
		}
		for _, one := range r.InputRequests {
			q = one.Params
			wantText(u.t, one.Method, "elicitation/create")
		}
		q.State = r.RequestState
		return q
	}
	a := u.waitMessage("a question", func(a answer) bool {
		return a.Method == "elicitation/create" && !u.askedIDs[string(a.ID)]
	})
	if u.askedIDs == nil {
		u.askedIDs = make(map[string]bool)
	}
	u.askedIDs[string(a.ID)] = true
	if err := json.Unmarshal(a.Params, &q); err != nil {
		u.t.Fatal(err)
	}
	q.ID = a.ID
	return q
}

// sendAnswer sends the user's decision, and returns the id of the call that continues.
func (u *testUser) sendAnswer(call string, q question, result map[string]any) string {
	u.t.Helper()
	if u.modern {
		return u.send("tools/call", map[string]any{
			"name": "repl", "arguments": u.args, "requestState": q.State, "inputResponses": map[string]any{"answer": result},
		})
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result})
	if err != nil {
		u.t.Fatal(err)
	}
	u.sendLine(string(text))
	return call
}

func acceptAnswer(text string) map[string]any {
	return map[string]any{"action": "accept", "content": map[string]any{"answer": text}}
}

// wantNowhere fails if the server recorded or sent a text.
func (u *testUser) wantNowhere(text string) {
	u.t.Helper()
	log := u.mainSession().Log()
	log.Sync()
	for _, name := range []string{"events", "output.txt"} { // they contain text unescaped
		data, err := os.ReadFile(filepath.Join(filepath.Dir(log.OutputPath()), name))
		if err != nil {
			u.t.Error(err)
		}
		if strings.Contains(string(data), text) {
			u.t.Errorf("%s contains it", name)
		}
	}
	for _, a := range u.allMessages() {
		if strings.Contains(a.Line, text) {
			u.t.Errorf("it was sent: %s", a.Line)
		}
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()

	t.Run("is asked of the user and never shown", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": "print before\nsecret pw: \nprint after"})
			q := p.waitQuestion(call)
			wantPart(t, q.Message, `session "main"`, "not into the conversation", "pw:")
			if q.Mode != "form" || q.Schema.Properties["answer"].Type != "string" || len(q.Schema.Required) != 1 {
				t.Errorf("got %+v", q)
			}
			call = p.sendAnswer(call, q, acceptAnswer("hunter2"))
			wantText(t, p.waitResult(call).text(), "before\n[a secret typed by user]\n7 bytes\nafter")
			p.wantNowhere("hunter2")
			wantText(t, p.runRepl("print 2"), "2")
		})
	})

	// A client's form may convert an answer that looks like a number or another type. No reply
	// shows the answer.
	t.Run("takes numbers and booleans as text, no other types", func(t *testing.T) {
		t.Parallel()
		for answer, want := range map[string]string{
			`7391846250`:       "10 bytes",
			`-73918462.5`:      "11 bytes",
			`true`:             "4 bytes",
			`73918462507391e9`: "",
			`{"a":739184625}`:  "",
			`["739184625"]`:    "",
			`null`:             "",
		} {
			runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
				call := p.startRepl(map[string]any{"input": "secret pw: "})
				call = p.sendAnswer(call, p.waitQuestion(call), map[string]any{"action": "accept", "content": map[string]any{"answer": json.RawMessage(answer)}})
				got := p.waitResult(call).text()
				switch {
				case want == "" && !strings.Contains(got, "the answer does not fit the question") && !strings.Contains(got, "contains no text"):
					t.Errorf("%s: got %q", answer, got)
				case !strings.Contains(got, want):
					t.Errorf("%s: got %q, want %s", answer, got, want)
				}
				p.wantNowhere("739184")
			})
		}
	})

	// An accept without an answer counts as an empty one: the code still waits, and the reply has
	// its output.
	t.Run("still waits after an accept without an answer", func(t *testing.T) {
		t.Parallel()
		for _, answer := range []map[string]any{{"action": "accept"}, {"action": "accept", "content": map[string]any{}}} {
			runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
				call := p.startRepl(map[string]any{"input": "print before\nsecret pw: "})
				call = p.sendAnswer(call, p.waitQuestion(call), answer)
				wantPart(t, p.waitResult(call).text(), "before", "[waiting for a secret")
			})
		}
	})

	t.Run("the user is asked for each one", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": "secret a? \nwait b? \nsecret c? \nprint end"})
			call = p.sendAnswer(call, p.waitQuestion(call), acceptAnswer("the first"))
			wantText(t, p.waitResult(call).text(), "[a secret typed by user]\n9 bytes\n[waiting for input: \"b? \"]") // the model may answer this one
			call = p.startRepl(map[string]any{"input": "two"})
			call = p.sendAnswer(call, p.waitQuestion(call), acceptAnswer("the third"))
			wantText(t, p.waitResult(call).text(), "two\n[a secret typed by user]\n9 bytes\nend")
			call = p.startRepl(map[string]any{"input": "secret d? \nsecret e? "})
			call = p.sendAnswer(call, p.waitQuestion(call), acceptAnswer(""))
			call = p.sendAnswer(call, p.waitQuestion(call), acceptAnswer("the last\n"))
			wantText(t, p.waitResult(call).text(), "[a secret typed by user]\n0 bytes\n[a secret typed by user]\n8 bytes")
		})
	})

	t.Run("a refusal interrupts the code", func(t *testing.T) {
		t.Parallel()
		for action, word := range map[string]string{"decline": "declined", "cancel": "dismissed"} {
			runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
				call := p.startRepl(map[string]any{"input": "secret pw: \nprint went on"})
				call = p.sendAnswer(call, p.waitQuestion(call), map[string]any{"action": action})
				got := p.waitResult(call).text()
				wantPart(t, got, "Interrupted", "; the question was "+word)
				if strings.Contains(got, "went on") {
					t.Errorf("got %q", got)
				}
				wantText(t, p.runRepl("print 2"), "2")
			})
		}
	})

	t.Run("an answer after the turn is not used", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": "secret pw: "})
			q := p.waitQuestion(call)
			if _, err := p.mainSession().Interrupt(t.Context(), 0); err != nil { // by another client
				t.Fatal(err)
			}
			if !p.modern { // the question is withdrawn, and its answer is ignored
				p.waitMessage("a withdrawal", func(a answer) bool {
					return a.Method == "notifications/cancelled" && strings.Contains(string(a.Params), `"requestId":`+string(q.ID))
				})
				wantPart(t, p.waitResult(call).text(), "Interrupted")
			}
			call = p.sendAnswer(call, q, acceptAnswer("hunter2"))
			if p.modern {
				wantPart(t, p.waitResult(call).text(), "Interrupted", "came too late and was not used")
				again := p.sendAnswer(call, q, acceptAnswer("hunter2")) // a question can be answered once
				if r := p.waitResult(again); !r.IsError || !strings.Contains(r.text(), "no longer open") {
					t.Errorf("got %q", r.text())
				}
			}
			p.wantNowhere("hunter2")
			wantText(t, p.runRepl("print 2"), "2")
		})
	})

	t.Run("a cancel while the user is asked interrupts the code", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": "secret pw: "})
			q := p.waitQuestion(call)
			if p.modern { // the call is answered already; only the next one can be cancelled
				p.cancel(call)
				call = p.sendAnswer(call, q, acceptAnswer("hunter2"))
				wantText(t, p.waitResult(call).text(), "[a secret typed by user]\n7 bytes")
				return
			}
			p.cancel(call)
			p.waitState("idle")
			p.sendAnswer(call, q, acceptAnswer("hunter2"))
			wantPart(t, p.runRepl("print 2"), "Interrupted", "2")
			p.wantNoAnswer(call)
			p.wantNowhere("hunter2")
		})
	})

	t.Run("the user answers terminal programs, too", func(t *testing.T) {
		t.Parallel()
		skipWithoutTerminalReaders(t)
		runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": `sh stty -echo; read x; stty echo; echo "${#x} characters"`})
			q := p.waitQuestion(call)
			wantPart(t, q.Message, "sh, run by code")
			call = p.sendAnswer(call, q, acceptAnswer("hunter2"))
			wantPart(t, p.waitResult(call).text(), "7 characters")
			p.wantNowhere("hunter2")
		})
	})

	t.Run("is not asked for when the call has no time left", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{}, formCapabilities, func(t *testing.T, p *testUser) {
			p.call("repl", map[string]any{"input": "secret pw: ", "timeout_ms": 0})
			p.waitState("waiting")
			got := p.call("repl_output", map[string]any{"wait_ms": 0}).text()
			wantPart(t, got, "repl_output has them asked")
		})
	})
}

func TestSecretClients(t *testing.T) {
	t.Parallel()

	t.Run("other calls learn that the user is being asked", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.caps = formCapabilities
		c.initialize("2025-06-18")
		p := &testUser{client: c}
		call := p.startRepl(map[string]any{"input": "secret pw: "})
		q := p.waitQuestion(call)
		wantPart(t, p.call("repl_output", nil).text(), `[waiting for a secret: "pw: ": the user is being asked`)
		wantPart(t, p.runRepl("hunter2"), "your input was NOT run")
		call = p.sendAnswer(call, q, acceptAnswer("hunter3"))
		wantText(t, p.waitResult(call).text(), "[a secret typed by user]\n7 bytes")
		for _, a := range p.allMessages() {
			if a.Method == "elicitation/create" && string(a.ID) != string(q.ID) {
				t.Errorf("the user was asked again: %s", a.Line)
			}
		}
	})

	t.Run("a client that cannot ask gets advice", func(t *testing.T) {
		t.Parallel()
		runEachProtocolVersion(t, func(t *testing.T, c *client) {
			want := `[waiting for a secret: "pw: "; only the user may type it, and this client cannot ask. ` +
				`repl_interrupt, then use an environment variable or a file, or ask the user to run this in a terminal]`
			wantText(t, c.runRepl("secret pw: "), want)
			wantPart(t, c.runRepl("hunter2"), "your input was NOT run")
			wantText(t, c.runRepl(""), want)
			wantText(t, c.call("repl_output", nil).text(), want)
			wantPart(t, c.call("repl_interrupt", nil).text(), "Interrupted")
			c.runRepl("secret pw: ")
			wantText(t, c.call("repl", map[string]any{"input": "", "eof": true}).text(), "0 bytes")
			(&testUser{client: c}).wantNowhere("hunter2")
		})
	})

	t.Run("a client that fails to ask is reported", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.caps = formCapabilities
		c.initialize("2025-06-18")
		p := &testUser{client: c}
		call := p.startRepl(map[string]any{"input": "secret pw: "})
		q := p.waitQuestion(call)
		p.sendLine(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"error":{"code":-32601,"message":"no dialogs here"}}`)
		wantPart(t, p.waitResult(call).text(), "the client cannot ask the user", "no dialogs here", "repl_interrupt gives up")
	})

	// The SDK's own client asks its user, in the newest protocol era.
	t.Run("the SDK's own client asks its user", func(t *testing.T) {
		t.Parallel()
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		inRead, inWrite := io.Pipe()
		outRead, outWrite := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- mcpserver.Run(t.Context(), &mcpserver.Options{
				Supervisor: sup, Specs: map[string]func(string) workers.Spec{"fake": fakeSpec(nil)}, In: inRead, Out: outWrite,
			})
		}()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		asked := 0
		c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "hunter2"}}, nil
			},
		})
		session, err := c.Connect(ctx, &mcp.IOTransport{Reader: outRead, Writer: inWrite}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "print a\nsecret pw: \nsecret again: "}})
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, r.Content[0].(*mcp.TextContent).Text, "a\n[a secret typed by user]\n7 bytes\n[a secret typed by user]\n7 bytes")
		if asked != 2 {
			t.Errorf("the user was asked %d times, want 2", asked)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		_ = inWrite.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A user may take longer than the client waits for a call.
func TestSlowUser(t *testing.T) {
	t.Parallel()
	// A test has this long to answer a question, and each waits this long for the first call to end.
	const slow = 6 * time.Second
	const asked = `[waiting for a secret: "pw: ": the user is being asked; repl_output waits, repl_interrupt gives up]`
	// ask runs code that asks for a secret, and returns once the call is answered but the
	// question is not.
	ask := func(t *testing.T, after string) (*testUser, question) {
		t.Helper()
		c := newClient(t, &setup{callWait: slow})
		c.caps = formCapabilities
		c.initialize("2025-11-25")
		p := &testUser{client: c}
		call := p.startRepl(map[string]any{"input": "secret pw: \n" + after})
		q := p.waitQuestion(call)
		wantText(t, p.waitResult(call).text(), asked)
		return p, q
	}

	t.Run("answers a later call", func(t *testing.T) {
		t.Parallel()
		p, q := ask(t, "print after")
		calls := []string{p.startCall("repl_output", nil), p.startCall("repl_output", nil)} // only one of them waits
		other := p.waitMessage("the answer to the other", func(a answer) bool { return a.Method == "" && slices.Contains(calls, string(a.ID)) })
		wantText(t, p.waitResult(string(other.ID)).text(), asked)
		p.sendAnswer("", q, acceptAnswer("hunter2"))
		rest := calls[0]
		if rest == string(other.ID) {
			rest = calls[1]
		}
		wantText(t, p.waitResult(rest).text(), "[a secret typed by user]\n7 bytes\nafter")
		for _, a := range p.allMessages() {
			if a.Method == "notifications/cancelled" {
				t.Errorf("the question was withdrawn: %s", a.Line)
			}
		}
		p.wantNowhere("hunter2")
	})

	t.Run("answers while no call waits", func(t *testing.T) {
		t.Parallel()
		p, q := ask(t, "print after")
		p.sendAnswer("", q, acceptAnswer("hunter2"))
		p.waitState("idle")
		wantText(t, p.call("repl_output", nil).text(), "[a secret typed by user]\n7 bytes\nafter")
	})

	t.Run("declines while no call waits", func(t *testing.T) {
		t.Parallel()
		p, q := ask(t, "print went on")
		p.sendAnswer("", q, map[string]any{"action": "decline"})
		p.waitState("idle")
		first := p.call("repl_output", nil).text()
		wantPart(t, first, "Interrupted")
		if !strings.Contains(first, "[the question was declined]") { // the turn can end a moment earlier
			p.waitPart("repl_output", map[string]any{"wait_ms": 0}, "[the question was declined]")
		}
	})

	t.Run("is asked again when the question ended with the call", func(t *testing.T) {
		t.Parallel()
		p, q := ask(t, "print after")
		p.sendAnswer("", q, map[string]any{"action": "cancel"})
		p.waitPart("repl_output", map[string]any{"wait_ms": 0}, "only the user may answer; repl_output has them asked")
		rest := p.startCall("repl_output", nil)
		p.sendAnswer("", p.waitQuestion(rest), acceptAnswer("hunter2"))
		wantText(t, p.waitResult(rest).text(), "[a secret typed by user]\n7 bytes\nafter")
	})

	t.Run("is no longer asked when the code ends", func(t *testing.T) {
		t.Parallel()
		p, q := ask(t, "")
		p.call("repl_interrupt", nil)
		p.waitMessage("a withdrawal", func(a answer) bool {
			return a.Method == "notifications/cancelled" && strings.Contains(string(a.Params), `"requestId":`+string(q.ID))
		})
		wantText(t, p.runRepl("print 2"), "2")
	})

	t.Run("leaves the code the rest of the timeout", func(t *testing.T) {
		t.Parallel()
		const timeout, thinks = 12 * time.Second, 6 * time.Second
		c := newClient(t, &setup{callWait: timeout})
		c.caps = formCapabilities
		c.initialize("2025-11-25")
		p := &testUser{client: c}
		call := p.startRepl(map[string]any{"input": "secret pw: \nsleep"})
		q := p.waitQuestion(call)
		<-time.After(thinks)
		answered := time.Now()
		p.sendAnswer(call, q, acceptAnswer("hunter2"))
		wantPart(t, p.waitResult(call).text(), "7 bytes\n[running ")
		if took := time.Since(answered); took >= timeout {
			t.Errorf("the call took %v after the answer, want at most %v", took, timeout-thinks)
		}
		p.call("repl_interrupt", nil)
	})

	t.Run("can still use the page", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{callWait: slow}, map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": "secret pw: \nprint after"})
			q := p.waitQuestion(call)
			call = p.sendAnswer(call, q, map[string]any{"action": "accept"})
			wantText(t, p.waitResult(call).text(), asked)
			rest := p.startCall("repl_output", nil)
			wantPart(t, submitPage(t, q.URL, url.Values{"answer": {"hunter2"}}), "handed over")
			wantText(t, p.waitResult(rest).text(), "[a secret typed by user]\n7 bytes\nafter")
			wantPart(t, readPage(t, q.URL), "This question is closed")
		})
	})
}

// A call can arrive just as the user answers on the page, when the input request looks open and its question
// is not. Some rounds meet that moment.
func TestAnsweredMeanwhile(t *testing.T) {
	t.Parallel()
	c := newClient(t, &setup{})
	c.caps = map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}
	c.useStateless()
	p := &testUser{client: c, modern: true}
	isAskedAgain := func(a answer) bool { return strings.Contains(string(a.Result), `"resultType":"input_required"`) }
	for range 60 {
		call := p.startRepl(map[string]any{"input": "secret pw: \nprint after"})
		q := p.waitQuestion(call)
		call = p.sendAnswer(call, q, map[string]any{"action": "accept"})
		for isAskedAgain(p.waitAnswer(p.startCall("repl_output", nil))) { // until the call waits for the page
		}
		submitted := make(chan error, 1)
		go func() {
			response, err := http.PostForm(q.URL, url.Values{"answer": {"hunter2"}})
			if err == nil {
				err = response.Body.Close()
			}
			submitted <- err
		}()
		var polls []string
		for range 20 {
			polls = append(polls, p.startCall("repl_output", nil))
		}
		for _, poll := range polls {
			if a := p.waitAnswer(poll); isAskedAgain(a) {
				t.Fatalf("an answered question was asked again: %s", a.Line)
			}
		}
		if err := <-submitted; err != nil {
			t.Fatal(err)
		}
		p.waitAnswer(call)
	}
}

func TestStdinPolicy(t *testing.T) {
	t.Parallel()

	t.Run("ask has the user answer everything", func(t *testing.T) {
		t.Parallel()
		runWithTestUser(t, setup{stdin: mcpserver.StdinAsk}, formCapabilities, func(t *testing.T, p *testUser) {
			call := p.startRepl(map[string]any{"input": "wait name? "})
			q := p.waitQuestion(call)
			wantText(t, q.Schema.Properties["answer"].Title, "name?")
			call = p.sendAnswer(call, q, acceptAnswer("Ann"))
			wantText(t, p.waitResult(call).text(), "[typed by user: Ann]\nAnn")
		})
	})

	t.Run("model lets the model answer secrets", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{stdin: mcpserver.StdinModel})
		wantText(t, c.runRepl("secret pw: "), `[waiting for a secret: "pw: "]`)
		wantText(t, c.runRepl("hunter2"), "7 bytes")
		all := c.call("repl_output", map[string]any{"after": 0}).text()
		if strings.Contains(all, "hunter2") {
			t.Errorf("the secret is recorded: %q", all)
		}
	})

	t.Run("deny gives every read the end of file", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{stdin: mcpserver.StdinDeny})
		wantText(t, c.runRepl("wait a? \nwait b? \nprint end"), "<eof>\n<eof>\nend\n[standard input is at its end: --stdin deny]")
		wantText(t, c.runRepl("print 2"), "2")
		wantPart(t, c.runRepl(strings.Repeat("wait a? \n", 101)), "it has read the end of file 100 times; repl_interrupt gives up")
		wantPart(t, c.runRepl("an answer"), "your input was NOT run")
	})
}
