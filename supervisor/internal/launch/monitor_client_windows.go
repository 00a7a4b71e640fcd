package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitor"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/supervisor/internal/winpipe"
	"golang.org/x/sys/windows"
)

// commandTimeout bounds the time to write a command. The pipe normally has room for it.
const commandTimeout = time.Second

// hungMonitorTimeout bounds the time that the monitor of a killed worker may take to end.
const hungMonitorTimeout = closeTimeout / 2

// monitorClient is the backend of a worker that was started by its monitor.
type monitorClient struct {
	noSandbox
	job        *proctree.Job
	console    *pty.Console
	channel    *Channel
	output     *winpipe.Pipe // of a command with piped output
	commands   *winpipe.Pipe // to the monitor
	events     *winpipe.Pipe // from the monitor
	decoder    *json.Decoder
	monitor    windows.Handle // the monitor's process, to wait for
	monitorPID int
	nonce      string
	workerEnv  []string
	workerPID  int

	signalCounter
	log            monitorproto.MonitorLog
	restoreAnswers chan struct{} // answers to CommandRestoreConsole; holds one
	killCalled     atomic.Bool   // killTree was called
}

// A startStep is a part of a start that can fail. abandonStart undoes the steps so far.
type startStep struct {
	name string
	do   func() error
}

func start(c *StartConfig) (*WorkerProcess, error) {
	s := newMonitorClient()
	s.log = monitorproto.NewMonitorLog(c.Logger)
	if err := s.runSteps(s.startSteps(c)); err != nil {
		return nil, err
	}
	s.console.RequestReset = s.resetConsole
	s.console.RequestMarker = func(n uint64) error {
		return s.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandWriteMarker, Marker: n})
	}
	go s.channel.accept(s.job.HasProcess) // ends when the worker has connected, or with stopAccepting
	return newProcess(s.workerPID, s.nonce, true, s, s.channel, pty.NewTerminal(s.console)), nil
}

func newMonitorClient() *monitorClient {
	return &monitorClient{nonce: randomHex(), restoreAnswers: make(chan struct{}, 1)}
}

// runSteps runs the steps in order. If one fails, it undoes all of them.
func (m *monitorClient) runSteps(steps []startStep) error {
	for _, step := range steps {
		if err := step.do(); err != nil {
			m.abandonStart()
			if _, ok := errors.AsType[*monitorproto.StartError](err); !ok {
				err = &monitorproto.StartError{Step: step.name, Err: err}
			}
			return err
		}
	}
	return nil
}

// startSteps returns the steps of a start. The monitor is put into the job before it gets its
// first command, so user code never runs outside the job.
func (m *monitorClient) startSteps(c *StartConfig) []startStep {
	deadline := time.Now().Add(c.startTimeout())
	size, sizeEnv := pty.ConsoleSize(c.Size, c.Interactive)
	return []startStep{
		{"monitor", func() error {
			if !IsMonitorAvailable() {
				return errors.New("on Windows every worker needs it; call MonitorMain first in main")
			}
			return nil
		}},
		{"job", func() (err error) {
			m.job, err = proctree.NewJob(c.Limits)
			return err
		}},
		{"channel", func() (err error) {
			m.channel, err = openChannel()
			return err
		}},
		{"environment", func() (err error) {
			address := m.channel.out.Name + "," + m.channel.in.Name + "," + m.nonce
			m.workerEnv, err = windowsEnvironment(slices.Concat(sizeEnv, c.Env, []string{monitorproto.ChannelVariable + "=" + address}), monitor.SystemRoot())
			return err
		}},
		{"monitor", func() (err error) {
			if m.commands, err = listenPipe(windows.PIPE_ACCESS_OUTBOUND); err == nil {
				m.events, err = listenPipe(windows.PIPE_ACCESS_INBOUND)
			}
			if err == nil && c.PipedOutput {
				m.output, err = listenPipe(windows.PIPE_ACCESS_INBOUND)
			}
			return err
		}},
		{"terminal", func() error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			m.console, err = pty.OpenConsole(m.nonce,
				windows.ComposeCommandLine([]string{self, monitor.Name, m.commands.Name, m.events.Name}),
				monitor.Env(c.Env), size)
			if err == nil {
				m.monitorPID = m.console.ProcessID()
			}
			return err
		}},
		{"job", func() (err error) {
			m.monitor, err = m.job.AddProcess(uint32(m.monitorPID))
			return explainEarlyEnd(err)
		}},
		{"monitor", func() error { return explainEarlyEnd(m.awaitMonitor(deadline)) }},
		{"monitor", func() error { return m.startWorker(c, deadline) }},
	}
}

// explainEarlyEnd explains why the monitor ended, or did not connect, before its first command.
func explainEarlyEnd(err error) error {
	switch {
	case errors.Is(err, winpipe.ErrAcceptStopped), errors.Is(err, proctree.ErrProcessEnded):
		err = errors.New("it ended before its first command; does any code run before MonitorMain in main?")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("it did not connect in time; does any code run before MonitorMain in main? A slow machine needs a longer StartTimeout")
	default:
		return err
	}
	return &monitorproto.StartError{Step: "monitor", Err: err}
}

// awaitMonitor waits for the monitor to connect.
func (m *monitorClient) awaitMonitor(deadline time.Time) error {
	for _, p := range []*winpipe.Pipe{m.commands, m.events} {
		if err := p.AwaitClient(func(pid int) bool { return pid == m.monitorPID }, deadline, m.monitor); err != nil {
			return err
		}
	}
	m.decoder = json.NewDecoder(m.events.File)
	return nil
}

// startWorker sends the description of the worker and waits for the answer. Before it answers, the monitor reports
// each step that it starts.
func (m *monitorClient) startWorker(c *StartConfig, deadline time.Time) error {
	m.commands.File.SetWriteDeadline(deadline)
	m.events.File.SetReadDeadline(deadline)
	defer m.events.File.SetReadDeadline(time.Time{})
	command := monitorproto.MonitorCommand{Kind: monitorproto.CommandStart, Worker: &monitorproto.WorkerCommand{
		Path: []byte(c.Path), Args: monitorproto.ToByteSlices(c.Args), Env: monitorproto.ToByteSlices(m.workerEnv), Dir: []byte(c.Dir), Tag: m.nonce, ChannelOnStdio: c.ChannelOnStdio,
	}}
	if err := m.redirectStdio(c, command.Worker); err != nil {
		return &monitorproto.StartError{Step: "monitor", Err: err}
	}
	m.log.LogCommand(command)
	err := json.NewEncoder(m.commands.File).Encode(command)
	at := monitorproto.MonitorEvent{Step: "monitor"}
	for err == nil {
		var event monitorproto.MonitorEvent
		if err = m.decoder.Decode(&event); err != nil {
			break
		}
		m.log.LogEvent(event)
		switch event.Kind {
		case monitorproto.EventStep:
			at = event
		case monitorproto.EventStarted:
			m.workerPID = event.PID
			return m.readOutput(deadline)
		default:
			return event.StartError()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("not done within %s; a slow machine needs a longer StartTimeout", c.startTimeout())
	} else {
		err = fmt.Errorf("the monitor ended during the start: %w", err)
	}
	return &monitorproto.StartError{Step: at.Step, Path: string(at.Path), Err: err}
}

// redirectStdio gives the monitor the standard input and output that replace the terminal.
func (m *monitorClient) redirectStdio(c *StartConfig, p *monitorproto.WorkerCommand) error {
	if m.output != nil {
		p.Output = m.output.Name
	}
	if c.Stdin == nil {
		return nil
	}
	var theirs windows.Handle
	err := windows.DuplicateHandle(windows.CurrentProcess(), windows.Handle(c.Stdin.Fd()), m.monitor, &theirs, 0, false, windows.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return fmt.Errorf("pass on the standard input: %w", err)
	}
	p.Stdin = uint64(theirs)
	return nil
}

// readOutput starts to read piped output like that of the console. The monitor has opened the pipe.
func (m *monitorClient) readOutput(deadline time.Time) error {
	if m.output == nil {
		return nil
	}
	if err := m.output.AwaitClient(func(pid int) bool { return pid == m.monitorPID }, deadline, m.monitor); err != nil {
		return &monitorproto.StartError{Step: "monitor", Err: err}
	}
	m.console.ReadPiped(m.nonce, m.output.File)
	return nil
}

// abandonStart ends and releases everything that a start has created so far.
func (m *monitorClient) abandonStart() {
	if m.job != nil {
		m.job.TerminateAll()
		m.job.AwaitEmpty(closeTimeout)
	}
	if m.console != nil {
		_ = m.console.Close()
	}
	if m.channel != nil {
		close(m.channel.connected) // accept was not started
		_ = m.channel.Close()
	}
	m.releaseHandles()
}

// releaseHandles closes the handles that only this backend uses.
func (m *monitorClient) releaseHandles() {
	for _, p := range []*winpipe.Pipe{m.commands, m.events, m.output} {
		if p != nil {
			_ = p.Close()
		}
	}
	if m.monitor != 0 {
		_ = windows.CloseHandle(m.monitor)
	}
	if m.job != nil {
		m.job.Close()
	}
}

func (m *monitorClient) sendCommand(command monitorproto.MonitorCommand) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	m.log.LogCommand(command)
	m.commands.File.SetWriteDeadline(time.Now().Add(commandTimeout))
	_, err = m.commands.File.Write(append(line, '\n'))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("launch: the monitor accepts no commands: it is stopped or stuck")
	case err != nil:
		return monitorproto.ErrEnded
	}
	return nil
}

// sendSignal supports only what Windows does: interrupt and kill.
func (m *monitorClient) sendSignal(sig monitorproto.Signal, to monitorproto.Target) error {
	switch {
	case sig == monitorproto.Kill && to == monitorproto.Group:
		m.killTree()
		return nil
	case to == monitorproto.Foreground: // a console has no groups: Group reaches all its processes
		return nil
	case sig == monitorproto.Interrupt, sig == monitorproto.Kill:
		return m.runCounted(func() error {
			return m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandSignal, Signal: int(sig), To: to})
		})
	}
	return fmt.Errorf("launch: %s: %w", sig, errors.ErrUnsupported)
}

func (m *monitorClient) killTree() {
	m.killCalled.Store(true)
	m.job.TerminateAll()
	m.events.File.SetReadDeadline(time.Now().Add(hungMonitorTimeout)) // a process that is inside a driver may not end
}

// resetConsole asks the monitor to restore the console and waits for the answer, because the
// next turn must find it done.
func (m *monitorClient) resetConsole() error {
	select {
	case <-m.restoreAnswers: // of a request that timed out
	default:
	}
	if err := m.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandRestoreConsole}); err != nil {
		return err
	}
	select {
	case <-m.restoreAnswers:
		return nil
	case <-time.After(time.Second):
		return errors.New("the monitor did not answer within 1s")
	}
}

func (m *monitorClient) run(ended func(monitorproto.Exit), notice func(string)) (remains []int) {
	exited, limit := false, closeTimeout
	for !exited {
		var event monitorproto.MonitorEvent
		if err := m.decoder.Decode(&event); err != nil { // the monitor has ended, and its job must
			if errors.Is(err, os.ErrDeadlineExceeded) {
				limit -= hungMonitorTimeout // it has not ended, although it was killed
			}
			break
		}
		m.log.LogEvent(event)
		switch event.Kind {
		case monitorproto.EventSignalSent:
			m.confirmSent()
		case monitorproto.EventConsoleRestored:
			select {
			case m.restoreAnswers <- struct{}{}:
			default:
			}
		case monitorproto.EventExited:
			exited = true
			ended(m.withAccounting(*event.Exit))
			m.console.AwaitMarker(monitorproto.EndMarker)
		}
	}
	monitorKilled := !m.killCalled.Load()
	m.job.TerminateAll()
	if !m.job.AwaitEmpty(limit) {
		remains = m.job.MemberPIDs()
	}
	if !exited {
		ended(m.withAccounting(monitorproto.Exit{Code: -1, Signal: "SIGKILL", MonitorKilled: monitorKilled}))
	}
	m.channel.stopAccepting()
	// All writers to the console are gone, so it ends, and the terminal with it.
	if err := m.console.EndConsole(); err != nil {
		notice(err.Error())
	}
	m.releaseHandles()
	return remains
}

// withAccounting returns e with the job's memory figures.
func (m *monitorClient) withAccounting(e monitorproto.Exit) monitorproto.Exit {
	e.PeakRSS = m.job.PeakMemory()
	if limit := m.job.ReachedMemoryLimit(); limit > 0 {
		e.MemoryLimit = limit
	}
	return e
}

func (m *monitorClient) memoryBytes() int64                { return m.job.MemoryBytes(m.monitorPID) }
func (m *monitorClient) findReaders() []pty.TerminalReader { return nil }
func (m *monitorClient) refreshReader(r pty.TerminalReader) (pty.TerminalReader, pty.PollState) {
	return r, pty.PollEnded
}
func (m *monitorClient) canSeeReaders() bool { return false }
