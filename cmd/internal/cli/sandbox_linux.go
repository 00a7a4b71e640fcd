package cli

import "github.com/turnstone-repl/turnstone/workers"

const defaultAgentLevel = workers.Workspace

// weakerMechanism is the fallback that a user may choose if the full sandbox is not available.
const weakerMechanism = workers.Landlock
