package r_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/tests/rawworker"
)

// The supervisor takes whoever reads the terminal after the acknowledgement for a program that
// wants input. So R must have stopped reading before it acknowledges.
func TestInterrupt_EndsReadsBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	pid := w.Cmd.Process.Pid
	reads := func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, pid))
		return err == nil && strings.HasPrefix(string(state), fmt.Sprintf("%d ", syscall.SYS_READ))
	}
	for range rawworker.Rounds(20) {
		w.Begin("readLines(file('stdin'))")
		for begun := time.Now(); !reads(); {
			if time.Since(begun) > rawworker.Patience {
				t.Fatal("R does not read")
			}
		}
		w.Tell(ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1})
		for acked := false; !acked; { // behind R's newline, or before it
			_, acked = w.Next().(ipc.InterruptAck)
		}
		if reads() {
			t.Fatal("R reads on")
		}
		if r := w.Finish(); outcome(r) != "interrupted" {
			t.Fatalf("got %q, %s", r.Script(), outcome(r))
		}
		w.Run("invisible(gc())")
	}
}
