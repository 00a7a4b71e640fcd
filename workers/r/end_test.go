//go:build linux || darwin

package r_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
)

func TestEnd(t *testing.T) {
	t.Parallel()

	t.Run("reports how R ended and runs its exit code", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name, code string
			reason     ipc.EndReason
			status     int
			out        string // part of the turn's output
		}{
			{"q()", "cat('last\\n'); q()\n'not run'", ipc.EndExit, 0, "last\n"},
			{"quit(status = 3)", "quit(status = 3)", ipc.EndExit, 3, ""},
			{"quit without saving", "quit('no', 4)", ipc.EndExit, 4, ""},
			{".Last", ".Last <- function() cat('bye\\n')\nq()", ipc.EndExit, 0, "bye\n"},
			{".Last that is skipped", ".Last <- function() cat('bye\\n')\nq(runLast = FALSE)", ipc.EndExit, 0, ""},
			{"a finalizer", "reg.finalizer(globalenv(), function(e) cat('final\\n'), onexit = TRUE)\nq(status = 5)", ipc.EndExit, 5, "final\n"},
			{"in a function", "f <- function() { on.exit(cat('never\\n')); quit(status = 6) }\nf()", ipc.EndExit, 6, ""},
			{"in tryCatch", "tryCatch(quit(status = 7), error = identity, finally = cat('never\\n'))", ipc.EndExit, 7, ""},
			{"after the browser, which refuses to quit", "browser()\nquit(status = 8)\nc\nquit(status = 9)", ipc.EndExit, 9, "cannot quit from browser"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{noPackages: true})
				temporary := strings.Trim(w.RunCode("cat(tempdir())").OutputText(), "\n")
				r := w.RunCode(c.code)
				if r.End == nil || r.End.Reason != c.reason || r.End.Code == nil || *r.End.Code != int64(c.status) || r.Idle != nil {
					t.Fatalf("got %q, %+v, idle %+v", r.Transcript(), r.End, r.Idle)
				}
				if !strings.Contains(r.OutputText(), c.out) || strings.Contains(r.OutputText(), "never") || strings.Contains(r.OutputText(), "not run") {
					t.Errorf("got %q, want %q in it", r.Transcript(), c.out)
				}
				if got := w.ExitStatus(); got.ExitStatus() != c.status {
					t.Errorf("got %v, want %d", w.Cmd.ProcessState, c.status)
				}
				if _, err := os.Stat(temporary); err == nil || temporary == "" {
					t.Errorf("the temporary directory %q is left", temporary)
				}
			})
		}
	})

	// An error in .Last is shown and R continues, as at a terminal. A shutdown then ends it.
	t.Run("an error in .Last keeps R alive until a shutdown", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode(".Last <- function() stop('no way out')\nq()")
		if !strings.Contains(r.ErrText(), "no way out") || r.Idle == nil || r.Idle.Outcome != ipc.OutcomeError {
			t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.RunCode("'alive'").WantOutput(t, "[1] \"alive\"\n")
		w.SendMessage(ipc.Shutdown{GraceMS: 1000})
		r = w.FinishTurn()
		if r.End == nil || r.End.Reason != ipc.EndShutdown || w.ExitStatus().ExitStatus() != 0 {
			t.Fatalf("got %q, %+v, %v", r.Transcript(), r.End, w.Cmd.ProcessState)
		}
	})

	t.Run("a segfault leaves its traceback and signal", func(t *testing.T) {
		t.Parallel()
		source := compileNative(t, `
#include <signal.h>
#include <stdlib.h>
void crash(void) { *(volatile int *)0 = 1; }
void bus(void) { raise(SIGBUS); }
void aborts(void) { abort(); }
void leaves(void) { _Exit(9); }
`)
		for _, c := range []struct {
			code, out string
			signal    syscall.Signal
		}{
			{"f <- function(x) .C('crash')\nf(1)", "*** caught segfault ***", syscall.SIGSEGV},
			{"f <- function(x) .C('bus')\nf(1)", "*** caught bus error ***", syscall.SIGBUS},
			{"f <- function(x) .C('aborts')\nf(1)", "", syscall.SIGABRT},
			{"f <- function(x) tools::pskill(Sys.getpid(), 9)\nf(1)", "", syscall.SIGKILL},
			{"f <- function(x) tools::pskill(Sys.getpid(), 15)\nf(1); Sys.sleep(10)", "", syscall.SIGTERM},
		} {
			w := startWorker(t, workerSetup{noPackages: true})
			w.RunCode(source)
			r := w.RunCode("cat('last words\\n'); " + c.code)
			if s := w.ExitStatus(); !s.Signaled() || s.Signal() != c.signal {
				t.Errorf("%s: got %v %q", c.code, w.Cmd.ProcessState, r.Transcript())
			}
			if !strings.HasPrefix(r.OutputText(), "last words\n") || !strings.Contains(r.ErrText(), c.out) {
				t.Errorf("%s: got %q", c.code, r.Transcript())
			}
			if c.out != "" && (!strings.Contains(r.ErrText(), "1: .C(") || !strings.Contains(r.ErrText(), "2: f(1)")) {
				t.Errorf("%s: no traceback in %q", c.code, r.Transcript())
			}
			if r.Idle != nil || r.End != nil && r.End.Reason != ipc.EndCrash {
				t.Errorf("%s: got %+v %+v", c.code, r.Idle, r.End)
			}
		}
		w := startWorker(t, workerSetup{noPackages: true})
		w.RunCode(source)
		w.RunCode(".C('leaves')")
		if got := w.ExitStatus().ExitStatus(); got != 9 {
			t.Errorf("_Exit: got %v", w.Cmd.ProcessState)
		}
	})

	t.Run("reports a protocol error", func(t *testing.T) {
		t.Parallel()
		for name, frame := range map[string]string{
			"unknown type":    "\x00\x00\x00\x0a\x81\xa4type\xa3wat",
			"not MessagePack": "\x00\x00\x00\x01\xc1",
			"too long":        "\xff\xff\xff\xff",
			"a field twice":   "\x00\x00\x00\x1a\x82\xa4type\xa8shutdown\xa4type\xa8shutdown",
		} {
			w := startWorker(t, workerSetup{noPackages: true})
			if _, err := w.Channel.WriteString(frame); err != nil {
				t.Fatal(err)
			}
			r := w.FinishTurn()
			if r.End == nil || r.End.Reason != ipc.EndProtocolError || r.End.Message == "" || w.ExitStatus().ExitStatus() == 0 {
				t.Errorf("%s: got %+v %v", name, r.End, w.Cmd.ProcessState)
			}
		}
	})
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code, up string
		waits          bool
	}{
		{name: "idle"},
		{"a sleep", "cat('up\\n'); Sys.sleep(100)", "up", false},
		{"a loop", "cat('up\\n'); repeat {}", "up", false},
		{"a child", "cat('up\\n'); system('sleep 100')", "up", false},
		{"readline", "readline('? ')", "", true},
		{"scan", "scan()", "", true},
		{"browser", "browser()", "", true},
		{"a loop that asks", "repeat readline('? ')", "", true},
		{"a swallower", "cat('up\\n'); repeat tryCatch(Sys.sleep(100), interrupt = function(e) 1)", "up", false},
		{"a swallower of the end of file", "repeat try(stopifnot(nzchar(readline('? '))), silent = TRUE)", "", true},
	} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, closed %v", c.name, closed), func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{noPackages: true})
				w.RunCode(".Last <- function() cat('bye\\n')")
				end := func() {
					if closed {
						w.Channel.Close()
					} else {
						w.SendMessage(ipc.Shutdown{GraceMS: 1000})
					}
				}
				if c.code != "" {
					w.StartTurn(c.code)
				}
				if c.up != "" {
					w.WaitOutput(c.up)
				}
				if c.waits {
					w.WaitInputRequest()
				}
				w.OnInputRequest = func(ipc.StdinWait) bool { return true }
				end()
				r := w.FinishTurn()
				for r.Idle != nil && r.End == nil { // its turn ends first
					r = w.FinishTurn()
				}
				if r.End == nil || r.End.Reason != ipc.EndShutdown || !strings.HasSuffix(r.OutputText(), "bye\n") {
					t.Errorf("got %q, %+v", r.Transcript(), r.End)
				}
				if got := w.ExitStatus(); got.ExitStatus() != 0 {
					t.Errorf("got %v", w.Cmd.ProcessState)
				}
			})
		}
	}
}

func TestProfile(t *testing.T) {
	t.Parallel()

	t.Run("a failure is shown and the session works", func(t *testing.T) {
		t.Parallel()
		for name, s := range map[string]workerSetup{
			".Rprofile stops":          {rprofile: "cat('started\\n')\nstop('profile broken')\ncat('not run\\n')"},
			"Rprofile.site stops":      {siteProfile: "cat('started\\n')\nstop('profile broken')\ncat('not run\\n')"},
			".Rprofile does not parse": {rprofile: "cat('started\\n')\nx <- = profile broken"},
			".First stops":             {rprofile: ".First <- function() { cat('started\\n'); stop('profile broken') }"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.NoTurn0 = true
				w := startWorker(t, s)
				w.TakeReady()
				r := w.FinishTurn()
				if !strings.Contains(r.OutputText(), "started\n") || strings.Contains(r.OutputText(), "not run") || !strings.Contains(r.ErrText(), "Error") {
					t.Errorf("got %q", r.Transcript())
				}
				if r.Idle == nil || r.Idle.Turn != 0 {
					t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
				}
				w.RunCode("exists('lm'); 'works'").WantOutput(t, "[1] TRUE\n[1] \"works\"\n")
				if got := w.RunCode("stop('another')"); describeOutcome(got) != "error: another" {
					t.Errorf("got %s", describeOutcome(got))
				}
			})
		}
	})

	t.Run("a profile that quits ends the session", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{rprofile: "cat('leaving\\n')\nquit(status = 5)"}
		s.NoTurn0 = true
		w := startWorker(t, s)
		w.TakeReady()
		r := w.FinishTurn()
		if r.End == nil || r.End.Reason != ipc.EndExit || *r.End.Code != 5 || !strings.Contains(r.OutputText(), "leaving\n") || w.ExitStatus().ExitStatus() != 5 {
			t.Errorf("got %q, %+v, %v", r.Transcript(), r.End, w.Cmd.ProcessState)
		}
	})

	t.Run("runs start-up files as plain R does", func(t *testing.T) {
		t.Parallel()
		s := workerSetup{
			siteProfile: "options(from.site = sys.nframe())",
			rprofile:    "options(from.profile = sys.nframe()); options(saw.site = getOption('from.site')); message('profile speaks'); x <- 42; .First <- function() cat('first', sys.nframe(), '\\n'); library(tools)",
		}
		s.NoTurn0 = true
		w := startWorker(t, s)
		w.TakeReady()
		r := w.FinishTurn()
		if got, want := r.Transcript(), "<err>profile speaks\n</err>first 1 \n"; got != want || describeOutcome(r) != "ok" {
			t.Errorf("got %q, %s; want %q", got, describeOutcome(r), want)
		}
		w.RunCode("c(getOption('from.site'), getOption('from.profile'), x)").WantOutput(t, "[1]  0  0 42\n")
		w.RunCode("'package:tools' %in% search(); ls()").WantOutput(t, "[1] TRUE\n[1] \"x\"\n")
	})
}

func TestFork(t *testing.T) {
	t.Parallel()

	// A fork that returns from its code must not run R's clean-up.
	t.Run("does not clean up for its parent", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode(".Last <- function() cat('bye\\n'); f <- tempfile(); writeLines('still here', f); library(parallel)")
		for _, code := range []string{
			"p <- parallel:::mcfork(); if (inherits(p, 'masterProcess')) 'in the child'",
			"x <- mclapply(1:2, function(i) quit('no'))",
			"x <- try(mclapply(1:2, function(i) stop('e')), silent = TRUE)",
			"p <- parallel:::mcfork(); if (inherits(p, 'masterProcess')) quit('no')",
			"p <- parallel:::mcfork(); if (inherits(p, 'masterProcess')) parallel:::mcexit()",
			"p <- parallel:::mcfork(); if (inherits(p, 'masterProcess')) stop('in the child')",
			"p <- parallel:::mcfork(); if (inherits(p, 'masterProcess')) readline('in the child? ')",
			"p <- parallel:::mcfork(); if (inherits(p, 'masterProcess')) browser()",
		} {
			r := w.RunCode(code)
			if r.Idle == nil {
				t.Fatalf("%s: the session ended: %q", code, r.Transcript())
			}
			w.RunCode("Sys.sleep(0.1); invisible(gc()); readLines(f)")
			if r := w.RunCode("readLines(f)"); !strings.Contains(r.OutputText(), "[1] \"still here\"\n") {
				t.Fatalf("after %s: got %q", code, r.Transcript())
			}
		}
	})

	t.Run("a fork that still runs does not delay the end", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string]string{
			"mcparallel": "p <- parallel::mcparallel(Sys.sleep(600))",
			"a shell":    "system('sleep 600', wait = FALSE)",
			"a cluster":  "cl <- parallel::makeCluster(1)",
		} {
			w := startWorker(t, workerSetup{noPackages: true})
			w.RunCode(code)
			w.SendMessage(ipc.Shutdown{GraceMS: 1000})
			for {
				if end, ok := w.NextEvent().(ipc.SessionEnd); ok {
					if end.Reason != ipc.EndShutdown {
						t.Errorf("%s: got %+v", name, end)
					}
					break
				}
			}
			if got := w.ExitStatus(); got.ExitStatus() != 0 {
				t.Errorf("%s: got %v", name, w.Cmd.ProcessState)
			}
		}
	})
}

func TestTempdir(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 3 {
		w := startWorker(t, workerSetup{noPackages: true})
		dir := strings.TrimSpace(w.RunCode("writeLines('x', tempfile()); cat(tempdir(), '\\n')").OutputText())
		if !filepath.IsAbs(dir) || seen[dir] {
			t.Fatalf("got %q after %v", dir, seen)
		}
		seen[dir] = true
		w.SendMessage(ipc.Shutdown{GraceMS: 1000})
		w.FinishTurn()
		w.ExitStatus()
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// R has no history of the code of a session. Writing it would empty the user's file.
func TestHistory(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"when R ends and saves":    "x <- 1; q('yes')",
		"when code saves it":       "savehistory()",
		"when code saves it there": "try(savehistory('.Rhistory'), silent = TRUE); try(history(), silent = TRUE); try(loadhistory(), silent = TRUE)",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, ".Rhistory")
			writeFile(t, file, "earlier()\n")
			w := startWorker(t, workerSetup{WorkerOptions: rawworker.WorkerOptions{Dir: dir}})
			r := w.RunCode(code)
			if got, err := os.ReadFile(file); string(got) != "earlier()\n" {
				t.Errorf("got %q, %v after %s", got, err, describeOutcome(r))
			}
			if strings.HasPrefix(code, "savehistory") && describeOutcome(r) != "error: no history available to save" {
				t.Errorf("got %s", describeOutcome(r))
			}
		})
	}
}
