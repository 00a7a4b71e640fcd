package chartlib_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/session"
)

func TestScriptReader_Proc(t *testing.T) {
	t.Parallel()

	t.Run("releases nothing of its own memory", func(t *testing.T) {
		t.Parallel()
		r := chartlib.NewScriptReader()
		wantRefusal(t, r, "/proc/self/mem", session.KindNoFile)
		wantRefusal(t, r, "/proc/self/environ", session.KindNoAccess)
	})
}
