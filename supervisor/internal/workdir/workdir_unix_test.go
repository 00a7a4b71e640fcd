//go:build unix

package workdir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestLinksAndPipes(t *testing.T) {
	t.Parallel()
	c, outside := newClient(t), t.TempDir()
	at := func(name string) string { return filepath.Join(c.dir, name) }
	mustWrite(t, filepath.Join(outside, "secret"), "s")
	mustWrite(t, at("plain"), "p")
	made := errors.Join(
		os.Mkdir(at("sub"), 0o755), os.Symlink(filepath.Join(outside, "secret"), at("absolute")),
		os.Symlink("../"+filepath.Base(outside)+"/secret", at("relative")), os.Symlink(outside, at("outdir")),
		os.Symlink("plain", at("inside")), os.Symlink("sub", at("subdir")), os.Symlink("loop", at("loop")),
		os.Symlink("/proc/self/environ", at("environ")), syscall.Mkfifo(at("pipe"), 0o644), os.Symlink("pipe", at("pipelink")),
	)
	if made != nil {
		t.Fatal(made)
	}
	for path, kind := range map[string]session.Kind{
		"absolute": session.KindNoAccess, "relative": session.KindNoAccess, "outdir/secret": session.KindNoAccess, "environ": session.KindNoAccess,
		"pipe": session.KindNoFile, "pipelink": session.KindNoFile, "loop": session.KindFileFailed, "sub": session.KindNoFile,
	} {
		_, err := c.read(path)
		wantKind(t, "get "+path, err, kind)
	}
	if got, err := c.read("inside"); got != "p" {
		t.Errorf("through a link within: %q, %v", got, err)
	}
	for path, kind := range map[string]session.Kind{
		"absolute": session.KindNoFile, "inside": session.KindNoFile, "pipe": session.KindNoFile, "loop": session.KindNoFile, "sub": session.KindNoFile,
		"outdir/new": session.KindNoAccess, "pipe/new": session.KindNoFile, "environ/x": session.KindNoAccess,
	} {
		wantKind(t, "put "+path, c.put(session.FilePiece{Path: path, Overwrite: true, Parents: true}, "x", 9), kind)
	}
	if err := c.put(session.FilePiece{Path: "subdir/new"}, "n", 9); err != nil {
		t.Errorf("through a link within: %v", err)
	}
	wantKind(t, "remove outside", Dir{Path: c.dir}.Remove("outdir/secret"), session.KindNoAccess)
	_, err := Dir{Path: c.dir}.List("outdir")
	wantKind(t, "list outside", err, session.KindNoAccess)
	_, err = Dir{Path: c.dir}.List("pipe")
	wantKind(t, "list a pipe", err, session.KindNoFile)
	if err := (Dir{Path: c.dir}).Remove("absolute"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(outside, "secret")); string(got) != "s" {
		t.Errorf("outside: %q, %v", got, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside: %v", entries)
	}
}

// A program may put a pipe in place of the working directory itself.
func TestPipeAsDirectory(t *testing.T) {
	t.Parallel()
	d := Dir{Path: filepath.Join(t.TempDir(), "d")}
	if err := syscall.Mkfifo(d.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := d.List("")
	wantKind(t, "list", err, session.KindNoFile)
	_, err = d.Read("x", 0, 1)
	wantKind(t, "read", err, session.KindNoFile)
}

func TestModes(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for _, step := range []struct {
		before     os.FileMode // 0: no file
		executable bool
		want       os.FileMode
	}{{0, true, 0o100}, {0, false, 0}, {0o600, true, 0o700}, {0o755, false, 0o644}, {0o640, true, 0o750}} {
		path := filepath.Join(c.dir, "a")
		_ = os.Remove(path)
		if step.before != 0 {
			mustWrite(t, path, "old")
			if err := os.Chmod(path, step.before); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.put(session.FilePiece{Path: "a", Overwrite: true, Executable: step.executable}, "new", 9); err != nil {
			t.Fatal(err)
		}
		i, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Mode().Perm(); step.before == 0 && got&0o100 != step.want || step.before != 0 && got != step.want {
			t.Errorf("%+v: got %v", step, got)
		}
		if p, err := (Dir{Path: c.dir}).Read("a", 0, 1); err != nil || p.Executable != step.executable {
			t.Errorf("%+v: got %+v, %v", step, p, err)
		}
	}
}

// A program exchanges the directory for a link out of the working directory all the time.
func TestPut_ExchangedDirectory(t *testing.T) {
	t.Parallel()
	c, outside := newClient(t), t.TempDir()
	d, e := filepath.Join(c.dir, "d"), filepath.Join(c.dir, "e")
	if err := os.Mkdir(d, 0o755); err != nil {
		t.Fatal(err)
	}
	const puts = 3000
	var tried atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for tried.Load() < puts {
			_, _, _, _ = os.Rename(d, e), os.Symlink(outside, d), os.Remove(d), os.Rename(e, d)
			for n := tried.Load(); tried.Load() < min(n+2, puts); { // one whole put succeeds
				runtime.Gosched()
			}
		}
	})
	done := 0
	for range puts {
		if c.put(session.FilePiece{Path: "d/f", Overwrite: true}, "hi", 1) == nil {
			done++
		}
		tried.Add(1)
	}
	wg.Wait()
	if names, err := os.ReadDir(outside); err != nil || len(names) != 0 {
		t.Errorf("outside there are %v, %v", names, err)
	}
	if done == 0 {
		t.Error("no put succeeded, so the test says nothing")
	}
	t.Logf("%d of %d puts succeeded", done, puts)
}

func TestPut_ReplacedOnTheWay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *client, temp string) error{
		"another directory": func(c *client, _ string) error {
			return errors.Join(os.Rename(filepath.Join(c.dir, "d"), filepath.Join(c.dir, "e")), os.Mkdir(filepath.Join(c.dir, "d"), 0o700))
		},
		"a link in place of the temporary file": func(_ *client, temp string) error {
			return errors.Join(os.Remove(temp), os.Symlink("/etc/passwd", temp))
		},
		"another temporary file": func(_ *client, temp string) error {
			return errors.Join(os.Rename(temp, temp+"x"), os.WriteFile(temp, []byte("evil"), 0o600))
		},
	} {
		c := newClient(t)
		if err := os.Mkdir(filepath.Join(c.dir, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := session.FilePiece{Path: "d/a", Transfer: rand.Text(), Data: []byte("x")}
		if _, err := c.take(p); err != nil {
			t.Fatal(err)
		}
		temps, _ := filepath.Glob(filepath.Join(c.dir, "d", ".put-*"))
		if err := change(c, temps[0]); err != nil {
			t.Fatal(err)
		}
		p.Offset, p.Data, p.Last, p.CRC32 = 1, nil, true, checksumOf("x")
		_, err := c.take(p)
		wantKind(t, name, err, session.KindFileChanged)
		if _, err := os.Lstat(filepath.Join(c.dir, "d", "a")); err == nil {
			t.Errorf("%s: the file exists", name)
		}
	}
}

// A directory with too many names says that there are more.
func TestList_TooManyNames(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	for i := range session.MaxListedFiles + 1 {
		f, err := os.Create(filepath.Join(c.dir, "f"+strings.Repeat("0", i%7)+string(rune('a'+i%26))+hex.EncodeToString([]byte{byte(i >> 8), byte(i)})))
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	l, err := Dir{Path: c.dir}.List("")
	if err != nil || len(l.Files) != session.MaxListedFiles || !l.More {
		t.Errorf("got %d files, more %v, %v", len(l.Files), l.More, err)
	}
}

// Of two puts to one name, one fails or the last one counts, and the file is whole. On Windows, one
// that overwrites may also be refused while another one has the file open.
func TestPut_SameName(t *testing.T) {
	t.Parallel()
	for _, overwrite := range []bool{false, true} {
		c := newClient(t)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				errs[i] = c.put(session.FilePiece{Path: "a", Overwrite: overwrite}, strings.Repeat(string(rune('a'+i)), 50_000), 7000)
			})
		}
		wg.Wait()
		done := 0
		for _, err := range errs {
			if err == nil {
				done++
			} else if session.KindOf(err) != session.KindFileExists {
				t.Errorf("got %v", err)
			}
		}
		if want := map[bool]int{false: 1, true: 8}[overwrite]; done != want {
			t.Errorf("overwrite %v: %d succeeded, not %d", overwrite, done, want)
		}
		if got, err := c.read("a"); err != nil || len(got) != 50_000 || strings.Trim(got, got[:1]) != "" {
			t.Errorf("overwrite %v: the file is mixed: %d bytes, %v", overwrite, len(got), err)
		}
		c.wantNames(t, "a")
	}
}
