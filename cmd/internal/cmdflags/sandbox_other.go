//go:build !linux

package cmdflags

import "github.com/turnstone-repl/turnstone/workers"

const DefaultAgentLevel = workers.Full // this system has no sandbox

const WeakerMechanism = workers.Mechanism("")
