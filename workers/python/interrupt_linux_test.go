package python_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/ipc"
)

// The signal of a late frame strikes while the worker answers that frame.
func TestInterrupt_LateDuringReply(t *testing.T) {
	t.Parallel()
	w := startWorker(t, workerSetup{})
	w.RunCode("1")
	w.StartTurn("input('? ')")
	request := w.WaitInputRequest()
	const frames = 2500 // whose answers do not fit into the channel while it is not read
	for seq := range uint64(frames) {
		w.SendMessage(ipc.Interrupt{Turn: 1, Seq: seq + 1, Level: 1})
	}
	wait.Until(t, "the worker fills the channel", func() bool { return isBlockedInWrite(w.Cmd.Process.Pid) })
	syscall.Kill(w.Cmd.Process.Pid, syscall.SIGINT)
	for stale := 0; stale < frames; {
		if a, ok := w.NextEvent().(ipc.InterruptAck); ok {
			if a.Result != ipc.InterruptStale {
				t.Fatalf("got %+v", a)
			}
			stale++
		}
	}
	w.AnswerRequest(request, "unharmed")
	if r := w.FinishTurn(); !strings.Contains(r.OutputText(), "'unharmed'\n") || r.Idle.Outcome != ipc.OutcomeOK {
		t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
	}
}

// isBlockedInWrite reports whether the main thread of a process is blocked in write(2).
func isBlockedInWrite(pid int) bool {
	call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	number, _, _ := strings.Cut(string(call), " ")
	return number == strconv.Itoa(syscall.SYS_WRITE)
}
