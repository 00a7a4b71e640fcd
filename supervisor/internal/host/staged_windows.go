package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/windows"
)

// orderLimit bounds the writing of an order, for which a pipe always has room.
const orderLimit = time.Second

// staged carries a worker through its stage, in its job.
type staged struct {
	job     *job
	console *console
	channel *Channel
	orders  *pipe // to the stage
	reports *pipe // from it
	decoder *json.Decoder
	stage   windows.Handle // its process, to wait for
	pid     int            // of the stage

	restored chan struct{} // answers to doRestore; holds one
	killed   atomic.Bool   // by us
}

// start goes through its steps in order, and undoes all of them when one fails.
// The stage does nothing before it is told to, and that is after it was put into
// the job: so nothing that a user wrote ever runs outside of it.
func start(c *Command) (_ *Process, err error) {
	s := &staged{restored: make(chan struct{}, 1)}
	step, path := "stage", ""
	defer func() {
		if err != nil {
			s.abandon()
			if _, told := errors.AsType[*StartError](err); !told {
				err = &StartError{Step: step, Path: path, Err: err}
			}
		}
	}()
	if !StageAvailable() {
		return nil, errors.New("on Windows every worker needs it: call StageMain first in main")
	}
	nonce := randomName()
	deadline := time.Now().Add(startLimit)

	step = "job"
	if s.job, err = newJob(); err != nil {
		return nil, err
	}
	step = "channel"
	if s.channel, err = openChannel(); err != nil {
		return nil, err
	}
	step = "stage"
	if s.orders, err = listen(windows.PIPE_ACCESS_OUTBOUND); err != nil {
		return nil, err
	}
	if s.reports, err = listen(windows.PIPE_ACCESS_INBOUND); err != nil {
		return nil, err
	}
	env, err := windowsEnvironment(slices.Concat(c.Env, []string{channelName + "=" + s.channel.out.name + "," + s.channel.in.name + "," + nonce}), systemRoot())
	if err != nil {
		return nil, &StartError{Step: "environment", Err: err}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	step = "terminal"
	if s.console, err = openConsole(nonce,
		windows.ComposeCommandLine([]string{self, stageName, s.orders.name, s.reports.name}),
		stageEnv(), c.Size.orDefault()); err != nil {
		return nil, err
	}
	s.pid = s.console.pty.Pid()
	step = "job"
	if s.stage, err = s.job.take(uint32(s.pid)); err != nil {
		return nil, err
	}
	step = "stage"
	if err := s.meet(deadline); err != nil {
		return nil, err
	}
	pid, err := s.startWorker(&plan{
		Path: []byte(c.Path), Args: bytesOf(c.Args), Env: bytesOf(env), Dir: []byte(c.Dir), Tag: nonce,
	}, deadline)
	if err != nil {
		return nil, err
	}
	s.console.reset = s.reset
	s.console.mark = func(n uint64) error { return s.order(order{Do: doMark, Mark: n}) }
	go s.channel.accept(s.job.has) // ends when the worker has connected, or with giveUp
	return newProcess(pid, nonce, true, s, s.channel, &Terminal{s.console}), nil
}

// meet waits for the stage to connect.
func (s *staged) meet(deadline time.Time) error {
	for _, p := range []*pipe{s.orders, s.reports} {
		err := p.accept(func(pid int) bool { return pid == s.pid }, deadline, s.stage)
		switch {
		case errors.Is(err, errStopped):
			return errors.New("it ended before it could be told what to start; does anything run before StageMain in main?")
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("it did not come within %s; does anything run before StageMain in main?", startLimit)
		case err != nil:
			return err
		}
	}
	s.decoder = json.NewDecoder(s.reports.file)
	return nil
}

// startWorker gives the stage the go-ahead and waits for its answer.
func (s *staged) startWorker(p *plan, deadline time.Time) (pid int, err error) {
	s.orders.file.SetWriteDeadline(deadline)
	s.reports.file.SetReadDeadline(deadline)
	defer s.reports.file.SetReadDeadline(time.Time{})
	var r report
	if err = json.NewEncoder(s.orders.file).Encode(order{Do: doStart, Plan: p}); err == nil {
		err = s.decoder.Decode(&r)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, fmt.Errorf("it did not start the worker within %s", startLimit)
	case err != nil:
		return 0, fmt.Errorf("it ended before it started the worker: %w", err)
	case r.What == whatStarted:
		return r.PID, nil
	}
	return 0, r.failure()
}

// abandon ends and releases what a start has made so far.
func (s *staged) abandon() {
	if s.job != nil {
		s.job.terminate()
		s.job.awaitEmpty(closeLimit)
	}
	if s.console != nil {
		_ = s.console.close()
	}
	if s.channel != nil {
		close(s.channel.opened) // nobody accepts
		_ = s.channel.Close()
	}
	s.release()
}

// release closes what belongs to the carrier alone.
func (s *staged) release() {
	for _, p := range []*pipe{s.orders, s.reports} {
		if p != nil {
			_ = p.close()
		}
	}
	if s.stage != 0 {
		_ = windows.CloseHandle(s.stage)
	}
	if s.job != nil {
		s.job.close()
	}
}

func (s *staged) order(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	s.orders.file.SetWriteDeadline(time.Now().Add(orderLimit))
	_, err = s.orders.file.Write(append(line, '\n'))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("host: the stage does not take orders: it is stopped or stuck")
	case err != nil:
		return ErrEnded
	}
	return nil
}

// signal knows what Windows has: an interrupt and an end.
func (s *staged) signal(sig Signal, to Target) error {
	switch {
	case sig == Kill && to == Group:
		s.kill()
		return nil
	case to == Foreground: // a console has no groups: Group reaches everybody on it
		return nil
	case sig == Interrupt, sig == Kill:
		return s.order(order{Do: doSignal, Signal: int(sig), To: to})
	}
	return fmt.Errorf("host: %s: %w", sig, errors.ErrUnsupported)
}

func (s *staged) kill() {
	s.killed.Store(true)
	s.job.terminate()
}

// reset asks for the console's modes and waits for the answer: what runs next
// must find it done.
func (s *staged) reset() error {
	select {
	case <-s.restored: // of a question that was given up
	default:
	}
	if err := s.order(order{Do: doRestore}); err != nil {
		return err
	}
	select {
	case <-s.restored:
		return nil
	case <-time.After(time.Second):
		return errors.New("the stage did not answer within 1s")
	}
}

func (s *staged) run(ended func(Exit), notice func(string)) (remains []int) {
	exited := false
	for !exited {
		var r report
		if err := s.decoder.Decode(&r); err != nil {
			break // the stage has ended, and its job must
		}
		switch r.What {
		case whatRestored:
			select {
			case s.restored <- struct{}{}:
			default:
			}
		case whatExited:
			exited = true
			r.Exit.PeakRSS = s.job.peak()
			ended(*r.Exit)
			s.console.reach(endMark)
		}
	}
	lost := !s.killed.Load()
	s.job.terminate()
	if !s.job.awaitEmpty(closeLimit) {
		remains = s.job.members()
	}
	if !exited {
		ended(Exit{Code: -1, Signal: "SIGKILL", Lost: lost, PeakRSS: s.job.peak()})
	}
	s.channel.giveUp()
	// Whoever wrote to the console is gone: it ends, and with it the terminal.
	if err := s.console.finish(); err != nil {
		notice(err.Error())
	}
	s.release()
	return remains
}

func (s *staged) memoryBytes() int64 { return s.job.memory(s.pid) }
func (s *staged) readers() []Reader  { return nil }
func (s *staged) seesReaders() bool  { return false }
