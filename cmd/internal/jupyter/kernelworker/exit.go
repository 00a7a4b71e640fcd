package kernelworker

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// exitKernel ends the kernel at the request of its own code.
func (w *worker) exitKernel() error {
	w.exitMode = &exitMode{ipc.EndExit}
	return w.requestShutdown(exitGracePeriod)
}

// shutdownKernel ends the kernel at the request of the supervisor, and interrupts its turn.
func (w *worker) shutdownKernel(grace time.Duration) error {
	if w.exitMode != nil {
		return nil
	}
	w.exitMode = &exitMode{ipc.EndShutdown}
	if w.turn != nil && w.turn.reply == nil {
		if err := w.interruptKernel(); err != nil && !errors.Is(err, errUnreachable) {
			return err
		}
	}
	if w.inputRequest != nil {
		_ = w.sendInputReply("", true) // a kernel that has ended needs no answer
	}
	return w.requestShutdown(min(grace/2, exitGracePeriod))
}

func (w *worker) requestShutdown(grace time.Duration) error {
	w.exitDeadline = time.After(grace)
	if w.kernel.kernelSockets == nil {
		killProcess(w.kernel.cmd)
		return nil
	}
	if _, err := w.kernel.sendMessage(w.kernel.control, "shutdown_request", map[string]bool{"restart": false}, nil); err != nil {
		killProcess(w.kernel.cmd) // the kernel accepts no request
	}
	return nil
}

// handleKernelExit shows the last messages of a kernel that has ended, reports why it ended, and
// returns the exit status.
func (w *worker) handleKernelExit() int {
	w.drainIOPub()
	code, killed := exitStatus(w.kernel.cmd.ProcessState)
	status := int64(code)
	switch {
	case w.exitMode != nil && w.exitMode.reason == ipc.EndShutdown:
		w.sendSessionEnd(ipc.EndShutdown, nil, "")
		return 0
	case w.exitMode != nil && killed != "":
		status, code = 0, 0 // it did not exit in time and was killed
		fallthrough
	case w.exitMode != nil:
		w.sendSessionEnd(ipc.EndExit, &status, "")
		return code
	}
	// If this fails, nothing reads the terminal any more.
	_ = w.terminal.writeText(withNewline(w.kernel.lastLines()), errorText)
	if !w.isReady {
		fmt.Fprintf(os.Stderr, "The kernel %s ended during its start (%s).\n", w.Spec.Name, cmp.Or(killed, fmt.Sprintf("exit status %d", code)))
		return max(code, 1)
	}
	if w.terminated {
		w.sendSessionEnd(ipc.EndCrash, nil, "the kernel closed a connection or sent invalid data, and was killed")
		return 1
	}
	if killed != "" {
		w.sendSessionEnd(ipc.EndCrash, nil, "the kernel's process died: "+killed)
		return code
	}
	w.sendSessionEnd(ipc.EndExit, &status, fmt.Sprintf("the kernel's process exited with status %d", code))
	return code
}

// drainIOPub handles the messages that the kernel published before it ended.
func (w *worker) drainIOPub() {
	over := time.After(drainTimeout)
	for w.kernel.kernelSockets != nil && w.iopub != nil {
		select {
		case m, ok := <-w.iopub:
			if m.Header.Type == "status" {
				continue
			}
			if err := w.handleIOPub(m, ok); err != nil {
				return
			}
		case <-w.shell:
		case <-w.stdin:
		case <-w.control:
		case <-over:
			return
		}
	}
}
