//go:build unix

package supervisor

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// newFilledFile returns a directory with a file of the given size, and the file's path.
func newFilledFile(t *testing.T, size int) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// copyInPieces copies the file and calls between after the first piece.
func copyInPieces(dir string, between func()) (string, error) {
	var b strings.Builder
	var once sync.Once // the other pieces are read at the same time
	err := session.CopyFile(&b, func(offset int64) (session.FilePart, error) {
		if offset > 0 {
			once.Do(between)
		}
		return readPiece(dir, "file", offset, 1000)
	})
	return b.String(), err
}

func TestSessionFiles(t *testing.T) {
	t.Parallel()

	t.Run("a growing file is read up to its first size", func(t *testing.T) {
		t.Parallel()
		dir, path := newFilledFile(t, 3500)
		got, err := copyInPieces(dir, func() {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = f.WriteString(strings.Repeat("y", 5000))
			if err = errors.Join(err, f.Close()); err != nil {
				t.Error(err)
			}
		})
		if err != nil || got != strings.Repeat("x", 3500) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})

	t.Run("a file that shrinks or is replaced is an error", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(path string) error{
			"shrinks": func(path string) error { return os.Truncate(path, 10) },
			"goes":    os.Remove,
			"is made a pipe": func(path string) error {
				return errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600))
			},
			"is made a link": func(path string) error {
				return errors.Join(os.RemoveAll(path), os.Symlink("/etc/passwd", path))
			},
		} {
			dir, path := newFilledFile(t, 3500)
			got, err := copyInPieces(dir, func() {
				if err := change(path); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			if err == nil || got != strings.Repeat("x", 1000) {
				t.Errorf("%s: got %d bytes, %v", name, len(got), err)
			}
		}
	})

	t.Run("the size of a part is limited", func(t *testing.T) {
		t.Parallel()
		dir, path := newFilledFile(t, 0)
		if err := os.Truncate(path, 100<<20); err != nil {
			t.Fatal(err)
		}
		p, err := readPiece(dir, path, 1<<20, 0)
		if err != nil || len(p.Data) != session.MaxPartBytes || p.Offset != 1<<20 || p.Bytes != 100<<20 {
			t.Errorf("got %d bytes at %d of %d, %v", len(p.Data), p.Offset, p.Bytes, err)
		}
		if p, err := readPiece(dir, "file", 200<<20, 0); err != nil || len(p.Data) != 0 || p.Bytes != 100<<20 {
			t.Errorf("past the end: got %d of %d, %v", len(p.Data), p.Bytes, err)
		}
		for _, bad := range []func() error{
			func() error { _, err := readPiece(dir, "file", -1, 0); return err },
			func() error { _, err := readPiece(dir, "file", 0, session.MaxPartBytes+1); return err },
			func() error { _, err := readPiece(dir, "file", 0, -1); return err },
		} {
			if err := bad(); session.KindOf(err) != session.KindInvalid {
				t.Errorf("got %v", err)
			}
		}
	})

	t.Run("nothing outside the directory is read", func(t *testing.T) {
		t.Parallel()
		dir, _ := newFilledFile(t, 1)
		for _, bad := range []string{"", ".", "..", "../file", "/", "/etc/passwd", "/proc/self/environ", dir, dir + "x/file", "sub/file", "./file/..", "file\x00", lockFileName} {
			if p, err := readPiece(dir, bad, 0, 0); session.KindOf(err) != session.KindNoFile {
				t.Errorf("%q: got %d bytes, %v", bad, len(p.Data), err)
			}
		}
		made := errors.Join(os.Symlink("/etc/passwd", filepath.Join(dir, "link")), os.Symlink("file", filepath.Join(dir, "within")),
			syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Mkdir(filepath.Join(dir, "sub"), 0o700))
		if made != nil {
			t.Fatal(made)
		}
		for name, why := range map[string]string{"link": "a link", "within": "a link", "pipe": "a pipe", "sub": "a directory", "none": "no file"} {
			if _, err := readPiece(dir, name, 0, 0); session.KindOf(err) != session.KindNoFile || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if own, err := listFiles(dir); err != nil || len(own.Files) != 1 || own.Files[0].Path != "session:file" || own.Files[0].Bytes != 1 {
			t.Errorf("the file list is %v, %v", own, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := readPiece(dir, "file", 0, 0); session.KindOf(err) != session.KindNoFile || !strings.Contains(err.Error(), "is gone") {
			t.Errorf("got %v", err)
		}
		if _, err := listFiles(dir); session.KindOf(err) != session.KindNoFile {
			t.Errorf("got %v", err)
		}
	})
}
