package store

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReopenFiles(t *testing.T) {
	t.Parallel()

	t.Run("refuses a file that was replaced", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "events")
		f, err := CreateFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := f.(*reopeningFile)
		write := func(text string) error {
			_, err := r.Write([]byte(text))
			return err
		}
		if err := write("one "); err != nil {
			t.Fatal(err)
		}
		r.closeUntilWrite()
		if r.file != nil {
			t.Error("the file is open while idle")
		}
		if err := write("two"); err != nil {
			t.Fatal(err)
		}
		r.closeUntilWrite()
		if got, _ := os.ReadFile(path); string(got) != "one two" {
			t.Errorf("got %q", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := write("three"); err == nil {
			t.Error("a removed file was created again")
		}
		if err := os.WriteFile(path, []byte("another's"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := write("three"); err == nil {
			t.Error("it wrote to a different file")
		}
		if got, _ := os.ReadFile(path); string(got) != "another's" {
			t.Errorf("the other file is %q", got)
		}
	})
}
