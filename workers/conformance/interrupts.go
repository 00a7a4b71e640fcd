package conformance

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/ipc"
)

func interruptEndsSleep(s *workerSession) error { return s.checkInterruptEnds(s.Sleep, 1) }

func interruptEndsLoop(s *workerSession) error { return s.checkInterruptEnds(s.Loop, 1) }

func repeatedInterruptCountsOnce(s *workerSession) error { return s.checkInterruptEnds(s.Sleep, 3) }

// checkInterruptEnds interrupts code, first as soon as it may have started, then when it has
// certainly started.
func (s *workerSession) checkInterruptEnds(code string, times int) error {
	if code == "" || s.Print == nil {
		return skipError("the dialect has no such code")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	for i := range 6 {
		if err := s.startTurn(s.Print("started"), code); err != nil {
			return err
		}
		var seen []ipc.Message
		if i%2 == 1 {
			var err error
			if seen, err = s.waitForOutput("started"); err != nil {
				return err
			}
		}
		if _, err := s.interruptTurn(s.turn, times, seen...); err != nil {
			return err
		}
		if err := s.checkAlive(); err != nil {
			return err
		}
	}
	return nil
}

func interruptEndsWait(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	for range 3 {
		w, seen, err := s.startInputTurn()
		if err != nil {
			return err
		}
		if _, err := s.interruptTurn(s.turn, 1, seen...); err != nil {
			return err
		}
		if err := s.conn.Send(ipc.TurnInput{Turn: w.Turn, Wait: w.Wait, Input: []byte("too late\n")}); err != nil {
			return err
		}
		if err := s.checkAlive(); err != nil {
			return err
		}
	}
	return nil
}

func staleInterruptDoesNothing(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	if err := s.checkAlive(); err != nil {
		return err
	}
	finished := s.turn
	w, seen, err := s.startInputTurn()
	if err != nil {
		return err
	}
	if err := s.sendInterrupt(finished, 1, true); err != nil {
		return err
	}
	for acked := false; !acked; {
		m, err := s.nextFrame()
		if err != nil {
			return fmt.Errorf("waiting for interrupt_ack: %w", err)
		}
		seen = append(seen, m)
		switch m := m.(type) {
		case ipc.InterruptAck:
			if m.Turn != finished || m.Result != ipc.InterruptStale {
				return fmt.Errorf("got %s, want stale", describeMessage(m))
			}
			acked = true
		case ipc.Idle, ipc.SessionEnd, ipc.StdinWait:
			return fmt.Errorf("after an interrupt of turn %d, turn %d sent %s", finished, w.Turn, describeMessage(m))
		}
	}
	return s.answerInput(w, seen, "still here")
}
