package session

import (
	"encoding/json"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

// Bounds of comms. A worker's comms that exceed them are no longer kept, and a notice says so.
const (
	MaxComms      = 500     // open ones
	MaxCommBytes  = 1 << 20 // of the state of one
	MaxCommsBytes = 8 << 20 // of all states
)

// A CommOp is what a CommMessage does.
type CommOp string

// The operations of a CommMessage.
const (
	CommOpen   CommOp = "open"
	CommUpdate CommOp = "update"
	CommClose  CommOp = "close"
)

// A CommMessage is a message about a comm of Jupyter: a named object in the worker, such as a
// widget, whose state front ends of notebooks mirror.
type CommMessage struct {
	Op     CommOp `json:"op"`
	ID     string `json:"id"`
	Target string `json:"target,omitempty"` // of CommOpen: what handles it in a front end

	// Data is a JSON object: for CommOpen the data with which the comm was opened, for CommUpdate the
	// members of the state that have changed.
	Data     json.RawMessage `json:"data,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"` // of CommOpen: a JSON object
	Buffers  []CommBuffer    `json:"buffers,omitempty"`
}

// A CommBuffer is the binary value at a path of a state, such as ["image", 0].
type CommBuffer struct {
	Path json.RawMessage `json:"path"`
	Data []byte          `json:"data"`
}

// A CommsQuery asks what has changed after a cursor; 0 is before all comms.
type CommsQuery struct {
	After  uint64 `json:"after,omitempty"`
	WaitMS int64  `json:"wait_ms,omitempty"` // waits for a change, and then returns only the cursor
}

// WaitTime returns how long the query waits.
func (q CommsQuery) WaitTime() time.Duration {
	return min(time.Duration(max(q.WaitMS, 0))*time.Millisecond, time.Hour)
}

// CommChanges is the answer to a CommsQuery. Of several updates of one comm it has the newest
// values. A new worker has no comms of the one before.
type CommChanges struct {
	Next     uint64         `json:"next"`          // the cursor after these messages
	Seq      timeline.Seq   `json:"seq,omitempty"` // of the last event before the answer: they belong to its turn
	Messages []*CommMessage `json:"messages,omitempty"`
}
