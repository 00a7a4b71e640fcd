package monitor

import (
	"slices"
	"testing"
)

// A command built with -cover also measures its monitors. Nothing else of the worker's environment
// reaches a monitor.
func TestMonitorEnv(t *testing.T) {
	plain := Env([]string{"HOME=/root", "GODEBUG=x=1"})
	covered := Env([]string{"HOME=/root", "GOCOVERDIR=/tmp/c", "GODEBUG=x=1"})
	if want := append(slices.Clone(plain), "GOCOVERDIR=/tmp/c"); !slices.Equal(covered, want) {
		t.Errorf("got %q, want %q", covered, want)
	}
	if slices.ContainsFunc(plain, func(kv string) bool { return kv == "HOME=/root" || kv == "GODEBUG=x=1" }) {
		t.Errorf("got %q, want none of the worker's variables", plain)
	}
}
