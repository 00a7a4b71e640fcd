package mcpserver_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestRepl(t *testing.T) {
	t.Parallel()

	t.Run("a finished turn adds nothing to its output", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": "print 2"})
		wantText(t, r.text(), "2")
		for key, want := range map[string]any{
			"session": "main", "generation": 1.0, "turn": 1.0, "state": "idle", "outcome": "ok", "elided": false,
		} {
			if got := r.Meta["turnstone/"+key]; got != want {
				t.Errorf("%s: got %v, want %v", key, got, want)
			}
		}
		for _, key := range []string{"duration_ms", "next_seq"} {
			if _, ok := r.Meta["turnstone/"+key].(float64); !ok {
				t.Errorf("%s: got %v", key, r.Meta["turnstone/"+key])
			}
		}
	})

	t.Run("a silent turn says that it is done", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		wantText(t, c.runRepl("\n"), "[done, no output]")
		wantText(t, c.runRepl(""), "[idle, nothing new]")
	})

	t.Run("a poll reports that a silent turn is done", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print ready")
		for _, poll := range []func() string{
			func() string { return c.runRepl("") },
			func() string { return c.call("repl_output", nil).text() },
		} {
			wantPart(t, c.call("repl", map[string]any{"input": "sleep 4s", "timeout_ms": 0}).text(), "[running ")
			got := poll()
			if !strings.HasPrefix(got, "[done after ") || !strings.HasSuffix(got, " s, no output]") {
				t.Errorf("got %q", got)
			}
			wantText(t, poll(), "[idle, nothing new]")
		}
	})

	t.Run("a poll reports how a silent turn ended", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", map[string]any{"input": "wait name? "})
		if _, err := c.mainSession().Interrupt(t.Context(), 0); err != nil { // by another client
			t.Fatal(err)
		}
		wantPart(t, c.call("repl_output", nil).text(), "[interrupted after ")
	})

	t.Run("an error of the language is output", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": "error ValueError no such thing"})
		if r.IsError || r.Meta["turnstone/outcome"] != "error" {
			t.Errorf("got isError %v, outcome %v", r.IsError, r.Meta["turnstone/outcome"])
		}
		wantText(t, r.text(), "ValueError: no such thing")
	})

	t.Run("a timeout returns the output and keeps the turn", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print ready") // so that the start takes no time
		wait, open := newGate(t)
		r := c.call("repl", map[string]any{"input": "print begun\n" + wait + "print done", "timeout_ms": 5000})
		wantPart(t, r.text(), "begun\n[running ", "6 bytes so far: call repl_output to wait, repl_interrupt to stop]")
		if r.IsError || r.Meta["turnstone/state"] != "running" || r.Meta["turnstone/outcome"] != nil {
			t.Errorf("got isError %v, %v", r.IsError, r.Meta)
		}
		open()
		wantText(t, c.call("repl_output", nil).text(), "done")
	})

	t.Run("an input to a busy session is rejected at once", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print ready")
		c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 0})
		r := c.call("repl", map[string]any{"input": "print 2", "timeout_ms": 600_000}) // longer than the test waits
		wantPart(t, r.text(), "[your input was NOT run: the session is still running ", "repl_interrupt to stop]")
		if !r.IsError {
			t.Error("a refusal is not an error")
		}
		c.call("repl_interrupt", nil)
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("leading control characters act first", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		wantText(t, c.runRepl("print 0"), "0") // the start could be interrupted
		wantText(t, c.runRepl("\x03 print 1"), "1\n[nothing was running]")
		c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 0})
		c.waitState("running")
		got := c.runRepl("\x03print 2")
		wantPart(t, got, "Interrupted", "\n2")
		wantPart(t, c.runRepl("\x03"), "nothing was running")

		c.runRepl("wait a? ")
		wantPart(t, c.runRepl("\x03print 3"), "3") // the input request is given up, so this is code

		c.runRepl("wait a? ")
		r := c.call("repl", map[string]any{"input": "\x04print 4"})
		wantPart(t, r.text(), "[session restarted: reset, state lost", "\n4")
		if r.Meta["turnstone/generation"] != 2.0 {
			t.Errorf("got generation %v, want 2", r.Meta["turnstone/generation"])
		}
	})

	t.Run("late output opens the next reply with a label", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		got := c.runRepl("late boo\nprint now") // the late output may still be in this reply
		for event := range c.mainSession().Events(t.Context(), 0) {
			if event.BetweenTurns {
				break // the late output has arrived
			}
		}
		got += c.runRepl("print then")
		for _, part := range []string{"now", "output since turn 1 ended", "boo", "then"} {
			if strings.Count(got, part) != 1 {
				t.Errorf("got %q, want %q once", got, part)
			}
		}
		wantText(t, c.runRepl("print 3"), "3")
	})

	t.Run("turns of others are labeled", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print 1")
		turn, err := c.mainSession().As("ada").Submit(t.Context(), "print hers")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.mainSession().Wait(t.Context(), turn, session.WaitAtMost(deadline)); err != nil {
			t.Fatal(err)
		}
		wantPart(t, c.runRepl("print mine"), "turn 2 by ada", "hers", "mine")
	})

	t.Run("calls about several sessions run concurrently", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		var ids []string
		for i := range 3 {
			ids = append(ids, c.startCall("repl", map[string]any{"input": "sleep 200ms\nprint ok", "session": fmt.Sprint("s", i)}))
		}
		wantText(t, c.runRepl("print 2"), "2")
		for i, id := range ids {
			wantText(t, c.waitResult(id).text(), fmt.Sprintf("ok\n[new session \"s%d\"]", i))
		}
	})
}

func TestReplInputRequest(t *testing.T) {
	t.Parallel()

	t.Run("is shown, and the next input answers it", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": "wait name? \nprint bye"})
		wantText(t, r.text(), `[waiting for input: "name? "]`)
		if r.Meta["turnstone/state"] != "waiting" || r.Meta["turnstone/prompt"] != "name? " {
			t.Errorf("got %v", r.Meta)
		}
		wantText(t, c.runRepl("Ann"), "Ann\nbye")
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("stays open after a poll", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("wait a? ")
		for range 3 {
			wantText(t, c.runRepl(""), `[waiting for input: "a? "]`)
			wantText(t, c.call("repl_output", nil).text(), `[waiting for input: "a? "]`)
		}
		wantText(t, c.runRepl("x"), "x")
	})

	t.Run("is not answered before it is shown", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		// The caller believes that code is running, but the code has started to ask for input.
		wait, open := newGate(t)
		wantPart(t, c.call("repl", map[string]any{"input": wait + "wait sure? ", "timeout_ms": 0}).text(), "call repl_output to wait")
		open()
		c.waitState("waiting")
		wantText(t, c.runRepl("print not an answer"), `[your input was NOT run: waiting for input: "sure? "]`)
		wantText(t, c.runRepl("yes"), "yes")
	})

	t.Run("an answer that comes too late does not run as code", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("wait sure? ")
		if _, err := c.mainSession().Interrupt(t.Context(), 0); err != nil { // by another client
			t.Fatal(err)
		}
		got := c.runRepl("print ran")
		wantPart(t, got, "[your input was NOT run: the code no longer waits for it")
		if strings.Contains(got, "ran\n") {
			t.Errorf("the answer ran as code: %q", got)
		}
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("an answer gets its newline, and may be empty", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("wait a? \nwait b? \nwait c? \nprint end")
		wantText(t, c.runRepl("1"), "1\n"+`[waiting for input: "b? "]`)
		wantText(t, c.runRepl("\n"), `[waiting for input: "c? "]`)
		wantText(t, c.runRepl("3\n"), "3\nend")
	})

	t.Run("eof ends the input after the text", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		eof := func(input string) string {
			return c.call("repl", map[string]any{"input": input, "eof": true}).text()
		}
		c.runRepl("all a? ")
		wantText(t, eof("1\n2"), "1\n2")
		c.runRepl("wait b? ")
		wantText(t, eof(""), "<eof>")
		wantText(t, eof(""), "[no code waits for input: eof was not used]")
		wantText(t, eof("print 2"), "2\n[eof was ignored: the input was run as code]")
	})

	t.Run("code behind an interrupt never answers it", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 0})
		c.waitState("running")
		// Code after the interrupt never answers an input request, whatever the interrupt leads
		// to.
		got := c.runRepl("\x03wait b? ")
		wantPart(t, got, `waiting for input: "b? "`)
		wantText(t, c.runRepl("x"), "x")
	})
}

func TestReplWorkerStart(t *testing.T) {
	t.Parallel()

	t.Run("a dead worker is reported once and replaced", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": "die 3"})
		wantPart(t, r.text(), "[session ended: exit status 3, state lost")
		if r.Meta["turnstone/state"] != "ended" {
			t.Errorf("got state %v", r.Meta["turnstone/state"])
		}
		wantText(t, c.runRepl(""), "[the session ended: input starts a new one]")
		wantPart(t, c.runRepl("print 2"), "\n2")
		wantText(t, c.runRepl("print 3"), "3")
	})

	t.Run("a worker that does not start has lost no state", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct{ start, reason string }{
			{"exit 3", "exit status 3"},
			{"wrongversion", "worker failed: it speaks "},
		} {
			c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": fakeSpec(&fakeworker.Options{Start: test.start})}})
			r := c.call("repl", map[string]any{"input": "print 1"})
			if !r.IsError {
				t.Errorf("got %q, want an error", r.text())
			}
			text := r.text()
			if n := strings.Count(text, "did not start"); n != 1 {
				t.Errorf("it is reported %d times: %q", n, text)
			}
			wantPart(t, text, "[session did not start: "+test.reason, "[your input was NOT run: no interpreter is available; the next input tries again; ", "repl doctor")
			if strings.Contains(text, "session ended") || strings.Contains(text, "state lost") {
				t.Errorf("got %q", text)
			}
			again := c.runRepl("print 1")
			wantPart(t, again, "did not start", test.reason)
			if strings.Contains(again, "state lost") {
				t.Errorf("again: got %q", again)
			}
		}
	})

	t.Run("a missing runtime is reported with a hint", func(t *testing.T) {
		t.Parallel()
		missing := func(string) workers.Spec { return workers.Spec{Err: errors.New("no fake was found on PATH")} }
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": missing}})
		r := c.call("repl", map[string]any{"input": "print 1"})
		if !r.IsError {
			t.Errorf("got %q, want an error", r.text())
		}
		wantPart(t, r.text(), "no fake was found on PATH\n[the next input tries again; ", "repl doctor")
	})

	t.Run("start-up output opens the first reply", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": fakeSpec(&fakeworker.Options{Start: "print"})}})
		wantPart(t, c.runRepl("print 2"), "profile\n", "2")
		wantText(t, c.runRepl("print 3"), "3")
	})

	t.Run("a start-up prompt is shown before it is answered", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": fakeSpec(&fakeworker.Options{Start: "prompt"})}})
		c.waitState("waiting")
		got := c.runRepl("print 2")
		wantPart(t, got, "[your input was NOT run: waiting for input")
		wantPart(t, c.runRepl("answer"), "answer")
		wantText(t, c.runRepl("print 2"), "2")
	})
}

func TestReplOutput(t *testing.T) {
	t.Parallel()

	t.Run("an interrupted call says which reply has its output", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for _, test := range []struct{ print, want string }{
			{"print half\n", "[interrupted after "},
			{"", "[interrupted after "},
		} {
			id := c.startCall("repl", map[string]any{"input": test.print + "sleep"})
			c.waitState("running")
			taken := c.call("repl_interrupt", nil).text()
			text := c.waitResult(id).text()
			wantPart(t, text, test.want)
			where := "; its output is in the reply to another call]"
			if strings.Contains(taken, "Interrupted") != strings.HasSuffix(text, where) {
				t.Errorf("the interrupt was answered %q and the call %q", taken, text)
			}
		}
		// A poll next to the call that runs the code.
		id := c.startCall("repl", map[string]any{"input": "wait ? "})
		c.waitState("waiting")
		c.waitResult(id)
		id = c.startCall("repl", map[string]any{"input": "a"}) // not the call that started the turn
		wantText(t, c.waitResult(id).text(), "a")
	})

	// A full-screen drawing is left out, and appears in no other reply.
	t.Run("full-screen drawing does not count as output", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		wantText(t, c.runRepl("print a\x1b[?1049h~\x1b[?1049lb"), "ab")
	})

	t.Run("large output keeps both ends and names the file", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": "print first\nflood 1000000\nprint last"})
		wantPart(t, r.text(), "first\n", " elided: ", "output.txt …", "\nlast")
		if r.Meta["turnstone/elided"] != true || len(r.text()) > 10_500 {
			t.Errorf("got elided %v, %d bytes", r.Meta["turnstone/elided"], len(r.text()))
		}
	})

	t.Run("long input keeps the beginning of the output", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		input := "print first\nflood 1000000\n" + strings.Repeat("\n", 100_000)
		wantPart(t, c.runRepl(input), "first\n", " elided: ", "output.txt …")
	})
}

func TestReplImages(t *testing.T) {
	t.Parallel()

	t.Run("stand in order with their size", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": "print a\nimage\nprint b"})
		wantText(t, r.text(), "a\n[image \"a pixel\", 1 x 1]\n<image>\nb")
		if got := r.Content[1]; got.MIMEType != "image/png" || !strings.HasPrefix(string(got.Data), "\x89PNG") {
			t.Errorf("got %q, %d bytes", got.MIMEType, len(got.Data))
		}
	})

	t.Run("over the limit are only named", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		r := c.call("repl", map[string]any{"input": strings.Repeat("image\n", 9) + "image again\nimage again"})
		shown := 0
		for _, block := range r.Content {
			if block.Type == "image" {
				shown++
			}
		}
		if shown != 8 {
			t.Errorf("got %d images, want 8", shown)
		}
		// Only the last image of each source is stored.
		named := regexp.MustCompile(`\[image "a pixel", 1 x 1, not shown: a reply shows at most 8; original in (.*\.png)\]`).FindAllStringSubmatch(r.text(), -1)
		if len(named) != 2 {
			t.Fatalf("got %d images that are only named, want 2: %q", len(named), r.text())
		}
		if data, err := os.ReadFile(named[0][1]); err != nil || !strings.HasPrefix(string(data), "\x89PNG") {
			t.Errorf("got %q, %v", data, err)
		}
		if i, err := os.Stat(named[0][1]); err == nil && hasFileModes && i.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v", i.Mode())
		}
	})

	t.Run("are counted when there are many", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		got := c.call("repl", map[string]any{"input": strings.Repeat("image\n", 40) + "print last"}).text()
		if n := strings.Count(got, "original in "); n != 8 {
			t.Errorf("got %d that are named, want 8", n)
		}
		wantPart(t, got, "\nlast\n[24 more images, not shown; in ", "image-*]")
	})

	t.Run("fit one reply even by the thousand", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		var after any = 0
		for what, test := range map[string]struct {
			command string
			most    int // images
		}{
			"images":         {"image", 8},
			"one in updates": {"image fig", 1},
		} {
			r := c.call("repl", map[string]any{"input": "print first\n" + strings.Repeat(test.command+"\n", 10_000) + "print last"})
			n := 0
			for _, b := range r.Content {
				if b.Type == "image" {
					n++
				}
			}
			if n == 0 || n > test.most {
				t.Errorf("%s: got %d", what, n)
			}
			wantPart(t, r.text(), "first\n", " elided: ", "output.txt …", "last")
			if len(r.text()) > 10_500 {
				t.Errorf("%s: got %d bytes of text", what, len(r.text()))
			}
			// A reply waits only briefly for the line numbers of the file.
			c.mainSession().Log().Sync()
			again := c.call("repl_output", map[string]any{"after": after}).text()
			wantPart(t, again, "first\n", " elided: lines ", "output.txt …", "last")
			after = r.Meta["turnstone/next_seq"]
		}
		wantText(t, c.runRepl("print on"), "on")
	})
}

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the turn and answers both calls", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		running := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
		c.waitState("running")
		stopped := c.call("repl_interrupt", nil).text()
		together := stopped + c.waitResult(running).text()
		for _, part := range []string{"begun", "Interrupted"} {
			if strings.Count(together, part) != 1 {
				t.Errorf("got %q, want %q once", together, part)
			}
		}
		wantText(t, c.call("repl_interrupt", nil).text(), "[nothing was running]")
	})

	t.Run("without effect says what to do", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", map[string]any{"input": "stuck", "timeout_ms": 0})
		c.waitPart("repl_output", map[string]any{"grep": "^stuck$"}, ": stuck") // an earlier interrupt is acknowledged
		wantPart(t, c.call("repl_interrupt", nil).text(), "[still running ", ": the interrupt had no effect yet. Interrupt again, which is harder to ignore, or repl_reset]")
		wantPart(t, c.call("repl_reset", nil).text(), "session restarted: reset, state lost")
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("repeated without effect gives one hint each time", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.call("repl", map[string]any{"input": "stuck", "timeout_ms": 0})
		c.waitPart("repl_output", map[string]any{"grep": "^stuck$"}, ": stuck") // an earlier interrupt is acknowledged
		wantPart(t, c.call("repl_interrupt", nil).text(), "Interrupt again, which is harder to ignore, or repl_reset]")
		got := c.call("repl_interrupt", nil).text()
		wantPart(t, got, ": 2 interrupts had no effect. repl_reset ends it, and its variables are lost]")
		if strings.Contains(got, "again") {
			t.Errorf("got %q", got)
		}
		c.call("repl_reset", nil)
	})
}

func TestServersShareNothing(t *testing.T) {
	t.Parallel()
	a, b := newInitializedClient(t, nil), newInitializedClient(t, nil)
	running := a.startCall("repl", map[string]any{"input": "sleep"})
	a.waitState("running")
	b.cancel(running) // the same id on another connection
	wantText(t, b.runRepl("print 2"), "2")
	wantPart(t, a.call("repl_sessions", nil).text(), "running")
	a.cancel(running)
	a.waitState("idle")
}

// A line about the session is not output of the code.
func TestSilentCode(t *testing.T) {
	t.Parallel()

	t.Run("says so after the first line of a session", func(t *testing.T) {
		t.Parallel()
		noted := func(dir string) workers.Spec {
			spec := fakeSpec(nil)(dir)
			spec.Notice = "about this session"
			return spec
		}
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": noted}})
		wantText(t, c.runRepl("\n"), "[about this session]\n[done, no output]")
		wantText(t, c.runRepl("\n"), "[done, no output]")
		wantText(t, c.runRepl("print 1"), "1")
	})

	t.Run("says so with the name of a new session", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		got := c.call("repl", map[string]any{"input": "\n", "session": "new"}).text()
		if !strings.HasPrefix(got, "[done, no output; new session ") && !slowDone.MatchString(got) {
			t.Errorf("got %q", got)
		}
	})

	t.Run("says so after the output of a cancelled call", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
		c.waitState("running")
		c.cancel(id)
		got := c.runRepl("\n")
		wantPart(t, got, "begun\nInterrupted", "no output]")
	})
}
