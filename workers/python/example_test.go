package python_test

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/workers/python"
)

// Spec finds the interpreter that a user would expect, and reports why it was chosen.
func ExampleSpec() {
	spec := python.Spec(python.Options{})
	if spec.Err != nil {
		fmt.Println("install Python:", spec.Err)
		return
	}
	fmt.Println(spec.Name, spec.PathSource != "")

	missing := python.Spec(python.Options{Path: "/no/such/python"})
	fmt.Println(missing.Err != nil)
	// Output:
	// python true
	// true
}
