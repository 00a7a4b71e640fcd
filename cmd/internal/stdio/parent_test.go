package stdio

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// startBlocked starts a process that does nothing until it is killed.
func startBlocked(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testexec.OwnPath())
	cmd.Env = append(os.Environ(), blockVariable+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// waitClosed waits until a channel is closed.
func waitClosed(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(wait.Bound):
		t.Fatal("the end was not noticed")
	}
}

func TestWatchParent(t *testing.T) {
	t.Parallel()

	t.Run("reports the end of the process, before anybody has reaped it", func(t *testing.T) {
		t.Parallel()
		p := startBlocked(t)
		ended, err := WatchParent(p.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
			t.Fatal("it is alive")
		default:
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, ended)
	})

	t.Run("watches the process that started this one", func(t *testing.T) {
		t.Parallel()
		ended, err := WatchParent(0)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
			t.Error("it is alive")
		default:
		}
	})

	t.Run("refuses a process that has ended", func(t *testing.T) {
		t.Parallel()
		p := startBlocked(t)
		_ = p.Process.Kill()
		_ = p.Wait()
		if _, err := WatchParent(p.Process.Pid); err == nil || !strings.Contains(err.Error(), "the parent has ended") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("refuses this process", func(t *testing.T) {
		t.Parallel()
		if _, err := WatchParent(os.Getpid()); err == nil {
			t.Error("a process cannot be its own parent")
		}
	})
}
