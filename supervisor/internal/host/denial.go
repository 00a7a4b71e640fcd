package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/confine"

// A Denial is a call that the sandbox refuses to a program of the tree.
type Denial = confine.Denial

// A denied is a Denial on its way. Names need not be UTF-8, which JSON strings are.
type denied struct {
	ID             uint64 `json:",omitempty"`
	Over           bool   `json:",omitempty"`
	Op             string `json:",omitempty"`
	Path, Host, By []byte `json:",omitempty"`
	Setting        string `json:",omitempty"`
	Kept           bool   `json:",omitempty"`
}

func deniedOf(d Denial) *denied {
	return &denied{d.ID, d.Over, d.Op, []byte(d.Path), []byte(d.Host), []byte(d.By), d.Setting, d.Kept}
}

func (d *denied) denial() Denial {
	return Denial{ID: d.ID, Over: d.Over, Op: d.Op, Path: string(d.Path), Host: string(d.Host), By: string(d.By), Setting: d.Setting, Kept: d.Kept}
}
