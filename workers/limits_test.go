package workers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		limits     workers.Limits
		words, bad string
	}{
		{workers.Limits{}, "", ""},
		{workers.Limits{Memory: 8 << 30, Processes: 512, CPUs: 4, Files: 100, Turn: 30 * time.Minute}, "memory 8 GiB, 512 processes, 4 CPUs, 100 open files, turns of 30m", ""},
		{workers.Limits{Memory: 1536 << 20, Turn: time.Hour}, "memory 1536 MiB, turns of 1h", ""},
		{workers.Limits{Turn: 90 * time.Second}, "turns of 1m30s", ""},
		{workers.Limits{Turn: 10 * time.Second}, "turns of 10s", ""},
		{workers.Limits{Memory: 1 << 20}, "memory 1 MiB", "use at least 64 MiB"},
		{workers.Limits{Files: 3}, "3 open files", "use at least 64"},
		{workers.Limits{CPUs: -1}, "-1 CPUs", "negative"},
	} {
		if got := c.limits.String(); got != c.words {
			t.Errorf("got %q, want %q", got, c.words)
		}
		err := c.limits.Validate()
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%+v: got %v, want %q", c.limits, err, c.bad)
		}
	}
}
