//go:build linux || darwin

package launch_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
)

// roleEnv names the role that a re-executed test binary runs instead of the tests.
const roleEnv = "HOST_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	os.Unsetenv(roleEnv) // a grandchild must not run the same role
	if role != "direct" {
		launch.MonitorMain()
	}
	switch role {
	case "":
		testmain.Run(m, testmain.Options{})
	case "supervise", "direct":
		runSupervisorRole()
	default:
		fmt.Fprintln(os.Stderr, "no such role:", role)
		os.Exit(1)
	}
}

// runSupervisorRole starts the worker given by its arguments, and prints its pid, its output and its
// exit. A line on standard input closes the worker; end of file ends this process without closing it.
func runSupervisorRole() {
	if os.Args[1] == "delete-me" {
		os.Remove(os.Args[2])
		os.Args = os.Args[2:]
	}
	p, err := launch.Start(&launch.StartConfig{Path: os.Args[1], Args: os.Args[2:], Env: os.Environ()})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID(), p.HasMonitor())
	go io.Copy(os.Stdout, terminalReader{p})
	exitPrinted := make(chan struct{})
	go func() {
		defer close(exitPrinted)
		<-p.Exited()
		fmt.Println("ended:", p.Exit())
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err := p.Close()
		<-exitPrinted
		fmt.Println("closed:", err, p.Survivors())
	}
	syscall.Exit(0) // like a crash: nothing is flushed or waited for
}
func startProgram(t testing.TB, name string, args ...string) testWorker {
	t.Helper()
	return startCommand(t, &launch.StartConfig{Path: findProgram(t, name), Args: args})
}

func startBash(t testing.TB, script string) testWorker { return startProgram(t, "bash", "-c", script) }

// startPython runs a script; each test that uses it needs the interpreter.
func startPython(t testing.TB, script string) testWorker {
	return startProgram(t, "python3", "-c", script)
}

func findProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	if name != "python3" {
		return path
	}
	// The python3 in PATH may be a shell script that starts the interpreter.
	real, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skipf("%s does not run: %v", path, err)
	}
	return strings.TrimSpace(string(real))
}

// plainText returns text as a worker wrote it.
func plainText(s string) string { return s }
