//go:build !linux

package linux

import (
	"errors"

	"github.com/turnstone-repl/turnstone/sandbox"
)

// TrialProgram is a program that does nothing, used to try a sandbox; there is none on this system.
const TrialProgram = ""

// Mechanisms returns the mechanisms to try, in order, for a user who accepts the given one.
func Mechanisms(sandbox.Mechanism) []sandbox.Mechanism {
	return []sandbox.Mechanism{""}
}

// CheckSupported returns an error, because this system has no sandboxes.
func CheckSupported(sandbox.Mechanism) error {
	return errors.New("sandboxing is not supported on this system; use the sandbox level full (--sandbox full)")
}

// CheckConnect returns an error, because no monitor can connect on behalf of its worker on this
// system.
func CheckConnect() error { return errors.ErrUnsupported }
