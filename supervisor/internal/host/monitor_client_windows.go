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

// commandTimeout bounds the time that writing an order takes. The pipe should have room.
const commandTimeout = time.Second

// hungMonitorTimeout bounds the time that the stage of a killed worker may take to end.
const hungMonitorTimeout = closeTimeout / 2

// monitorClient is the backend of a worker that its stage started.
type monitorClient struct {
	noSandbox
	job        *job
	console    *console
	channel    *Channel
	output     *pipe // of a command with piped output
	commands   *pipe // to the stage
	events     *pipe // from it
	decoder    *json.Decoder
	monitor    windows.Handle // its process, to wait for
	monitorPID int            // of the stage
	nonce      string
	workerEnv  []string // of the worker
	workerPID  int      // its process id

	signalCounter
	log            monitorLog
	restoreAnswers chan struct{} // answers to commandRestoreConsole; holds one
	killCalled     atomic.Bool   // kill was called
}

// A startStep is a part of a start that can fail. abandon undoes the steps so far.
type startStep struct {
	name string
	do   func() error
}

func start(c *Command) (*Process, error) {
	s := newMonitorClient()
	s.log = newMonitorLog(c.Logger)
	if err := s.begin(s.startSteps(c)); err != nil {
		return nil, err
	}
	s.console.requestReset = s.resetConsole
	s.console.requestMarker = func(n uint64) error { return s.sendCommand(monitorCommand{Kind: commandWriteMarker, Marker: n}) }
	go s.channel.accept(s.job.hasProcess) // ends when the worker has connected, or with stopAccepting
	return newProcess(s.workerPID, s.nonce, true, s, s.channel, &Terminal{s.console}), nil
}

func newMonitorClient() *monitorClient {
	return &monitorClient{nonce: randomHex(), restoreAnswers: make(chan struct{}, 1)}
}

// begin does the steps in order. If one fails, it undoes all of them.
func (s *monitorClient) begin(steps []startStep) error {
	for _, step := range steps {
		if err := step.do(); err != nil {
			s.abandonStart()
			if _, told := errors.AsType[*StartError](err); !told {
				err = &StartError{Step: step.name, Err: err}
			}
			return err
		}
	}
	return nil
}

// startSteps returns the steps of a start. The stage is put into the job before it gets its
// first order, so no user's code ever runs outside the job.
func (s *monitorClient) startSteps(c *Command) []startStep {
	deadline := time.Now().Add(c.startTimeout())
	size, told := consoleSize(c)
	return []startStep{
		{"stage", func() error {
			if !IsMonitorAvailable() {
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
			s.workerEnv, err = windowsEnvironment(slices.Concat(told, c.Env, []string{channelVariable + "=" + address}), systemRoot())
			return err
		}},
		{"stage", func() (err error) {
			if s.commands, err = listenPipe(windows.PIPE_ACCESS_OUTBOUND); err == nil {
				s.events, err = listenPipe(windows.PIPE_ACCESS_INBOUND)
			}
			if err == nil && c.PipedOutput {
				s.output, err = listenPipe(windows.PIPE_ACCESS_INBOUND)
			}
			return err
		}},
		{"terminal", func() error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			s.console, err = openConsole(s.nonce,
				windows.ComposeCommandLine([]string{self, monitorName, s.commands.name, s.events.name}),
				monitorEnv(c.Env), size)
			if err == nil {
				s.monitorPID = s.console.pty.Pid()
			}
			return err
		}},
		{"job", func() (err error) {
			s.monitor, err = s.job.addProcess(uint32(s.monitorPID))
			return explainEarlyEnd(err)
		}},
		{"stage", func() error { return explainEarlyEnd(s.awaitMonitor(deadline)) }},
		{"stage", func() error { return s.startWorker(c, deadline) }},
	}
}

// explainEarlyEnd explains an end of the stage before it got its first order.
func explainEarlyEnd(err error) error {
	switch {
	case errors.Is(err, errAcceptStopped):
		err = errors.New("it ended before it could be told what to start; does anything run before StageMain in main?")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("it did not come in time; does anything run before StageMain in main? A slow machine needs a longer StartTimeout")
	default:
		return err
	}
	return &StartError{Step: "stage", Err: err}
}

// awaitMonitor waits for the stage to connect.
func (s *monitorClient) awaitMonitor(deadline time.Time) error {
	for _, p := range []*pipe{s.commands, s.events} {
		if err := p.accept(func(pid int) bool { return pid == s.monitorPID }, deadline, s.monitor); err != nil {
			return err
		}
	}
	s.decoder = json.NewDecoder(s.events.file)
	return nil
}

// startWorker sends the plan and waits for the answer. Before it answers, the stage
// reports each step that it begins.
func (s *monitorClient) startWorker(c *Command, deadline time.Time) error {
	s.commands.file.SetWriteDeadline(deadline)
	s.events.file.SetReadDeadline(deadline)
	defer s.events.file.SetReadDeadline(time.Time{})
	o := monitorCommand{Kind: commandStart, Plan: &workerCommand{
		Path: []byte(c.Path), Args: toByteSlices(c.Args), Env: toByteSlices(s.workerEnv), Dir: []byte(c.Dir), Tag: s.nonce, ChannelOnStdio: c.ChannelOnStdio,
	}}
	if err := s.redirectStdio(c, o.Plan); err != nil {
		return &StartError{Step: "stage", Err: err}
	}
	s.log.logCommand(o)
	err := json.NewEncoder(s.commands.file).Encode(o)
	at := monitorEvent{Step: "stage"}
	for err == nil {
		var r monitorEvent
		if err = s.decoder.Decode(&r); err != nil {
			break
		}
		s.log.logEvent(r)
		switch r.Kind {
		case eventStep:
			at = r
		case eventStarted:
			s.workerPID = r.PID
			return s.readOutput(deadline)
		default:
			return r.startError()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("not done %s after the start began; a slow machine needs a longer StartTimeout", c.startTimeout())
	} else {
		err = fmt.Errorf("the stage ended meanwhile: %w", err)
	}
	return &StartError{Step: at.Step, Path: string(at.Path), Err: err}
}

// redirectStdio gives the stage what is to be in the place of the terminal.
func (s *monitorClient) redirectStdio(c *Command, p *workerCommand) error {
	if s.output != nil {
		p.Output = s.output.name
	}
	if c.Stdin == nil {
		return nil
	}
	var theirs windows.Handle
	err := windows.DuplicateHandle(windows.CurrentProcess(), windows.Handle(c.Stdin.Fd()), s.monitor, &theirs, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return fmt.Errorf("hand over the standard input: %w", err)
	}
	p.Stdin = uint64(theirs)
	return nil
}

// readOutput has piped output read like that of the console. The stage has opened the pipe.
func (s *monitorClient) readOutput(deadline time.Time) error {
	if s.output == nil {
		return nil
	}
	if err := s.output.accept(func(pid int) bool { return pid == s.monitorPID }, deadline, s.monitor); err != nil {
		return &StartError{Step: "stage", Err: err}
	}
	s.console.readPiped(s.nonce, s.output.file)
	return nil
}

// abandonStart ends and releases everything that a start has made so far.
func (s *monitorClient) abandonStart() {
	if s.job != nil {
		s.job.terminateAll()
		s.job.awaitEmpty(closeTimeout)
	}
	if s.console != nil {
		_ = s.console.close()
	}
	if s.channel != nil {
		close(s.channel.connected) // nobody accepts
		_ = s.channel.Close()
	}
	s.releaseHandles()
}

// releaseHandles closes the handles that only this backend uses.
func (s *monitorClient) releaseHandles() {
	for _, p := range []*pipe{s.commands, s.events, s.output} {
		if p != nil {
			_ = p.close()
		}
	}
	if s.monitor != 0 {
		_ = windows.CloseHandle(s.monitor)
	}
	if s.job != nil {
		s.job.close()
	}
}

func (s *monitorClient) sendCommand(o monitorCommand) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	s.log.logCommand(o)
	s.commands.file.SetWriteDeadline(time.Now().Add(commandTimeout))
	_, err = s.commands.file.Write(append(line, '\n'))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("host: the stage does not take orders: it is stopped or stuck")
	case err != nil:
		return ErrEnded
	}
	return nil
}

// sendSignal can only do what Windows can: interrupt and kill.
func (s *monitorClient) sendSignal(sig Signal, to Target) error {
	switch {
	case sig == Kill && to == Group:
		s.killTree()
		return nil
	case to == Foreground: // a console has no groups: Group reaches all its processes
		return nil
	case sig == Interrupt, sig == Kill:
		return s.runCounted(func() error { return s.sendCommand(monitorCommand{Kind: commandSignal, Signal: int(sig), To: to}) })
	}
	return fmt.Errorf("host: %s: %w", sig, errors.ErrUnsupported)
}

func (s *monitorClient) killTree() {
	s.killCalled.Store(true)
	s.job.terminateAll()
	s.events.file.SetReadDeadline(time.Now().Add(hungMonitorTimeout)) // a process in a driver may not end
}

// resetConsole asks the stage to restore the console and waits for the answer, because the
// next turn must find it done.
func (s *monitorClient) resetConsole() error {
	select {
	case <-s.restoreAnswers: // of a question that was given up
	default:
	}
	if err := s.sendCommand(monitorCommand{Kind: commandRestoreConsole}); err != nil {
		return err
	}
	select {
	case <-s.restoreAnswers:
		return nil
	case <-time.After(time.Second):
		return errors.New("the stage did not answer within 1s")
	}
}

func (s *monitorClient) run(ended func(Exit), notice func(string)) (remains []int) {
	exited, limit := false, closeTimeout
	for !exited {
		var r monitorEvent
		if err := s.decoder.Decode(&r); err != nil { // the stage has ended, and its job must
			if errors.Is(err, os.ErrDeadlineExceeded) {
				limit -= hungMonitorTimeout // it has not, and was told to
			}
			break
		}
		s.log.logEvent(r)
		switch r.Kind {
		case eventSignalSent:
			s.confirmSent()
		case eventConsoleRestored:
			select {
			case s.restoreAnswers <- struct{}{}:
			default:
			}
		case eventExited:
			exited = true
			ended(s.withAccounting(*r.Exit))
			s.console.awaitMarker(endMarker)
		}
	}
	lost := !s.killCalled.Load()
	s.job.terminateAll()
	if !s.job.awaitEmpty(limit) {
		remains = s.job.memberPIDs()
	}
	if !exited {
		ended(s.withAccounting(Exit{Code: -1, Signal: "SIGKILL", MonitorKilled: lost}))
	}
	s.channel.stopAccepting()
	// All writers to the console are gone: it ends, and with it the terminal.
	if err := s.console.endConsole(); err != nil {
		notice(err.Error())
	}
	s.releaseHandles()
	return remains
}

// withAccounting returns e with the figures of the job.
func (s *monitorClient) withAccounting(e Exit) Exit {
	e.PeakRSS = s.job.peakMemory()
	if s.job.memoryLimitReached.Load() {
		e.MemoryLimit = s.job.limits.Memory
	}
	return e
}

func (s *monitorClient) memoryBytes() int64            { return s.job.memoryBytes(s.monitorPID) }
func (s *monitorClient) findReaders() []TerminalReader { return nil }
func (s *monitorClient) canSeeReaders() bool           { return false }
