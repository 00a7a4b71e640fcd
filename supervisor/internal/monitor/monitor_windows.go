package monitor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/winpipe"
)

// Name is the first argument of a monitor; the names of its two pipes follow. The monitor receives
// the command that describes the worker over the first one.
const Name = "turnstone-monitor"

// Env keeps a monitor small and quiet, and free of a user's settings for Go programs.
// worker is the worker's environment, which names the directory for coverage data if the
// program was built to measure coverage.
func Env(worker []string) []string {
	return append([]string{"GOGC=off", "GOMAXPROCS=1", "GOMEMLIMIT=24MiB", "SystemRoot=" + SystemRoot()}, coverageEnv(worker)...)
}

// SystemRoot returns the directory of Windows, or "" if it is unknown.
func SystemRoot() string {
	dir, _ := windows.GetSystemWindowsDirectory()
	return dir
}

// wakeEventName returns the name of the event that interrupts only the worker.
func wakeEventName(nonce string) string { return `Local\turnstone-interrupt-` + nonce }

// IsMonitor reports whether this process was started as a monitor.
func IsMonitor() bool { return len(os.Args) == 4 && os.Args[1] == Name }

// A monitor is the parent of one worker. It shares the worker's console, which is the only
// way to interrupt a program on Windows, and reports how the worker ended. The job ends
// everything else.
type monitor struct {
	eventEncoder       *json.Encoder
	in, out            *os.File // the console
	output             *os.File // of the worker, if it is a pipe
	modes              [2]uint32
	worker             *exec.Cmd
	wakeEvent          windows.Handle
	crashLog           *crashLog
	interruptedByEvent bool // the last interrupt was for all processes, but was sent by the event alone
	tag                string
	commands           <-chan monitorproto.MonitorCommand // closes when the supervisor is gone
	exits              chan monitorproto.Exit
}

// Run is the whole life of a monitor. The order of its steps matters, and a step that
// fails ends the start with an error that names it.
func Run() {
	s := &monitor{exits: make(chan monitorproto.Exit, 1)}

	// 1. The monitor survives a CTRL_C that is meant for the worker. It handles the event
	// instead of ignoring it, because children inherit that. It may itself have inherited it.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // never read
	procSetConsoleCtrlHandler.Call(0, 0)

	// 2. The pipes, and the go-ahead: by now this process is in its job.
	down, err := os.OpenFile(os.Args[2], os.O_RDONLY, 0)
	if err != nil {
		exit(1) // no supervisor that would read an event
	}
	up, err := os.OpenFile(os.Args[3], os.O_WRONLY, 0)
	if err != nil {
		exit(1)
	}
	s.eventEncoder = json.NewEncoder(up)
	decoder := json.NewDecoder(down)
	var first monitorproto.MonitorCommand
	if err := decoder.Decode(&first); err != nil || first.Kind != monitorproto.CommandStart || first.Worker == nil {
		exit(1)
	}
	command := first.Worker
	s.tag = command.Tag

	// 3. The console: programs write and read UTF-8, and input is not echoed.
	s.runStep("terminal", "", s.openConsole)

	// 4. The event that a worker may wait for, and the pipe that it may write to when it
	// crashes. They must exist before the worker opens them.
	s.runStep("event", "", s.createWakeEvent)
	s.runStep("crash log", "", func() (err error) {
		s.crashLog, err = newCrashLog(s.tag)
		return err
	})

	// 5. The directory: checked here, so that a failure is not mistaken for one of the program.
	dir := string(command.Dir)
	if dir != "" {
		s.runStep("chdir", dir, func() error {
			info, err := os.Stat(dir)
			if err == nil && !info.IsDir() {
				err = windows.ERROR_DIRECTORY
			}
			return err
		})
	}

	// 6. The worker. It inherits its standard handles and nothing else.
	path := string(command.Path)
	s.worker = &exec.Cmd{
		Path: path, Args: append([]string{path}, monitorproto.ToStrings(command.Args)...), Env: monitorproto.ToStrings(command.Env), Dir: dir,
		Stdin: s.in, Stdout: s.out, Stderr: s.out,
	}
	if command.ChannelOnStdio {
		s.runStep("channel", "", s.openPipes)
	}
	s.runStep("terminal", "", func() error { return s.redirectStdio(command) })
	s.runStep("exec", path, func() error { return s.startWorker(command) })
	pid := s.worker.Process.Pid

	// 7. Report the start, then serve.
	s.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventStarted, PID: pid})
	go s.awaitWorker() // ends with the worker
	s.commands = receiveCommands(decoder)
	s.serve()
}

// runStep reports that a step starts, runs it, and ends the monitor with a report if it fails.
func (m *monitor) runStep(name, path string, do func() error) {
	m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventStep, Step: name, Path: []byte(path)})
	if err := do(); err != nil {
		m.sendEvent(monitorproto.NewFailedEvent(name, path, err))
		exit(1)
	}
}

// exit skips the work that Go does at the end of a program. Only tools need that work, and they
// write to the worker's console.
func exit(code uint32) { windows.ExitProcess(code) }

// sendEvent ignores errors: if the supervisor is gone, the job ends the monitor.
func (m *monitor) sendEvent(event monitorproto.MonitorEvent) { _ = m.eventEncoder.Encode(event) }

// openConsole opens the console by name. On Windows the names mean the standard handles,
// which Wine does not give to a program in a pseudo console.
func (m *monitor) openConsole() (err error) {
	if m.in, err = os.OpenFile("CONIN$", os.O_RDWR, 0); err != nil {
		return err
	}
	if m.out, err = os.OpenFile("CONOUT$", os.O_RDWR, 0); err != nil {
		return err
	}
	for i, f := range []*os.File{m.in, m.out} {
		if err := windows.GetConsoleMode(windows.Handle(f.Fd()), &m.modes[i]); err != nil {
			return err
		}
	}
	m.modes[0] &^= windows.ENABLE_ECHO_INPUT
	return m.restoreConsole()
}

// openPipes makes the channel the standard input and output of a program that does not know
// REPL_IPC, which names both pipes.
func (m *monitor) openPipes() error {
	names := strings.Split(environ.Get(m.worker.Env, monitorproto.ChannelVariable), ",")
	if len(names) != 3 {
		return errors.New("the environment names no channel")
	}
	m.worker.Env = environ.Without(m.worker.Env, monitorproto.ChannelVariable)
	in, err := os.OpenFile(names[0], os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(names[1], os.O_WRONLY, 0)
	m.worker.Stdin, m.worker.Stdout = in, out
	return err
}

// startWorker starts the worker. It runs a batch file through cmd.exe, as Windows itself would.
func (m *monitor) startWorker(p *monitorproto.WorkerCommand) error {
	if file := m.worker.Path; isBatch(file) {
		if _, err := os.Stat(file); err != nil {
			return err
		}
		dir, err := windows.GetSystemDirectory() // not ComSpec, which may name another shell
		if err != nil {
			return err
		}
		m.worker.Path = filepath.Join(dir, "cmd.exe")
		line, err := batchLine(m.worker.Path, file, monitorproto.ToStrings(p.Args))
		if err != nil {
			return err
		}
		m.worker.SysProcAttr = &syscall.SysProcAttr{CmdLine: line}
	}
	return m.worker.Start()
}

// redirectStdio replaces the console with the command's standard input and output.
func (m *monitor) redirectStdio(p *monitorproto.WorkerCommand) (err error) {
	if p.Stdin != 0 {
		m.worker.Stdin = os.NewFile(uintptr(p.Stdin), "stdin")
	}
	if p.Output != "" {
		m.output, err = os.OpenFile(p.Output, os.O_WRONLY, 0)
		m.worker.Stdout, m.worker.Stderr = m.output, m.output
	}
	return err
}

// restoreConsole sets the console to the state in which a worker starts. Modes and code pages
// belong to the console: what a program such as chcp sets outlives it.
func (m *monitor) restoreConsole() error {
	const utf8 = 65001
	in, out := windows.Handle(m.in.Fd()), windows.Handle(m.out.Fd())
	return errors.Join(
		windows.SetConsoleCP(utf8),
		windows.SetConsoleOutputCP(utf8),
		windows.SetConsoleMode(in, m.modes[0]),
		windows.SetConsoleMode(out, m.modes[1]),
		windows.FlushConsoleInputBuffer(in))
}

func (m *monitor) createWakeEvent() error {
	name := wakeEventName(m.tag)
	owner, err := winpipe.OwnerOnlySecurity()
	if err != nil {
		return err
	}
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	m.wakeEvent, err = windows.CreateEvent(owner, 0, 0, p)
	if errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return fmt.Errorf("the event %s belongs to another process", name)
	}
	return err
}

// awaitWorker waits for the end of the worker.
func (m *monitor) awaitWorker() {
	_ = m.worker.Wait()
	state := m.worker.ProcessState
	m.exits <- monitorproto.Exit{Code: state.ExitCode(), UserCPU: state.UserTime(), SystemCPU: state.SystemTime()}
}

// serve ends the process when the supervisor is gone; the job, closed by then, ends
// everything anyway. It continues when the worker is gone: the supervisor ends it with the
// job.
func (m *monitor) serve() {
	for {
		select {
		case e := <-m.exits:
			m.crashLog.writeIfCrashed(cmp.Or(m.output, m.out), e.Code)
			m.writeMarker(monitorproto.EndMarker)
			m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventExited, Exit: &e})
		case command, ok := <-m.commands:
			if !ok {
				exit(0)
			}
			m.handleCommand(command)
		}
	}
}

func (m *monitor) handleCommand(command monitorproto.MonitorCommand) {
	if command.Kind == monitorproto.CommandSignal {
		defer m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventSignalSent})
	}
	switch {
	case command.Kind == monitorproto.CommandWriteMarker:
		m.writeMarker(command.Marker)
	case command.Kind == monitorproto.CommandRestoreConsole:
		m.crashLog.discardText()
		_ = m.restoreConsole() // a console that is gone has nothing to restore
		m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventConsoleRestored})
	case monitorproto.Signal(command.Signal) == monitorproto.Kill:
		_ = m.worker.Process.Kill()
	default:
		m.deliverInterrupt(command.To)
	}
}

// deliverInterrupt wakes the worker by its event if only the worker is meant, or if it is alone on
// the console. Otherwise all processes on the console get CTRL_C. They also get it if the worker
// does not wait for the event, and if the last interrupt was sent by the event alone. C code, or a
// child that has started since, may know only CTRL_C.
//
// The event is preferred because CTRL_C is unreliable. The system delivers CTRL_C on a new thread
// in each process, some time later. On a busy machine it arrived two turns late, in 1 of 60 runs
// with 180 interrupts each. Under Wine it hung or ended a process inside a system call, in 6 of 89
// runs.
//
// A longer pause between turns was rejected, because it prevents only the late arrival. The event
// alone was rejected: it does not reach children, or C code with a console handler. An interpreter
// behind a launcher, as in a virtual environment, is never alone on the console, so it gets CTRL_C.
func (m *monitor) deliverInterrupt(to monitorproto.Target) {
	byEvent := to == monitorproto.Worker && !m.interruptedByEvent || to == monitorproto.Group && m.isWorkerAlone()
	woken := byEvent && m.wakeWorker()
	m.interruptedByEvent = woken && to == monitorproto.Group
	if !woken {
		_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0) // to all processes on this console
	}
}

// isWorkerAlone reports whether the worker is the only other program on the console. A child,
// or the interpreter behind a launcher, counts as one more.
func (m *monitor) isWorkerAlone() bool {
	var there [3]uint32
	n, _, _ := procGetConsoleProcessList.Call(uintptr(unsafe.Pointer(&there)), uintptr(len(there)))
	return n == 2 // 0: unknown
}

// writeMarker writes a marker after all text that was written to the console so far. If there is
// an output pipe, it then writes the marker there, in the form in which the console shows it.
func (m *monitor) writeMarker(n uint64) {
	title := monitorproto.MarkerTitlePrefix(m.tag) + strconv.FormatUint(n, 10)
	if p, err := windows.UTF16PtrFromString(title); err == nil {
		procSetConsoleTitle.Call(uintptr(unsafe.Pointer(p)))
	}
	if m.output != nil {
		_, _ = m.output.WriteString("\x1b]0;" + title + "\a") // fails when the supervisor is gone
	}
}

// wakeWorker interrupts only the worker. It reports whether the worker was waiting for its
// event. If the event is still set, the worker was not, and wakeWorker resets it.
func (m *monitor) wakeWorker() bool {
	if windows.SetEvent(m.wakeEvent) != nil {
		return false
	}
	still, err := windows.WaitForSingleObject(m.wakeEvent, 0)
	return err == nil && still != windows.WAIT_OBJECT_0
}

// receiveCommands forwards commands until the pipe ends. The goroutine ends with the process.
func receiveCommands(down *json.Decoder) <-chan monitorproto.MonitorCommand {
	c := make(chan monitorproto.MonitorCommand)
	go func() {
		defer close(c)
		for {
			var command monitorproto.MonitorCommand
			if down.Decode(&command) != nil {
				return
			}
			c <- command
		}
	}()
	return c
}

// Functions that x/sys lacks.
var (
	consoleFunctions          = windows.NewLazySystemDLL("kernel32.dll")
	procGetConsoleProcessList = consoleFunctions.NewProc("GetConsoleProcessList")
	procSetConsoleTitle       = consoleFunctions.NewProc("SetConsoleTitleW")
	procSetConsoleCtrlHandler = consoleFunctions.NewProc("SetConsoleCtrlHandler")
)
