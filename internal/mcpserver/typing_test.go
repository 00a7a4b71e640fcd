package mcpserver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// menu and polled are requests of programs at the terminal.
func menu(id int) *session.InputRequest {
	return &session.InputRequest{ID: 1000 + timeline.Seq(id), Kind: "line", Prompt: "pick> ", Terminal: true, Reader: "fzf", Raw: true}
}

func polled(id int) *session.InputRequest {
	w := menu(id)
	w.Polls = true
	return w
}

func TestKeys(t *testing.T) {
	t.Parallel()

	t.Run("types for the program that reads the terminal", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.onType = func(session.Keys) { c.setRequest(menu(2)) }
		c.setRequest(menu(1))
		wantText(t, c.call("repl_output", nil).text(), `[waiting for input (fzf, takes keys: "<Enter>"): "pick> "]`)
		wantText(t, c.typeKeys("<Down><Enter>").text(), `[waiting for input (fzf, takes keys: "<Enter>"): "pick> "]`)
		c.onType = func(session.Keys) { c.finish() }
		wantText(t, c.typeKeys("q").text(), "over")
		c.wantTyped(session.Keys{Text: "<Down><Enter>"}, session.Keys{Text: "q"})
	})

	t.Run("types for a program that is not seen", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		r := c.call("repl", map[string]any{"keys": "x", "timeout_ms": 0})
		if r.IsError || !strings.HasPrefix(r.text(), "[running ") {
			t.Errorf("got %q", r.text())
		}
		c.finish()
		wantText(t, c.call("repl_output", nil).text(), "over")
		c.wantTyped(session.Keys{Text: "x"})
	})

	t.Run("are typed as they are", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		for _, args := range []map[string]any{
			{"keys": "\x03\x04x ", "timeout_ms": 0}, // neither an interrupt nor a reset
			{"keys": "\n", "input": "", "timeout_ms": 0},
			{"keys": 42, "timeout_ms": 0},
		} {
			if r := c.call("repl", args); r.IsError {
				t.Errorf("%v: got %q", args, r.text())
			}
		}
		c.finish()
		wantText(t, c.call("repl_output", nil).text(), "over")
		c.wantTyped(session.Keys{Text: "\x03\x04x "}, session.Keys{Text: "\n"}, session.Keys{Text: "42"})
	})

	t.Run("are refused between turns", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		r := c.typeKeys("<Enter>")
		wantText(t, r.text(), "[your keys were NOT typed: nothing is running that could read them; code goes into input]")
		if !r.IsError {
			t.Error("the refusal is no error")
		}
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("are refused while the runtime asks", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.runRepl("wait name? ")
		wantText(t, c.typeKeys("ada<Enter>").text(), `[your keys were NOT typed: the code itself asks: answer with input; waiting for input: "name? "]`)
		wantText(t, c.runRepl("ada"), "ada")
	})

	t.Run("are refused for code that the caller has not seen", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		line, open := newGate(t)
		if _, err := c.fakeTerminal.Submit(t.Context(), line+"print theirs"); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the code runs", func() bool {
			now, err := c.fakeTerminal.Info(t.Context())
			return err == nil && now.State == session.StateRunning
		})
		wantPart(t, c.typeKeys("x").text(), "your keys were NOT typed: this code is not yours, and you have not seen it", "; running ")
		c.wantTyped()
		c.onType = func(session.Keys) { open() }
		wantPart(t, c.typeKeys("x").text(), "theirs")
		c.wantTyped(session.Keys{Text: "x"})
	})

	t.Run("own the turn until its reply", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.setRequest(menu(0))
		wantPart(t, c.call("repl_output", nil).text(), "[waiting for input (fzf")
		ids := c.sendAll(toolCall{"repl", map[string]any{"keys": "x"}}, replCall("print b"), toolCall{"repl", map[string]any{"keys": "y"}})
		wait.Until(t, "the keys are typed", func() bool { return len(c.allTyped()) > 0 })
		c.call("repl_sessions", nil) // all calls have arrived
		c.setRequest(menu(1))
		wantPart(t, c.waitResult(ids[0]).text(), "[waiting for input (fzf")
		wantPart(t, c.waitResult(ids[1]).text(), "your input was NOT run: an earlier call, which was not answered yet, waits for input")
		wantPart(t, c.waitResult(ids[2]).text(), "your keys were NOT typed: an earlier call, which was not answered yet, waits for input")
		c.onType = func(session.Keys) { c.finish() }
		wantText(t, c.typeKeys("z").text(), "over")
		wantText(t, c.runRepl("print b"), "b")
		c.wantTyped(session.Keys{Text: "x"}, session.Keys{Text: "z"})
	})

	t.Run("end the input request, and the next input is code", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.setRequest(menu(1))
		wantPart(t, c.call("repl_output", nil).text(), "waiting for input (fzf")
		wantPart(t, c.call("repl", map[string]any{"keys": "x", "timeout_ms": 0}).text(), "[running ")
		wantPart(t, c.runRepl("print b"), "your input was NOT run: the session is still running")
		c.finish()
		wantText(t, c.call("repl_output", nil).text(), "over")
	})

	t.Run("are interrupted with their call", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		id := c.startCall("repl", map[string]any{"keys": "x"})
		wait.Until(t, "the keys are typed", func() bool { return len(c.allTyped()) > 0 })
		c.cancel(id)
		wantPart(t, c.runRepl("print b"), "the previous call was cancelled", "\nb")
		c.wantNoAnswer(id)
	})

	t.Run("follow the policy for standard input", func(t *testing.T) {
		t.Parallel()
		secret := menu(1)
		secret.Secret, secret.Kind, secret.Prompt = true, "secret", "Password: "
		for name, test := range map[string]struct {
			policy  mcpserver.StdinPolicy
			request *session.InputRequest
			want    string // of the refusal; "" means that the keys are typed
		}{
			"the user types a secret":       {mcpserver.StdinAuto, secret, `your keys were NOT typed: waiting for a secret (fzf): "Password: "; only the user may type it`},
			"the model types other input":   {mcpserver.StdinAuto, menu(1), ""},
			"the model may type everything": {mcpserver.StdinModel, secret, ""},
			"the user types everything":     {mcpserver.StdinAsk, menu(1), "your keys were NOT typed: waiting for input (fzf): \"pick> \"; only the user may answer"},
			"unless nothing is asked":       {mcpserver.StdinAsk, nil, ""},
			"nobody types":                  {mcpserver.StdinDeny, nil, "your keys were NOT typed: --stdin deny allows no keys; running "},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newTerminalClient(t, &setup{stdin: test.policy})
				c.start()
				c.setRequest(test.request)
				c.onType = func(session.Keys) { c.finish() }
				got := c.typeKeys("hunter2").text()
				if test.want != "" {
					wantPart(t, got, test.want)
					c.wantTyped()
					c.setRequest(nil)
					c.finish()
					return
				}
				wantText(t, got, "over")
				c.wantTyped(session.Keys{Text: "hunter2", Secret: test.request == secret})
			})
		}
	})

	t.Run("are offered unless the policy denies them", func(t *testing.T) {
		t.Parallel()
		for policy, want := range map[mcpserver.StdinPolicy]bool{mcpserver.StdinAuto: true, mcpserver.StdinModel: true, mcpserver.StdinAsk: true, mcpserver.StdinDeny: false} {
			repl := listTools(newInitializedClient(t, &setup{stdin: policy}))["repl"]
			if _, offered := repl.InputSchema.Properties["keys"]; offered != want || strings.Contains(repl.Description, "only keys") != want || slices.Contains(repl.InputSchema.Required, "input") == want {
				t.Errorf("%s: got %+v", policy, repl)
			}
		}
	})

	t.Run("say what is wrong with them", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		for _, test := range []struct {
			args map[string]any
			want string
		}{
			{map[string]any{"keys": "x", "input": "y"}, "use either input or keys"},
			{map[string]any{"keys": "x", "eof": true}, `eof does not go with keys: "<C-d>"`},
			{map[string]any{"keys": ""}, "input is required"},
			{map[string]any{"key": "x"}, `unknown argument "key": this tool takes input, keys, `},
		} {
			r := c.call("repl", test.args)
			if !r.IsError {
				t.Errorf("%v: no error", test.args)
			}
			wantPart(t, r.text(), test.want)
		}
		c.start()
		for kind, message := range map[session.Kind]string{
			session.KindInvalid: `unknown key <Entr>: the names are <Enter>, <Tab>`, session.KindTooLarge: "the keys are too large", session.KindBusy: "earlier keys are still being typed",
		} {
			c.setTypeError(session.Errorf(kind, "%s", message))
			r := c.typeKeys("<Entr>")
			if wantText(t, r.text(), message); !r.IsError {
				t.Errorf("%s: no error", kind)
			}
		}
		c.finish()
		wantText(t, c.call("repl_output", nil).text(), "over")
	})
}

func TestScreen(t *testing.T) {
	t.Parallel()
	full := session.Screen{Lines: []string{"hello", "~"}, Rows: 4, Cols: 20, CursorRow: 1, CursorCol: 6, FullScreen: true}
	const fullText = "hello\n~\n[screen 20x4, cursor at line 1, column 6, full screen]"

	t.Run("is shown, and nothing counts as read", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.setScreen(full)
		if r := c.call("repl_output", map[string]any{"screen": true}); r.IsError || r.text() != fullText {
			t.Errorf("got %q", r.text())
		}
		c.finish()
		wantText(t, c.call("repl_output", nil).text(), "over")
	})

	t.Run("is empty between turns", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		if r := c.call("repl_output", map[string]any{"screen": true}); r.IsError || r.text() != "[nothing is running: the screen is empty]" {
			t.Errorf("got %q", r.text())
		}
	})

	t.Run("is shown alone", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		for name, value := range map[string]any{"until": "a", "grep": "a", "lines": "1", "after": 1} {
			r := c.call("repl_output", map[string]any{"screen": true, name: value})
			if !r.IsError {
				t.Errorf("%s: no error", name)
			}
			wantPart(t, r.text(), "use only one of until, grep, lines, screen and after")
		}
	})

	t.Run("is clipped, and says so", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.setScreen(session.Screen{Lines: strings.Split(strings.Repeat(strings.Repeat("x", 199)+"\n", 100), "\n"), Rows: 101, Cols: 200})
		got := c.call("repl_output", map[string]any{"screen": true}).text()
		wantPart(t, got, " lines of the screen are left out …\n", "[screen 200x101, ")
		if len([]rune(got)) > 10_000 {
			t.Errorf("the reply has %d characters", len([]rune(got)))
		}
		c.finish()
	})

	t.Run("of a full-screen program is in the reply to keys", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.setScreen(full)
		c.onType = func(session.Keys) { c.setRequest(menu(1)) }
		wantText(t, c.typeKeys("ihello").text(), fullText+"\n"+`[waiting for input (full-screen program fzf): answer with keys: "<Enter>", or repl_interrupt]`)
		c.onType = func(session.Keys) { c.finish() }
		wantText(t, c.typeKeys("q").text(), "over")
	})
}

func TestPolls(t *testing.T) {
	t.Parallel()
	const shown = `[waiting for input (fzf, takes keys: "<Enter>", polls and may continue by itself): "pick> "]`

	// newShown returns a client that was shown the request of a polling program.
	newShown := func(t *testing.T) *terminalClient {
		t.Helper()
		c := newTerminalClient(t, &setup{})
		c.start()
		c.setRequest(polled(1))
		wantText(t, c.call("repl_output", nil).text(), shown)
		return c
	}

	t.Run("a request is not returned twice", func(t *testing.T) {
		t.Parallel()
		c := newShown(t)
		ids := []string{c.startCall("repl_output", nil), c.startCall("repl", map[string]any{"input": ""})}
		c.call("repl_sessions", nil)
		c.setRequest(nil)
		c.setRequest(polled(2)) // it has only looked away
		c.call("repl_sessions", nil)
		c.setRequest(nil)
		c.finish()
		var both strings.Builder
		for _, id := range ids {
			both.WriteString(c.waitResult(id).text())
		}
		if strings.Count(both.String(), "over") != 1 || strings.Contains(both.String(), "waiting") {
			t.Errorf("got %q", both.String())
		}
	})

	t.Run("new output is returned, with the request", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{})
		line, open := newGate(t)
		c.startScript(line + "print more\n")
		c.setRequest(polled(1))
		wantText(t, c.call("repl_output", nil).text(), shown)
		id := c.startCall("repl_output", nil)
		until := c.startCall("repl_output", map[string]any{"until": "ov.r"})
		c.call("repl_sessions", nil)
		open()
		wantText(t, c.waitResult(id).text(), "more\n"+shown)
		c.finish() // the request stays open until the end
		wantPart(t, c.waitResult(until).text(), "over")
	})

	t.Run("a request is returned when the time is over", func(t *testing.T) {
		t.Parallel()
		c := newShown(t)
		wantText(t, c.call("repl_output", map[string]any{"wait_ms": 100}).text(), shown)
		wantText(t, c.call("repl_output", map[string]any{"wait_ms": 0}).text(), shown)
		c.setRequest(nil)
		c.finish()
	})

	t.Run("another request is returned", func(t *testing.T) {
		t.Parallel()
		c := newShown(t)
		id := c.startCall("repl_output", nil)
		c.call("repl_sessions", nil)
		c.setRequest(nil)
		other := polled(2)
		other.Prompt = "sure? "
		c.setRequest(other)
		wantPart(t, c.waitResult(id).text(), `"sure? "`)
		c.setRequest(nil)
		c.finish()
	})

	t.Run("the same request after own keys is returned", func(t *testing.T) {
		t.Parallel()
		c := newShown(t)
		c.onType = func(session.Keys) { c.setRequest(polled(2)) }
		wantText(t, c.typeKeys("x").text(), shown)
		c.setRequest(nil)
		c.finish()
	})

	t.Run("a request that does not poll is returned each time", func(t *testing.T) {
		t.Parallel()
		c := newTerminalClient(t, &setup{callWait: 10 * time.Minute})
		c.start()
		c.setRequest(menu(1))
		for range 2 {
			wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 600_000}).text(), `[waiting for input (fzf, takes keys: "<Enter>"): "pick> "]`)
		}
		c.setRequest(nil)
		c.finish()
	})
}
