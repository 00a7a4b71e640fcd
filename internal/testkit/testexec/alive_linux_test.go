package testexec_test

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

func TestAlive(t *testing.T) {
	t.Parallel()
	t.Run("a running process is alive", func(t *testing.T) {
		t.Parallel()
		if !testexec.IsAlive(os.Getpid()) {
			t.Error("this process is reported as ended")
		}
	})
	t.Run("a zombie has ended, whatever its name", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("/bin/sh", "-c", `printf ') R' > /proc/self/comm; read x`)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if !testexec.IsAlive(cmd.Process.Pid) {
			t.Error("reported as ended before its end")
		}
		_ = in.Close()
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		if testexec.IsAlive(cmd.Process.Pid) {
			t.Error("a zombie is reported as alive")
		}
		_ = cmd.Wait()
		if testexec.IsAlive(cmd.Process.Pid) {
			t.Error("a reaped process is reported as alive")
		}
	})
}
