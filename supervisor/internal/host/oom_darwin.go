package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// An oomCounter counts nothing, because macOS has no out-of-memory killer.
type oomCounter struct{ limit int64 }

func newOOMCounter(*monitorproto.WorkerCommand) oomCounter { return oomCounter{} }
func (oomCounter) hasIncreased() bool                      { return false }
