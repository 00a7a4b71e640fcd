package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/confine"

// A Denial is a call that the sandbox refuses to a program of the tree.
type Denial = confine.Denial

// A denialEvent is the JSON form of a Denial. Its names are bytes because they need not be UTF-8,
// as JSON strings must be.
type denialEvent struct {
	ID                  uint64 `json:",omitempty"`
	Resolved            bool   `json:",omitempty"`
	Op                  string `json:",omitempty"`
	Path, Host, Program []byte `json:",omitempty"`
	Setting             string `json:",omitempty"`
	Protected           bool   `json:",omitempty"`
}

func newDenialEvent(d Denial) *denialEvent {
	return &denialEvent{d.ID, d.Resolved, d.Op, []byte(d.Path), []byte(d.Host), []byte(d.Program), d.Setting, d.Protected}
}

func (d *denialEvent) toDenial() Denial {
	return Denial{ID: d.ID, Resolved: d.Resolved, Op: d.Op, Path: string(d.Path), Host: string(d.Host), Program: string(d.Program), Setting: d.Setting, Protected: d.Protected}
}
