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
	t.Run("a process that runs is alive", func(t *testing.T) {
		t.Parallel()
		if !testexec.IsAlive(os.Getpid()) {
			t.Error("this process is not")
		}
	})
	t.Run("one that nobody has reaped has ended, whatever its name", func(t *testing.T) {
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
			t.Error("it is not alive before its end")
		}
		_ = in.Close()
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		if testexec.IsAlive(cmd.Process.Pid) {
			t.Error("it is alive, and waits to be reaped")
		}
		_ = cmd.Wait()
		if testexec.IsAlive(cmd.Process.Pid) {
			t.Error("it is alive, and was reaped")
		}
	})
}
