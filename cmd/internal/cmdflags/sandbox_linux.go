package cmdflags

import "github.com/turnstone-repl/turnstone/workers"

const DefaultAgentLevel = workers.Workspace

// WeakerMechanism is the fallback that a user may choose if the full sandbox is not available.
const WeakerMechanism = workers.Landlock
