package cmdflags

import (
	"github.com/turnstone-repl/turnstone/sandbox"
)

// DefaultAgentLevel is the level of an agent's session if the user asks for no other.
const DefaultAgentLevel = sandbox.Workspace

// WeakerMechanism is the fallback that a user may choose if the full sandbox is not available.
const WeakerMechanism = sandbox.Landlock
