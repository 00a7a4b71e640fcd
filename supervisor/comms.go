package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// commType is the MIME type of a display that is not shown: a session.CommMessage of the worker.
const commType = "application/vnd.turnstone.comm+json"

// valueOverhead is what a value costs in addition to its bytes. So the bounds also hold for many small ones.
const valueOverhead = 128

// maxClosedComms bounds the closed comms that are kept for readers that have not seen their end.
const maxClosedComms = 64

// A commTable holds the comms of one worker, with the newest value of each member of their states. It
// is not in the timeline: a program may change a state thousands of times, and only the last one is of use.
type commTable struct {
	version uint64 // of the last change; grows over the workers of a session
	bytes   int
	comms   map[string]*comm
	closed  []string      // the oldest first
	refused bool          // a notice has said that a bound was exceeded
	changed chan struct{} // closed at the next change; nil without waiters
}

type comm struct {
	open           *session.CommMessage
	opened, closed uint64 // versions; closed is 0 while it is open
	bytes          int
	members        map[string]*commMember // those that have changed since it was opened
}

type commMember struct {
	value   json.RawMessage // nil if it is binary
	buffers []session.CommBuffer
	version uint64
}

func newCommTable(generation uint64) *commTable {
	return &commTable{version: generation << 32, comms: make(map[string]*comm)}
}

// apply applies a message of the worker. It returns why the comm is no longer kept, or "".
func (t *commTable) apply(m *session.CommMessage) (refusal string) {
	c := t.comms[m.ID]
	switch m.Op {
	case session.CommOpen:
		t.remove(m.ID)
		if len(t.comms)-len(t.closed) >= session.MaxComms {
			return fmt.Sprintf("more than %d widgets are open", session.MaxComms)
		}
		t.version++
		c = &comm{open: m, opened: t.version, bytes: messageBytes(m), members: make(map[string]*commMember)}
		t.comms[m.ID] = c
		t.bytes += c.bytes
	case session.CommUpdate:
		if c == nil || c.closed > 0 {
			return ""
		}
		t.update(c, m)
	case session.CommClose:
		if c == nil || c.closed > 0 {
			return ""
		}
		t.version++
		c.closed, t.closed = t.version, append(t.closed, m.ID)
	}
	for len(t.closed) > 0 && (len(t.closed) > maxClosedComms || t.bytes > session.MaxCommsBytes) {
		t.remove(t.closed[0])
	}
	switch {
	case c == nil:
	case c.bytes > session.MaxCommBytes:
		t.remove(m.ID)
		return fmt.Sprintf("the state of a widget has more than %d bytes", session.MaxCommBytes)
	case t.bytes > session.MaxCommsBytes:
		t.remove(m.ID)
		return fmt.Sprintf("the states of all widgets have more than %d bytes", session.MaxCommsBytes)
	}
	return ""
}

func (t *commTable) update(c *comm, m *session.CommMessage) {
	var values map[string]json.RawMessage
	if json.Unmarshal(m.Data, &values) != nil {
		return
	}
	t.version++
	changed := make(map[string]*commMember, len(values))
	for name, value := range values {
		changed[name] = &commMember{value: value, version: t.version}
	}
	for _, b := range m.Buffers {
		var path []any
		_ = json.Unmarshal(b.Path, &path)
		if len(path) == 0 {
			continue
		}
		name, _ := path[0].(string)
		if changed[name] == nil { // its whole value is binary
			changed[name] = &commMember{version: t.version}
		}
		changed[name].buffers = append(changed[name].buffers, b)
	}
	for name, member := range changed {
		grown := member.size(name)
		if old := c.members[name]; old != nil {
			grown -= old.size(name)
		}
		c.members[name] = member
		c.bytes, t.bytes = c.bytes+grown, t.bytes+grown
	}
}

func (t *commTable) remove(id string) {
	if c := t.comms[id]; c != nil {
		t.bytes -= c.bytes
		delete(t.comms, id)
		t.closed = slices.DeleteFunc(t.closed, func(other string) bool { return other == id })
	}
}

func messageBytes(m *session.CommMessage) int {
	n := len(m.ID) + len(m.Target) + len(m.Data) + len(m.Metadata)
	for _, b := range m.Buffers {
		n += valueOverhead + len(b.Path) + len(b.Data)
	}
	return n
}

func (m *commMember) size(name string) int {
	return valueOverhead + len(name) + messageBytes(&session.CommMessage{Data: m.value, Buffers: m.buffers})
}

// changes returns the messages after a cursor. A comm is opened with its first state, and later changes
// follow in the order of the last one of each comm. So a state never refers to a comm that is opened later.
func (t *commTable) changes(after uint64) []*session.CommMessage {
	found := make(map[uint64]*session.CommMessage) // by version, which no two have in common
	for id, c := range t.comms {
		if c.closed > 0 && (after == 0 || c.closed <= after) {
			continue
		}
		if c.opened > after {
			found[c.opened] = c.open
		}
		update, version, values := &session.CommMessage{Op: session.CommUpdate, ID: id}, uint64(0), make(map[string]json.RawMessage)
		for name, m := range c.members {
			if m.version > after {
				version = max(version, m.version)
				if m.value != nil {
					values[name] = m.value
				}
				update.Buffers = append(update.Buffers, m.buffers...)
			}
		}
		if version > 0 {
			update.Data, _ = json.Marshal(values)
			found[version] = update
		}
		if c.closed > 0 {
			found[c.closed] = &session.CommMessage{Op: session.CommClose, ID: id}
		}
	}
	messages := make([]*session.CommMessage, 0, len(found))
	for _, version := range slices.Sorted(maps.Keys(found)) {
		messages = append(messages, found[version])
	}
	return messages
}

// applyComm applies a comm message of the worker's code.
func (w *worker) applyComm(data []byte) {
	s := w.s
	var m session.CommMessage
	if json.Unmarshal([]byte(s.log.Redact(string(data))), &m) != nil || m.ID == "" {
		return // user code has sent something else
	}
	s.mu.Lock()
	defer s.unlock()
	if refusal := w.comms.apply(&m); refusal != "" && !w.comms.refused {
		w.comms.refused = true
		s.m.recordNotice("%s: notebooks no longer show all of them", refusal)
	}
	if w.comms.changed != nil {
		close(w.comms.changed)
		w.comms.changed = nil
	}
}

// Comms implements session.Session. It does not count as use, since a front end waits in it.
func (s *Session) Comms(ctx context.Context, q session.CommsQuery) (session.CommChanges, error) {
	timer := time.NewTimer(q.WaitTime())
	defer timer.Stop()
	for over := q.WaitMS <= 0; ; {
		c := session.CommChanges{Next: q.After, Seq: s.log.LastSeq()}
		var commsChanged chan struct{}
		s.mu.Lock()
		if s.worker != nil {
			commsChanged = s.worker.comms.readLocked(q, &c)
		}
		closed := s.m.phase == phaseClosed
		changed := s.changedLocked()
		s.mu.Unlock()
		switch {
		case closed:
			return c, session.ErrClosed
		case over || c.Next > q.After:
			return c, nil
		}
		select {
		case <-changed:
		case <-commsChanged:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}

// readLocked fills the answer to a query, and returns a channel that is closed at the next change.
func (t *commTable) readLocked(q session.CommsQuery, c *session.CommChanges) chan struct{} {
	c.Next = max(t.version, q.After)
	if q.WaitMS <= 0 && t.version > q.After {
		c.Messages = t.changes(q.After)
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}
