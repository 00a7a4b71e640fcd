//go:build !linux

package cli

import "github.com/turnstone-repl/turnstone/workers"

const defaultAgentLevel = workers.Full // there are no sandboxes

const weakerMechanism = workers.SandboxMechanism("")
