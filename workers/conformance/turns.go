package conformance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

func readyComesFirst(s *workerSession) error {
	if err := s.startWorker(); err != nil {
		return err
	}
	m, err := s.nextFrame()
	if err != nil {
		return fmt.Errorf("waiting for the first frame: %w", err)
	}
	ready, ok := m.(ipc.WorkerReady)
	if !ok {
		return fmt.Errorf("the first frame is %s, want worker_ready", describeMessage(m))
	}
	if p := ready.Protocol; p.Name != ipc.ProtocolName || p.Version != ipc.ProtocolVersion {
		return fmt.Errorf("the protocol is %s %d, want %s %d", p.Name, p.Version, ipc.ProtocolName, ipc.ProtocolVersion)
	}
	if ready.Worker.Name == "" {
		return errors.New("the worker has no name")
	}
	return nil
}

func becomesIdle(s *workerSession) error { return s.ensureIdle() }

func turnEndsWithItsIdle(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	for range 3 {
		if _, err := s.runTurn(""); err != nil {
			return err
		}
	}
	s.turn += 5 // numbers increase, but need not be consecutive
	_, err := s.runTurn("")
	return err
}

func outputComesBeforeIdle(s *workerSession) error {
	if s.Print == nil {
		return skipError("the dialect has no code that prints")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	for range 5 {
		r, err := s.runTurn(s.Print("hello"))
		if err != nil {
			return err
		}
		if r.text != "hello\n" {
			return fmt.Errorf("the turn printed %q, want %q", r.text, "hello\n")
		}
	}
	return nil
}

func notebookCellRuns(s *workerSession) error {
	if s.Print == nil {
		return skipError("the dialect has no code that prints")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	s.turn++
	if err := s.conn.Send(ipc.TurnStart{Turn: s.turn, Input: []byte(s.Print("hello") + "\n"), Dialect: ipc.DialectNotebook}); err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn)
	if err == nil && (r.text != "hello\n" || r.idle.Outcome != ipc.OutcomeOK) {
		err = fmt.Errorf("the turn printed %q and ended with %s, want %q", r.text, describeMessage(r.idle), "hello\n")
	}
	return err
}

func outputKeepsItsOrder(s *workerSession) error {
	if s.Print == nil || s.Shell == nil {
		return skipError("the dialect has no code that prints and runs a child")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Fence {
		return skipError("the worker does not offer sync markers")
	}
	large := strings.Repeat("x", 20<<10) // a worker may send this much in frames
	for range 5 {
		r, err := s.runTurn(s.Print("one"), s.Shell("echo two"), s.Print(large), s.Shell("echo four"), s.Print("five"))
		if err != nil {
			return err
		}
		if want := "one\ntwo\n" + large + "\nfour\nfive\n"; r.text != want {
			return fmt.Errorf("the turn printed %.200q (%d bytes), want one, two, 20 KiB of x, four, five", r.text, len(r.text))
		}
	}
	return nil
}

func errorEndsTheTurn(s *workerSession) error {
	if s.Error == "" || s.Print == nil {
		return skipError("the dialect has no code with an error")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if err := s.startTurn(s.Error); err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn)
	if err != nil {
		return err
	}
	if r.idle.Outcome != ipc.OutcomeError || r.idle.Error == nil || r.idle.Error.Name == "" {
		return fmt.Errorf("got %s, want the outcome error with the name of the error", describeMessage(r.idle))
	}
	return s.checkAlive()
}

// checkAlive checks that the worker still works.
func (s *workerSession) checkAlive() error {
	r, err := s.runTurn(s.Print("hello"))
	if err == nil && r.text != "hello\n" {
		err = fmt.Errorf("the next turn printed %q, want %q", r.text, "hello\n")
	}
	return err
}

func unknownFieldsAreIgnored(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	s.turn++
	b, err := ipc.AppendFrame(nil, ipc.TurnStart{Turn: s.turn, Input: []byte("\n")})
	if err != nil {
		return err
	}
	b[4] += 2                                                    // two more fields in the map
	b = append(b, "\xa6grease\x93\x01\xc0\x81\xa1k\xc4\x01v"...) // [1, nil, {"k": bin}]
	b = append(b, "\xa7grease2\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := s.toWorker.Write(b); err != nil {
		return err
	}
	_, err = s.collectTurn(s.turn)
	return err
}
