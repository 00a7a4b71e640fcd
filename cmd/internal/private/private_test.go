package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheck_TakesWhatIsMadeHere(t *testing.T) {
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
	linked := filepath.Join(dir, "secret")
	if err := os.Link(f.Name(), linked); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, f.Name(), linked} {
		if err := Check(path); err != nil {
			t.Error(err)
		}
	}
	if err := Check(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it is not there", err)
	}
}

func TestCheck_RefusesWhatOthersHaveRightsTo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	makeOpen(t, file, false)
	below := filepath.Join(dir, "below")
	makeOpen(t, below, true)
	for path, says := range map[string]string{file: fileRemedy, below: dirRemedy} {
		if err := Check(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want a refusal that names %s and says %q", err, path, says)
		}
	}
}
