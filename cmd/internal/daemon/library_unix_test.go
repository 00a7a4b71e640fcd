//go:build unix

package daemon_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/session"
)

// A path comes from the code of a session, so it may lead to any file that the daemon can read.
func TestLibrary(t *testing.T) {
	t.Parallel()

	t.Run("releases nothing of a file that is not published", func(t *testing.T) {
		t.Parallel()
		r := startDaemon(t, nil)
		c := r.dial()
		secret := filepath.Join(t.TempDir(), "plotly.min.js")
		if err := os.WriteFile(secret, []byte("a secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		for path, kind := range map[string]session.Kind{secret: session.KindNoAccess, t.TempDir(): session.KindNoFile, "x.js": session.KindInvalid} {
			for _, script := range []bool{false, true} {
				got, err := c.ReadLibrary(t.Context(), protocol.LibraryParams{Path: path, Script: script})
				if session.KindOf(err) != kind || got.Digest != "" || got.Script != nil {
					t.Errorf("%s: got %+v, %v, want an error of kind %s", path, got, err, kind)
				}
			}
		}
	})

	t.Run("returns a published build in parts", func(t *testing.T) {
		t.Parallel()
		script := interpreters.PlotlyScript(t)
		want, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		c := startDaemon(t, nil).dial()
		if named, err := c.ReadLibrary(t.Context(), protocol.LibraryParams{Path: script}); err != nil || named.Name != "plotly" || named.Script != nil {
			t.Errorf("got %+v, %v", named, err)
		}
		var all []byte
		for {
			part, err := c.ReadLibrary(t.Context(), protocol.LibraryParams{Path: script, Script: true, Offset: int64(len(all))})
			if err != nil || len(part.Script) > session.MaxPartBytes || part.Bytes != int64(len(want)) {
				t.Fatalf("got %d bytes of %d, %v", len(part.Script), part.Bytes, err)
			}
			if len(part.Script) == 0 {
				break
			}
			all = append(all, part.Script...)
		}
		if !bytes.Equal(all, want) {
			t.Errorf("got %d bytes, which are not those of the file", len(all))
		}
		for _, offset := range []int64{-1, int64(len(want)) + 1} {
			if _, err := c.ReadLibrary(t.Context(), protocol.LibraryParams{Path: script, Script: true, Offset: offset}); session.KindOf(err) != session.KindInvalid {
				t.Errorf("offset %d: %v", offset, err)
			}
		}
	})
}
