//go:build unix && !linux

package e2e

import (
	"os/exec"
	"testing"
)

// readProcessInfo is what each process shows of itself: its arguments and its environment.
func readProcessInfo(t *testing.T) map[string]string {
	t.Helper()
	ps, err := exec.Command("ps", "axwwe").Output()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"ps": string(ps)}
}
