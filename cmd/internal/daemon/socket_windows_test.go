package daemon_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
)

func TestListenPipe(t *testing.T) {
	t.Run("never shares a pipe that is served", func(t *testing.T) {
		name := newSocketName(t)
		l, err := daemon.Listen(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = daemon.Listen(name)
		if !errors.Is(err, daemon.ErrServed) || !strings.Contains(err.Error(), "by process "+strconv.Itoa(os.Getpid())) {
			t.Errorf("a second one: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		l, err = daemon.Listen(name)
		if err != nil {
			t.Fatalf("once the first is gone: %v", err)
		}
		_ = l.Close()
	})

	t.Run("explains an invalid name", func(t *testing.T) {
		if _, err := daemon.Listen(`C:\daemon.sock`); err == nil || errors.Is(err, daemon.ErrServed) || !strings.Contains(err.Error(), `\\.\pipe\NAME`) {
			t.Errorf("got %v", err)
		}
	})
}
