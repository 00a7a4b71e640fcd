package monitorproto_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

func TestExitMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		exit monitorproto.Exit
		want string
	}{
		{monitorproto.Exit{Code: 1, MemoryLimit: 512 << 20}, "exit status 1 (after reaching its memory limit of 512 MiB)"},
		{monitorproto.Exit{Code: -1, Signal: "SIGKILL", MemoryLimit: 1 << 30}, "killed by SIGKILL (after reaching its memory limit of 1024 MiB)"},
		{monitorproto.Exit{MemoryLimit: 512 << 20}, "exit status 0"},
		{monitorproto.Exit{Code: 1}, "exit status 1"},
	} {
		if got := c.exit.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
