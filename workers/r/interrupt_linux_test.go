package r_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
)

// The supervisor takes any process that reads the terminal after the acknowledgement for a program that
// waits for input. So R must stop reading before it acknowledges.
func TestInterrupt_ReadsEndBeforeAck(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	pid := w.Cmd.Process.Pid
	reads := func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, pid))
		return err == nil && strings.HasPrefix(string(state), fmt.Sprintf("%d ", syscall.SYS_READ))
	}
	for range testmain.Rounds(20) {
		w.StartTurn("readLines(file('stdin'))")
		for start := time.Now(); !reads(); {
			if time.Since(start) > rawworker.Timeout {
				t.Fatal("R does not read")
			}
		}
		w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
		for acked := false; !acked; { // after R's newline, or before it
			_, acked = w.NextEvent().(ipc.InterruptAck)
		}
		if reads() {
			t.Fatal("R still reads")
		}
		if r := w.FinishTurn(); describeOutcome(r) != "interrupted" {
			t.Fatalf("got %q, %s", r.Transcript(), describeOutcome(r))
		}
		w.RunCode("invisible(gc())")
	}
}

// R ignores SIGINT from a moment before a child of system() exists until it has ended. The SIGINT of an
// interrupt may end a child that began after the shim had looked.
func TestInterruptRace_ChildStart(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	calls := []string{"system('cat')", "system('sleep 100')", "invisible(system('cat', intern = TRUE))", "system2('sleep', '100')"}
	for i := range testmain.Rounds(300) {
		call := calls[i%len(calls)]
		w.StartTurn("cat('up\\n'); " + call + "; for (i in 1:9) Sys.sleep(0.01); cat('lost\\n')")
		w.WaitOutput("up")
		wait.Spin(time.Duration(rand.IntN(1500)) * time.Microsecond)
		w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
		if r := w.FinishTurn(); describeOutcome(r) != "interrupted" {
			t.Fatalf("round %d, %s: got %q, %s", i, call, r.Transcript(), describeOutcome(r))
		}
	}
}

// As at a terminal, a child gets one SIGINT. The turn continues if the child handles it. Lines that were
// sent ahead are dropped in both cases.
func TestInterrupt_ChildHandlesIt(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(t.TempDir(), "command") // the shell waits for it, then dies of SIGINT
	writeFile(t, command, "trap 'n=1; echo caught' INT; echo up >&2; until [ $n ]; do :; done; sleep 2; echo end\n")
	handles := func(how string) string { // not one long sleep: the shell may take SIGINT before it starts
		return "trap 'n=1; " + how + "' INT; echo up >&2; until [ $n ]; do sleep 0.1; done; "
	}
	for _, c := range []struct{ name, script, call, out, outcome string }{
		{"continues to its end", handles("echo caught") + "sleep 2; echo end", "system(%q); cat('behind\\n')", "caught\nend\nbehind", "ok"},
		{"waits for a child that continues", "sh '" + command + "'", "system(%q); cat('behind\\n')", "caught\nend\nbehind", "ok"},
		{"drops later lines", handles("echo caught") + "exit 3", "{ cat(system(%q), '\\n') }\n'not run'", "caught\n3", "interrupted, 1 unrun"},
		{"ends as interrupted", handles("exit 130"), "system(%q); cat('behind\\n')", "", "interrupted"},
		{"is captured", handles("echo caught >&2") + "sleep 2", "x <- system(%q, intern = TRUE); cat('behind\\n')", "caught", "interrupted"},
		{"ignores it", "trap '' INT; echo up; cat <'" + fifo + "'", "system(%q); cat('behind\\n')", "end", "interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.StartTurn(fmt.Sprintf(c.call, c.script))
			w.WaitOutput("up")
			w.SendMessage(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
			if strings.Contains(c.script, fifo) {
				for acked := false; !acked; {
					_, acked = w.NextEvent().(ipc.InterruptAck)
				}
				writeFile(t, fifo, "end\n")
			}
			r := w.FinishTurn()
			if strings.TrimSpace(r.OutputText()) != c.out || describeOutcome(r) != c.outcome {
				t.Errorf("got %q, %s; want %q, %s", r.Transcript(), describeOutcome(r), c.out, c.outcome)
			}
		})
	}
	w.RunCode("'next'").WantOutput(t, "[1] \"next\"\n")
}
