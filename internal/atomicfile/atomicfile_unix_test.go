//go:build unix

package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
)

func TestWrite_Mode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	path := filepath.Join(t.TempDir(), "name")
	for given, want := range map[fs.FileMode]fs.FileMode{0o600: 0o600, 0o644: 0o640} {
		if err := atomicfile.Write(path, nil, given); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%o: got %o, want %o", given, got, want)
		}
	}
}

func TestWrite_Symlink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, map[string]string{"target": "old", "link": "new"})
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Errorf("got %v, %v, want a file in place of the link", info, err)
	}
}
