package jupyterkernels_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// Python's signal handler only sets a flag. If that happens just before a sleep, the sleep goes on. Here
// the main thread blocks the signal, so another thread sets the flag, with the same effect.
func TestIPykernelInterrupt_BeforeSleep(t *testing.T) {
	t.Parallel()
	k := testKernels[0]
	k.specDir(t)
	r := k.openSession(t, nil)
	reply := r.interruptStarted("import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nprint('started', flush=True)\ntime.sleep(3600)")
	if reply.Outcome != timeline.OutcomeInterrupted {
		t.Errorf("got %q, %s", outputText(reply.Events...), reply.Outcome)
	}
}
