package limits

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/tests/drive"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
	"github.com/turnstone-repl/turnstone/workers/r"
)

// baseEnv names the directory of the tests.
const baseEnv = "LIMITS_BASE"

// nobody is a user without any files; root becomes this user, because no kernel limits the
// processes of root.
const nobody = 61_235

func TestMain(m *testing.M) {
	supervisor.StageMain()
	if os.Getenv(baseEnv) != "" {
		os.Exit(m.Run())
	}
	code, err := runWithoutRights()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// runWithoutRights runs the tests in a process of their own: as another user, if this one
// is root, and in a directory that is removed.
func runWithoutRights() (code int, err error) {
	base, err := os.MkdirTemp("/var/tmp", "turnstone-limits-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(base, nobody, nobody); err != nil {
			return 1, err
		}
	}
	program := filepath.Join(base, "tests") // where that user can read it
	if err := copyFile("/proc/self/exe", program); err != nil {
		return 1, err
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-test.testlogfile") })
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = base, attributes
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), baseEnv+"="+base, "HOME="+base, "TMPDIR="+base)
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return cmd.ProcessState.ExitCode(), err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// eachWay runs a test without a sandbox and with one.
func eachWay(t *testing.T, test func(t *testing.T, box *workers.Sandbox)) {
	t.Run("plain", func(t *testing.T) { t.Parallel(); test(t, nil) })
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		test(t, &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone})
	})
}

// openIn opens a session with limits, and waits until it is ready.
func openIn(t *testing.T, spec workers.Spec, box *workers.Sandbox, l workers.Limits) *drive.REPL {
	t.Helper()
	spec.Sandbox, spec.Limits, spec.Dir = box, l, t.TempDir()
	return drive.Open(t, spec)
}

func openPython(t *testing.T, box *workers.Sandbox, l workers.Limits) *drive.REPL {
	t.Helper()
	return openIn(t, python.Spec(python.Options{Path: os.Getenv("TURNSTONE_TEST_MATPLOTLIB")}), box, l)
}

func openR(t *testing.T, box *workers.Sandbox, l workers.Limits) *drive.REPL {
	t.Helper()
	spec := r.Spec(r.Options{})
	if spec.Err != nil {
		t.Skip(spec.Err)
	}
	return openIn(t, spec, box, l)
}
