package cli

import "github.com/turnstone-repl/turnstone/workers"

const agentsLevel = workers.Workspace
