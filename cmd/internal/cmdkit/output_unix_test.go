//go:build unix

package cmdkit

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestWriteOutputFile(t *testing.T) {
	t.Run("does not replace a pipe or a link", func(t *testing.T) {
		read, into, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		hello := func(w io.Writer) error {
			_, err := io.WriteString(w, "hello")
			return err
		}
		if err := WriteOutputFile(filepath.Join("/dev/fd", strconv.Itoa(int(into.Fd()))), hello); err != nil {
			t.Error(err)
		}
		_ = into.Close()
		if got, err := io.ReadAll(read); err != nil || string(got) != "hello" {
			t.Errorf("a pipe got %q, %v", got, err)
		}

		dir := t.TempDir()
		file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		if err := WriteOutputFile(link, hello); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != "hello" {
			t.Errorf("the file of a link has %q, %v", got, err)
		}
	})

	// A file behind /dev/stdout keeps its content, as with >>.
	t.Run("appends to our own standard output", func(t *testing.T) {
		out, err := os.OpenFile(filepath.Join(t.TempDir(), "all"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		defer func(before *os.File) { os.Stdout = before }(os.Stdout)
		os.Stdout = out
		for _, text := range []string{"one ", "two"} {
			if err := WriteOutputFile(out.Name(), func(w io.Writer) error {
				_, err := io.WriteString(w, text)
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		if got, err := os.ReadFile(out.Name()); err != nil || string(got) != "one two" {
			t.Errorf("it has %q, %v", got, err)
		}
	})
}
