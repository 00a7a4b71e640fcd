package kernelworker

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// exitKernel lets the kernel end, because its code has asked for it.
func (w *worker) exitKernel() error {
	w.exitMode = &exitMode{ipc.EndExit}
	return w.requestShutdown(exitGracePeriod)
}

// shutdownKernel lets the kernel end, because the supervisor has asked for it, and interrupts its turn.
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
		_ = w.sendInputReply("", true) // a kernel that is gone needs no answer
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
		killProcess(w.kernel.cmd) // it has no socket that could be told
	}
	return nil
}

// handleKernelExit takes in that the kernel's process has ended, shows what it had sent, and tells why.
func (w *worker) handleKernelExit() int {
	w.drainIOPub()
	code, killed := exitStatus(w.kernel.cmd.ProcessState)
	status := int64(code)
	switch {
	case w.exitMode != nil && w.exitMode.reason == ipc.EndShutdown:
		w.sendSessionEnd(ipc.EndShutdown, nil, "")
		return 0
	case w.exitMode != nil && killed != "":
		status, code = 0, 0 // it did not end by itself in time
		fallthrough
	case w.exitMode != nil:
		w.sendSessionEnd(ipc.EndExit, &status, "")
		return code
	}
	// Nobody will read what is written to the terminal if that fails.
	_ = w.terminal.writeText(withNewline(w.kernel.lastLines()), errorText)
	if !w.isReady {
		fmt.Fprintf(os.Stderr, "The kernel %s ended while it started (%s).\n", w.Spec.Name, cmp.Or(killed, fmt.Sprintf("exit status %d", code)))
		return max(code, 1)
	}
	if w.terminated {
		w.sendSessionEnd(ipc.EndCrash, nil, "the kernel closed a connection, or sent what no kernel may, and was ended")
		return 1
	}
	if killed != "" {
		w.sendSessionEnd(ipc.EndCrash, nil, "the kernel's process died: "+killed)
		return code
	}
	w.sendSessionEnd(ipc.EndExit, &status, fmt.Sprintf("the kernel's process ended by itself, with exit status %d", code))
	return code
}

// drainIOPub handles what the dead kernel had published.
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
