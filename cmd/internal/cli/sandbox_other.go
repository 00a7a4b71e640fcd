//go:build !linux

package cli

import "github.com/turnstone-repl/turnstone/workers"

const defaultAgentLevel = workers.Full // this system has no sandbox

const weakerMechanism = workers.SandboxMechanism("")
