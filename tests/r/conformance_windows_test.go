package r_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/r"
)

func TestConformance(t *testing.T) {
	for _, c := range conformance.Run(t.Context(), newSpec(t, r.Options{}), &conformance.Options{Dialect: conformance.RDialect()}) {
		switch {
		case c.Err != nil:
			t.Errorf("%s: %v", c.Name, c.Err)
		case c.Skipped != "" && !strings.Contains(c.Skipped, "the worker does not offer sync markers"):
			t.Errorf("%s: skipped: %s", c.Name, c.Skipped)
		}
	}
}
