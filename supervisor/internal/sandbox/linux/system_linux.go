package linux

import (
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
)

// Mechanisms returns the mechanisms to try, in order, for a user who accepts the given one.
func Mechanisms(accepted sandbox.Mechanism) []sandbox.Mechanism {
	if accepted == sandbox.Landlock {
		return []sandbox.Mechanism{"", sandbox.Landlock}
	}
	return []sandbox.Mechanism{""}
}

// CheckSupported returns an error if the mechanism cannot confine any worker on this system. Even
// without an error, a start can fail.
func CheckSupported(sandbox.Mechanism) error {
	return seccomp.CheckArchitecture()
}

// TrialProgram is a program that does nothing, used to try a sandbox.
const TrialProgram = "/bin/true"
