package monitorproto

import (
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A Denial is a call that the sandbox refuses to a program of the tree.
type Denial = plan.Denial

// A DenialEvent is the JSON form of a Denial. Its names are bytes because they need not be UTF-8,
// as JSON strings must be.
type DenialEvent struct {
	ID                  uint64 `json:",omitempty"`
	Resolved            bool   `json:",omitempty"`
	Op                  string `json:",omitempty"`
	Path, Host, Program []byte `json:",omitempty"`
	Setting             string `json:",omitempty"`
	Protected           bool   `json:",omitempty"`
}

// NewDenialEvent converts a Denial for the wire.
func NewDenialEvent(d Denial) *DenialEvent {
	return &DenialEvent{d.ID, d.Resolved, d.Op, []byte(d.Path), []byte(d.Host), []byte(d.Program), d.Setting, d.Protected}
}

// ToDenial converts an event back into its Denial.
func (d *DenialEvent) ToDenial() Denial {
	return Denial{ID: d.ID, Resolved: d.Resolved, Op: d.Op, Path: string(d.Path), Host: string(d.Host), Program: string(d.Program), Setting: d.Setting, Protected: d.Protected}
}
