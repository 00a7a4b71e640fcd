//go:build linux || darwin

package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// maxEventBytes bounds the size of one event in bytes.
const maxEventBytes = 1 << 20

// An eventReader reads the monitor's events in order. More than one goroutine may read them: the
// one that waits for events, and any that needs those already sent.
type eventReader struct {
	raw syscall.RawConn

	mu      sync.Mutex // held while an event is handled
	pending []byte     // read but not handled yet
}

// handleUntil handles events until handle returns false, the pipe ends or its deadline passes.
func (r *eventReader) handleUntil(handle func(monitorproto.MonitorEvent) bool) (err error) {
	closed := r.raw.Read(func(fd uintptr) bool {
		var done bool
		done, err = r.drain(int(fd), handle)
		return done
	})
	return errors.Join(err, closed)
}

// handleAvailable handles the events that can be read now.
func (r *eventReader) handleAvailable(handle func(monitorproto.MonitorEvent) bool) {
	_ = r.raw.Control(func(fd uintptr) { _, _ = r.drain(int(fd), handle) })
}

func (r *eventReader) drain(fd int, handle func(monitorproto.MonitorEvent) bool) (done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		line, rest, whole := bytes.Cut(r.pending, []byte{'\n'})
		if whole {
			var next monitorproto.MonitorEvent
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
			return true, fmt.Errorf("launch: an event of the monitor exceeds %d bytes", maxEventBytes)
		default:
			r.pending = append(r.pending, buf[:n]...)
		}
	}
}
