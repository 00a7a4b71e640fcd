package conformance

import (
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

// hostFunction is the host function that the checks have code call. hostFunctionGroup is a group that
// does not exist until code looks for it; groupFunction is one of its functions.
const hostFunction, hostFunctionGroup, groupFunction = "conform", "birds", "con-form"

// offerFunction announces the host function to the idle worker.
func (s *workerSession) offerFunction() error {
	if s.Call == nil || s.Print == nil {
		return skipError("the dialect has no call of a host function")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Functions {
		return skipError("the worker does not offer calls of host functions")
	}
	return s.sendFunctions(describeFunction(hostFunction, "text", ipc.Object{{Name: "type", Value: "string"}}))
}

// describeFunction returns the description of a function with one parameter.
func describeFunction(name, parameter string, schema ipc.Object) ipc.Object {
	params := ipc.Object{
		{Name: "type", Value: "object"},
		{Name: "properties", Value: ipc.Object{{Name: parameter, Value: schema}}},
		{Name: "required", Value: []string{parameter}},
	}
	return ipc.Object{{Name: "name", Value: name}, {Name: "doc", Value: "Conforms."}, {Name: "params", Value: params}}
}

// sendFunctions sends a new list of functions to the worker.
func (s *workerSession) sendFunctions(functions ...ipc.Object) error {
	list, err := ipc.EncodeValue(functions)
	if err != nil {
		return err
	}
	s.revision++
	return s.conn.Send(ipc.Functions{Revision: s.revision, List: list})
}

// startCall starts a turn that calls the function, and returns the Call.
func (s *workerSession) startCall(text string) (ipc.Call, []ipc.Message, error) {
	if err := s.startTurn(s.Call(text)); err != nil {
		return ipc.Call{}, nil, err
	}
	return s.awaitCall(nil, hostFunction, "text", text)
}

// awaitCall waits for the Call of a function with one argument. It appends earlier frames to
// seen.
func (s *workerSession) awaitCall(seen []ipc.Message, name, parameter, argument string) (ipc.Call, []ipc.Message, error) {
	for {
		m, err := s.nextFrame()
		if err != nil {
			return ipc.Call{}, nil, fmt.Errorf("waiting for call: %w", err)
		}
		seen = append(seen, m)
		switch m := m.(type) {
		case ipc.Call:
			args, err := ipc.DecodeValue(m.Args)
			if fields, ok := args.(map[string]any); err != nil || !ok || len(fields) != 1 || fields[parameter] != argument || m.Turn != s.turn || m.Name != name {
				return m, seen, fmt.Errorf("got %s of %s with %v, %v, want %s of turn %d with the %s %q", describeMessage(m), m.Name, args, err, name, s.turn, parameter, argument)
			}
			return m, seen, nil
		case ipc.Idle, ipc.SessionEnd:
			return ipc.Call{}, seen, fmt.Errorf("got %s, want call", describeMessage(m))
		}
	}
}

func (s *workerSession) sendResult(id uint64, failed bool, value any, parts int) error {
	document, err := ipc.EncodeValue(value)
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

func callGetsItsResult(s *workerSession) error {
	if err := s.offerFunction(); err != nil {
		return err
	}
	last := uint64(0)
	for parts, text := range map[int]string{1: "one", 2: "naïve 🐦", 7: "many\tparts"} {
		m, seen, err := s.startCall(text)
		if err != nil {
			return err
		}
		if m.ID == last {
			return fmt.Errorf("got call %d twice", m.ID)
		}
		last = m.ID
		want := strings.Repeat("0123456789", 2000)
		if err := s.sendResult(m.ID+7, false, "wrong", 2); err != nil { // for an unknown call
			return err
		}
		if err := s.sendResult(m.ID, false, want, parts); err != nil {
			return err
		}
		r, err := s.collectTurn(s.turn, seen...)
		if err != nil {
			return err
		}
		if r.idle.Outcome != ipc.OutcomeOK || strings.TrimSpace(r.text) != want {
			return fmt.Errorf("with the result in %d parts, the turn printed %.100q and ended with %s", parts, r.text, describeMessage(r.idle))
		}
	}
	return nil
}

func failedCallIsAnError(s *workerSession) error {
	if err := s.offerFunction(); err != nil {
		return err
	}
	m, seen, err := s.startCall("fail")
	if err != nil {
		return err
	}
	err = s.sendResult(m.ID, true, map[string]any{"name": "QuotaError", "message": "used up today"}, 1)
	if err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn, seen...)
	if err != nil {
		return err
	}
	if r.idle.Outcome != ipc.OutcomeError || r.idle.Error == nil || !strings.Contains(r.idle.Error.Message, "used up today") {
		return fmt.Errorf("got %s, want an error with the message of the host", describeMessage(r.idle))
	}
	return s.checkAlive()
}

func wrongResultIsAnError(s *workerSession) error {
	if err := s.offerFunction(); err != nil {
		return err
	}
	for _, document := range []string{"", "\xc1", "\xa9short", "\xd4\x01\x00", strings.Repeat("\x91", 129) + "\xc0"} {
		m, seen, err := s.startCall("wrong")
		if err != nil {
			return err
		}
		if err := s.conn.Send(ipc.CallResult{ID: m.ID, Value: []byte(document)}); err != nil {
			return err
		}
		r, err := s.collectTurn(s.turn, seen...)
		if err != nil {
			return err
		}
		if r.idle.Outcome != ipc.OutcomeError {
			return fmt.Errorf("with the encoded value %q, got %s, want an error", document, describeMessage(r.idle))
		}
	}
	return s.checkAlive()
}

func interruptEndsCall(s *workerSession) error {
	if err := s.offerFunction(); err != nil {
		return err
	}
	for range 3 {
		m, seen, err := s.startCall("wait")
		if err != nil {
			return err
		}
		r, err := s.interruptTurn(s.turn, 1, seen...)
		if err != nil {
			return err
		}
		cancelled := false
		for _, f := range r.frames {
			c, ok := f.(ipc.CallCancel)
			cancelled = cancelled || ok && c.ID == m.ID
		}
		if !cancelled {
			return fmt.Errorf("got no call_cancel for call %d", m.ID)
		}
		if err := s.sendResult(m.ID, false, "too late", 1); err != nil {
			return err
		}
		if err := s.checkAlive(); err != nil {
			return err
		}
	}
	return nil
}

// offerGroup announces a group that can be opened to the idle worker.
func (s *workerSession) offerGroup() (opens ipc.Object, err error) {
	if s.Group == nil {
		return nil, skipError("the dialect has no call of a function of a group")
	}
	if err := s.ensureIdle(); err != nil {
		return nil, err
	}
	if !s.ready.Capabilities.Functions {
		return nil, skipError("the worker does not offer calls of host functions")
	}
	opens = describeFunction("_open", "group", ipc.Object{{Name: "type", Value: "string"}, {Name: "enum", Value: []string{hostFunctionGroup}}})
	return opens, s.sendFunctions(opens)
}

func groupIsOpenedAndCalled(s *workerSession) error {
	opens, err := s.offerGroup()
	if err != nil {
		return err
	}
	for i, text := range []string{"one", "naïve 🐦"} {
		if err := s.startTurn(s.Group(text)); err != nil {
			return err
		}
		var seen []ipc.Message
		if i == 0 { // afterwards the group exists
			m, before, err := s.awaitCall(nil, "_open", "group", hostFunctionGroup)
			if err != nil {
				return err
			}
			seen = before
			member := append(describeFunction(groupFunction, "text", ipc.Object{{Name: "type", Value: "string"}}), ipc.Field{Name: "group", Value: hostFunctionGroup})
			if err := s.sendFunctions(opens, member); err != nil {
				return err
			}
			if err := s.sendResult(m.ID, false, nil, 1); err != nil {
				return err
			}
		}
		m, seen, err := s.awaitCall(seen, hostFunctionGroup+"."+groupFunction, "text", text)
		if err != nil {
			return err
		}
		if err := s.sendResult(m.ID, false, "sings "+text, 1); err != nil {
			return err
		}
		r, err := s.collectTurn(s.turn, seen...)
		if err != nil {
			return err
		}
		if r.idle.Outcome != ipc.OutcomeOK || strings.TrimSpace(r.text) != "sings "+text {
			return fmt.Errorf("the turn printed %.100q and ended with %s", r.text, describeMessage(r.idle))
		}
	}
	return s.checkAlive()
}

func groupThatFailsIsAnError(s *workerSession) error {
	if _, err := s.offerGroup(); err != nil {
		return err
	}
	if err := s.startTurn(s.Group("one")); err != nil {
		return err
	}
	m, seen, err := s.awaitCall(nil, "_open", "group", hostFunctionGroup)
	if err != nil {
		return err
	}
	if err := s.sendResult(m.ID, true, map[string]any{"name": "ConnectionError", "message": "no licence found"}, 1); err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn, seen...)
	if err != nil {
		return err
	}
	if r.idle.Outcome != ipc.OutcomeError || r.idle.Error == nil || !strings.Contains(r.idle.Error.Message, "no licence found") {
		return fmt.Errorf("got %s, want an error with the message of the host", describeMessage(r.idle))
	}
	return s.checkAlive()
}
