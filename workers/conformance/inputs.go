package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/ipc"
)

func readAsks(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	var last uint64
	for _, name := range []string{"Ada", "Grace"} {
		w, seen, err := s.startInputTurn()
		if err != nil {
			return err
		}
		if w.Prompt != "name? " || w.Kind != ipc.WaitLine || w.Wait <= last {
			return fmt.Errorf("got %s after wait %d, want a request for a line with a new wait number", describeMessage(w), last)
		}
		last = w.Wait
		if err := s.answerInput(w, seen, name); err != nil {
			return err
		}
	}
	return nil
}

func staleAnswerIsDropped(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	w, seen, err := s.startInputTurn()
	if err != nil {
		return err
	}
	for _, stale := range []ipc.TurnInput{
		{Turn: w.Turn, Wait: w.Wait + 7, Input: []byte("wrong\n")},
		{Turn: w.Turn + 7, Wait: w.Wait, Input: []byte("wrong\n")},
		{Turn: 0, Wait: w.Wait, EOF: true},
	} {
		if err := s.conn.Send(stale); err != nil {
			return err
		}
	}
	if err := s.answerInput(w, seen, "right"); err != nil {
		return err
	}
	if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, Input: []byte("too late\n")}); err != nil {
		return err
	}
	if w, seen, err = s.startInputTurn(); err != nil {
		return err
	}
	return s.answerInput(w, seen, "again")
}

func endOfFileIsNotSticky(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	w, seen, err := s.startInputTurn()
	if err != nil {
		return err
	}
	if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, EOF: true}); err != nil {
		return err
	}
	if _, err := s.collectTurn(w.Turn, seen...); err != nil { // however the language handles it
		return err
	}
	if w, seen, err = s.startInputTurn(); err != nil {
		return err
	}
	return s.answerInput(w, seen, "more")
}

// ensureIdleForInput is ensureIdle for a check that asks for input.
func (s *workerSession) ensureIdleForInput() error {
	if s.Ask == nil || s.Print == nil {
		return skipError("the dialect has no code that asks for input")
	}
	return s.ensureIdle()
}

// startInputTurn starts a turn that asks for input.
func (s *workerSession) startInputTurn() (ipc.StdinWait, []ipc.Message, error) {
	if err := s.startTurn(s.Ask("name? ")); err != nil {
		return ipc.StdinWait{}, nil, err
	}
	return s.waitForInput()
}

// answerInput answers an input request and expects the turn to print the answer.
func (s *workerSession) answerInput(w ipc.StdinWait, seen []ipc.Message, line string) error {
	if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, Input: []byte(line + "\n")}); err != nil {
		return err
	}
	r, err := s.collectTurn(w.Turn, seen...)
	if err != nil {
		return err
	}
	if !strings.Contains(r.text, line) {
		return fmt.Errorf("the turn printed %q, want the answer %q in it", r.text, line)
	}
	handed := slices.ContainsFunc(r.frames, func(m ipc.Message) bool {
		l, ok := m.(ipc.InputLine)
		return ok && l.Turn == w.Turn && strings.TrimSuffix(l.Text, "\n") == line && !l.Secret
	})
	if !handed {
		return errors.New("got no input_line for the answer")
	}
	return nil
}
