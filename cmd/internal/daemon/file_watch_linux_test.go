package daemon_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"golang.org/x/sys/unix"
)

// noWatchesEnv makes the test program run as a user without free inotify watches.
const noWatchesEnv = "DAEMON_TEST_WATCHLESS"

// An editor or a build tool may use up all watches of a user: 8192 on many machines.
func TestDaemon_NoInotifyWatches(t *testing.T) {
	t.Parallel()
	if os.Getenv(noWatchesEnv) == "" {
		sandboxcheck.RequireNamespaces(t)
		again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		again.Env = append(os.Environ(), noWatchesEnv+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_inotify_watches", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	if err := os.RemoveAll(filepath.Dir(r.socket)); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the socket exists again", func() bool { return daemonlock.IsServed(os.Getenv, r.socket) })
	r.runCode(r.dial(), "print still", "still\n")
}
