package workdir

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/session"
)

// A client puts files into a directory.
type client struct {
	puts     *Puts
	dir      string
	approver Approver
}

func newClient(t *testing.T) *client {
	t.Helper()
	return &client{puts: &Puts{}, dir: t.TempDir()}
}

func (c *client) workingDir() (Dir, error) { return Dir{Path: c.dir, Approver: c.approver}, nil }

func (c *client) take(p session.FilePiece) (session.PutProgress, error) {
	return c.puts.Take(context.Background(), c.workingDir, p)
}

// put puts a file in pieces of the given size.
func (c *client) put(p session.FilePiece, content string, size int) error {
	p.Transfer = rand.Text()
	for {
		n := min(size, len(content)-int(p.Offset))
		if p.Data, p.Last = []byte(content[p.Offset:int(p.Offset)+n]), int(p.Offset)+n == len(content); p.Last {
			p.CRC32 = checksumOf(content)
		}
		if now, err := c.take(p); err != nil || p.Last {
			if err == nil && (!now.Done || now.Bytes != int64(len(content))) {
				err = errors.New("it is not done")
			}
			return err
		}
		p.Offset += int64(n)
	}
}

// begin begins a transfer of "a", whose content begins with "1".
func (c *client) begin(t *testing.T) session.FilePiece {
	t.Helper()
	p := session.FilePiece{Path: "a", Transfer: rand.Text(), Data: []byte("1")}
	if _, err := c.take(p); err != nil {
		t.Fatal(err)
	}
	return p
}

func checksumOf(content string) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(content)))
}

func (c *client) read(path string) (string, error) {
	var b strings.Builder
	err := session.CopyFile(&b, func(offset int64) (session.FilePart, error) {
		return Dir{Path: c.dir, Approver: c.approver}.Read(path, offset, 1000)
	})
	return b.String(), err
}

func wantKind(t *testing.T, what string, err error, kind session.Kind) {
	t.Helper()
	if session.KindOf(err) != kind {
		t.Errorf("%s: got %v of kind %q, not %q", what, err, session.KindOf(err), kind)
	}
}

func (c *client) wantNames(t *testing.T, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if err != nil || strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the directory has %q, %v, not %q", got, err, names)
	}
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()

	t.Run("a file of any size arrives as it is", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		for _, size := range []int{0, 1, 999, 1000, 1001, 5000} {
			content := strings.Repeat("x\x00\xff", size)[:size]
			if err := c.put(session.FilePiece{Path: "a.bin", Overwrite: true}, content, 1000); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if got, err := c.read("a.bin"); err != nil || got != content {
				t.Errorf("%d bytes: got %d, %v", size, len(got), err)
			}
		}
		c.wantNames(t, "a.bin")
	})

	t.Run("it has a temporary name until it is complete", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		id := rand.Text()
		if now, err := c.take(session.FilePiece{Path: "a", Transfer: id, Data: []byte("one")}); err != nil || now.Done || now.Bytes != 3 {
			t.Fatalf("got %+v, %v", now, err)
		}
		if names, _ := filepath.Glob(filepath.Join(c.dir, ".put-*")); len(names) != 1 {
			t.Errorf("the temporary files are %q", names)
		}
		if _, err := c.read("a"); session.KindOf(err) != session.KindNoFile {
			t.Errorf("before the last piece: %v", err)
		}
		if now, err := c.take(session.FilePiece{Path: "a", Transfer: id, Offset: 3, Data: []byte("two"), Last: true, CRC32: checksumOf("onetwo")}); err != nil || !now.Done {
			t.Fatalf("got %+v, %v", now, err)
		}
		c.wantNames(t, "a")
	})

	t.Run("each piece may come again, also in part, and the last one too", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		p := session.FilePiece{Path: "a", Transfer: rand.Text(), Data: []byte("12345")}
		for range 2 {
			if now, err := c.take(p); err != nil || now.Bytes != 5 {
				t.Fatalf("got %+v, %v", now, err)
			}
		}
		p.Offset, p.Data = 3, []byte("4567")
		if now, err := c.take(p); err != nil || now.Bytes != 7 {
			t.Fatalf("got %+v, %v", now, err)
		}
		p.Offset, p.Data = 8+session.MaxAheadBytes, []byte("x")
		_, err := c.take(p)
		wantKind(t, "far ahead", err, session.KindInvalid)
		p.Offset, p.Data, p.Last, p.CRC32 = 7, nil, true, strings.ToUpper(checksumOf("1234567"))
		for range 3 {
			if now, err := c.take(p); err != nil || !now.Done || now.Bytes != 7 {
				t.Fatalf("got %+v, %v", now, err)
			}
		}
		if got, err := c.read("a"); got != "1234567" {
			t.Errorf("got %q, %v", got, err)
		}
	})

	t.Run("pieces that arrive early wait for the ones before them", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t)
			p := c.begin(t)
			last := p
			last.Offset, last.Data, last.Last, last.CRC32 = 3, []byte("4"), true, checksumOf("1234")
			var pieces sync.WaitGroup
			for range 2 { // the last one comes again, over another connection
				pieces.Go(func() {
					if now, err := c.take(last); err != nil || !now.Done || now.Bytes != 4 {
						t.Errorf("the last one: got %+v, %v", now, err)
					}
				})
			}
			synctest.Wait()
			for _, at := range []int64{2, 1} {
				early := p
				early.Offset, early.Data = at, []byte{'1' + byte(at)}
				pieces.Go(func() {
					if _, err := c.take(early); err != nil {
						t.Errorf("at %d: %v", at, err)
					}
				})
				synctest.Wait()
			}
			pieces.Wait()
			if now, err := c.take(p); err != nil || !now.Done || now.Bytes != 4 {
				t.Errorf("the first one again: got %+v, %v", now, err)
			}
			if got, err := c.read("a"); got != "1234" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	})

	t.Run("a piece waits a minute for one that does not come, or until its call or the transfer ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t)
			p := c.begin(t)
			p.Offset = 2
			began := time.Now()
			_, err := c.take(p)
			wantKind(t, "late", err, session.KindInvalid)
			if took := time.Since(began); took != maxGapTime {
				t.Errorf("it waited for %v", took)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if _, err := c.puts.Take(ctx, c.workingDir, p); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call that ends: %v", err)
			}
			time.AfterFunc(time.Second, c.puts.Close)
			_, err = c.take(p)
			wantKind(t, "a session that ends", err, session.KindStale)
			c.wantNames(t)
		})
	})

	t.Run("a wrong checksum, a wrong transfer and a wrong path are refused", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		id := rand.Text()
		_, err := c.take(session.FilePiece{Path: "a", Transfer: id, Data: []byte("x"), Last: true, CRC32: checksumOf("y")})
		wantKind(t, "a wrong checksum", err, session.KindInvalid)
		_, err = c.take(session.FilePiece{Path: "a", Transfer: id, Offset: 1})
		wantKind(t, "a transfer that was given up", err, session.KindStale)
		_, err = c.take(session.FilePiece{Path: "a", Transfer: "short"})
		wantKind(t, "a short ID", err, session.KindInvalid)
		_, err = c.take(session.FilePiece{Path: "a", Transfer: id, Data: make([]byte, session.MaxPartBytes+1)})
		wantKind(t, "a large piece", err, session.KindTooLarge)
		_, err = c.take(session.FilePiece{Path: "a", Transfer: id, Offset: session.MaxFileBytes, Data: []byte("x")})
		wantKind(t, "a large file", err, session.KindTooLarge)
		if _, err = c.take(session.FilePiece{Path: "a", Transfer: id}); err != nil {
			t.Fatal(err)
		}
		_, err = c.take(session.FilePiece{Path: "b", Transfer: id})
		wantKind(t, "another path", err, session.KindInvalid)
		c.puts.Close()
		c.wantNames(t)
	})

	t.Run("nothing is replaced unless asked for", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		mustWrite(t, filepath.Join(c.dir, "a"), "old")
		wantKind(t, "at the beginning", c.put(session.FilePiece{Path: "a"}, "new", 9), session.KindFileExists)
		id := rand.Text()
		if _, err := c.take(session.FilePiece{Path: "b", Transfer: id}); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(c.dir, "b"), "old")
		_, err := c.take(session.FilePiece{Path: "b", Transfer: id, Last: true, CRC32: checksumOf("")})
		wantKind(t, "at the end", err, session.KindFileExists)
		for _, name := range []string{"a", "b"} {
			if got, err := c.read(name); got != "old" {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
		c.wantNames(t, "a", "b")
	})

	t.Run("a session that ends in the middle leaves nothing", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		id := rand.Text()
		if _, err := c.take(session.FilePiece{Path: "a", Transfer: id, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		c.puts.Close()
		c.wantNames(t)
		_, err := c.take(session.FilePiece{Path: "a", Transfer: id, Offset: 1})
		wantKind(t, "later", err, session.KindClosed)
	})

	t.Run("a client that gives up leaves nothing", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		id := rand.Text()
		for _, p := range []session.FilePiece{{Path: "a", Transfer: id, Data: []byte("x")}, {Path: "a", Transfer: id, Abort: true}, {Path: "a", Transfer: id, Abort: true}} {
			if _, err := c.take(p); err != nil {
				t.Fatal(err)
			}
		}
		c.wantNames(t)
	})

	t.Run("the number of transfers is limited, and one that was forgotten for long gives way", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		first := ""
		for i := range session.MaxOpenPuts {
			id := rand.Text()
			if i == 0 {
				first = id
			}
			if _, err := c.take(session.FilePiece{Path: "a", Transfer: id}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.take(session.FilePiece{Path: "a", Transfer: rand.Text()})
		wantKind(t, "one more", err, session.KindLimit)
		c.puts.open[first].used = time.Now().Add(-maxIdleTime - time.Second)
		if _, err := c.take(session.FilePiece{Path: "a", Transfer: rand.Text()}); err != nil {
			t.Fatal(err)
		}
		_, err = c.take(session.FilePiece{Path: "a", Transfer: first, Offset: 1})
		wantKind(t, "the one that gave way", err, session.KindStale)
		if names, _ := filepath.Glob(filepath.Join(c.dir, ".put-*")); len(names) != session.MaxOpenPuts {
			t.Errorf("there are %d temporary files", len(names))
		}
		c.puts.Close()
	})

	t.Run("missing directories are created only where that is asked for", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		wantKind(t, "without", c.put(session.FilePiece{Path: "a/b/c"}, "x", 9), session.KindNoFile)
		if err := c.put(session.FilePiece{Path: "a/b/c", Parents: true}, "x", 9); err != nil {
			t.Fatal(err)
		}
		if got, err := c.read("a/./b//c"); got != "x" {
			t.Errorf("got %q, %v", got, err)
		}
		wantKind(t, "in a file", c.put(session.FilePiece{Path: "a/b/c/d", Parents: true}, "x", 9), session.KindNoFile)
	})

	t.Run("a piece can be sent again when the sandbox had no answer", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		p := session.FilePiece{Path: "a", Transfer: rand.Text(), Data: []byte("x"), Last: true, CRC32: checksumOf("x")}
		busy := func() (Dir, error) { return Dir{}, Retryable(session.ErrBusy) }
		if _, err := c.puts.Take(t.Context(), busy, p); !errors.Is(err, session.ErrBusy) {
			t.Fatalf("got %v", err)
		}
		if now, err := c.take(p); err != nil || !now.Done {
			t.Fatalf("got %+v, %v", now, err)
		}
	})
}

func TestPaths(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	outside := t.TempDir()
	mustWrite(t, filepath.Join(outside, "secret"), "s")
	mustWrite(t, filepath.Join(c.dir, "plain"), "p")
	absolute := filepath.Join(c.dir, "plain")
	for _, path := range []string{"../x", "a/../plain", "..", "plain/..", "/etc/passwd", absolute, "bytes:%2e%2e/x", "bytes:/etc/passwd"} {
		_, err := c.read(path)
		wantKind(t, "get "+path, err, session.KindNoAccess)
		wantKind(t, "put "+path, c.put(session.FilePiece{Path: path, Overwrite: true}, "x", 9), session.KindNoAccess)
		wantKind(t, "remove "+path, Dir{Path: c.dir}.Remove(path), session.KindNoAccess)
		_, err = Dir{Path: c.dir}.List(path)
		wantKind(t, "list "+path, err, session.KindNoAccess)
	}
	for _, path := range []string{"a\x00b", "bytes:%", strings.Repeat("x/", 256) + "x", strings.Repeat("y", 5000)} {
		_, err := c.read(path)
		wantKind(t, "get "+path, err, session.KindInvalid)
	}
	for _, path := range []string{"", ".", "./", "session:x"} {
		err := c.put(session.FilePiece{Path: path}, "x", 9)
		if err == nil {
			t.Errorf("put %q succeeded", path)
		}
	}
	_, err := c.read("plain/below")
	wantKind(t, "a file as a directory", err, session.KindNoFile)
	_, err = c.read(".")
	wantKind(t, "a directory as a file", err, session.KindNoFile)
	if got, err := os.ReadFile(filepath.Join(outside, "secret")); string(got) != "s" {
		t.Errorf("outside: %q, %v", got, err)
	}
	c.wantNames(t, "plain")
}

func TestWindowsFault(t *testing.T) {
	t.Parallel()
	for part, ok := range map[string]bool{"a.txt": true, ".envrc": true, "": true, ".": true, "a b": true, "a:b": false, "file.txt::$DATA": false, ".envrc.": false, "x ": false, "a?": false, "<": false} {
		if got := windowsFault(part); (got == "") != ok {
			t.Errorf("%q: got %q", part, got)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()

	t.Run("a file that changes while it is read is an error that says so", func(t *testing.T) {
		t.Parallel()
		for name, change := range map[string]func(string) error{
			"grows":       func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 4001), 0o600) },
			"shrinks":     func(path string) error { return os.Truncate(path, 10) },
			"is replaced": func(path string) error { return os.Rename(path+"2", path) },
		} {
			c := newClient(t)
			path := filepath.Join(c.dir, "a")
			mustWrite(t, path, strings.Repeat("x", 4000))
			mustWrite(t, path+"2", strings.Repeat("y", 3999))
			var b strings.Builder
			var reading sync.Mutex // Windows does not replace a file that is open
			err := session.CopyFile(&b, func(offset int64) (session.FilePart, error) {
				reading.Lock()
				defer reading.Unlock()
				if offset == 2000 {
					if err := change(path); err != nil {
						t.Error(err)
					}
				}
				return Dir{Path: c.dir}.Read("a", offset, 1000)
			})
			wantKind(t, name, err, session.KindFileChanged)
			if strings.Contains(b.String(), "y") {
				t.Errorf("%s: parts of two files are mixed", name)
			}
		}
	})

	t.Run("past the end there is nothing", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		mustWrite(t, filepath.Join(c.dir, "a"), "abc")
		if p, err := (Dir{Path: c.dir}).Read("a", 9, 100); err != nil || len(p.Data) != 0 || p.Bytes != 3 {
			t.Errorf("got %+v, %v", p, err)
		}
	})

	t.Run("a working directory that is gone is named", func(t *testing.T) {
		t.Parallel()
		d := Dir{Path: filepath.Join(t.TempDir(), "gone")}
		_, err := d.Read("a", 0, 1)
		wantKind(t, "read", err, session.KindNoFile)
		if err == nil || !strings.Contains(err.Error(), d.Path) {
			t.Errorf("got %v", err)
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()

	t.Run("names, types and sizes", func(t *testing.T) {
		t.Parallel()
		c := newClient(t)
		mustWrite(t, filepath.Join(c.dir, "b"), "12")
		if err := os.Mkdir(filepath.Join(c.dir, "a"), 0o700); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, filepath.Join(c.dir, "a", "c"), "")
		l, err := Dir{Path: c.dir}.List("")
		if err != nil || len(l.Files) != 2 || l.More || l.Files[0].Type != session.FileDirectory || l.Files[1].Path != "b" || l.Files[1].Bytes != 2 {
			t.Errorf("got %+v, %v", l, err)
		}
		if l, err = (Dir{Path: c.dir}).List("a"); err != nil || len(l.Files) != 1 || l.Files[0].Path != "a/c" || l.Files[0].Name != "c" {
			t.Errorf("got %+v, %v", l, err)
		}
		_, err = Dir{Path: c.dir}.List("b")
		wantKind(t, "a file", err, session.KindNoFile)
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	mustWrite(t, filepath.Join(c.dir, "a"), "")
	if err := os.Mkdir(filepath.Join(c.dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := Dir{Path: c.dir}
	if err := d.Remove("a"); err != nil {
		t.Error(err)
	}
	wantKind(t, "again", d.Remove("a"), session.KindNoFile)
	wantKind(t, "a directory", d.Remove("d"), session.KindNoFile)
	wantKind(t, "the working directory", d.Remove(""), session.KindNoFile)
	c.wantNames(t, "d")
}

// A refusingApprover refuses names that begin with "no".
type refusingApprover struct{}

func (refusingApprover) check(name string) error {
	if strings.HasPrefix(filepath.Base(name), "no") {
		return errors.New("no")
	}
	return nil
}
func (j refusingApprover) CheckRead(f *os.File) error                { return j.check(f.Name()) }
func (j refusingApprover) CheckCreate(_ *os.File, name string) error { return j.check(name) }
func (j refusingApprover) CheckRemove(_ *os.File, name string) error { return j.check(name) }
func (refusingApprover) CheckCreated(_ *os.File, name string) error {
	if name == "late" {
		return errors.New("no")
	}
	return nil
}

func TestApprover(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	mustWrite(t, filepath.Join(c.dir, "no"), "secret")
	c.approver = refusingApprover{}
	_, err := c.read("no")
	wantKind(t, "get", err, session.KindNoAccess)
	wantKind(t, "put", c.put(session.FilePiece{Path: "no2"}, "x", 9), session.KindNoAccess)
	wantKind(t, "put into a directory", c.put(session.FilePiece{Path: "no3/a", Parents: true}, "x", 9), session.KindNoAccess)
	wantKind(t, "what was created at the wrong moment", c.put(session.FilePiece{Path: "late"}, "x", 9), session.KindNoAccess)
	wantKind(t, "remove", Dir{Path: c.dir, Approver: c.approver}.Remove("no"), session.KindNoAccess)
	c.wantNames(t, "no")
	if err := c.put(session.FilePiece{Path: "yes"}, "x", 9); err != nil {
		t.Error(err)
	}
}

// A failing writer ends the copy with its own error.
func TestCopyFile_Writer(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	mustWrite(t, filepath.Join(c.dir, "a"), "abc")
	r, w := io.Pipe()
	_ = r.CloseWithError(io.ErrShortBuffer)
	if err := session.CopyFile(w, func(offset int64) (session.FilePart, error) { return Dir{Path: c.dir}.Read("a", offset, 1) }); !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("got %v", err)
	}
}
