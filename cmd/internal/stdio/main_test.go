package stdio

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// blockVariable makes this binary a process that a test can watch.
const blockVariable = "STDIO_TEST_BLOCK"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Programs: []testmain.Program{{Variable: blockVariable, Main: func(string) int {
		testexec.BlockForever()
		return 0
	}}}})
}
