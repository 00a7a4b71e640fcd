//go:build linux || darwin

package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"syscall"
)

// maxReport bounds a report in bytes.
const maxReport = 1 << 20

// reports are the stage's reports, in order. More than one goroutine may take them: the one
// that waits for them, and whoever needs to know those that have been sent.
type reports struct {
	raw syscall.RawConn

	mu   sync.Mutex // held while a report is handled
	rest []byte     // was read and is not handled yet
}

// await takes reports until handle returns false, the pipe ends or its deadline passes.
func (r *reports) await(handle func(report) bool) (err error) {
	closed := r.raw.Read(func(fd uintptr) bool {
		var done bool
		done, err = r.take(int(fd), handle)
		return done
	})
	return errors.Join(err, closed)
}

// now takes the reports that are there.
func (r *reports) now(handle func(report) bool) {
	_ = r.raw.Control(func(fd uintptr) { _, _ = r.take(int(fd), handle) })
}

func (r *reports) take(fd int, handle func(report) bool) (done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte{'\n'})
		if whole {
			var next report
			if err := json.Unmarshal(line, &next); err != nil {
				return true, err
			}
			if r.rest = rest; !handle(next) {
				return true, nil
			}
			continue
		}
		var buf [4096]byte
		switch n, err := syscall.Read(fd, buf[:]); {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false, nil
		case err != nil:
			return true, err
		case n == 0:
			return true, io.EOF
		case len(r.rest)+n > maxReport:
			return true, errors.New("host: a report of the stage has no end")
		default:
			r.rest = append(r.rest, buf[:n]...)
		}
	}
}
