package cli

import "github.com/turnstone-repl/turnstone/workers"

const defaultAgentLevel = workers.Workspace

// weakerMechanism is what a user may take where a sandbox cannot be had.
const weakerMechanism = workers.Landlock
