package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// An OOMCounter counts nothing, because macOS has no out-of-memory killer.
type OOMCounter struct{ limit int64 }

func NewOOMCounter(*monitorproto.WorkerCommand) OOMCounter { return OOMCounter{} }
func (OOMCounter) hasIncreased() bool                      { return false }
