//go:build linux || darwin

package r_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
)

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the turn, keeps the worker", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function(n) { cat('up\\n'); repeat n <- n + 1 }")
		for _, c := range []struct{ name, code string }{
			{"a loop", "cat('up\\n'); repeat {}"},
			{"a function", "f(1)"},
			{"compiled code", "g <- compiler::cmpfun(function() repeat {}); cat('up\\n'); g()"},
			{"sleep", "cat('up\\n'); Sys.sleep(100)"},
			{"short sleeps", "cat('up\\n'); repeat Sys.sleep(0.001)"},
			{"a child", "cat('up\\n'); system('sleep 100')"},
			{"a captured child", "cat('up\\n'); x <- system('sleep 100', intern = TRUE)"},
			{"a child of system2", "cat('up\\n'); system2('sleep', '100')"},
			{"children again and again", "cat('up\\n'); repeat system('sleep 0.01')"},
			{"a shell that becomes its command", "repeat system('trap : INT; echo up; sleep 100; exec true')"},
			{"a pipe", "cat('up\\n'); readLines(pipe('sleep 100; echo x'))"},
			{"a pipe that is read already", "readLines(pipe('(sleep 0.1; echo up >&2) & sleep 100'))"},
			{"mclapply", "cat('up\\n'); parallel::mclapply(1:2, function(i) Sys.sleep(100))"},
			{"a reading child", "cat('up\\n'); system('cat')"},
			{"the terminal", "cat('up\\n'); readLines(file('stdin'), 1)"},
			{"a flood", "cat('up\\n'); repeat cat('xxxxxxxxx\\n')"},
			{"a flood of errors", "cat('up\\n'); repeat message('xxxxxxxxx')"},
			{"a flood of bulk", "cat('up\\n'); x <- strrep('x', 1e5); repeat cat(x, '\\n')"},
			{"a flood without lines", "cat('up\\n'); repeat cat('x')"},
			{"linear algebra", "cat('up\\n'); m <- matrix(runif(250000), 500); repeat solve(m, m)"},
			{"vectors", "cat('up\\n'); repeat x <- sort(runif(1e5))"},
			{"a regular expression", "cat('up\\n'); repeat grepl('a+b', strrep('a', 1000))"},
			{"warnings", "cat('up\\n'); repeat warning('w')"},
			{"try in a loop", "cat('up\\n'); repeat try(log('x'), silent = TRUE)"},
			{"finally", "tryCatch({ cat('up\\n'); Sys.sleep(100) }, finally = cat('done\\n'))"},
			{"on.exit", "(function() { on.exit(cat('exit\\n')); cat('up\\n'); Sys.sleep(100) })()"},
			{"readRDS of a fifo", "p <- tempfile(); system(paste('mkfifo', p)); cat('up\\n'); repeat { f <- fifo(p, 'r'); close(f) }"},
			{"garbage collection", "cat('up\\n'); repeat gc()"},
			{"a socket", "s <- serverSocket(0L); cat('up\\n'); socketAccept(s, timeout = 100)"},
		} {
			t.Run(c.name, func(t *testing.T) {
				if strings.Contains(c.name, "socket") {
					w.RunCode("serverSocket <- function(p) for (i in 1:50) { s <- try(base::serverSocket(sample(20000:60000, 1)), silent = TRUE); if (!inherits(s, 'try-error')) return(s) }")
				}
				w.StartTurn(c.code + "\n'not run'\n'nor this'")
				w.WaitOutput("up")
				r := w.InterruptUntilAcked(1, 1, nil, nil)
				if got := describeOutcome(r); got != "interrupted, 2 unrun" {
					t.Errorf("got … %.1000q, %s", r.Transcript()[max(0, len(r.Transcript())-1000):], got)
				}
				if strings.Contains(r.OutputText(), "not run") {
					t.Errorf("a later line was run: %.500q", r.Transcript())
				}
				if want := map[string]string{"finally": "done\n", "on.exit": "exit\n"}[c.name]; !strings.Contains(r.OutputText(), want) {
					t.Errorf("got %q, want %q in it", r.Transcript(), want)
				}
				w.RunCode("invisible(gc())") // warns about abandoned connections
				w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
			})
		}
	})

	// R takes an interrupted read for the end of the file, and a child's death for its result. Still no
	// code after it runs, not even in the same line.
	t.Run("also ends the rest of the line", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function(wait) { wait; cat('went on\\n') }")
		for _, wait := range []string{
			"x <- readLines(file('stdin'))", "x <- scan(file('stdin'), quiet = TRUE)", "x <- readLines(pipe('sleep 100'))",
			"x <- system('sleep 100')", "x <- system('sleep 100', intern = TRUE)", "for (i in 1:3) system('sleep 100')",
		} {
			for _, code := range []string{"%s; cat('went on\\n')", "{ %s; cat('went on\\n') }", "f(%s)", "%s"} {
				w.StartTurn("cat('up\\n')\n" + fmt.Sprintf(code, wait))
				w.WaitOutput("up")
				r := w.InterruptUntilAcked(1, 1, nil, nil)
				if got := describeOutcome(r); !strings.HasPrefix(got, "interrupted") || strings.Contains(r.OutputText(), "went on") {
					t.Errorf("%s: got %q, %s", fmt.Sprintf(code, wait), r.Transcript(), got)
				}
				w.RunCode("invisible(gc())") // warns about abandoned connections
			}
		}
		w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
	})

	t.Run("runs the handlers of the user", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.StartTurn("tryCatch({ cat('up\\n'); Sys.sleep(100) }, interrupt = function(e) cat('caught\\n'))")
		w.WaitOutput("up")
		if r := w.InterruptUntilAcked(1, 1, nil, nil); r.OutputText() != "caught\n" || describeOutcome(r) != "ok" {
			t.Errorf("tryCatch: got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.StartTurn("withCallingHandlers({ cat('up\\n'); Sys.sleep(3); cat('rest\\n') }, interrupt = function(e) { cat('seen\\n'); invokeRestart('resume') })")
		w.WaitOutput("up")
		if r := w.InterruptUntilAcked(1, 1, nil, nil); r.OutputText() != "seen\nrest\n" || describeOutcome(r) != "ok" {
			t.Errorf("resume: got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.StartTurn("suspendInterrupts({ cat('up\\n'); for (i in 1:5e6) i; cat('safe\\n') }); Sys.sleep(100)")
		w.WaitOutput("up")
		if r := w.InterruptUntilAcked(1, 1, nil, nil); r.OutputText() != "safe\n\n" && r.OutputText() != "safe\n" || describeOutcome(r) != "interrupted" {
			t.Errorf("suspendInterrupts: got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
	})

	t.Run("code cannot swallow level two", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		swallow := func(e any) bool {
			x, ok := e.(rawworker.MergedText)
			return ok && strings.Contains(x.Data, "no\n")
		}
		for _, code := range []string{
			"repeat tryCatch({ cat('up\\n'); Sys.sleep(100) }, interrupt = function(e) cat('no\\n'))",
			"repeat tryCatch({ cat('up\\n'); repeat {} }, interrupt = function(e) cat('no\\n'))",
			"repeat tryCatch({ cat('up\\n'); readline('? ') }, interrupt = function(e) cat('no\\n'))",
		} {
			w.OnInputRequest = func(ipc.StdinWait) bool { return true }
			w.StartTurn(code)
			w.WaitOutput("up")
			w.InterruptUntilAcked(1, 1, nil, swallow)
			// A busy machine may leave R no time to notice before its SIGINT, which asks the handler.
			if r := w.InterruptUntilAcked(2, 2, nil, nil); describeOutcome(r) != "interrupted" {
				t.Errorf("%s: got %q, %s", code, r.Transcript(), describeOutcome(r))
			}
			w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
		}
	})

	// Two interrupts in quick succession once ended the process, through a thread of OpenBLAS.
	t.Run("two in quick succession do not kill R", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("m <- matrix(runif(40000), 200)")
		for i := range testmain.Rounds(100) {
			w.StartTurn([]string{"repeat m %*% m", "repeat crossprod(m)", "Sys.sleep(100)", "readline()", "repeat try(solve(m), silent = TRUE)"}[i%5])
			w.OnInputRequest = func(ipc.StdinWait) bool { return true }
			wait.Spin(time.Duration(rand.IntN(2000)) * time.Microsecond)
			for seq := range uint64(3) {
				w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: seq + 1, Level: 1})
				syscall.Kill(-w.Cmd.Process.Pid, syscall.SIGINT)
				syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
			}
			r := w.FinishTurn()
			if r.Idle == nil || r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Fatalf("round %d: got %q, %s, %v", i, r.Transcript(), describeOutcome(r), r.End)
			}
			if r := w.RunCode("'next'"); r.OutputText() != "[1] \"next\"\n" {
				t.Fatalf("round %d: got %q, %s", i, r.Transcript(), describeOutcome(r))
			}
		}
	})

	t.Run("during startup ends the profile", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string]string{
			"sleep": "cat('up\\n'); Sys.sleep(100); x <- 1",
			"loop":  "cat('up\\n'); repeat {}",
			"wait":  "cat('up\\n'); readline('? ')",
		} {
			for _, s := range []workerSetup{{rprofile: code}, {siteProfile: code}} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s.NoTurn0 = true
					w := startWorker(t, s)
					w.TakeReady()
					w.OnInputRequest = func(ipc.StdinWait) bool { return true }
					w.WaitOutput("up")
					if r := w.InterruptUntilAcked(1, 1, nil, nil); describeOutcome(r) != "interrupted" || r.Idle.Turn != 0 {
						t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
					}
					w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
					w.RunCode("search()[1]; exists('lm')").WantOutput(t, "[1] \".GlobalEnv\"\n[1] TRUE\n")
				})
			}
		}
	})

	t.Run("ends a query with an answer", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		deep := strings.Repeat("(", 40) + strings.Repeat("f(1, ", 3000)
		for i := range 60 {
			w.SendMessage(ipc.Query{ID: uint64(i), Kind: ipc.QueryParse, Text: strings.Repeat("x <- c(1, 2)\n", 5000) + deep})
			wait.Spin(time.Duration(rand.IntN(3000)) * time.Microsecond)
			w.SendMessage(ipc.Interrupt{Turn: 0, Seq: uint64(i) + 1, Level: 1})
			for answered, acked := false, false; !answered || !acked; {
				switch m := w.NextEvent().(type) {
				case ipc.QueryResult:
					answered = m.ID == uint64(i)
				case ipc.InterruptAck:
					acked = true
				default:
					t.Fatalf("round %d: got %+v", i, m)
				}
			}
			w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
		}
	})
}

func TestInterruptInput(t *testing.T) {
	t.Parallel()

	t.Run("ends every input request", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("f <- function() { browser(); 1 }")
		for _, code := range []string{
			"readline('? ')", "scan()", "readLines(stdin())", "menu(c('a', 'b'))", "browser()", "f()",
			"browser(); browser()", "repeat readline('? ')", "askYesNo('?')", "for (i in 1:3) f()",
			"tryCatch(readline('? '), error = function(e) 'no')", "q('ask')", "suppressWarnings(readline('? '))",
		} {
			for _, level := range []uint8{1, 2} {
				w.OnInputRequest = func(m ipc.StdinWait) bool {
					w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: level})
					return true
				}
				if r := w.RunCode(code); describeOutcome(r) != "interrupted" {
					t.Errorf("%s: got %q, %s", code, r.Transcript(), describeOutcome(r))
				}
				w.OnInputRequest = nil
				w.RunCode("'code'").WantOutput(t, "[1] \"code\"\n")
			}
		}
	})

	// One interrupt ends all nested browsers, as Q does.
	t.Run("ends nested browsers", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		waits := 0
		w.OnInputRequest = func(m ipc.StdinWait) bool {
			if waits++; waits < 3 {
				w.AnswerRequest(m, "browser()")
			} else {
				w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
			}
			return true
		}
		if r := w.RunCode("browser()"); describeOutcome(r) != "interrupted" || waits != 3 {
			t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.OnInputRequest = nil
		w.RunCode("'code'").WantOutput(t, "[1] \"code\"\n")
	})

	t.Run("code run by the browser returns to the browser", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.StartTurn("browser()")
		m := w.WaitInputRequest()
		w.AnswerRequest(m, "cat('up\\n'); Sys.sleep(100)")
		w.WaitOutput("up")
		w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
		m = w.WaitInputRequest()
		if m.Kind != ipc.WaitDebugger {
			t.Fatalf("got %+v", m)
		}
		w.AnswerRequest(m, "c")
		w.FinishTurn()
		w.RunCode("'code'").WantOutput(t, "[1] \"code\"\n")
	})
}

func TestInterruptStale(t *testing.T) {
	t.Parallel()

	t.Run("a retry of a raised interrupt does nothing", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.StartTurn("tryCatch({ cat('up\\n'); Sys.sleep(100) }, interrupt = function(e) cat('once\\n')); Sys.sleep(0.1); cat('end\\n')")
		w.WaitOutput("up")
		w.InterruptUntilAcked(1, 1, nil, func(e any) bool { x, ok := e.(rawworker.MergedText); return ok && strings.Contains(x.Data, "once") })
		for range 5 {
			w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
		}
		if r := w.FinishTurn(); r.OutputText() != "end\n" || describeOutcome(r) != "ok" {
			t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
	})

	// A SIGINT without a frame interrupts R as it does any R. While R is idle, it has no effect.
	t.Run("a SIGINT while idle does nothing", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("1")
		for range 20 {
			w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 2})
			if ack, ok := w.NextEvent().(ipc.InterruptAck); !ok || ack.Result != ipc.InterruptStale {
				t.Fatalf("got %+v, want stale", ack)
			}
			syscall.Kill(-w.Cmd.Process.Pid, syscall.SIGINT)
			if e, ok := w.NextEventWithin(5 * time.Millisecond); ok {
				t.Fatalf("got %+v at idle", e)
			}
			w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
		}
	})
}

func TestInterruptRace(t *testing.T) {
	t.Parallel()

	// An interrupt at a random moment around the end of a turn: the turn is interrupted
	// or not, and the next turn is not affected.
	t.Run("at the end of a turn it never reaches the next one", func(t *testing.T) {
		t.Parallel()
		cells := []string{"1+1", "x <- 1", "cat(strrep('x', 5000), '\\n')", "stop('e')", "Sys.sleep(0.0001)", "for (i in 1:2000) i", "message('m')", "1 +", "invisible(readline())\nfed"}
		w := startWorker(t, workerSetup{})
		seen := map[ipc.Outcome]int{}
		for i := range testmain.Rounds(1200) {
			w.StartTurn(cells[i%len(cells)])
			wait.Spin(time.Duration(rand.IntN(300)) * time.Microsecond)
			w.OnInputRequest = func(ipc.StdinWait) bool { return true }
			w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: uint8(1 + i%2)})
			r := w.FinishTurn()
			if r.Idle == nil {
				t.Fatalf("round %d: the worker ended: %q %v", i, r.Transcript(), w.ExitStatus())
			}
			seen[r.Idle.Outcome]++
			if i%3 == 0 {
				syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
			}
			if r := w.RunCode("'next'"); r.OutputText() != "[1] \"next\"\n" || describeOutcome(r) != "ok" {
				t.Fatalf("round %d, after %q: got %q, %s", i, cells[i%len(cells)], r.Transcript(), describeOutcome(r))
			}
		}
		if seen[ipc.OutcomeOK] == 0 || seen[ipc.OutcomeInterrupted] == 0 {
			t.Logf("this machine raced in one direction only: %v", seen)
		}
	})

	t.Run("at the start of a turn it is not lost", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for i := range testmain.Rounds(1200) {
			w.StartTurn([]string{"Sys.sleep(100)", "repeat {}", "readline()", "x <- 1; Sys.sleep(100)\n2"}[i%4])
			w.OnInputRequest = func(ipc.StdinWait) bool { return true }
			wait.Spin(time.Duration(rand.IntN(300)) * time.Microsecond)
			w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: uint8(1 + i/4%2)})
			r := w.FinishTurn()
			if r.Idle == nil || r.Idle.Outcome != ipc.OutcomeInterrupted {
				t.Fatalf("round %d: got %q, %s", i, r.Transcript(), describeOutcome(r))
			}
		}
		w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
	})

	t.Run("racing an answer leaves no input behind", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		for i := range testmain.Rounds(400) {
			seq := uint64(0)
			w.OnInputRequest = func(m ipc.StdinWait) bool {
				seq++
				w.AnswerRequest(m, "old")
				wait.Spin(time.Duration(rand.IntN(200)) * time.Microsecond)
				w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: seq, Level: 1})
				return true
			}
			code := []string{"x <- readline()", "browser()", "x <- scan(quiet = TRUE)"}[i%3]
			if r := w.RunCode(code); r.Idle == nil {
				t.Fatalf("round %d, %s: it ended with %x: %q, %+v", i, code, w.ExitStatus(), r.Transcript(), r.End)
			}
			w.OnInputRequest = nil
			if r := w.RunCode("cat(readline(), '\\n')", "new"); r.OutputText() != "new \n" {
				t.Fatalf("round %d: got %q, %s", i, r.Transcript(), describeOutcome(r))
			}
		}
	})
}
