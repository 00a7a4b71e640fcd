//go:build linux || windows

package r_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestStdin(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	for _, c := range append([]inputCase{
		{"readline", "x <- readline('n? ')", []string{"Ada"}, `[wait "n? "][line "Ada"]`},
		{"readLines", "readLines(stdin(), 2)", []string{"a\nb"}, `[wait ""][line "a"][line "b"][1] "a" "b"` + "\n"},
		{"end of file", "readLines(stdin())", []string{"a", sessionkit.EndOfFile}, `[wait ""][line "a"][wait ""][1] "a"` + "\n"},
		{"scan", "scan(quiet = TRUE)", []string{"1 2", ""}, `[wait "1: "][line "1 2"][wait "3: "][line ""][1] 1 2` + "\n"},
		{"the debugger", "browser()", []string{"6 * 7", "c"}, "Called from: top level \n" + `[debugger wait "Browse[1]> "][line "6 * 7"][1] 42` + "\n" + `[debugger wait "Browse[1]> "][line "c"]`},
	}, systemInputCases...) {
		t.Run(c.name, func(t *testing.T) {
			res := s.RunCode(t, c.code, c.answers...)
			if res.Transcript() != c.want || res.Outcome != "ok" {
				t.Errorf("got %q, %s; want %q", res.Transcript(), res.Outcome, c.want)
			}
			if res.Outcome == "" {
				s.RestartWorker(t)
			}
			wantCleanTurn(t, s)
		})
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()

	t.Run("ends the turn, keeps the session", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, r.Options{})
		for name, code := range map[string]string{
			"sleep":                      "cat('up\\n'); Sys.sleep(100)",
			"a loop":                     "cat('up\\n'); repeat {}",
			"a compiled loop":            "f <- compiler::cmpfun(function() { i <- 0; while (TRUE) i <- i + 1 }); cat('up\\n'); f()",
			"a loop that catches errors": "cat('up\\n'); tryCatch(repeat {}, error = function(e) 1)",
			"endless output":             "cat('up\\n'); repeat cat('x\\n')",
			"readline":                   "cat('up\\n'); (function() readline())()",
			"the browser":                "cat('up\\n'); browser()",
		} {
			systemInterrupts[name] = code
		}
		for name, code := range systemInterrupts {
			t.Run(name, func(t *testing.T) {
				turn := s.StartTurn(t, code)
				s.WaitEvent(t, "up", sessionkit.IsText("up"))
				got := s.InterruptTurn(t, turn)
				if got != session.InterruptIdle && got != allowedResults[name] {
					t.Errorf("the interrupt led to %q", got)
				}
				if res := s.WaitTurnEnd(t, turn); res.Outcome != "interrupted" {
					t.Errorf("got %q, %s", res.Transcript(), res.Outcome)
					s.RestartWorker(t)
				}
				s.RunCode(t, "invisible(gc())") // R warns about abandoned connections
				wantCleanTurn(t, s)
			})
		}
	})

	t.Run("at the end of a turn it never reaches the next one", func(t *testing.T) {
		t.Parallel()
		cells := []string{"1+1", "x <- 1", "cat(strrep('x', 5000), '\\n')", "stop('e')", "Sys.sleep(0.0001)", "for (i in 1:2000) i"}
		s := openSession(t, r.Options{})
		seen := make(map[string]int)
		for i := range testmain.Rounds(300) {
			turn := s.StartTurn(t, cells[i%len(cells)])
			for start, d := time.Now(), time.Duration(rand.IntN(3000))*time.Microsecond; time.Since(start) < d; {
			}
			if got := s.InterruptTurn(t, turn); got == session.InterruptPending {
				t.Fatalf("round %d: the interrupt led to %q", i, got)
			}
			res := s.FinishTurn(t, turn)
			if res.Outcome == "" || res.Outcome == "ended" {
				t.Fatalf("round %d: got %q, outcome %q", i, res.Transcript(), res.Outcome)
			}
			seen[res.Outcome]++
			if res := s.RunCode(t, "'next'"); res.Transcript() != "[1] \"next\"\n" || res.Outcome != "ok" {
				t.Fatalf("round %d: the next turn got %q, outcome %q", i, res.Transcript(), res.Outcome)
			}
		}
		if seen["ok"] == 0 || seen["interrupted"] == 0 {
			t.Logf("this machine raced in one direction only: %v", seen)
		}
	})
}

func TestEnd(t *testing.T) {
	t.Parallel()

	t.Run("reports how it ended; the next input starts a new worker", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, r.Options{})
		temporary := map[string]bool{}
		for _, c := range append([]endCase{
			{"q()", "cat('last\\n'); q()", "exit status 0", "last\n", true},
			{"quit(status = 3)", "quit(status = 3)", "exit status 3", "", true},
			{".Last", ".Last <- function() cat('bye\\n')\nq()", "exit status 0", "bye\n", true},
		}, systemEndCases...) {
			t.Run(c.name, func(t *testing.T) {
				dir := strings.TrimSpace(s.RunCode(t, "old <- 1; cat(tempdir(), '\\n')").OutputText())
				if temporary[dir] || dir == "" {
					t.Errorf("the temporary directory %q is not new", dir)
				}
				temporary[dir] = true
				res := s.RunCode(t, c.code)
				if res.Outcome != "ended" || res.WorkerExit == nil || res.WorkerExit.Reason != c.reason || res.WorkerExit.Clean != c.clean || !strings.Contains(res.OutputText(), c.out) {
					t.Fatalf("got %q, %q, %+v; want %q", res.Transcript(), res.Outcome, res.WorkerExit, c.reason)
				}
				s.RunCode(t, "exists('old')").WantTranscript(t, "[1] FALSE\n")
			})
		}
		// The temporary files of every worker are removed with the session at the latest.
		if err := s.Close(sessionkit.TimeoutContext(t)); err != nil {
			t.Error(err)
		}
		for dir := range temporary {
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
	})

	t.Run("reports a kill from outside", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, r.Options{})
		turn := s.StartTurn(t, "cat('up\\n'); Sys.sleep(100)")
		s.WaitEvent(t, "up", sessionkit.IsText("up"))
		worker, err := os.FindProcess(sessionkit.SessionInfo(s).PID)
		if err != nil {
			t.Fatal(err)
		}
		if err := worker.Kill(); err != nil {
			t.Fatal(err)
		}
		if res := s.WaitTurnEnd(t, turn); res.Outcome != "ended" || res.WorkerExit == nil || res.WorkerExit.Reason != killedReason {
			t.Errorf("got %q, %+v", res.Transcript(), res.WorkerExit)
		}
		s.RunCode(t, "1").WantTranscript(t, "[1] 1\n")
	})
}

func TestProfileInput(t *testing.T) {
	t.Parallel()
	profile := filepath.Join(t.TempDir(), ".Rprofile")
	if err := os.WriteFile(profile, []byte("message('hello'); who <- readline('who? ')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := sessionkit.LaunchSession(t, newSpec(t, r.Options{Env: []string{"R_PROFILE_USER=" + profile}}))
	reply, err := s.Wait(sessionkit.TimeoutContext(t), 0, nil)
	if err != nil || reply.State != session.StateWaiting || reply.InputRequest.Prompt != "who? " || reply.InputRequest.Turn != 0 {
		t.Fatalf("got %s, %+v, %q, %v", reply.State, reply.InputRequest, reply.Text(), err)
	}
	if _, err := s.Answer(t.Context(), reply.InputRequest.ID, session.Input{Data: []byte("Ada\n")}); err != nil {
		t.Fatal(err)
	}
	s.WaitUntilReady(t)
	s.RunCode(t, "who").WantTranscript(t, "[1] \"Ada\"\n")
}

type inputCase struct {
	name, code string
	answers    []string
	want       string
}

type endCase struct {
	name, code, reason, out string
	clean                   bool
}

// A mixture of turns with interrupts at random moments. TURNSTONE_TEST_ROUNDS multiplies its
// length.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := openSession(t, r.Options{})
	cells := append([]string{
		"1+1", "x <- rnorm(1000); mean(x)", "stop('e')\n1", "cat(strrep('x', 1e5), '\\n')", "Sys.sleep(0.01)",
		"for (i in 1:1000) message(i)", "x <- readline('? ')", "browser()", "repeat {}", "m <- matrix(runif(1e4), 100); for (i in 1:50) solve(m)",
		"plot(1:10)", "summary(lm(mpg ~ wt, mtcars))", "scan(quiet = TRUE)", "1 +", "invisible(gc())",
	}, systemSoakTurns...)
	pid := sessionkit.SessionInfo(s).PID
	for start := time.Now(); time.Since(start) < time.Duration(testmain.Rounds(3))*time.Second; {
		code := cells[rand.IntN(len(cells))]
		turn := s.StartTurn(t, code)
		for start, d := time.Now(), time.Duration(rand.ExpFloat64()*2e6); time.Since(start) < d; {
		}
		if code == "repeat {}" || rand.IntN(2) == 0 {
			// An interrupt may have no effect within a second. The end of the turn is checked
			// below.
			if got, err := s.Interrupt(t.Context(), turn); err != nil {
				t.Fatalf("%s: the interrupt led to %q, %v", code, got, err)
			}
		}
		res := s.FinishTurn(t, turn, "c", "", "c", "", "c", "")
		if res.Outcome == "" || res.Outcome == "ended" {
			t.Fatalf("%s: got %.1000q, outcome %q, %+v", code, res.Transcript(), res.Outcome, res.WorkerExit)
		}
		res = s.RunCode(t, "cat('sane', 6 * 7, '\\n')")
		// A page whose inspection was interrupted is sent with the next turn.
		if got := strings.ReplaceAll(res.Transcript(), "[image]", ""); got != "sane 42 \n" || res.Outcome != "ok" {
			t.Fatalf("after %s: got %.1000q, outcome %q", code, res.Transcript(), res.Outcome)
		}
	}
	if sessionkit.SessionInfo(s).PID != pid {
		t.Errorf("the worker was replaced: PID %d, was %d", sessionkit.SessionInfo(s).PID, pid)
	}
}
