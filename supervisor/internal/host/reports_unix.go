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

// maxEventBytes bounds a report in bytes.
const maxEventBytes = 1 << 20

// eventReader are the stage's reports, in order. More than one goroutine may take them: the one
// that waits for them, and whoever needs to know those that have been sent.
type eventReader struct {
	raw syscall.RawConn

	mu      sync.Mutex // held while a report is handled
	pending []byte     // was read and is not handled yet
}

// handleUntil takes reports until handle returns false, the pipe ends or its deadline passes.
func (r *eventReader) handleUntil(handle func(monitorEvent) bool) (err error) {
	closed := r.raw.Read(func(fd uintptr) bool {
		var done bool
		done, err = r.drain(int(fd), handle)
		return done
	})
	return errors.Join(err, closed)
}

// handleAvailable takes the reports that are there.
func (r *eventReader) handleAvailable(handle func(monitorEvent) bool) {
	_ = r.raw.Control(func(fd uintptr) { _, _ = r.drain(int(fd), handle) })
}

func (r *eventReader) drain(fd int, handle func(monitorEvent) bool) (done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		line, rest, whole := bytes.Cut(r.pending, []byte{'\n'})
		if whole {
			var next monitorEvent
			if err := json.Unmarshal(line, &next); err != nil {
				return true, err
			}
			if r.pending = rest; !handle(next) {
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
		case len(r.pending)+n > maxEventBytes:
			return true, errors.New("host: a report of the stage has no end")
		default:
			r.pending = append(r.pending, buf[:n]...)
		}
	}
}
