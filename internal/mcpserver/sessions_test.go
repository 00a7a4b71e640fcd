package mcpserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

func twoLanguages() map[string]func(string) workers.Spec {
	return map[string]func(string) workers.Spec{"fake": fakeSpec(nil), "mock": fakeSpec(nil)}
}

func sessionInput(session, input string) map[string]any {
	return map[string]any{"session": session, "input": input}
}

func TestSessions(t *testing.T) {
	t.Parallel()

	t.Run("a new name makes one and says so once", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		wantText(t, c.call("repl", sessionInput("work", "print 1")).text(), "1\n[new session \"work\"]")
		wantText(t, c.call("repl", sessionInput("work", "print 2")).text(), "2")
		wantText(t, c.runRepl("print 3"), "3")
		wantPart(t, c.call("repl_output", map[string]any{"session": "work"}).text(), "nothing new")
	})

	t.Run("the name new picks a free name", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", sessionInput("fake-2", "print 0"))
		wantText(t, c.call("repl", sessionInput("new", "print 1")).text(), "1\n[new session \"fake-3\"]")
		wantText(t, c.call("repl", sessionInput("new", "print 2")).text(), "2\n[new session \"fake-4\"]")
		wantText(t, c.call("repl", sessionInput("fake-3", "print 3")).text(), "3")
	})

	t.Run("the language follows the name or the default", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{specs: twoLanguages()})
		wantText(t, c.runRepl("print 0"), "0\n[new fake session]")
		wantText(t, c.runRepl("print 0"), "0")
		wantPart(t, c.call("repl", sessionInput("own", "print 0")).text(), `[new fake session "own"]`)
		c = newInitializedClient(t, &setup{specs: twoLanguages()})
		r := c.call("repl", map[string]any{"input": "print 1", "lang": "mock"})
		wantText(t, r.text(), "1")
		if r.Meta["turnstone/session"] != "mock" {
			t.Errorf("got session %v", r.Meta["turnstone/session"])
		}
		wantPart(t, c.call("repl", map[string]any{"input": "1", "session": "mock", "lang": "fake"}).text(), `session "mock" runs mock`)
		wantText(t, c.runRepl("print 2"), "2") // only one session exists
		wantPart(t, c.call("repl_output", nil).text(), "nothing new")
		c.call("repl", map[string]any{"input": "print 1", "lang": "fake"})
		wantPart(t, c.call("repl_output", nil).text(), "session is required; existing sessions: fake and mock")

		c = newInitializedClient(t, &setup{specs: twoLanguages(), main: "mock"})
		if r := c.call("repl", map[string]any{"input": "print 1"}); r.Meta["turnstone/session"] != "main" {
			t.Errorf("got session %v", r.Meta["turnstone/session"])
		}
		wantPart(t, c.call("repl_sessions", nil).text(), "main  mock")
	})

	t.Run("beyond the limit an error names those that exist", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{sup: supervisor.Options{MaxSessions: 2}})
		c.runRepl("print 0")
		c.call("repl", sessionInput("a", "print 1"))
		r := c.call("repl", sessionInput("b", "print 1"))
		if !r.IsError {
			t.Errorf("got %q, want a refusal", r.text())
		}
		wantPart(t, r.text(), "too many sessions: use one of a or main")
		// A session without a worker has no state to lose, so it makes room.
		c.call("repl", sessionInput("a", "exit 0"))
		wantPart(t, c.call("repl", sessionInput("b", "print 2")).text(), "2\n")
		wantPart(t, c.call("repl_output", map[string]any{"session": "a"}).text(), `unknown session "a"`)
	})

	t.Run("the list shows what each one does", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", sessionInput("work", "wait a? "))
		c.runRepl("print 1")
		lines := strings.Split(c.call("repl_sessions", nil).text(), "\n")
		if len(lines) != 3 {
			t.Fatalf("got %q", lines)
		}
		wantPart(t, lines[0], "NAME", "LANGUAGE", "STATE", "GENERATION", "AGE", "MEMORY", "PID", "SANDBOX")
		wantPart(t, lines[1], "main", "fake", "idle", map[bool]string{true: "workspace", false: "full"}[sandboxcheck.Sandbox().Confines()])
		wantPart(t, lines[2], "work", "fake", "waiting")
	})

	t.Run("work in the client's directory", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		dir := newRealDir(t)
		where := map[string]any{"input": "cwd"}
		wantText(t, c.callFromCodex(directoryURI(dir), where).text(), dir+"\n[it works in "+dir+"]") // not in the directory where main was opened ahead
		wantText(t, c.callFromCodex(directoryURI(newRealDir(t)), where).text(), dir)                 // main is in use by now
		wantText(t, c.callFromCodex(directoryURI(dir), sessionInput("new", "cwd")).text(), dir+"\n[new session \"fake-2\"; it works in "+dir+"]")
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for _, no := range []string{"file:///does/not/exist", "https://example.org" + dir, "file://elsewhere/" + dir, "nonsense", ""} {
			wantPart(t, c.callFromCodex(no, sessionInput("new", "cwd")).text(), here+"\n[new session")
		}
	})

	t.Run("work in the directory that the user has set", func(t *testing.T) {
		t.Parallel()
		dir := newRealDir(t)
		c := newInitializedClient(t, &setup{dir: dir})
		wantPart(t, c.callFromCodex(directoryURI(newRealDir(t)), sessionInput("new", "cwd")).text(), dir+"\n[new session \"fake-2\"]")
	})

	t.Run("the variables of one can be listed", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print ready")
		list := func() string { return c.call("repl_sessions", map[string]any{"session": "main"}).text() }
		wantText(t, list(), "NAME    TYPE    SHAPE  SIZE\nanswer  number  1      8 bytes\n[1 more]")
		c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 0})
		c.waitState("running")
		wantText(t, list(), `[session "main" is busy: list its variables when its code has ended]`)
		c.call("repl_interrupt", nil)
		r := c.call("repl_sessions", map[string]any{"session": "nope"})
		if !r.IsError {
			t.Errorf("got %q", r.text())
		}

		c = newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": fakeSpec(&fakeworker.Options{NoQuery: true})}})
		c.runRepl("print ready")
		wantText(t, list(), "[this runtime cannot list its variables]")
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()

	t.Run("grep and lines do not move the cursor", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", map[string]any{"input": "print a1\nprint b2\nprint a3\nsleep", "timeout_ms": 0})
		c.waitState("running")
		until := func(args map[string]any, want string) { // the first call may time out before the output
			t.Helper()
			c.waitPart("repl_output", args, want)
			wantText(t, c.call("repl_output", args).text(), want)
		}
		until(map[string]any{"grep": "^a"}, "1: a1\n3: a3")
		until(map[string]any{"lines": "2-3"}, "2: b2\n3: a3")
		until(map[string]any{"lines": "2"}, "2: b2")
		until(map[string]any{"lines": "3-"}, "3: a3")
		until(map[string]any{"lines": "-1"}, "3: a3")
		until(map[string]any{"lines": "9"}, "[the output has 3 lines]")
		until(map[string]any{"lines": "3-2"}, `lines "3-2": the first line is after the last`)
		until(map[string]any{"grep": "zebra"}, "[none of 3 lines matches]")
		c.call("repl_interrupt", nil)
	})

	t.Run("grep and lines show a limited number of lines", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("flood 100000")
		got := c.call("repl_output", map[string]any{"lines": "1-1000"}).text()
		wantPart(t, got, "1: 0000", "follow]")
		if len(got) > 21_000 {
			t.Errorf("got %d bytes", len(got))
		}
		wantPart(t, c.call("repl_output", map[string]any{"grep": "0"}).text(), "more lines match after line")
	})

	t.Run("grep shows the match of a long line", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for _, size := range []int{10_000, 200_000} {
			c.runRepl(fmt.Sprintf("print %sneedle%d", strings.Repeat("x", size), size))
			got := c.call("repl_output", map[string]any{"grep": fmt.Sprint("needle", size)}).text()
			wantPart(t, got, ": …xxx", fmt.Sprint("xneedle", size))
			if len(got) > 400 {
				t.Errorf("got %d bytes", len(got))
			}
		}
	})

	t.Run("after shows output again", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		first := c.call("repl", map[string]any{"input": "print one"})
		c.runRepl("print two")
		got := c.call("repl_output", map[string]any{"after": first.Meta["turnstone/next_seq"]}).text()
		if strings.Contains(got, "one") {
			t.Errorf("got %q", got)
		}
		wantPart(t, got, "two")
		wantPart(t, c.call("repl_output", map[string]any{"after": 0}).text(), "one", "two")
		wantText(t, c.call("repl_output", nil).text(), "[idle, nothing new]")
	})

	t.Run("a wait of zero returns at once", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 0})
		c.waitState("running")
		wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 0}).text(), "[running ")
		c.call("repl_interrupt", nil)
	})

	t.Run("a long line can be read in pieces", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		line := ""
		for i := range 3000 {
			line += fmt.Sprintf("<%05d>", i)
		}
		c.runRepl("print short\nprint " + line)
		cut := c.call("repl_output", map[string]any{"lines": "1-2"}).text()
		wantPart(t, cut, "1: short\n2: <00000>", `… [19000 more characters: lines "2:2001"]`)
		got, at := "", "2:1"
		for range 5 {
			piece, next, more := strings.Cut(c.call("repl_output", map[string]any{"lines": at}).text(), "\n[")
			got += strings.TrimPrefix(piece, "2: ")
			if !more {
				break
			}
			_, next, _ = strings.Cut(next, `lines "`)
			at = strings.TrimSuffix(next, `"]`)
		}
		wantText(t, got, line)
		wantPart(t, c.call("repl_output", map[string]any{"lines": "2:30000"}).text(), "[line 2 has 21000 characters here; ")
	})

	t.Run("until returns at a line that matches", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print ready")
		until := func(pattern string) toolResult {
			return c.call("repl_output", map[string]any{"until": pattern})
		}
		// lateCode starts code that prints only once a call waits for the output.
		lateCode := func(code, pattern string) string {
			wait, open := newGate(t)
			c.call("repl", map[string]any{"input": wait + code, "timeout_ms": 0})
			id := c.startCall("repl_output", map[string]any{"until": pattern})
			open()
			return c.waitResult(id).text()
		}
		r := until("a(?=b)")
		if !r.IsError {
			t.Errorf("got %q", r.text())
		}
		wantPart(t, r.text(), "until is not a regular expression: ", "RE2")

		// The turn does not end, so only the match ends the call.
		wantPart(t, lateCode("print one\nprint two words\nsleep", "^two w"), "one\ntwo words\n[running ")
		id := c.startCall("repl_output", map[string]any{"until": "^one", "wait_ms": 600_000}) // the model has already seen it
		c.call("repl_interrupt", nil)                                                         // does not wait for the earlier call
		if got := c.waitResult(id).text(); strings.Contains(got, "one") {
			t.Errorf("got %q", got)
		}

		wantPart(t, lateCode("print one\nwait Port? ", "never"), "one\n", `[waiting for input: "Port? "]`)
		c.runRepl("x")
		wantText(t, until("never").text(), "[idle, nothing new]")
	})
}

// callFromCodex calls repl like a Codex that works in dir.
func (c *client) callFromCodex(dir string, args map[string]any) toolResult {
	c.t.Helper()
	return c.waitResult(c.send("tools/call", map[string]any{
		"name": "repl", "arguments": args,
		"_meta": map[string]any{"codex/sandbox-state-meta": map[string]any{"sandboxCwd": dir}},
	}))
}

// directoryURI returns the file URL of a directory.
func directoryURI(dir string) string { return fileURI + filepath.ToSlash(dir) }

// newRealDir returns a new directory with links resolved.
func newRealDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReset(t *testing.T) {
	t.Parallel()

	// One of the replies has the events, and each says how its call went.
	t.Run("is reported even when another call has the events", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		for range 10 {
			reset := c.startCall("repl_reset", nil)
			next := c.startCall("repl", map[string]any{"input": "print 1"})
			first := c.waitResult(reset).text()
			wantPart(t, first, "session restarted: ")
			wantPart(t, first+c.waitResult(next).text(), "1")
		}
	})

	t.Run("close ends a session for good", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{sup: supervisor.Options{MaxSessions: 2}})
		c.call("repl", map[string]any{"input": "print 1", "session": "work"})
		c.runRepl("print 1")
		r := c.call("repl", map[string]any{"input": "print 1", "session": "third"})
		wantPart(t, r.text(), "too many sessions: use one of main or work", "close one (repl_reset, close: true)")
		c.call("repl", map[string]any{"input": "sleep", "session": "work", "timeout_ms": 0})
		c.waitState("running")
		wantText(t, c.call("repl_reset", map[string]any{"session": "work", "close": true}).text(), `[session "work" is closed, and its variables are lost]`)
		if text := c.call("repl_sessions", nil).text(); strings.Contains(text, "\nwork ") {
			t.Errorf("got %q", text)
		}
		wantPart(t, c.call("repl", map[string]any{"input": "print 1", "session": "third"}).text(), "1\n")
		wantText(t, c.call("repl_reset", map[string]any{"close": true}).text(), `[session "main" is closed, and its variables are lost]`)
		wantPart(t, c.runRepl("print 2"), "2")
	})
}
