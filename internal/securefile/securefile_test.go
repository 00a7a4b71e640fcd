package securefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Run("accepts files and directories made by the package", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		for range 2 { // the second finds it
			if err := MakeDir(dir); err != nil {
				t.Fatal(err)
			}
		}
		f, err := CreateTemp(dir, "secret-")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, path := range []string{dir, f.Name()} {
			if err := Check(path); err != nil {
				t.Error(err)
			}
		}
		if err := Check(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want fs.ErrNotExist", err)
		}
	})

	t.Run("rejects what others can access", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "dir")
		if err := MakeDir(dir); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "file")
		makeInsecure(t, file, false)
		below := filepath.Join(dir, "below")
		makeInsecure(t, below, true)
		for path, says := range map[string]string{file: fileHint, below: dirHint} {
			if err := Check(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want an error that names %s and contains %q", err, path, says)
			}
		}
	})

	t.Run("does not rename over an existing file", func(t *testing.T) {
		dir := t.TempDir()
		made := func(text string) string {
			f, err := CreateTemp(dir, "x-")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			return f.Name()
		}
		first, second, path := made("first"), made("second"), filepath.Join(dir, "name")
		if err := Rename(first, path); err != nil {
			t.Fatal(err)
		}
		if err := Check(path); err != nil {
			t.Error(err)
		}
		if err := Rename(second, path); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v, want fs.ErrExist", err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
			t.Errorf("got %q, %v", got, err)
		}
		for name, want := range map[string]bool{first: false, second: true} {
			if _, err := os.Lstat(name); (err == nil) != want {
				t.Errorf("%s: got %v, want that it is there: %v", name, err, want)
			}
		}
	})
}
