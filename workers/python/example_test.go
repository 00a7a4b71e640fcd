package python_test

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/workers/python"
)

// Spec finds the interpreter that a user would expect, and reports why it was chosen.
func ExampleSpec() {
	spec := python.Spec(python.Options{Path: "3.12", Dir: "/srv/project"})
	if spec.Err != nil {
		fmt.Println("there is none:", spec.Err)
		return
	}
	fmt.Println(spec.Path, "was chosen:", spec.PathSource)
}
