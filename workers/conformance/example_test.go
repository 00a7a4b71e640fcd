package conformance_test

import (
	"context"
	"fmt"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/conformance"
)

// A worker of one's own is a Spec. The checks say what it does not keep; a dialect is
// what they need to say in its language.
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
