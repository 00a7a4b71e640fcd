//go:build unix

package e2e

import (
	"os"
	"testing"
)

// repl events NAME --follow | head -1 must end, even if no next event comes for long.
func TestDaemon_EventsEndWithWhoeverReadsThem(t *testing.T) {
	t.Parallel()
	h := daemonHome(t)
	h.serve(t)
	want(t, h.run(t, "", "exec", "main", "-e", "x = 6"), result{"", newSession("main"), 0})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.command(t, "events", "main", "--follow")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	readUntil(t, r, "x = 6")
	_ = r.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
