package chartlib_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/chartlib"
	"github.com/turnstone-repl/turnstone/internal/testkit/interpreters"
	"github.com/turnstone-repl/turnstone/session"
)

func writeFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plotly.min.js")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantRefusal checks that a path gives an error of a kind, and nothing of the file.
func wantRefusal(t *testing.T, r *chartlib.ScriptReader, path string, kind session.Kind) {
	t.Helper()
	script, err := r.Read(t.Context(), path)
	if session.KindOf(err) != kind || script.Code != nil {
		t.Errorf("Read(%s): %d bytes, %v; want an error of kind %s", path, len(script.Code), err, kind)
	}
	release, err := r.Identify(t.Context(), path)
	if session.KindOf(err) != kind || release != (chartlib.Release{}) {
		t.Errorf("Identify(%s): %v, %v; want an error of kind %s", path, release, err, kind)
	}
}

func TestScriptReader(t *testing.T) {
	t.Parallel()

	t.Run("releases a published build", func(t *testing.T) {
		t.Parallel()
		path := interpreters.PlotlyScript(t)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := chartlib.NewScriptReader()
		script, err := r.Read(t.Context(), path)
		if err != nil || script.Name != "plotly" || script.Digest != chartlib.DigestOf(want) || !bytes.Equal(script.Code, want) {
			t.Fatalf("got %v of %d bytes, %v", script.Release, len(script.Code), err)
		}
		if again, err := r.Identify(t.Context(), path); err != nil || again != script.Release {
			t.Errorf("got %v, %v", again, err)
		}
	})

	t.Run("releases nothing of a file that is one byte off", func(t *testing.T) {
		t.Parallel()
		data, err := os.ReadFile(interpreters.PlotlyScript(t))
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		wantRefusal(t, chartlib.NewScriptReader(), writeFile(t, data), session.KindNoAccess)
	})

	// A check of the published build must not count for the next file of that name, size and time.
	t.Run("releases nothing of a file that takes the place of a build", func(t *testing.T) {
		t.Parallel()
		data, err := os.ReadFile(interpreters.PlotlyScript(t))
		if err != nil {
			t.Fatal(err)
		}
		path := writeFile(t, data)
		r := chartlib.NewScriptReader()
		if _, err := r.Read(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Repeat([]byte("s"), len(data)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, before.ModTime(), before.ModTime()); err != nil {
			t.Fatal(err)
		}
		if script, err := r.Read(t.Context(), path); session.KindOf(err) != session.KindNoAccess || script.Code != nil {
			t.Errorf("got %d bytes, %v", len(script.Code), err)
		}
	})

	t.Run("releases nothing of other files", func(t *testing.T) {
		t.Parallel()
		r := chartlib.NewScriptReader()
		wantRefusal(t, r, writeFile(t, []byte("a secret")), session.KindNoAccess)
		wantRefusal(t, r, writeFile(t, nil), session.KindNoAccess)
		wantRefusal(t, r, writeFile(t, make([]byte, 17<<20)), session.KindTooLarge)
		wantRefusal(t, r, t.TempDir(), session.KindNoFile)
		wantRefusal(t, r, filepath.Join(t.TempDir(), "missing.js"), session.KindNoFile)
		wantRefusal(t, r, "plotly.min.js", session.KindInvalid)
		wantRefusal(t, r, "", session.KindInvalid)
	})
}

func TestReleaseList(t *testing.T) {
	t.Parallel()
	const maxListBytes = 60 << 10 // as generate has it
	data, err := os.ReadFile("releases.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))[1:]
	if len(data) > maxListBytes || len(lines) < 100 {
		t.Errorf("the list has %d bytes and %d lines", len(data), len(lines))
	}
	form := regexp.MustCompile(`^(plotly|bokeh|bokeh-widgets|bokeh-tables|bokeh-mathjax) [0-9.]+ [0-9a-f]{64}$`)
	seen := make(map[string]bool)
	for _, line := range lines {
		digest := string(line[bytes.LastIndexByte(line, ' ')+1:])
		if !form.Match(line) || seen[digest] {
			t.Errorf("bad or second line: %s", line)
		}
		seen[digest] = true
		if _, ok := chartlib.Find(digest); !ok {
			t.Errorf("%s is not found", line)
		}
	}
}
