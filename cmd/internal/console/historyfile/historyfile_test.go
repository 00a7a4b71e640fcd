package historyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
)

func TestHistoryFile(t *testing.T) {
	t.Run("returns whole texts in order", func(t *testing.T) {
		h := TextFile{Path: filepath.Join(t.TempDir(), "state", "turnstone", "history")}
		if texts, err := h.LoadTexts(); len(texts) > 0 || err != nil {
			t.Fatalf("before the first text: got %q, %v, want nothing", texts, err)
		}
		block := "def f(x):\n    '''\n\n    \\n\n    '''\n    return x"
		for _, text := range []string{"x = 1", "", block, "    indented", "   ", strings.Repeat("x", maxTextBytes+1), "ü", "a" + continuationMark + "b"} {
			if err := h.AppendText(text); err != nil {
				t.Fatal(err)
			}
		}
		got, err := h.LoadTexts()
		if want := []string{"x = 1", block, "    indented", "ü"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})

	// Older versions stored each line of an input as a separate entry.
	t.Run("reads an old file that has one text a line", func(t *testing.T) {
		h := TextFile{Path: filepath.Join(t.TempDir(), "history")}
		if err := os.WriteFile(h.Path, []byte("def f(x):\n    return x\nprint(\"a\\nb\")\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.LoadTexts()
		if want := []string{"def f(x):", "    return x", `print("a\nb")`}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})

	t.Run("creates a file that only the user can read", func(t *testing.T) {
		h := TextFile{Path: filepath.Join(t.TempDir(), "turnstone", "history")}
		if err := h.AppendText("secret = 1"); err != nil {
			t.Fatal(err)
		}
		owners.WantFileMode(t, h.Path, 0o600)
		if err := h.rewriteFile([]string{"x"}); err != nil {
			t.Fatal(err)
		}
		owners.WantFileMode(t, h.Path, 0o600) // also of the file that replaces it
	})

	t.Run("drops the oldest texts and shrinks the file", func(t *testing.T) {
		h := TextFile{Path: filepath.Join(t.TempDir(), "history")}
		var all []string
		var file strings.Builder
		for i := range 2*MaxTexts + 10 {
			text := fmt.Sprintf("if x:\n  line %d", i)
			all = append(all, text)
			file.WriteString(encodeEntry(text))
		}
		if err := os.WriteFile(h.Path, []byte(file.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.LoadTexts()
		if want := all[len(all)-MaxTexts:]; err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %d texts from %q, %v, want %d from %q", len(got), got[0], err, len(want), want[0])
		}
		if again, err := h.LoadTexts(); err != nil || !slices.Equal(again, got) {
			t.Errorf("read again: got %d texts, %v", len(again), err)
		}
		data, err := os.ReadFile(h.Path)
		if err != nil || strings.Count(string(data), "\n") != 2*MaxTexts {
			t.Errorf("the file has %d lines, %v, want %d", strings.Count(string(data), "\n"), err, 2*MaxTexts)
		}
	})

	t.Run("saves nothing without a path", func(t *testing.T) {
		var h TextFile
		if err := h.AppendText("x"); err != nil {
			t.Error(err)
		}
		if texts, err := h.LoadTexts(); texts != nil || err != nil {
			t.Errorf("got %q, %v, want nothing", texts, err)
		}
	})

	t.Run("skips a line that is too long and keeps the others", func(t *testing.T) {
		h := TextFile{Path: filepath.Join(t.TempDir(), "history")}
		long := strings.Repeat("x", 3<<20)
		if err := os.WriteFile(h.Path, []byte("first\n"+long+"\nif x:\n"+continuationMark+long+"\nlast\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.LoadTexts()
		if want := []string{"first", "last"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %d texts, %v, want %q", len(got), err, want)
		}
	})

	t.Run("skips damaged texts and keeps the others", func(t *testing.T) {
		h := TextFile{Path: filepath.Join(t.TempDir(), "history")}
		if err := os.WriteFile(h.Path, []byte("first\n\xff\xfebad\ncut"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.AppendText("new"); err != nil {
			t.Fatal(err)
		}
		got, err := h.LoadTexts()
		if want := []string{"first", "\ufffdbad", "cut", "new"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})

	t.Run("writes through a symbolic link", func(t *testing.T) {
		dir := t.TempDir()
		h := TextFile{Path: filepath.Join(dir, "history")}
		if err := os.WriteFile(filepath.Join(dir, "real"), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := os.Symlink("real", h.Path)
		if _, e := os.Stat(h.Path); err == nil {
			err = e
		}
		if err != nil {
			t.Skipf("symbolic links need a privilege on Windows, and Wine cannot follow them: %v", err)
		}
		if err := h.rewriteFile([]string{"y"}); err != nil {
			t.Fatal(err)
		}
		if target, err := os.Readlink(h.Path); err != nil || target != "real" {
			t.Errorf("got %q, %v, want the link", target, err)
		}
		if got, err := h.LoadTexts(); err != nil || !slices.Equal(got, []string{"y"}) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
