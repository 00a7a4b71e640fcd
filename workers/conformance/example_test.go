package conformance_test

import (
	"context"
	"fmt"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// Describe your worker with a Spec. The checks name the promises that it breaks. A dialect contains
// the code that they run, in the worker's language.
func ExampleRun() {
	spec := workers.Spec{Name: "mine", Path: "/usr/local/bin/my-worker", Args: []string{"--worker"}}
	for _, r := range conformance.Run(context.Background(), spec, &conformance.Options{}) {
		switch {
		case r.Skipped != "":
			fmt.Println("skipped:", r.Name, r.Skipped)
		case r.Err != nil:
			fmt.Println("broken:", r.Name, r.Err)
		}
	}
}
