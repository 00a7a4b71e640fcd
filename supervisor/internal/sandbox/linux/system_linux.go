package linux

import (
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
	"github.com/turnstone-repl/turnstone/workers"
)

// Mechanisms returns the mechanisms to try, in order, for a user who accepts the given one.
func Mechanisms(accepted workers.Mechanism) []workers.Mechanism {
	if accepted == workers.Landlock {
		return []workers.Mechanism{"", workers.Landlock}
	}
	return []workers.Mechanism{""}
}

// CheckSupported returns an error if no worker can be confined on this system by the mechanism. nil
// does not promise success.
func CheckSupported(workers.Mechanism) error {
	return seccomp.CheckArchitecture()
}

// TrialProgram is a program that does nothing, used to try a sandbox.
const TrialProgram = "/bin/true"
