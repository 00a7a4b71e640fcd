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

// orderLimit bounds the time that writing an order takes. The pipe should have room.
const orderLimit = time.Second

// hungLimit bounds the time that the stage of a killed worker may take to end.
const hungLimit = closeLimit / 2

// staged is the backend of a worker that its stage started.
type staged struct {
	unconfined
	job     *job
	console *console
	channel *Channel
	output  *pipe // of a command with piped output
	orders  *pipe // to the stage
	reports *pipe // from it
	decoder *json.Decoder
	stage   windows.Handle // its process, to wait for
	pid     int            // of the stage
	nonce   string
	env     []string // of the worker
	worker  int      // its process id

	sending
	log      stageLog
	restored chan struct{} // answers to doRestore; holds one
	killed   atomic.Bool   // kill was called
}

// A step is a part of a start that can fail. abandon undoes the steps so far.
type step struct {
	name string
	do   func() error
}

func start(c *Command) (*Process, error) {
	s := newStaged()
	s.log = newStageLog(c.Logger)
	if err := s.begin(s.steps(c)); err != nil {
		return nil, err
	}
	s.console.reset = s.reset
	s.console.mark = func(n uint64) error { return s.order(order{Do: doMark, Mark: n}) }
	go s.channel.accept(s.job.has) // ends when the worker has connected, or with giveUp
	return newProcess(s.worker, s.nonce, true, s, s.channel, &Terminal{s.console}), nil
}

func newStaged() *staged {
	return &staged{nonce: randomName(), restored: make(chan struct{}, 1)}
}

// begin does the steps in order. If one fails, it undoes all of them.
func (s *staged) begin(steps []step) error {
	for _, step := range steps {
		if err := step.do(); err != nil {
			s.abandon()
			if _, told := errors.AsType[*StartError](err); !told {
				err = &StartError{Step: step.name, Err: err}
			}
			return err
		}
	}
	return nil
}

// steps returns the steps of a start. The stage is put into the job before it gets its
// first order, so no user's code ever runs outside the job.
func (s *staged) steps(c *Command) []step {
	deadline := time.Now().Add(c.timeout())
	size, told := consoleSize(c)
	return []step{
		{"stage", func() error {
			if !StageAvailable() {
				return errors.New("on Windows every worker needs it: call StageMain first in main")
			}
			return nil
		}},
		{"job", func() (err error) {
			s.job, err = newJob(c.Limits)
			return err
		}},
		{"channel", func() (err error) {
			s.channel, err = openChannel()
			return err
		}},
		{"environment", func() (err error) {
			address := s.channel.out.name + "," + s.channel.in.name + "," + s.nonce
			s.env, err = windowsEnvironment(slices.Concat(told, c.Env, []string{channelName + "=" + address}), systemRoot())
			return err
		}},
		{"stage", func() (err error) {
			if s.orders, err = listen(windows.PIPE_ACCESS_OUTBOUND); err == nil {
				s.reports, err = listen(windows.PIPE_ACCESS_INBOUND)
			}
			if err == nil && c.PipedOutput {
				s.output, err = listen(windows.PIPE_ACCESS_INBOUND)
			}
			return err
		}},
		{"terminal", func() error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			s.console, err = openConsole(s.nonce,
				windows.ComposeCommandLine([]string{self, stageName, s.orders.name, s.reports.name}),
				stageEnv(c.Env), size)
			if err == nil {
				s.pid = s.console.pty.Pid()
			}
			return err
		}},
		{"job", func() (err error) {
			s.stage, err = s.job.take(uint32(s.pid))
			return endedEarly(err)
		}},
		{"stage", func() error { return endedEarly(s.awaitStage(deadline)) }},
		{"stage", func() error { return s.startWorker(c, deadline) }},
	}
}

// endedEarly explains an end of the stage before it got its first order.
func endedEarly(err error) error {
	switch {
	case errors.Is(err, errStopped):
		err = errors.New("it ended before it could be told what to start; does anything run before StageMain in main?")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("it did not come in time; does anything run before StageMain in main? A slow machine needs a longer StartTimeout")
	default:
		return err
	}
	return &StartError{Step: "stage", Err: err}
}

// awaitStage waits for the stage to connect.
func (s *staged) awaitStage(deadline time.Time) error {
	for _, p := range []*pipe{s.orders, s.reports} {
		if err := p.accept(func(pid int) bool { return pid == s.pid }, deadline, s.stage); err != nil {
			return err
		}
	}
	s.decoder = json.NewDecoder(s.reports.file)
	return nil
}

// startWorker sends the plan and waits for the answer. Before it answers, the stage
// reports each step that it begins.
func (s *staged) startWorker(c *Command, deadline time.Time) error {
	s.orders.file.SetWriteDeadline(deadline)
	s.reports.file.SetReadDeadline(deadline)
	defer s.reports.file.SetReadDeadline(time.Time{})
	o := order{Do: doStart, Plan: &plan{
		Path: []byte(c.Path), Args: bytesOf(c.Args), Env: bytesOf(s.env), Dir: []byte(c.Dir), Tag: s.nonce, Piped: c.Piped,
	}}
	if err := s.redirect(c, o.Plan); err != nil {
		return &StartError{Step: "stage", Err: err}
	}
	s.log.order(o)
	err := json.NewEncoder(s.orders.file).Encode(o)
	at := report{Step: "stage"}
	for err == nil {
		var r report
		if err = s.decoder.Decode(&r); err != nil {
			break
		}
		s.log.report(r)
		switch r.What {
		case whatStep:
			at = r
		case whatStarted:
			s.worker = r.PID
			return s.readOutput(deadline)
		default:
			return r.failure()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("not done %s after the start began; a slow machine needs a longer StartTimeout", c.timeout())
	} else {
		err = fmt.Errorf("the stage ended meanwhile: %w", err)
	}
	return &StartError{Step: at.Step, Path: string(at.Path), Err: err}
}

// redirect gives the stage what is to be in the place of the terminal.
func (s *staged) redirect(c *Command, p *plan) error {
	if s.output != nil {
		p.Output = s.output.name
	}
	if c.Stdin == nil {
		return nil
	}
	var theirs windows.Handle
	err := windows.DuplicateHandle(windows.CurrentProcess(), windows.Handle(c.Stdin.Fd()), s.stage, &theirs, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return fmt.Errorf("hand over the standard input: %w", err)
	}
	p.Stdin = uint64(theirs)
	return nil
}

// readOutput has piped output read like that of the console. The stage has opened the pipe.
func (s *staged) readOutput(deadline time.Time) error {
	if s.output == nil {
		return nil
	}
	if err := s.output.accept(func(pid int) bool { return pid == s.pid }, deadline, s.stage); err != nil {
		return &StartError{Step: "stage", Err: err}
	}
	s.console.readPiped(s.nonce, s.output.file)
	return nil
}

// abandon ends and releases everything that a start has made so far.
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

// release closes the handles that only this backend uses.
func (s *staged) release() {
	for _, p := range []*pipe{s.orders, s.reports, s.output} {
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
	s.log.order(o)
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

// signal can only do what Windows can: interrupt and kill.
func (s *staged) signal(sig Signal, to Target) error {
	switch {
	case sig == Kill && to == Group:
		s.kill()
		return nil
	case to == Foreground: // a console has no groups: Group reaches all its processes
		return nil
	case sig == Interrupt, sig == Kill:
		return s.counted(func() error { return s.order(order{Do: doSignal, Signal: int(sig), To: to}) })
	}
	return fmt.Errorf("host: %s: %w", sig, errors.ErrUnsupported)
}

func (s *staged) kill() {
	s.killed.Store(true)
	s.job.terminate()
	s.reports.file.SetReadDeadline(time.Now().Add(hungLimit)) // a process in a driver may not end
}

// reset asks the stage to restore the console and waits for the answer, because the
// next turn must find it done.
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
	exited, limit := false, closeLimit
	for !exited {
		var r report
		if err := s.decoder.Decode(&r); err != nil { // the stage has ended, and its job must
			if errors.Is(err, os.ErrDeadlineExceeded) {
				limit -= hungLimit // it has not, and was told to
			}
			break
		}
		s.log.report(r)
		switch r.What {
		case whatSent:
			s.confirmed()
		case whatRestored:
			select {
			case s.restored <- struct{}{}:
			default:
			}
		case whatExited:
			exited = true
			ended(s.withAccounting(*r.Exit))
			s.console.awaitMark(endMark)
		}
	}
	lost := !s.killed.Load()
	s.job.terminate()
	if !s.job.awaitEmpty(limit) {
		remains = s.job.members()
	}
	if !exited {
		ended(s.withAccounting(Exit{Code: -1, Signal: "SIGKILL", Lost: lost}))
	}
	s.channel.giveUp()
	// All writers to the console are gone: it ends, and with it the terminal.
	if err := s.console.finish(); err != nil {
		notice(err.Error())
	}
	s.release()
	return remains
}

// withAccounting returns e with the figures of the job.
func (s *staged) withAccounting(e Exit) Exit {
	e.PeakRSS = s.job.peak()
	if s.job.limited.Load() {
		e.MemoryLimit = s.job.limits.Memory
	}
	return e
}

func (s *staged) memoryBytes() int64 { return s.job.memory(s.pid) }
func (s *staged) readers() []Reader  { return nil }
func (s *staged) seesReaders() bool  { return false }
