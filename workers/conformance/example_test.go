package conformance_test

import (
	"context"
	"fmt"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// A worker of your own is a Spec. The checks name the promises that it breaks. A dialect has
// the code that they need in its language.
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
