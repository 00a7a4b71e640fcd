//go:build !linux

package cmdflags

import (
	"github.com/turnstone-repl/turnstone/sandbox"
)

// DefaultAgentLevel leaves an agent all rights of the user: this system has no sandbox.
const DefaultAgentLevel = sandbox.Full // this system has no sandbox

// WeakerMechanism is empty, because there is nothing to fall back to.
const WeakerMechanism = sandbox.Mechanism("")
