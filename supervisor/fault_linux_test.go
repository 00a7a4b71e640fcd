package supervisor_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestWorkerStart(t *testing.T) {
	t.Parallel()

	t.Run("a worker that asks too early is killed", func(t *testing.T) {
		t.Parallel()
		if _, err := os.ReadFile("/proc/self/syscall"); err != nil {
			t.Skipf("this system does not show who reads the terminal: %v", err)
		}
		spec := fakeSpec(&fakeworker.Options{Start: "early"})
		spec.EarlyInputError = "it was kept out"
		s := openSession(t, nil, spec)
		r := waitUntilReady(t, s)
		if ended := findBody[timeline.WorkerExited](t, r.Events); ended.Reason != "worker failed: it was kept out" || r.InputRequest != nil {
			t.Errorf("got %+v, wait %v", ended, r.InputRequest)
		}
	})

	t.Run("a worker that fails before it is ready is reported", func(t *testing.T) {
		t.Parallel()
		for start, want := range map[string]string{
			"silent":       "not ready after",
			"garbage":      "worker failed",
			"wrongfirst":   "not worker_ready",
			"wrongversion": "speaks",
			"exit 5":       "exit status 5",
		} {
			t.Run(start, func(t *testing.T) {
				limit := testTimeout
				if start == "silent" {
					limit = time.Second
				}
				s := openSession(t, &supervisor.Options{StartTimeout: limit}, fakeSpec(&fakeworker.Options{Start: start}))
				_, r := runTurn(t, s, "print x")
				if r.Outcome != "ended" || r.State != session.StateEnded {
					t.Fatalf("got %q, %v", r.Outcome, r.State)
				}
				// The queued input never ran, so its own reply starts before the report.
				all := s.Log().EventsSince(0)
				if report := findBody[timeline.WorkerExited](t, all); !strings.Contains(report.Reason, want) {
					t.Errorf("got %q, want %q in it", report.Reason, want)
				}
			})
		}
	})

	t.Run("output of the start-up is harmless", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(&fakeworker.Options{Start: "print"}))
		_, r := runTurn(t, s, "print x")
		if r.Outcome != "ok" || !strings.HasSuffix(outputText(r.Events), "x\n") {
			t.Errorf("got %q, %q", r.Outcome, outputText(r.Events))
		}
		if all := outputText(s.Log().EventsSince(0)); all != "profile\nx\n" {
			t.Errorf("got %q", all)
		}
	})
}

func TestWorkerFailure(t *testing.T) {
	t.Parallel()

	// Each code makes a worker fail in a turn in a different way. The reply must say why, and the
	// next input must run in a new generation.
	t.Run("is reported, and the next input runs in a new worker", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string]string{
			"garbage":         "worker failed",
			"oversize":        "worker failed",
			"wrongtype":       "worker failed",
			"exit 3":          "exit status 3",
			"die 4":           "exit status 4",
			"crash SEGV":      "SIGSEGV",
			"crash KILL":      "killed by SIGKILL",
			"print x\nexit 0": "exit status 0",
		} {
			t.Run(strings.ReplaceAll(code, "\n", ","), func(t *testing.T) {
				s := openSession(t, nil, fakeSpec(nil))
				waitUntilReady(t, s)
				_, r := runTurn(t, s, code)
				if r.Outcome != "ended" || r.State != session.StateEnded {
					t.Fatalf("got %q, %v: %q", r.Outcome, r.State, r.Text())
				}
				report := findBody[timeline.WorkerExited](t, r.Events)
				if !strings.Contains(report.Reason, want) {
					t.Errorf("got %q, want %q in it", report.Reason, want)
				}
				if end, _ := r.End(); end.Code != report.ExitCode || end.Signal != report.Signal || strings.HasPrefix(code, "crash") && end.Signal == "" {
					t.Errorf("the turn ended with %+v, but the worker with %+v", end, report)
				}
				turn, r := runTurn(t, s, "print again")
				if r.Outcome != "ok" || r.Generation != 2 || turn != 2 || !strings.HasSuffix(outputText(r.Events), "again\n") {
					t.Errorf("got generation %d, turn %d, %q %q", r.Generation, turn, r.Outcome, outputText(r.Events))
				}
			})
		}
	})

	t.Run("a wait without a turn sees how the worker ended", func(t *testing.T) {
		t.Parallel()
		s := openSession(t, nil, fakeSpec(nil))
		waitUntilReady(t, s)
		if _, err := s.Submit(t.Context(), "exit 3"); err != nil {
			t.Fatal(err)
		}
		r := waitUntilReady(t, s)
		if r.State != session.StateEnded || findBody[timeline.WorkerExited](t, r.Events).ExitCode != 3 {
			t.Errorf("got %v, %q", r.State, r.Text())
		}
	})

	t.Run("a killed worker is reported in every state", func(t *testing.T) {
		t.Parallel()
		for _, code := range []string{"", "sleep", "wait name? ", "readtty", "flood 100000000"} {
			t.Run(code, func(t *testing.T) {
				s := openSession(t, nil, fakeSpec(nil))
				waitUntilReady(t, s)
				pid := sessionInfo(s).PID
				if code != "" {
					if _, err := s.Submit(t.Context(), code); err != nil {
						t.Fatal(err)
					}
				}
				killProcess(t, pid)
				e := waitForEvent(t, s, 0, func(e timeline.Event) bool { _, ok := e.Body.(timeline.WorkerExited); return ok })
				if report := e.Body.(timeline.WorkerExited); report.Reason != "killed by SIGKILL" || report.Clean {
					t.Errorf("got %+v", report)
				}
				waitUntilGone(t, pid)
				wait.Until(t, "the session has ended", func() bool { return sessionInfo(s).State == session.StateEnded }) // the event precedes it by a moment
				if _, r := runTurn(t, s, "print again"); r.Outcome != "ok" || r.Generation != 2 {
					t.Errorf("got %q, generation %d", r.Outcome, r.Generation)
				}
			})
		}
	})
}

func TestStopWorker(t *testing.T) {
	t.Parallel()

	t.Run("reset starts a new worker regardless of the old one", func(t *testing.T) {
		t.Parallel()
		for _, code := range []string{"", "sleep", "wait name? ", "ignore", "flood 100000000"} {
			t.Run(code, func(t *testing.T) {
				s := openSession(t, nil, fakeSpec(nil))
				waitUntilReady(t, s)
				pid := sessionInfo(s).PID
				if code != "" {
					if _, err := s.Submit(t.Context(), code); err != nil {
						t.Fatal(err)
					}
				}
				if code == "wait name? " {
					waitUntilReady(t, s)
				}
				if code == "ignore" {
					waitUntilIgnored(t, pid)
				}
				start := time.Now()
				if err := s.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				t.Logf("reset took %v", time.Since(start))
				waitUntilGone(t, pid)
				if _, r := runTurn(t, s, "print fresh"); r.Outcome != "ok" || r.Generation != 2 || !strings.HasSuffix(outputText(r.Events), "fresh\n") {
					t.Errorf("got %q, generation %d, %q", r.Outcome, r.Generation, outputText(r.Events))
				}
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
	})

	t.Run("close names the step that worked", func(t *testing.T) {
		t.Parallel()
		for code, want := range map[string]string{"": "shutdown", "ignore": "SIGKILL"} {
			t.Run(want, func(t *testing.T) {
				s := openSession(t, nil, fakeSpec(nil))
				waitUntilReady(t, s)
				if code != "" {
					if _, err := s.Submit(t.Context(), code); err != nil {
						t.Fatal(err)
					}
					waitUntilIgnored(t, sessionInfo(s).PID)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := s.StoppedBy(); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if _, err := s.Submit(t.Context(), "print x"); !errors.Is(err, session.ErrClosed) {
					t.Errorf("submit after close: got %v", err)
				}
			})
		}
	})

	t.Run("ends the children of the worker", func(t *testing.T) {
		t.Parallel()
		end := map[string]func(*testing.T, *supervisor.Session){
			"close": func(t *testing.T, s *supervisor.Session) { _ = s.Close(t.Context()) },
			"reset": func(t *testing.T, s *supervisor.Session) { _ = s.Reset(t.Context()) },
			"exit":  func(t *testing.T, s *supervisor.Session) { runTurn(t, s, "exit 0") },
			"kill":  func(t *testing.T, s *supervisor.Session) { killProcess(t, sessionInfo(s).PID) },
		}
		for name, end := range end {
			t.Run(name, func(t *testing.T) {
				s := openSession(t, nil, fakeSpec(nil))
				runTurn(t, s, "fork\nfork")
				pids := append(descendantsOf(sessionInfo(s).PID), sessionInfo(s).PID)
				if len(pids) < 3 {
					t.Fatalf("got %v, want the worker and two children", pids)
				}
				start := time.Now()
				end(t, s)
				waitUntilGone(t, pids...)
				t.Logf("%d processes were gone after %v", len(pids), time.Since(start))
			})
		}
	})
}

// The program embeds a supervisor. It is killed, or exits without Close.
func TestSupervisor_LeavesNoProcesses(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"killed", "ended"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(testexec.OwnPath())
			dir := t.TempDir()
			cmd.Env = append(os.Environ(), hostEnv+"="+dir)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			worker, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("the program wrote %q", line)
			}
			pids := append(descendantsOf(cmd.Process.Pid), worker)
			if len(pids) < 4 {
				t.Fatalf("got %v, want monitor, worker and two children", pids)
			}
			start := time.Now()
			if how == "killed" {
				_ = cmd.Process.Kill()
			} else {
				_ = stdin.Close()
			}
			_ = cmd.Wait()
			waitUntilGone(t, pids...)
			t.Logf("%d processes were gone after %v", len(pids), time.Since(start))

			// The next supervisor removes only the files that it left behind.
			next, err := supervisor.New(&supervisor.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer next.Close()
			if _, err := next.Open(t.Context(), "mine", fakeSpec(nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := supervisor.New(&supervisor.Options{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 || !strings.HasPrefix(left[0].Name(), "mine-") {
				t.Errorf("got %v, want the directory of the open session alone", left)
			}
		})
	}
}

// killProcess kills a process, but refuses a PID that would hit this test itself.
func killProcess(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("there is no worker to kill: %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// waitUntilIgnored waits until the process ignores SIGTERM.
func waitUntilIgnored(t *testing.T, pid int) {
	t.Helper()
	wait.Until(t, "the worker ignores SIGTERM", func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		_, rest, _ := strings.Cut(string(b), "SigIgn:\t")
		mask, _, _ := strings.Cut(rest, "\n")
		bits, err := strconv.ParseUint(mask, 16, 64)
		return err == nil && bits&(1<<(syscall.SIGTERM-1)) != 0
	})
}

// descendantsOf returns every descendant of pid.
func descendantsOf(pid int) []int {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children")
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, th := range threads {
		if th.Name() != strconv.Itoa(pid) {
			more, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + th.Name() + "/children")
			b = append(b, more...)
		}
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		child, _ := strconv.Atoi(f)
		pids = append(pids, child)
		pids = append(pids, descendantsOf(child)...)
	}
	return pids
}

// waitUntilGone waits until none of the processes is left.
func waitUntilGone(t *testing.T, pids ...int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("no process of %v is left", pids), func() bool { return !slices.ContainsFunc(pids, testexec.IsAlive) })
}

// A turn is sent to the worker only when every signal of the previous turn has been sent. A monitor
// that sends no signals delays it.
func TestTurn_WaitsForSignals(t *testing.T) {
	t.Parallel()
	s := openSession(t, nil, fakeSpec(nil))
	waitUntilReady(t, s)
	stat := func(pid int) (state string, parent int) {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		parent, _ = strconv.Atoi(f[1])
		return f[0], parent
	}
	_, stage := stat(sessionInfo(s).PID)
	first, err := s.Submit(t.Context(), "sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(stage, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn := func() { _ = syscall.Kill(stage, syscall.SIGCONT) }
	defer goOn()
	wait.Until(t, "the process is stopped", func() bool { state, _ := stat(stage); return state == "T" })
	interruptTurn(t, s, first) // the frame ends the turn; the signal is not sent

	queued, err := s.Submit(t.Context(), "print queued")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Parse(t.Context(), "x"); err == nil {
		t.Errorf("a query is answered before the turn: %v", got)
	}
	interruptTurn(t, s, queued)
	if r := waitReply(t, s, queued); r.Outcome != "interrupted" || outputText(r.Events) != "" || r.State != session.StateIdle {
		t.Errorf("got %q, %q, %v: it was sent", r.Outcome, outputText(r.Events), r.State)
	}
	if got, err := s.Parse(t.Context(), "x"); got != session.ParseUnknown || err != nil {
		t.Errorf("a query was sent: %v, %v", got, err)
	}
	next, err := s.Submit(t.Context(), "print next")
	if err != nil {
		t.Fatal(err)
	}
	goOn()
	if r := waitReply(t, s, next); r.Outcome != "ok" || outputText(r.Events) != "next\n" {
		t.Errorf("got %q, %q", r.Outcome, outputText(r.Events))
	}
}
