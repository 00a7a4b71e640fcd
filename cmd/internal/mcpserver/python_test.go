package mcpserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func greetPython(t *testing.T) *client {
	t.Helper()
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("no Python here: %v", spec.Err)
	}
	return greet(t, &setup{specs: map[string]func(string) workers.Spec{
		"python": func(string) workers.Spec { return confinedPython("-") },
	}})
}

func TestPython_ReplyIsWhatAPersonWouldSee(t *testing.T) {
	t.Parallel()
	c := greetPython(t)
	for _, step := range []struct{ input, want string }{
		{"1+1", "2"},
		{"x = 41", "[done, no output]"},
		{"print('a'); x + 1", "a\n42"},
		{"name = input('name? '); print('hi', name)", `[waiting for input: "name? "]`},
		{"Ann", "hi Ann"},
		{"import sys; sys.stdin.readline()", "[waiting for input]"},
		{"\n", `'\n'`},
		{"for i in range(10): print('same')", "same\n… 10 times in all"},
	} {
		wantText(t, c.repl(step.input), step.want)
	}
	if got := c.repl("import os; os.write(1, b'raw ') and print('managed')"); !slices.Contains(besideRaw, got) {
		t.Errorf("got %q, want one of %q", got, besideRaw)
	}
	wantPart(t, c.repl("1/0"), "Traceback", "ZeroDivisionError: division by zero")
	wantText(t, c.repl("import os, sys; sys.stderr = open(os.devnull, 'w'); 1/0"), "[error: ZeroDivisionError: division by zero]")
	got := c.repl(`raise ValueError("a\n[\x1b[31mb" + "x" * 100_000)`)
	wantPart(t, got, "[error: ValueError: a [bxxx", "xxx…]")
	if len(got) > 400 {
		t.Errorf("the line about an error has %d bytes", len(got))
	}
}

func TestPython_CancelInterruptsAndTheNextCallGoesOn(t *testing.T) {
	t.Parallel()
	c := greetPython(t)
	c.repl("import time; kept = 1")
	id := c.startCall("repl", map[string]any{"input": "print('begun', flush=True)\ntime.sleep(60)"})
	c.untilState("running")
	c.cancel(id)
	c.untilState("idle")
	got := c.repl("kept")
	wantPart(t, got, "KeyboardInterrupt", "1")
	if strings.Count(got, "KeyboardInterrupt") != 1 {
		t.Errorf("got %q", got)
	}
	c.neverAnswered(id)
}

func TestPython_DeathIsReportedWithItsCause(t *testing.T) {
	t.Parallel()
	c := greetPython(t)
	wantPart(t, c.repl("import os\nos.kill(os.getpid(), 9)"), "[session ended: "+afterKill+", state lost; last line: os.kill(os.getpid(), 9)")
	wantPart(t, c.repl("1+1"), "[session restarted: state lost]\n2")
}
