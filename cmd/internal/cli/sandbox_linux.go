package cli

import "github.com/turnstone-repl/turnstone/workers"

const agentsLevel = workers.Workspace

// acceptable is what a user may take where a sandbox cannot be had.
const acceptable = workers.Landlock
