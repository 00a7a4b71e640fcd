package cmdkit

import "testing"

func TestNearestName(t *testing.T) {
	names := []string{"mcp", "doctor", "worker"}
	for name, want := range map[string]string{"docter": "doctor", "wroker": "worker", "mpc": "mcp", "frobnicate": "", "script.py": ""} {
		if got := NearestName(name, names); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
