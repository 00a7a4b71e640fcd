package cli

import "github.com/turnstone-repl/turnstone/workers"

const agentsLevel = workers.Full // there are no sandboxes that were tried

// acceptable is what a user may take all the same.
const acceptable = workers.Seatbelt
