package escapes

import (
	"context"
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
	"github.com/turnstone-repl/turnstone/workers"
)

// baseEnv names the directory in which the tests make their machine. It is not among
// temporary files, of which a session has its own.
const baseEnv = "ESCAPES_BASE"

// tryEnv makes this program try a sandbox in the directory that it names.
const tryEnv = "ESCAPES_TRY"

func try() int {
	dir, err := os.MkdirTemp("", "try-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		var sup *supervisor.Supervisor
		if sup, err = supervisor.New(&supervisor.Options{Dir: filepath.Join(dir, "sessions")}); err == nil {
			var told []string
			told, err = sup.TrySandbox(context.Background(), &workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone}, os.Getenv(tryEnv))
			if err == nil {
				fmt.Println("started:", strings.Join(told, "; "))
			}
		}
	}
	if err != nil {
		fmt.Println("refused:", err)
	}
	return 0
}

// nobody is a user without any files; root becomes this user for the test.
const nobody = 61_234

func TestMain(m *testing.M) {
	supervisor.StageMain()
	if os.Getenv(tryEnv) != "" {
		os.Exit(try())
	}
	if os.Getenv(baseEnv) != "" {
		os.Exit(m.Run())
	}
	code, err := runWithoutRights()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// runWithoutRights runs the tests in a process of their own: as another user, if this
// one is root, and in a directory that is removed.
func runWithoutRights() (code int, err error) {
	parent, err := os.UserHomeDir()
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		parent, attributes.Credential = "/var", &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if err != nil && os.Getuid() != 0 {
		return 1, err
	}
	base, err := os.MkdirTemp(parent, "turnstone-escapes-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	if os.Getuid() == 0 {
		if err := os.Chown(base, nobody, nobody); err != nil {
			return 1, err
		}
	}
	program := filepath.Join(base, "tests") // where that user can read it
	if err := copyFile("/proc/self/exe", program); err != nil {
		return 1, err
	}
	// This flag makes Go log the files that a test reads, for its test cache. The cache cannot
	// know a kernel.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-test.testlogfile") })
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = base, attributes
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), baseEnv+"="+base, "HOME="+filepath.Join(base, "nothing"))
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
