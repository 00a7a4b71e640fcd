//go:build !linux

package cmdflags

import (
	"github.com/turnstone-repl/turnstone/sandbox"
)

const DefaultAgentLevel = sandbox.Full // this system has no sandbox

const WeakerMechanism = sandbox.Mechanism("")
