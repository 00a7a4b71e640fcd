//go:build linux || darwin

package r_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := workerSetup{noPackages: true}
	for _, r := range conformance.Run(t.Context(), newSpec(t, s), &conformance.Options{Dialect: conformance.RDialect(), Timeout: rawworker.Timeout}) {
		switch {
		case r.Err != nil:
			t.Errorf("%s: %v", r.Name, r.Err)
		case r.Skipped != "":
			t.Errorf("%s: skipped: %s", r.Name, r.Skipped)
		}
	}
}
