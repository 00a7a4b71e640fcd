package conformance

import (
	"errors"
	"fmt"
	"io"

	"github.com/turnstone-repl/turnstone/ipc"
)

func exitIsNoSuccess(s *workerSession) error {
	if s.Exit == "" {
		return skipError("the dialect has no code that exits")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	s.turn++
	if err := s.conn.Send(ipc.TurnStart{Turn: s.turn, Input: []byte(s.Exit + "\n"), NoExit: true}); err != nil {
		return err
	}
	r, err := s.collectTurn(s.turn)
	over := errors.Is(err, io.EOF)
	if n := len(r.frames); err != nil && n > 0 {
		_, last := r.frames[n-1].(ipc.SessionEnd)
		over = over || last
	}
	if over {
		_, err = s.waitForExit()
	}
	if err == nil && r.idle.Outcome == ipc.OutcomeOK {
		err = fmt.Errorf("%q ended with %s, want an error or the end of the worker", s.Exit, describeMessage(r.idle))
	}
	return err
}

func exitEndsTheSession(s *workerSession) error {
	if s.Exit == "" {
		return skipError("the dialect has no code that exits")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if err := s.startTurn(s.Exit); err != nil {
		return err
	}
	last, err := s.waitForExit()
	if err != nil {
		return err
	}
	if last == nil || last.Reason != ipc.EndExit || last.Code == nil || *last.Code != 3 {
		return fmt.Errorf("the last frame was %+v, want session_end with reason exit and code 3", last)
	}
	if got := s.cmd.ProcessState.ExitCode(); got != 3 {
		return fmt.Errorf("the process ended with %v, want exit status 3", s.cmd.ProcessState)
	}
	return nil
}

// checkShutdown sends a shutdown and expects the worker to end.
func (s *workerSession) checkShutdown() error {
	if err := s.conn.Send(ipc.Shutdown{GraceMS: uint64(s.timeout.Milliseconds())}); err != nil {
		return err
	}
	last, err := s.waitForExit()
	if err != nil {
		return err
	}
	if last == nil || last.Reason != ipc.EndShutdown {
		return fmt.Errorf("the last frame was %+v, want session_end with reason shutdown", last)
	}
	return nil
}

func shutdownWhileIdle(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	return s.checkShutdown()
}

func shutdownWhileRunning(s *workerSession) error {
	if s.Sleep == "" {
		return skipError("the dialect has no code that sleeps")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if err := s.startTurn(s.Sleep); err != nil {
		return err
	}
	// A worker that reads frames only when it is signalled must get the supervisor's next step,
	// too: an interrupt.
	if err := s.conn.Send(ipc.Shutdown{GraceMS: uint64(s.timeout.Milliseconds())}); err != nil {
		return err
	}
	s.sendInterrupt(s.turn, 1, true) // an error means that the shutdown frame alone has ended the worker
	// Repeat it later than usual: a worker that is already shutting down may take it for a new
	// interrupt.
	defer s.repeatInterrupt(s.turn, maxRetryDelay)()
	last, err := s.waitForExit()
	if err == nil && (last == nil || last.Reason != ipc.EndShutdown) {
		err = fmt.Errorf("the last frame was %+v, want session_end with reason shutdown", last)
	}
	return err
}

func shutdownWhileWaiting(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	if _, _, err := s.startInputTurn(); err != nil {
		return err
	}
	return s.checkShutdown()
}

func closeWhileIdle(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	return s.checkHangUp()
}

func closeWhileWaiting(s *workerSession) error {
	if err := s.ensureIdleForInput(); err != nil {
		return err
	}
	if _, _, err := s.startInputTurn(); err != nil {
		return err
	}
	return s.checkHangUp()
}

// checkHangUp closes the supervisor's writing end and expects the worker to exit.
func (s *workerSession) checkHangUp() error {
	if err := s.toWorker.Close(); err != nil {
		return err
	}
	_, err := s.waitForExit()
	return err
}

func malformedFrameEndsTheWorker(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if _, err := s.toWorker.Write([]byte("\x00\x00\x00\x07garbage")); err != nil {
		return err
	}
	last, err := s.waitForExit()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if last != nil && last.Reason != ipc.EndProtocolError {
		return fmt.Errorf("the last frame was %+v, want session_end with reason protocol_error or none", last)
	}
	return err
}
