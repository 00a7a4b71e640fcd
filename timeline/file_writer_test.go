package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A fakeDisk creates files that fail or hang.
type fakeDisk struct {
	roomBytes int           // bytes until every write fails; negative means unlimited
	hang      chan struct{} // writes wait until it is closed, if not nil
}

type fakeFile struct {
	*fakeDisk
	io.WriteCloser
}

func (d *fakeDisk) create(path string) (io.WriteCloser, error) {
	f, err := store.CreateFile(path)
	return fakeFile{d, f}, err
}

var errDiskFull = errors.New("no space left on device")

func (f fakeFile) Write(p []byte) (int, error) {
	if f.hang != nil {
		<-f.hang
	}
	if f.roomBytes >= 0 && len(p) > f.roomBytes {
		n, _ := f.WriteCloser.Write(p[:f.roomBytes])
		f.roomBytes = 0
		return n, errDiskFull
	}
	if f.roomBytes >= 0 {
		f.fakeDisk.roomBytes -= len(p)
	}
	return f.WriteCloser.Write(p)
}

func openLog(t *testing.T, o *Options, d *fakeDisk) *Log {
	t.Helper()
	o.Dir = t.TempDir()
	l, err := newLog(o, d.create)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lineEvent(n int) Event {
	return Event{Generation: 2, Turn: 3, Body: Text{Data: append(bytes.Repeat([]byte("x"), n-1), '\n')}}
}

func noticeMessages(events []Event) (found []string) {
	for _, e := range events {
		if n, ok := e.Body.(Notice); ok {
			found = append(found, n.Message)
		}
	}
	return found
}

func TestFileWriter(t *testing.T) {
	t.Run("a full disk turns files off with one notice", func(t *testing.T) {
		for _, room := range []int{0, 10, 5000, 300_000} {
			t.Run(fmt.Sprint(room), func(t *testing.T) {
				l := openLog(t, &Options{MemoryBytes: 1 << 20}, &fakeDisk{roomBytes: room})
				for range 1000 {
					l.Append(lineEvent(1000))
				}
				l.Sync()
				for range 10 {
					l.Append(lineEvent(10))
					l.Sync()
				}
				if l.OutputPath() != "" {
					t.Error("the output file is still named")
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
				var followed []Event
				for e := range l.Follow(t.Context(), 0) {
					followed = append(followed, e)
				}
				got := noticeMessages(followed)
				if len(got) != 1 || !strings.Contains(got[0], errDiskFull.Error()) {
					t.Errorf("got notices %q, want one with the reason", got)
				}
				after := Seq(0)
				for _, e := range followed {
					if g, ok := e.Body.(Gap); ok && g.From == after+1 {
						after = g.To - 1
					}
					if e.Seq != after+1 {
						t.Fatalf("got %d after %d", e.Seq, after)
					}
					after = e.Seq
				}
				if after != 1011 {
					t.Errorf("got events up to %d, want 1011", after)
				}
			})
		}
	})

	t.Run("gives up a hanging disk after a bounded wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &fakeDisk{roomBytes: -1, hang: make(chan struct{})}
			l := openLog(t, &Options{MemoryBytes: 64 << 10}, d)
			start := time.Now()
			for range 80 {
				l.Append(lineEvent(1000))
			}
			if waited := time.Since(start); waited != writerTimeout {
				t.Errorf("Append waited %v, want %v once", waited, writerTimeout)
			}
			if got := noticeMessages(l.EventsSince(0)); len(got) != 1 {
				t.Errorf("got notices %q, want one", got)
			}
			if err := l.Close(); err == nil || time.Since(start) != 2*writerTimeout {
				t.Errorf("Close: %v after %v, want an error after %v", err, time.Since(start), 2*writerTimeout)
			}
			close(d.hang)
			if err := l.Close(); err != nil {
				t.Errorf("Close after the disk recovered: %v", err)
			}
		})
	})

	t.Run("a lagging disk delays Append and loses nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &fakeDisk{roomBytes: -1, hang: make(chan struct{})}
			l := openLog(t, &Options{MemoryBytes: 64 << 10}, d)
			go func() {
				time.Sleep(writerTimeout / 2)
				close(d.hang)
			}()
			for range 1000 {
				l.Append(lineEvent(1000))
			}
			l.Sync()
			if l.OutputPath() == "" || l.LineCount() != 1000 {
				t.Errorf("got %d lines in %q", l.LineCount(), l.OutputPath())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("writes the first event after a short delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, &Options{}, &fakeDisk{roomBytes: -1})
			l.Append(lineEvent(10))
			time.Sleep(flushDelay - time.Nanosecond)
			synctest.Wait()
			if n := l.LineCount(); n != 0 {
				t.Errorf("got %d lines before the delay", n)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := l.LineCount(); n != 1 {
				t.Errorf("got %d lines after the delay, want 1", n)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("runs no timer while the log is idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, &Options{}, &fakeDisk{roomBytes: -1})
			for range 3 {
				l.Append(lineEvent(10))
				l.Sync()
				l.mu.Lock()
				if l.timerRunning || l.timer.Stop() {
					t.Error("the timer runs although everything is written")
				}
				l.mu.Unlock()
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("writes a backlog without waiting for the timer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, &Options{}, &fakeDisk{roomBytes: -1})
			start := time.Now()
			for range 300 {
				l.Append(lineEvent(1000))
			}
			synctest.Wait()
			if l.LineCount() < 200 || time.Since(start) != 0 {
				t.Errorf("got %d lines after %v", l.LineCount(), time.Since(start))
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("Close writes the remaining events", func(t *testing.T) {
		l := openLog(t, &Options{}, &fakeDisk{roomBytes: -1})
		l.Append(lineEvent(10))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if lines, err := l.Lines(1, 10); err != nil || len(lines) != 1 {
			t.Errorf("got %q, %v", lines, err)
		}
	})
}

func TestWindowLineNumbers(t *testing.T) {
	t.Run("waits until long text has line numbers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := openLog(t, &Options{}, &fakeDisk{roomBytes: -1})
			start := time.Now()
			for range 50 {
				l.Append(lineEvent(640))
			}
			for i, e := range l.Window(0, 64<<10, 64<<10) {
				if e.Line != i+1 {
					t.Fatalf("event %d: got line %d, want %d", e.Seq, e.Line, i+1)
				}
			}
			if waited := time.Since(start); waited != 0 {
				t.Errorf("waited %v for a disk that works", waited)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("omits line numbers after a bounded wait for the disk", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &fakeDisk{roomBytes: -1, hang: make(chan struct{})}
			l := openLog(t, &Options{}, d)
			for range 100 {
				l.Append(lineEvent(1000))
			}
			start := time.Now()
			found := false
			for _, e := range l.Window(0, 4096, 4096) {
				switch b := e.Body.(type) {
				case Omitted:
					found = b.FirstLine == 0 && b.LastLine == 0 && b.Bytes > 90_000
				case Gap:
					t.Errorf("got %+v, although nothing is lost", b)
				}
			}
			if waited := time.Since(start); !found || waited != lineNumberTimeout {
				t.Errorf("elided %v after %v, want an Omitted without lines after %v", found, waited, lineNumberTimeout)
			}
			close(d.hang)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestNew_BadOptions(t *testing.T) {
	if _, err := New(&Options{Dir: filepath.Join(t.TempDir(), "missing")}); err == nil {
		t.Error("a log was created")
	}
	if _, err := New(&Options{MemoryBytes: -1}); err == nil {
		t.Error("a negative bound was accepted")
	}
}

func TestReopenFiles(t *testing.T) {
	t.Parallel()

	t.Run("turns off full files that cannot be recreated", func(t *testing.T) {
		t.Parallel()
		for made := range 2 { // of the new files
			dir, left := t.TempDir(), 2+made
			l, err := newLog(&Options{Dir: dir, FileBytes: 4 << 10}, func(path string) (io.WriteCloser, error) {
				if left--; left < 0 {
					return nil, errDiskFull
				}
				return store.CreateFile(path)
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 8 {
				l.Append(lineEvent(1000))
				l.Sync()
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got := noticeMessages(l.EventsSince(0)); len(got) != 1 || !strings.Contains(got[0], errDiskFull.Error()) {
				t.Errorf("got notices %q", got)
			}
		}
	})
}
