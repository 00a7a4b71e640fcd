package workdir

import (
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestWindowsNames(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, path := range []string{"a:b", "CON", "sub/NUL", "COM1", "x.", `..\x`, `C:\x`, `\\host\share\x`} {
		if err := c.put(session.FilePiece{Path: path}, "x", 9); err == nil {
			t.Errorf("put %q succeeded", path)
		}
	}
}
