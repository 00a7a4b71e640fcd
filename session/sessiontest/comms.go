package sessiontest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// commTexts returns messages in short, with the cursor after them.
func commTexts(t *testing.T, s session.Session, after uint64) (string, uint64) {
	t.Helper()
	c, err := s.Comms(withTimeout(t), session.CommsQuery{After: after})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range c.Messages {
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Op, m.ID, m.Data)))
	}
	return strings.Join(texts, "; "), c.Next
}

func testComms(t *testing.T, s session.Session) {
	r := runCode(t, s, `comm {"op":"open","id":"a","target":"w","data":{"state":{"n":0}},"metadata":{"version":"2"}}
comm {"op":"open","id":"b","data":{},"buffers":[{"path":["raw"],"data":"AAE="}]}
comm {"op":"update","id":"a","data":{"n":1,"child":"b"}}
comm {"op":"update","id":"a","data":{"n":2}}
comm no JSON
comm {"op":"update","id":"nobody","data":{"n":2}}`)
	for _, e := range r.Events {
		if d, ok := e.Body.(timeline.Display); ok {
			t.Errorf("a comm is an event: %+v", d)
		}
	}
	first, next := commTexts(t, s, 0)
	if first != `open a {"state":{"n":0}}; open b {}; update a {"child":"b","n":2}` {
		t.Errorf("the comms are %s", first)
	}
	c, err := s.Comms(withTimeout(t), session.CommsQuery{})
	if err != nil || len(c.Messages) < 2 || c.Messages[0].Target != "w" || string(c.Messages[0].Metadata) != `{"version":"2"}` {
		t.Fatalf("got %+v, %v", c, err)
	}
	if b := c.Messages[1].Buffers; len(b) != 1 || string(b[0].Path) != `["raw"]` || string(b[0].Data) != "\x00\x01" {
		t.Errorf("the buffers are %+v", b)
	}
	if nothing, same := commTexts(t, s, next); nothing != "" || same != next {
		t.Errorf("after the last change, got %q and %d", nothing, same)
	}

	changed := make(chan session.CommChanges, 1)
	go func() {
		c, _ := s.Comms(withTimeout(t), session.CommsQuery{After: next, WaitMS: 60_000})
		changed <- c
	}()
	runCode(t, s, `comm {"op":"update","id":"a","data":{"n":3}}
comm {"op":"close","id":"b"}`)
	if c := <-changed; c.Next <= next || len(c.Messages) > 0 {
		t.Errorf("a wait for a change returned %+v", c)
	}
	if later, _ := commTexts(t, s, next); later != `update a {"n":3}; close b` {
		t.Errorf("later changes are %s", later)
	}
	if open, _ := commTexts(t, s, 0); open != `open a {"state":{"n":0}}; update a {"child":"b","n":3}` {
		t.Errorf("a late reader gets %s", open)
	}
	testCommBounds(t, s)
}

func testCommBounds(t *testing.T, s session.Session) {
	large := strings.Repeat("x", session.MaxCommBytes)
	r := runCode(t, s, fmt.Sprintf(`comm {"op":"update","id":"a","data":{"text":%q}}
comm {"op":"update","id":"a","data":{"n":4}}
comm {"op":"open","id":"c","data":{"text":%q}}`, large, large))
	notices := 0
	for _, e := range r.Events {
		if n, ok := e.Body.(timeline.Notice); ok && strings.Contains(n.Message, "more than 1048576 bytes: notebooks") {
			notices++
		}
	}
	if left, _ := commTexts(t, s, 0); left != "" || notices != 1 {
		t.Errorf("after a state that is too large, %.100q is left, with %d notices", left, notices)
	}
	var small []string // whose memory is more than their bytes
	for i := range 9000 {
		small = append(small, fmt.Sprintf(`"k%d":0`, i))
	}
	runCode(t, s, `comm {"op":"open","id":"e","data":{}}`+"\n"+`comm {"op":"update","id":"e","data":{`+strings.Join(small, ",")+"}}")
	left, next := commTexts(t, s, 0)
	if left != "" {
		t.Errorf("after a state of many small values, %.100q is left", left)
	}
	if err := s.Reset(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	runCode(t, s, `comm {"op":"open","id":"d","data":{}}`)
	if fresh, later := commTexts(t, s, next); fresh != "open d {}" || later <= next {
		t.Errorf("after a reset, a reader gets %s", fresh)
	}
}
