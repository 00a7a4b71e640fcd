//go:build unix

package mcpserver_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

// The last output of a failed start-up explains the failure best.
func TestRepl_TheLastWordsOfAStartUpAreShown(t *testing.T) {
	t.Parallel()
	talks := func(dir string) workers.Spec {
		spec := fake(nil)(dir)
		spec.Path, spec.Args = "/bin/sh", []string{"-c", "echo no module named encodings; exit 1"}
		return spec
	}
	c := greet(t, &setup{specs: map[string]func(string) workers.Spec{"fake": talks}})
	wantPart(t, c.repl("print 1"), "no module named encodings\n[session did not start: exit status 1", "]\n[your input was NOT run")
}
