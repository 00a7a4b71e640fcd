package workdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// The kernel's own files are about the process that reads them.
func TestProc(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"proc/self/environ", "proc/self/maps", "proc/1/environ", "proc/self/cwd/x"} {
		if p, err := (Dir{Path: "/"}).Read(path, 0, 100); err == nil {
			t.Errorf("%s: got %q", path, p.Data)
		}
	}
	_, err := Dir{Path: "/"}.List("proc/self/fd")
	if err == nil {
		t.Error("the open files were listed")
	}
	if _, err := (Dir{Path: "/"}).Read("dev/zero", 0, 10); session.KindOf(err) != session.KindNoFile {
		t.Errorf("a device: %v", err)
	}
}

func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	raw := "caf\xe9 %41"
	mustWrite(t, filepath.Join(c.dir, raw), "latin")
	mustWrite(t, filepath.Join(c.dir, "session:x"), "own")
	mustWrite(t, filepath.Join(c.dir, "bytes:x"), "raw")
	l, err := Dir{Path: c.dir}.List("")
	if err != nil || len(l.Files) != 3 {
		t.Fatalf("got %+v, %v", l, err)
	}
	paths := []string{l.Files[0].Path, l.Files[1].Path, l.Files[2].Path}
	if strings.Join(paths, " ") != "./bytes:x bytes:caf%E9%20%2541 ./session:x" || l.Files[1].Name != "caf\ufffd %41" {
		t.Errorf("got %q, %q", paths, l.Files[1].Name)
	}
	for i, want := range []string{"raw", "latin", "own"} {
		if got, err := c.read(paths[i]); got != want {
			t.Errorf("%s: got %q, %v", paths[i], got, err)
		}
		if err := c.put(session.FilePiece{Path: paths[i], Overwrite: true}, "new", 9); err != nil {
			t.Errorf("%s: %v", paths[i], err)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(c.dir, raw)); string(got) != "new" {
		t.Errorf("got %q", got)
	}
}
