//go:build unix

package e2e

import (
	"strings"
	"testing"
)

func TestExit(t *testing.T) {
	t.Parallel()
	t.Run("of an agent's Python is an error, and the variables stay", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		a := newAgent(t, h, "--sandbox", "full")
		defer func() {
			a.in.Close()
			_ = a.cmd.Wait()
			h.leavesNothing(t)
		}()
		a.repl("kept = 41\nimport sys, argparse")
		for code, want := range map[string]string{
			"sys.exit('validation failed')\nprint('never')": "SystemExit: validation failed\n",
			"sys.exit(0)\nprint('never')":                   "SystemExit: 0\n",
			"exit()\nprint('never')":                        "SystemExit\n",
			"p = argparse.ArgumentParser(prog='tool')\np.add_argument('file')\np.parse_args([])\nprint('never')":                          "usage: tool [-h] file\ntool: error: the following arguments are required: file\nSystemExit: 2\n",
			"import unittest\nclass T(unittest.TestCase):\n    def test(self): 1/0\nunittest.main(argv=['x'], exit=True)\nprint('never')": "FAILED (errors=1)\nSystemExit: ",
		} {
			got := a.repl(code)
			if !strings.Contains(got, want) || strings.Contains(got, "never") || !strings.Contains(got, "the rest of the input was not run") {
				t.Errorf("%q: got %q, want %q in it", code, got, want)
			}
			if got := a.repl("kept + 1"); got != "42" {
				t.Errorf("%q: then got %q", code, got)
			}
		}
		if got := a.repl("import os; os._exit(0)"); !strings.Contains(got, "[session ended: exit status 0, state lost") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("of an agent's R ends the session, and that is said", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		a := newAgent(t, h, "--lang", "r", "--sandbox", "full")
		defer func() {
			a.in.Close()
			_ = a.cmd.Wait()
			h.leavesNothing(t)
		}()
		for _, code := range []string{"quit('no')", "quit(status = 3)"} {
			a.repl("kept <- 41")
			if got := a.repl(code + "\ncat('never')"); !strings.Contains(got, "[session ended: exit status ") || !strings.Contains(got, "state lost") || strings.Contains(got, "never") {
				t.Errorf("%s: got %q", code, got)
			}
			if got := a.repl("exists('kept')"); !strings.Contains(got, "FALSE") {
				t.Errorf("%s: then got %q", code, got)
			}
		}
	})
	t.Run("at a person's terminal ends it with the status", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).sitDown(t)
		p.enters("import sys")
		p.enters("sys.exit('done')")
		p.sees("done")
		p.leaves(1)
	})
	t.Run("of a program with -i leads to the prompt", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		path := h.file(t, "exits.py", "import sys\nkept = 41\nsys.exit(3)\n")
		for _, args := range [][]string{{path}, {"-c", "kept = 41; exit(3)"}} {
			p := h.start(t, append([]string{"-i"}, args...)...)
			p.sees("SystemExit: 3")
			p.sees(">>> ")
			p.enters("kept + 1")
			p.sees("\r\n42\r\n")
			p.sees(">>> ")
			p.types(ctrlD)
			p.leaves(0)
		}
	})
	t.Run("of an R program with -i ends R with the status", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		h.start(t, "-i", h.file(t, "quits.R", "quit(status = 4)\n")).leaves(4)
	})
	t.Run("of a person who is attached ends the session's interpreter", func(t *testing.T) {
		t.Parallel()
		h := daemonHome(t)
		h.serve(t)
		if r := h.run(t, "", "exec", "main", "-e", "kept = 41"); r.status != 0 {
			t.Fatalf("got %+v", r)
		}
		p := h.start(t, "attach", "main")
		p.sees(">>> ")
		p.enters("exit(3)")
		p.leaves(3)
		if r := h.run(t, "", "exec", "main", "-e", "kept"); r.status != 1 || !strings.Contains(r.stdout, "NameError") {
			t.Errorf("then got %+v", r)
		}
	})
}
