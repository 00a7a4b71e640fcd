//go:build unix

package ipc_test

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// A duplex combines the two pipe ends of one side.
type duplex struct {
	r, w *os.File
	raw  syscall.RawConn // of w
}

func newDuplex(t testing.TB, r, w *os.File) *duplex {
	t.Helper()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return &duplex{r, w, raw}
}

func (d *duplex) Read(b []byte) (int, error)  { return d.r.Read(b) }
func (d *duplex) Write(b []byte) (int, error) { return d.w.Write(b) }
func (d *duplex) Close() error                { return errors.Join(d.w.Close(), d.r.Close()) }

func (d *duplex) TryWrite(b []byte) (n int, err error) {
	outer := d.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), b)
		return true
	})
	n = max(n, 0)
	if err == syscall.EAGAIN {
		err = nil
	}
	return n, errors.Join(err, outer)
}
