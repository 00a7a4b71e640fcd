package r_test

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/workers/r"
)

// Spec finds the R that a user would expect, or the one at a path, and reports why it was chosen.
func ExampleSpec() {
	spec := r.Spec(r.Options{Path: "/no/such/R", Width: 1200, Height: 800})
	if spec.Err != nil { // says where R was looked for
		fmt.Println("there is no such R")
	} else {
		fmt.Println(spec.Path, "was chosen:", spec.PathSource)
	}
	// Output: there is no such R
}
