//go:build unix && !linux

package e2e

import (
	"os/exec"
	"testing"
)

// readProcessInfo returns what each process shows: its arguments and its environment.
func readProcessInfo(t *testing.T) map[string]string {
	t.Helper()
	ps, err := exec.Command("ps", "axwwe").Output()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"ps": string(ps)}
}
