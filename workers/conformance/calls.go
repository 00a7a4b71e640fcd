package conformance

import (
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

// hostFunction is the function of the host that the checks have code call.
const hostFunction = "conform"

// offer tells the worker of the function, once it is idle.
func (s *session) offer() error {
	if s.Call == nil || s.Print == nil {
		return skip("the dialect cannot call a function of the host")
	}
	if err := s.handshake(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Functions {
		return skip("the worker offers no calls of functions of the host")
	}
	params := ipc.Object{
		{Name: "type", Value: "object"},
		{Name: "properties", Value: ipc.Object{{Name: "text", Value: ipc.Object{{Name: "type", Value: "string"}}}}},
		{Name: "required", Value: []string{"text"}},
	}
	list, err := ipc.EncodeDocument([]ipc.Object{{{Name: "name", Value: hostFunction}, {Name: "doc", Value: "Conforms."}, {Name: "params", Value: params}}})
	if err != nil {
		return err
	}
	return s.conn.Send(ipc.Functions{Revision: 1, List: list})
}

// call starts a turn that calls the function, and returns the call.
func (s *session) call(text string) (ipc.Call, []ipc.Message, error) {
	if err := s.begin(s.Call(text)); err != nil {
		return ipc.Call{}, nil, err
	}
	var seen []ipc.Message
	for {
		m, err := s.next()
		if err != nil {
			return ipc.Call{}, nil, fmt.Errorf("waiting for call: %w", err)
		}
		seen = append(seen, m)
		switch m := m.(type) {
		case ipc.Call:
			args, err := ipc.DecodeDocument(m.Args)
			if fields, ok := args.(map[string]any); err != nil || !ok || len(fields) != 1 || fields["text"] != text || m.Turn != s.turn || m.Name != hostFunction {
				return m, seen, fmt.Errorf("got %s with %v, %v, want %s of turn %d with the text %q", describe(m), args, err, hostFunction, s.turn, text)
			}
			return m, seen, nil
		case ipc.Idle, ipc.SessionEnd:
			return ipc.Call{}, seen, fmt.Errorf("got %s, want call", describe(m))
		}
	}
}

func (s *session) result(id uint64, failed bool, value any, parts int) error {
	document, err := ipc.EncodeDocument(value)
	if err != nil {
		return err
	}
	for i := range parts {
		from, to := len(document)*i/parts, len(document)*(i+1)/parts
		err := s.conn.Send(ipc.CallResult{ID: id, Value: document[from:to], More: i < parts-1, Failed: failed})
		if err != nil {
			return err
		}
	}
	return nil
}

func callGetsItsResult(s *session) error {
	if err := s.offer(); err != nil {
		return err
	}
	last := uint64(0)
	for parts, text := range map[int]string{1: "one", 2: "naïve 🐦", 7: "many\tparts"} {
		m, seen, err := s.call(text)
		if err != nil {
			return err
		}
		if m.ID == last {
			return fmt.Errorf("call %d twice", m.ID)
		}
		last = m.ID
		want := strings.Repeat("0123456789", 2000)
		if err := s.result(m.ID+7, false, "wrong", 2); err != nil { // of no call
			return err
		}
		if err := s.result(m.ID, false, want, parts); err != nil {
			return err
		}
		r, err := s.collect(s.turn, seen...)
		if err != nil {
			return err
		}
		if r.idle.Outcome != ipc.OutcomeOK || strings.TrimSpace(r.text) != want {
			return fmt.Errorf("the result in %d parts: the turn printed %.100q and ended with %s", parts, r.text, describe(r.idle))
		}
	}
	return nil
}

func failedCallIsAnError(s *session) error {
	if err := s.offer(); err != nil {
		return err
	}
	m, seen, err := s.call("fail")
	if err != nil {
		return err
	}
	err = s.result(m.ID, true, map[string]any{"name": "QuotaError", "message": "used up today"}, 1)
	if err != nil {
		return err
	}
	r, err := s.collect(s.turn, seen...)
	if err != nil {
		return err
	}
	if r.idle.Outcome != ipc.OutcomeError || r.idle.Error == nil || !strings.Contains(r.idle.Error.Message, "used up today") {
		return fmt.Errorf("got %s, want an error with the host's words", describe(r.idle))
	}
	return s.hello()
}

func wrongResultIsAnError(s *session) error {
	if err := s.offer(); err != nil {
		return err
	}
	for _, document := range []string{"", "\xc1", "\xa9short", "\xd4\x01\x00", strings.Repeat("\x91", 129) + "\xc0"} {
		m, seen, err := s.call("wrong")
		if err != nil {
			return err
		}
		if err := s.conn.Send(ipc.CallResult{ID: m.ID, Value: []byte(document)}); err != nil {
			return err
		}
		r, err := s.collect(s.turn, seen...)
		if err != nil {
			return err
		}
		if r.idle.Outcome != ipc.OutcomeError {
			return fmt.Errorf("the document %q: got %s, want an error", document, describe(r.idle))
		}
	}
	return s.hello()
}

func interruptEndsCall(s *session) error {
	if err := s.offer(); err != nil {
		return err
	}
	for range 3 {
		m, seen, err := s.call("wait")
		if err != nil {
			return err
		}
		r, err := s.interrupt(s.turn, 1, seen...)
		if err != nil {
			return err
		}
		cancelled := false
		for _, f := range r.frames {
			c, ok := f.(ipc.CallCancel)
			cancelled = cancelled || ok && c.ID == m.ID
		}
		if !cancelled {
			return fmt.Errorf("no call_cancel says that nobody waits for call %d", m.ID)
		}
		if err := s.result(m.ID, false, "too late", 1); err != nil {
			return err
		}
		if err := s.hello(); err != nil {
			return err
		}
	}
	return nil
}
