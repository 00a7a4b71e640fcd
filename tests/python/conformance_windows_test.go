package python_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestConformance(t *testing.T) {
	results := conformance.Run(t.Context(), python.Spec(python.Options{}), &conformance.Options{Dialect: conformance.PythonDialect()})
	skipped := 0
	for _, r := range results {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Name, r.Err)
		}
		if r.Skipped != "" {
			skipped++
		}
	}
	if skipped != 3 || len(results) < 20 {
		t.Errorf("got %d of %d checks skipped, want the three that need markers", skipped, len(results))
	}
}
