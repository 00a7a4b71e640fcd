package mcpserver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func newPythonClient(t *testing.T) *client {
	t.Helper()
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("no Python here: %v", spec.Err)
	}
	return newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{
		"python": func(string) workers.Spec { return confinedPython("-") },
	}})
}

func TestPython(t *testing.T) {
	t.Parallel()

	t.Run("the reply is what a user would see", func(t *testing.T) {
		t.Parallel()
		c := newPythonClient(t)
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
			wantText(t, c.runRepl(step.input), step.want)
		}
		if got := c.runRepl("import os; os.write(1, b'raw ') and print('managed')"); !slices.Contains(rawOutputOrders, got) {
			t.Errorf("got %q, want one of %q", got, rawOutputOrders)
		}
		wantPart(t, c.runRepl("1/0"), "Traceback", "ZeroDivisionError: division by zero")
		wantText(t, c.runRepl("import os, sys; sys.stderr = open(os.devnull, 'w'); 1/0"), "[error: ZeroDivisionError: division by zero]")
		got := c.runRepl(`raise ValueError("a\n[\x1b[31mb" + "x" * 100_000)`)
		wantPart(t, got, "[error: ValueError: a [bxxx", "xxx…]")
		if len(got) > 400 {
			t.Errorf("the error line has %d bytes", len(got))
		}
	})

	t.Run("a cancel interrupts and keeps the variables", func(t *testing.T) {
		t.Parallel()
		c := newPythonClient(t)
		c.runRepl("import time; kept = 1")
		id := c.startCall("repl", map[string]any{"input": "print('begun', flush=True)\ntime.sleep(60)"})
		c.waitState("running")
		c.cancel(id)
		c.waitState("idle")
		got := c.runRepl("kept")
		wantPart(t, got, "KeyboardInterrupt", "1")
		if strings.Count(got, "KeyboardInterrupt") != 1 {
			t.Errorf("got %q", got)
		}
		c.wantNoAnswer(id)
	})

	t.Run("a killed worker is reported with its cause", func(t *testing.T) {
		t.Parallel()
		c := newPythonClient(t)
		wantPart(t, c.runRepl("import os\nos.kill(os.getpid(), 9)"), "[session ended: "+afterKill+", state lost; last line: os.kill(os.getpid(), 9)")
		wantPart(t, c.runRepl("1+1"), "[session restarted: state lost]\n2")
	})
}
