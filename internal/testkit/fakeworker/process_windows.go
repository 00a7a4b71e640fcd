package fakeworker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/ipc"
)

// terminalKeepsMarkers says whether what is written to the terminal arrives as it
// was written. A pseudo console of Windows draws it anew.
const terminalKeepsMarkers = false

// openChannelEnd opens an end of the channel, a named pipe.
func openChannelEnd(name string, flag int, _ bool) (*os.File, error) {
	return os.OpenFile(name, flag, 0)
}

// privateTerminal is the console; nothing private about it is needed without a
// fence.
func privateTerminal() (*os.File, error) { return os.Stdout, nil }

// signalGroup does nothing: there are no process groups to signal here.
func signalGroup() {}

func dieBy(string) error { return errors.New("there are no signals to die by") }

// leaveProcess starts this program away from the console, and leaves it alone.
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

// echoFromChild has a child process write a line to the console.
func (w *fakeWorker) echoFromChild(t *workerTurn, text string) *ipc.RuntimeError {
	return w.runChild(t, "cmd", "/c", "echo "+text)
}

// listenConsole passes on the event by which the supervisor interrupts this process alone.
// Its goroutine ends with the process.
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
