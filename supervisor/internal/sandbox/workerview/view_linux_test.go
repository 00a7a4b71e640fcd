package workerview

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel fails a path with ".." while any file on the machine is being renamed.
func TestOpenPath_ConcurrentRenames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	over := make(chan struct{})
	var renames sync.WaitGroup
	defer renames.Wait()
	defer close(over)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	renames.Go(func() {
		a, b := filepath.Join(other, "a"), filepath.Join(other, "b")
		for {
			select {
			case <-over:
				return
			default:
				_, _ = unix.Rename(a, b), unix.Rename(b, a)
			}
		}
	})
	view := View{RootFD: fd}
	for i := range 20_000 {
		found, err := view.OpenPath([]byte("/dir/../dir/../dir\x00"))
		if err != nil {
			t.Fatalf("lookup %d: %v", i, err)
		}
		unix.Close(found)
	}
}
