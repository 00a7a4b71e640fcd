//go:build linux || darwin

package python_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/workers/conformance"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		spec := python.Spec(python.Options{Path: s.python, CacheDir: cacheDir})
		for _, r := range conformance.Run(t.Context(), spec, &conformance.Options{Dialect: conformance.PythonDialect(), Timeout: rawworker.Timeout}) {
			switch {
			case r.Err != nil:
				t.Errorf("%s: %v", r.Name, r.Err)
			case r.Skipped != "":
				t.Logf("%s: skipped: %s", r.Name, r.Skipped)
			}
		}
	})
}
