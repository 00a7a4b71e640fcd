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
)

// interruptEnv turns this program into one that types Ctrl-C at the console of the process with
// that number.
const interruptEnv = "E2E_INTERRUPT"

func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv(interruptEnv)); err == nil {
		if err := sendConsoleCtrlC(pid); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func sendConsoleCtrlC(pid int) error {
	kernel32 := windows.NewLazySystemDLL("kernel32.dll")
	_, _, _ = kernel32.NewProc("FreeConsole").Call()
	if ok, _, err := kernel32.NewProc("AttachConsole").Call(uintptr(pid)); ok == 0 {
		return fmt.Errorf("cannot come to the console of process %d: %w", pid, err)
	}
	if ok, _, err := kernel32.NewProc("SetConsoleCtrlHandler").Call(0, 1); ok == 0 { // this Ctrl-C is not for us
		return err
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0)
}

// replBinary returns the path of the built command. The machine that runs these tests may have no
// Go to build it.
func replBinary() string {
	path := os.Getenv("TURNSTONE_TEST_REPL")
	if path == "" {
		return ""
	}
	if whole, err := filepath.Abs(path); err == nil { // the path may lack its drive
		path = whole
	}
	return path
}

func newHome(t *testing.T) home {
	t.Helper()
	if replBinary() == "" {
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

// withOwnConsole runs a program at a console of its own, where Ctrl-C reaches no other process.
func withOwnConsole(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW}
	return cmd
}

// stopProgram asks a program to exit.
func stopProgram(cmd *exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	helper := exec.Command(self)
	helper.Env = append(os.Environ(), interruptEnv+"="+strconv.Itoa(cmd.Process.Pid))
	if out, err := helper.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// stopMethods are the ways in which a user or the system stops a program.
var stopMethods = map[string]func(cmd *exec.Cmd) error{"Ctrl-C": stopProgram}

// isAlive reports whether a process exists.
func isAlive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	got, err := windows.WaitForSingleObject(h, 0)
	return err != nil || got != windows.WAIT_OBJECT_0
}
