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
			h.wantNothingLeft(t)
		}()
		a.callRepl("kept = 41\nimport sys, argparse")
		for code, want := range map[string]string{
			"sys.exit('validation failed')\nprint('never')": "SystemExit: validation failed\n",
			"sys.exit(0)\nprint('never')":                   "SystemExit: 0\n",
			"exit()\nprint('never')":                        "SystemExit\n",
			"p = argparse.ArgumentParser(prog='tool')\np.add_argument('file')\np.parse_args([])\nprint('never')":                          "usage: tool [-h] file\ntool: error: the following arguments are required: file\nSystemExit: 2\n",
			"import unittest\nclass T(unittest.TestCase):\n    def test(self): 1/0\nunittest.main(argv=['x'], exit=True)\nprint('never')": "FAILED (errors=1)\nSystemExit: ",
		} {
			got := a.callRepl(code)
			if !strings.Contains(got, want) || strings.Contains(got, "never") || !strings.Contains(got, "the rest of the input was not run") {
				t.Errorf("%q: got %q, want %q in it", code, got, want)
			}
			if got := a.callRepl("kept + 1"); got != "42" {
				t.Errorf("%q: then got %q", code, got)
			}
		}
		if got := a.callRepl("import os; os._exit(0)"); !strings.Contains(got, "[session ended: exit status 0, state lost") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("of an agent's R ends the session and is reported", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		a := newAgent(t, h, "--lang", "r", "--sandbox", "full")
		defer func() {
			a.in.Close()
			_ = a.cmd.Wait()
			h.wantNothingLeft(t)
		}()
		for _, code := range []string{"quit('no')", "quit(status = 3)"} {
			a.callRepl("kept <- 41")
			if got := a.callRepl(code + "\ncat('never')"); !strings.Contains(got, "[session ended: exit status ") || !strings.Contains(got, "state lost") || strings.Contains(got, "never") {
				t.Errorf("%s: got %q", code, got)
			}
			if got := a.callRepl("exists('kept')"); !strings.Contains(got, "FALSE") {
				t.Errorf("%s: then got %q", code, got)
			}
		}
	})
	t.Run("at a user's terminal ends it with the status", func(t *testing.T) {
		t.Parallel()
		p := newHome(t).startAtPrompt(t)
		p.enterLine("import sys")
		p.enterLine("sys.exit('done')")
		p.waitText("done")
		p.waitExit(1)
	})
	t.Run("of a program with -i leads to the prompt", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		path := h.writeFile(t, "exits.py", "import sys\nkept = 41\nsys.exit(3)\n")
		for _, args := range [][]string{{path}, {"-c", "kept = 41; exit(3)"}} {
			p := h.startTerminal(t, append([]string{"-i"}, args...)...)
			p.waitText("SystemExit: 3")
			p.waitText(">>> ")
			p.enterLine("kept + 1")
			p.waitText("\r\n42\r\n")
			p.waitText(">>> ")
			p.typeKeys(ctrlD)
			p.waitExit(0)
		}
	})
	t.Run("of an R program with -i ends R with the status", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		h.startTerminal(t, "-i", h.writeFile(t, "quits.R", "quit(status = 4)\n")).waitExit(4)
	})
	t.Run("of an attached user ends the session's interpreter", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		if r := h.runRepl(t, "", "exec", "main", "-e", "kept = 41"); r.status != 0 {
			t.Fatalf("got %+v", r)
		}
		p := h.startTerminal(t, "attach", "main")
		p.waitText(">>> ")
		p.enterLine("exit(3)")
		p.waitExit(3)
		if r := h.runRepl(t, "", "exec", "main", "-e", "kept"); r.status != 1 || !strings.Contains(r.stdout, "NameError") {
			t.Errorf("the next turn: got %+v", r)
		}
	})
}
