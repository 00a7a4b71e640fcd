//go:build linux || darwin

package r_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestInput(t *testing.T) {
	t.Parallel()

	t.Run("R accepts or rejects strange bytes itself", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for _, c := range []struct{ name, code, outcome, out string }{
			{"white space", " \n\t\n\x0c\n", "ok", ""},
			{"CRLF", "x <- function() {\r\n  5\r\n}\r\nx()\r\n", "ok", "[1] 5\n"},
			{"CRLF in a string", "'a\r\nb'", "ok", "[1] \"a\\nb\"\n"},
			{"NUL", "'a\x00b'", "ok", "[1] \"ab\"\n"},
			{"invalid UTF-8", "'\xff\xfe'", "error", "Error"},
			{"invalid UTF-8 in a comment", "1 # \xff\n2", "", ""},
			{"half a character", "'\xe6\x97", "error", "Error"},
			{"a byte order mark", "\ufeff1+1", "ok", "[1] 2\n"},
			{"an escape", "nchar('\x1b[31m')", "ok", "[1] 5\n"},
			{"no newline at the end", "5", "ok", "[1] 5\n"},
			{"Ctrl-D and Ctrl-C as characters", "nchar('\x04\x03')", "ok", "[1] 2\n"},
			{"a control character", "\x04", "error", "unexpected"},
			{"emoji as a name", "`😀` <- 3; `😀`", "ok", "[1] 3\n"},
			{"a very long name", strings.Repeat("n", 20_000) + " <- 1", "error", "input buffer overflow"},
			{"deep nesting", strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), "error", ""},
			{"many statements on a line", strings.Repeat("x <- 1;", 10_000) + "x", "ok", "[1] 1\n"},
		} {
			r := w.RunCode(c.code)
			if got := describeOutcome(r); !strings.HasPrefix(got, c.outcome) || !strings.Contains(r.OutputText(), c.out) {
				t.Errorf("%s: got %.300q, %.300s; want %q in it, and %s", c.name, r.Transcript(), got, c.out, c.outcome)
			}
			if r.Idle == nil {
				t.Fatalf("%s: the session ended: %v", c.name, w.ExitStatus())
			}
			w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
		}
	})

	t.Run("large inputs arrive complete", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		var lines strings.Builder
		lines.WriteString("f <- function() {\n")
		for i := range 700 {
			fmt.Fprintf(&lines, "  x%d <- %d\n", i, i)
		}
		lines.WriteString("  x699\n}\nf()\n")
		// R takes 4 KB at a time, and parses the expression again after each piece and each line.
		for _, c := range []struct{ name, code, want string }{
			{"a line of 250 KB", "x <- '" + strings.Repeat("é", 125_000) + "'; nchar(x)", "[1] 125000\n"},
			{"an expression of 700 lines", lines.String(), "[1] 699\n"},
			{"20000 lines, 1 MB", strings.Repeat("x <- 1"+strings.Repeat(" ", 44)+"\n", 20_000) + "x", "[1] 1\n"},
			{"a call of 1000 lines", "sum(c(\n" + strings.Repeat("1,\n", 999) + "1))", "[1] 1000\n"},
		} {
			start := time.Now()
			if r := w.RunCode(c.code); r.OutputText() != c.want || describeOutcome(r) != "ok" {
				t.Errorf("%s: got %.300q, %.300s", c.name, r.OutputText(), describeOutcome(r))
			}
			t.Logf("%s: %v", c.name, time.Since(start))
		}
	})

	t.Run("an error drops the rest of a large input at once", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("stop('e')\n" + strings.Repeat("x <- 1\n", 50_000))
		if got := describeOutcome(r); got != "error: e, 50000 unrun" {
			t.Errorf("got %s", got)
		}
	})
}

func TestHostileCode(t *testing.T) {
	t.Parallel()

	t.Run("the turn ends whatever code does to R", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string]string{
			"no prompt option":        "options(prompt = NULL)",
			"no options":              "do.call(options, setNames(vector('list', length(options())), names(options())))",
			"a sink that stays":       "sink(tempfile())",
			"a sink of messages":      "zz <- file(tempfile(), 'w'); sink(zz, type = 'message')",
			"no search path":          "for (p in grep('package:', search(), value = TRUE)) try(detach(p, character.only = TRUE), silent = TRUE)",
			"names of base taken":     "c <- list <- cat <- print <- local <- eval <- function(...) stop('mine')",
			"a task callback":         "addTaskCallback(function(...) stop('callback'))",
			"a handler of everything": "globalCallingHandlers(condition = function(c) NULL)",
			"an error option":         "options(error = quote(cat('mine\\n')))\nstop('first')",
			"warnings as errors":      "options(warn = 2)",
			"closed connections":      "closeAllConnections()",
			"everything removed":      "rm(list = ls(all.names = TRUE)); gc()",
			"another directory":       "setwd(tempdir()); unlink(getwd(), recursive = TRUE)",
			"another locale":          "Sys.setlocale('LC_ALL', 'C')",
			"a limit on expressions":  "options(expressions = 25)",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{noPackages: name != "no search path"})
				w.RunCode(code) // the harness fails if idle does not arrive
				w.RunCode("x <- 1")
				if r := w.RunCode("base::cat(6 * 7, '\\n', file = base::stderr())"); name != "a sink of messages" && name != "no options" && !strings.Contains(r.OutputText(), "42") {
					t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
				}
				if r := w.RunCode("readline('? ')", "x"); r.Idle == nil {
					t.Errorf("got %q", r.Transcript())
				}
				w.StartTurn("repeat {}")
				if r := w.InterruptUntilAcked(1, 1, nil, nil); r.Idle == nil || r.Idle.Outcome == ipc.OutcomeOK {
					t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
				}
				w.SendMessage(ipc.Shutdown{GraceMS: 1000})
				if r := w.FinishTurn(); r.End == nil || r.End.Reason != ipc.EndShutdown {
					t.Errorf("got %q, %+v", r.Transcript(), r.End)
				}
			})
		}
	})

	t.Run("exhausted memory is an error", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(compileNative(t, `
#include <sys/resource.h>
void limit(double *bytes) { struct rlimit l = {*bytes, RLIM_INFINITY}; setrlimit(RLIMIT_AS, &l); }
`))
		w.RunCode("invisible(.C('limit', 1.5e9))")
		for _, code := range []string{
			"x <- numeric(1e9)",
			"x <- list(); repeat x[[length(x) + 1]] <- numeric(1e6)",
			"x <- strrep('x', 2^31 - 10); paste0(x, x)",
		} {
			r := w.RunCode(code)
			if !strings.HasPrefix(describeOutcome(r), "error: ") {
				t.Errorf("%s: got %.500q, %s", code, r.Transcript(), describeOutcome(r))
			}
			w.RunCode("x <- NULL; invisible(gc()); 'next'").WantOutput(t, "[1] \"next\"\n")
		}
		// A turn that is too large for the remaining memory, then one that fits.
		r := w.RunCode("stop('e')\n" + strings.Repeat("x <- 1\n", 8<<20))
		if r.Idle == nil {
			t.Fatalf("got %.500q %v", r.Transcript(), w.ExitStatus())
		}
		w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
	})

	t.Run("survives killed children", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("library(parallel)")
		if r := w.RunCode("x <- suppressWarnings(mclapply(1:2, function(i) if (i == 1) tools::pskill(Sys.getpid(), 9) else i)); x[[2]]"); !strings.Contains(r.OutputText(), "[1] 2\n") {
			t.Errorf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
		if r := w.RunCode("x <- mclapply(1:2, function(i) for (j in 1:20000) cat('child', i, j, '\\n'))"); strings.Count(r.OutputText(), "child") != 40_000 || describeOutcome(r) != "ok" {
			t.Errorf("got %d lines, %s", strings.Count(r.OutputText(), "child"), describeOutcome(r))
		}
		w.RunCode("system('kill -9 $$')")
		w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
	})

	t.Run("survives a stop and a continue", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for range 20 {
			w.StartTurn("x <- 0; for (i in 1:1e5) x <- x + i; x")
			syscall.Kill(w.Cmd.Process.Pid, syscall.SIGSTOP)
			syscall.Kill(w.Cmd.Process.Pid, syscall.SIGCONT)
			w.FinishTurn().WantOutput(t, "[1] 5000050000\n")
		}
	})
}
