//go:build unix

package chartlib_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/session"
)

func TestScriptReader_Special(t *testing.T) {
	t.Parallel()
	r := chartlib.NewScriptReader()

	t.Run("does not wait for the writer of a pipe", func(t *testing.T) {
		t.Parallel()
		pipe := filepath.Join(t.TempDir(), "plotly.min.js")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, r, pipe, session.KindNoFile)
	})

	t.Run("releases nothing through a link to a secret", func(t *testing.T) {
		t.Parallel()
		link := filepath.Join(t.TempDir(), "plotly.min.js")
		if err := os.Symlink(writeFile(t, []byte("a secret")), link); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, r, link, session.KindNoAccess)
	})

	t.Run("releases nothing of a device", func(t *testing.T) {
		t.Parallel()
		wantRefusal(t, r, "/dev/zero", session.KindNoFile)
	})
}
