package proctree

// An OOMCounter counts nothing, because macOS has no out-of-memory killer.
type OOMCounter struct{ Limit int64 }

// NewOOMCounter returns a counter that stays at zero.
func NewOOMCounter(string, int64) OOMCounter { return OOMCounter{} }

// HasIncreased is always false.
func (OOMCounter) HasIncreased() bool { return false }
