package host_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
)

func TestExitMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		exit host.Exit
		want string
	}{
		{host.Exit{Code: 1, MemoryLimit: 512 << 20}, "exit status 1 (after reaching its memory limit of 512 MiB)"},
		{host.Exit{Code: -1, Signal: "SIGKILL", MemoryLimit: 1 << 30}, "killed by SIGKILL (after reaching its memory limit of 1024 MiB)"},
		{host.Exit{MemoryLimit: 512 << 20}, "exit status 0"},
		{host.Exit{Code: 1}, "exit status 1"},
	} {
		if got := c.exit.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
