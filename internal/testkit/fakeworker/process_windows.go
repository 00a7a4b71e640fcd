package fakeworker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/ipc"
)

// terminalKeepsMarkers says whether the terminal passes on bytes unchanged. A pseudo console of
// Windows redraws them.
const terminalKeepsMarkers = false

// openChannelEnd opens an end of the channel, a named pipe.
func openChannelEnd(name string, flag int, _ bool) (*os.File, error) {
	return os.OpenFile(name, flag, 0)
}

// privateTerminal returns the console itself: without markers it need not be private.
func privateTerminal() (*os.File, error) { return os.Stdout, nil }

// signalGroup does nothing: Windows has no process groups to signal.
func signalGroup() {}

func dieBy(string) error { return errors.New("no signals on Windows") }

// leaveProcess starts this program detached from the console.
func leaveProcess() (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+lingerArgument)
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, cmd.Process.Release()
}

// diedOfInterrupt reports whether an interrupt ended a process.
func diedOfInterrupt(state *os.ProcessState) bool {
	const controlCExit = 0xC000013A // STATUS_CONTROL_C_EXIT
	return uint32(state.ExitCode()) == controlCExit
}

// echoFromChild lets a child process write a line to the console.
func (w *fakeWorker) echoFromChild(t *workerTurn, text string) *ipc.RuntimeError {
	return w.runChild(t, "cmd", "/c", "echo "+text)
}

// listenConsole forwards the event by which the supervisor interrupts only this process. Its
// goroutine ends with the process.
func listenConsole(nonce string, signals chan<- os.Signal) {
	name, err := windows.UTF16PtrFromString(`Local\turnstone-interrupt-` + nonce)
	if err != nil {
		return
	}
	event, err := windows.OpenEvent(windows.SYNCHRONIZE, false, name)
	if err != nil {
		return
	}
	go func() {
		for {
			if got, err := windows.WaitForSingleObject(event, windows.INFINITE); err != nil || got != windows.WAIT_OBJECT_0 {
				return
			}
			signals <- os.Interrupt
		}
	}()
}
