package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
)

// wantFiles checks that a directory has just these files, with these texts.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[e.Name()]; !ok || w != string(text) {
			t.Errorf("got a file %q with %q, want the files %q", e.Name(), text, want)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("got %d files, want %d", len(entries), len(want))
	}
}

func TestWrite(t *testing.T) {
	t.Run("makes a file and replaces it", func(t *testing.T) {
		dir := t.TempDir()
		for _, text := range []string{"a longer text", "short", ""} {
			if err := atomicfile.Write(filepath.Join(dir, "name"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			wantFiles(t, dir, map[string]string{"name": text})
		}
	})

	t.Run("takes the longest name", func(t *testing.T) {
		dir, name := t.TempDir(), strings.Repeat("é", 127)
		if err := atomicfile.Write(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{name: "x"})
	})

	t.Run("fails in a missing directory", func(t *testing.T) {
		if err := atomicfile.Write(filepath.Join(t.TempDir(), "missing", "name"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	})

	t.Run("leaves nothing behind when it fails", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "name"), 0o700); err != nil { // no file takes the place of a directory
			t.Fatal(err)
		}
		if err := atomicfile.Write(filepath.Join(dir, "name"), []byte("x"), 0o600); err == nil {
			t.Error("got no error")
		}
		if err := os.Remove(filepath.Join(dir, "name")); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, nil)
	})
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "name")
	newFile := func() *atomicfile.PendingFile {
		f, err := atomicfile.Create(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		return f
	}

	f := newFile()
	f.Abort()
	f.Abort()
	wantFiles(t, dir, nil)

	f = newFile()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err == nil {
		t.Fatal("a file replaced a directory")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil { // again
		t.Fatal(err)
	}
	f.Abort() // removes nothing
	wantFiles(t, dir, map[string]string{"name": "new"})

	temp, err := os.CreateTemp(dir, "adopted-")
	if err != nil {
		t.Fatal(err)
	}
	f = atomicfile.Adopt(temp, path)
	defer f.Abort()
	if _, err := f.WriteString("adopted"); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"name": "adopted"})
}
