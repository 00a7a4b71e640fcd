package cli

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{PrivateState: true})
}
