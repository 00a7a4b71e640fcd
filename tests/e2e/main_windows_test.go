package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// interruptEnv makes this program type Ctrl-C at the console of the process with that number.
const interruptEnv = "E2E_INTERRUPT"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Programs: []testmain.Program{{Variable: interruptEnv, Main: runInterrupt}}, Serial: true})
}

func runInterrupt(process string) (status int) {
	pid, err := strconv.Atoi(process)
	if err == nil {
		err = sendConsoleCtrlC(pid)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func sendConsoleCtrlC(pid int) error {
	kernel32 := windows.NewLazySystemDLL("kernel32.dll")
	_, _, _ = kernel32.NewProc("FreeConsole").Call()
	if ok, _, err := kernel32.NewProc("AttachConsole").Call(uintptr(pid)); ok == 0 {
		return fmt.Errorf("cannot attach to the console of process %d: %w", pid, err)
	}
	if ok, _, err := kernel32.NewProc("SetConsoleCtrlHandler").Call(0, 1); ok == 0 { // this Ctrl-C is not for us
		return err
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0)
}

func newHome(t *testing.T) home {
	t.Helper()
	if replbin.Path() == "" {
		t.Skip("TURNSTONE_TEST_REPL does not name a repl.exe")
	}
	h := home{dir: t.TempDir(), tmp: t.TempDir()}
	h.env = append(os.Environ(), "TMP="+h.tmp, "TEMP="+h.tmp, "VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONSTARTUP=", "PYTHONPATH=")
	return h
}

// exitStatusOf returns a shell's $?.
func exitStatusOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	return cmd.ProcessState.ExitCode()
}

// newSocketName returns a pipe for one daemon.
func newSocketName(t *testing.T) string {
	t.Helper()
	return `\\.\pipe\turnstone-` + strings.ReplaceAll(t.Name(), "/", "-") + strconv.Itoa(os.Getpid())
}

// noSocketMessage is the system's error for a missing pipe.
var noSocketMessage = windows.ERROR_FILE_NOT_FOUND.Error()

// invalidSocket returns a socket that no daemon can create, and invalidSocketReason is a part of
// the error.
func (h home) invalidSocket() string { return filepath.Join(h.tmp, "socket") }

const invalidSocketReason = "on Windows the daemon uses a named pipe"

// withOwnConsole runs a program at a separate console, where Ctrl-C reaches no other process.
func withOwnConsole(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
	return cmd
}

// stopProgram asks a program to exit.
func stopProgram(cmd *exec.Cmd) error {
	helper := exec.Command(testexec.OwnPath())
	helper.Env = append(os.Environ(), interruptEnv+"="+strconv.Itoa(cmd.Process.Pid))
	if out, err := helper.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// stopMethods are the ways in which a user or the system stops a program.
var stopMethods = map[string]func(cmd *exec.Cmd) error{"Ctrl-C": stopProgram}

// hasPackages says that packages for Python can be installed: in Wine they cannot.
const hasPackages = false
