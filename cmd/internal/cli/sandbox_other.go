//go:build !linux

package cli

import "github.com/turnstone-repl/turnstone/workers"

const agentsLevel = workers.Full // there are no sandboxes

const acceptable = workers.SandboxMechanism("")
