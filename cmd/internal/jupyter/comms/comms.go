package comms

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// controlTarget is the target of the comm on which front ends ask for the states of all widgets.
const controlTarget = "jupyter.widget.control"

// maxControls bounds the control comms of front ends; the oldest are forgotten. A front end needs one
// for each time it connects.
const maxControls = 64

// Pauses between looks for changes: pollDelay limits how often a front end gets updates, and waitTime is
// the length of one wait.
const (
	pollDelay = 50 * time.Millisecond
	waitTime  = time.Minute
)

// A Message is a Jupyter message without its header.
type Message struct {
	Kind     string
	Content  any
	Metadata json.RawMessage
	Buffers  [][]byte
}

// A CommCursor is the position of one front end in the comms of a session.
type CommCursor struct {
	session     session.Session
	after       uint64
	held        []Message // updates and ends of comms, until a display has been sent
	unsupported bool      // the daemon is too old
}

// NewCommCursor returns the position after all comms of a session: a front end that connects asks for those.
// s may be nil.
func NewCommCursor(ctx context.Context, s session.Session) *CommCursor {
	c := &CommCursor{session: s}
	if s != nil {
		if changes, err := s.Comms(ctx, session.CommsQuery{WaitMS: 1}); err == nil {
			c.after = changes.Next
		}
	}
	return c
}

// Read returns the messages about what has changed. With hold, only new comms are returned, for a display
// that may refer to them. The code may have changed or ended them since it sent that display, so the rest
// waits for the next call.
func (c *CommCursor) Read(ctx context.Context, hold bool) []Message {
	if c.session == nil || c.unsupported {
		return nil
	}
	changes, err := c.session.Comms(ctx, session.CommsQuery{After: c.after})
	c.unsupported = isUnsupported(err)
	c.after = max(c.after, changes.Next)
	var now []Message
	for _, m := range changes.Messages {
		if message := newMessage(m); hold && m.Op == session.CommOpen {
			now = append(now, message)
		} else {
			c.held = append(c.held, message)
		}
	}
	if !hold {
		now, c.held = c.held, nil
	}
	return now
}

// Watch reports that there is something to read, until ctx ends. It sends the last event before the change,
// which a front end must get first: that event says to which turn the change belongs.
func Watch(ctx context.Context, s session.Session, changed chan<- timeline.Seq) {
	for after := uint64(0); ctx.Err() == nil; {
		c, err := s.Comms(ctx, session.CommsQuery{After: after, WaitMS: waitTime.Milliseconds()})
		if isUnsupported(err) || session.KindOf(err) == session.KindClosed {
			return
		}
		if err == nil && c.Next > after {
			after = c.Next
			select {
			case changed <- c.Seq:
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(pollDelay):
		case <-ctx.Done():
		}
	}
}

// isUnsupported reports whether the daemon is too old.
func isUnsupported(err error) bool { return session.KindOf(err) == session.KindUnknownMethod }

// readAll returns the comms of a session, with their states. Without a session there are none.
func readAll(ctx context.Context, s session.Session) []*session.CommMessage {
	if s == nil {
		return nil
	}
	changes, _ := s.Comms(ctx, session.CommsQuery{})
	return changes.Messages
}

func newMessage(m *session.CommMessage) Message {
	var buffers [][]byte
	paths := make([]json.RawMessage, 0, len(m.Buffers))
	for _, b := range m.Buffers {
		buffers, paths = append(buffers, b.Data), append(paths, b.Path)
	}
	switch m.Op {
	case session.CommOpen:
		return Message{Kind: "comm_open", Metadata: m.Metadata, Buffers: buffers, Content: map[string]any{
			"comm_id": m.ID, "target_name": m.Target, "target_module": nil, "data": m.Data,
		}}
	case session.CommUpdate:
		return newUpdate(m.ID, map[string]any{"method": "update", "state": m.Data, "buffer_paths": paths}, buffers)
	}
	return Message{Kind: "comm_close", Content: map[string]any{"comm_id": m.ID, "data": struct{}{}}}
}

func newUpdate(id string, data map[string]any, buffers [][]byte) Message {
	return Message{Kind: "comm_msg", Content: map[string]any{"comm_id": id, "data": data}, Buffers: buffers}
}

// Info returns the content of the reply to a comm_info request: the open comms of a target, or all of
// them if the target is "".
func Info(ctx context.Context, s session.Session, request json.RawMessage) map[string]any {
	var q struct {
		Target string `json:"target_name"`
	}
	_ = json.Unmarshal(request, &q)
	open := make(map[string]any)
	for _, m := range readAll(ctx, s) {
		if m.Op == session.CommOpen && (q.Target == "" || q.Target == m.Target) {
			open[m.ID] = map[string]string{"target_name": m.Target}
		}
	}
	return map[string]any{"status": "ok", "comms": open}
}

// Controls holds the control comms that front ends have opened.
type Controls struct {
	mu  sync.Mutex
	ids []string // the oldest first
}

// A commRequest is the content of a message of a front end.
type commRequest struct {
	ID     string `json:"comm_id"`
	Target string `json:"target_name"`
	Data   struct {
		Method string `json:"method"`
	} `json:"data"`
}

// Answer returns the answer to a message of a front end. Without an answer its Kind is "". A comm that no
// code of the session can take is closed.
func (c *Controls) Answer(ctx context.Context, s session.Session, kind string, content json.RawMessage) Message {
	var r commRequest
	if json.Unmarshal(content, &r) != nil {
		return Message{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.ids, r.ID)
	switch {
	case kind == "comm_open" && r.Target != controlTarget:
		return newMessage(&session.CommMessage{Op: session.CommClose, ID: r.ID})
	case kind == "comm_open" && i < 0:
		c.ids = append(c.ids[max(0, len(c.ids)-maxControls+1):], r.ID)
	case kind == "comm_close" && i >= 0:
		c.ids = slices.Delete(c.ids, i, i+1)
	case kind == "comm_msg" && i >= 0 && r.Data.Method == "request_states":
		return allStates(ctx, s, r.ID)
	}
	return Message{}
}

// allStates returns the states of all widgets, as ipywidgets answers request_states.
func allStates(ctx context.Context, s session.Session, control string) Message {
	states := make(map[string]map[string]any)
	paths, buffers := []any{}, [][]byte{}
	for _, m := range readAll(ctx, s) {
		values := make(map[string]json.RawMessage)
		if m.Op == session.CommOpen {
			var data struct {
				State map[string]json.RawMessage `json:"state"`
			}
			if json.Unmarshal(m.Data, &data) != nil || data.State == nil {
				continue // no widget
			}
			values = data.State
			states[m.ID] = map[string]any{
				"model_name": values["_model_name"], "model_module": values["_model_module"],
				"model_module_version": values["_model_module_version"], "state": values,
			}
		} else if model := states[m.ID]; m.Op == session.CommUpdate && model != nil {
			_ = json.Unmarshal(m.Data, &values)
			state := model["state"].(map[string]json.RawMessage)
			for name, value := range values {
				state[name] = value
			}
		}
		for _, b := range m.Buffers {
			var path []any
			if json.Unmarshal(b.Path, &path) == nil {
				paths, buffers = append(paths, append([]any{m.ID}, path...)), append(buffers, b.Data)
			}
		}
	}
	return newUpdate(control, map[string]any{"method": "update_states", "states": states, "buffer_paths": paths}, buffers)
}
