package kernelworker

import (
	"errors"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// handleInterrupt handles an interrupt of the active turn. It queues the first one until the kernel
// runs the code of the turn: a kernel that still handles an earlier query would swallow the signal, or
// die of it. A second interrupt is sent at once.
func (w *worker) handleInterrupt(m ipc.Interrupt) error {
	t := w.turn
	switch {
	case m.Turn == 0 && !w.isReady:
		return errors.Join(w.acknowledgeInterrupt(m, ipc.InterruptRaised), interruptGroup())
	case m.Turn == 0:
		return errors.Join(w.acknowledgeInterrupt(m, ipc.InterruptRaised), w.dropQueries())
	case t == nil || m.Turn != t.id:
		return w.acknowledgeInterrupt(m, ipc.InterruptStale)
	case t.reply != nil: // only the idle status is missing
		return w.acknowledgeInterrupt(m, ipc.InterruptPending)
	case m.Seq <= t.lastInterrupt:
		return w.acknowledgeInterrupt(m, ipc.InterruptRaised)
	}
	again := len(t.queuedInterrupts) > 0 && t.queuedInterrupts[0].Seq != m.Seq
	t.queuedInterrupts = append(t.queuedInterrupts, m)
	if again || w.canInterruptKernel() {
		return w.interruptForQueued()
	}
	w.interruptPoll = time.After(interruptPollInterval)
	return nil
}

func (w *worker) acknowledgeInterrupt(m ipc.Interrupt, result ipc.InterruptResult) error {
	return w.conn.Send(ipc.InterruptAck{Turn: m.Turn, Seq: m.Seq, Result: result})
}

// canInterruptKernel reports whether the kernel runs the code of the turn. Kernels report that they
// are busy some moments before they can be interrupted. An interrupt in between kills IRkernel.
// ipykernel ignores it, except in the last moment before its own handler takes over: then it dies, too.
func (w *worker) canInterruptKernel() bool {
	t := w.turn
	switch pid := w.kernel.cmd.Process.Pid; {
	case w.inputRequest != nil: // it asks for input, so it runs the code
		return true
	case !t.kernelStarted || w.Spec.InterruptByMessage:
		return t.kernelStarted
	case w.ignoresWhileIdle && ignoresInterrupts(pid):
		return false
	}
	return w.ignoresWhileIdle && t.codeEchoed || time.Since(t.started) >= interruptDelay
}

// sendQueuedInterrupts sends the queued interrupts if the kernel can take them now.
func (w *worker) sendQueuedInterrupts() error {
	w.interruptPoll = nil
	switch {
	case w.turn == nil || len(w.turn.queuedInterrupts) == 0:
		return nil
	case w.canInterruptKernel():
		return w.interruptForQueued()
	}
	w.interruptPoll = time.After(interruptPollInterval)
	return nil
}

// interruptForQueued interrupts the kernel once for all queued interrupts. It answers an open input
// request with an empty line, because some kernels notice an interrupt only then. Kernels based on
// ipykernel drop the line.
func (w *worker) interruptForQueued() error {
	t := w.turn
	err := w.interruptKernel()
	for _, m := range t.queuedInterrupts {
		t.lastInterrupt = m.Seq
		err = errors.Join(err, w.acknowledgeInterrupt(m, ipc.InterruptRaised))
	}
	t.queuedInterrupts = nil
	if w.ignoresWhileIdle {
		t.wakeups, w.wakeup = 0, time.After(firstWakeup)
	}
	if err == nil && w.ignoresWhileIdle {
		t.probeID, err = w.sendRequest("kernel_info_request", struct{}{})
	}
	if err == nil && w.inputRequest != nil {
		err = w.sendInputReply("", false)
	}
	return err
}

// wakeInterrupted wakes the kernel that an interrupt may have missed, and plans the next wake-up.
// Python's signal handler only sets a flag. If it runs between Python's last look at the flag and a
// sleep, the sleep goes on. Another SIGINT would end code that handles the first one.
func (w *worker) wakeInterrupted() {
	w.wakeup = nil
	t := w.turn
	if t == nil || !t.interrupted || t.reply != nil || t.wakeups == maxWakeups {
		return
	}
	wakeMainThread(w.kernel.cmd.Process.Pid)
	t.wakeups++
	w.wakeup = time.After(firstWakeup << t.wakeups)
}

// endSkippedTurn handles the kernel's answer to the request that followed an interrupt. An
// ipykernel that is interrupted between two of its own steps drops the execute_request without an
// answer. It answers in order, so a turn still without a reply is over.
func (w *worker) endSkippedTurn() error {
	t := w.turn
	if t.reply != nil {
		return nil
	}
	t.reply, t.sawIdle = &executeReply{Status: "error", Name: "KeyboardInterrupt", Value: "the kernel was interrupted before it ran the code"}, true
	return w.endTurnIfOver()
}

// interruptKernel interrupts the code that the kernel runs.
func (w *worker) interruptKernel() error {
	w.turn.interrupted = true
	if w.Spec.InterruptByMessage {
		_, err := w.kernel.sendMessage(w.kernel.control, "interrupt_request", struct{}{}, nil)
		return err
	}
	return interruptGroup()
}
