package daemon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// fileEvents are the events that report a removed or replaced file in a directory. dirEvents are
	// the events that report a change of the directory itself.
	fileEvents = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB
	dirEvents  = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// A fileWatch receives an event from the kernel when a watched file may be gone. It uses no
// processor time until then.
type fileWatch struct {
	file    *os.File                        // the inotify instance
	changed chan struct{}                   // receives when a file may be gone; holds one token
	names   atomic.Pointer[map[string]bool] // base names of the watched files
}

// newFileWatch starts a watch. Its goroutine is counted in wg.
func newFileWatch(wg *sync.WaitGroup) (*fileWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	w := &fileWatch{file: os.NewFile(uintptr(fd), "inotify"), changed: make(chan struct{}, 1)}
	wg.Go(w.readEvents)
	return w, nil
}

// watchFiles replaces the set of watched files. It watches their directories, and all parent
// directories, which may be moved. Parents that the user cannot read are skipped. An error means
// that some files are not watched, because their directory does not exist or the user has no
// watches left.
func (w *fileWatch) watchFiles(files []string) error {
	names := make(map[string]bool)
	fd, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = fd.Control(func(fd uintptr) {
		add := func(dir string, events uint32) error {
			_, err := unix.InotifyAddWatch(int(fd), dir, events|dirEvents|unix.IN_ONLYDIR|unix.IN_MASK_ADD)
			return os.NewSyscallError("inotify_add_watch", err)
		}
		for _, file := range files {
			names[filepath.Base(file)] = true
			dir := filepath.Dir(file)
			if err := add(dir, fileEvents); err != nil {
				failed = err
			}
			for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
				if err := add(parent, 0); errors.Is(err, unix.ENOSPC) {
					failed = err
				}
			}
		}
	})
	w.names.Store(&names)
	return errors.Join(err, failed)
}

// readEvents reads events until the watch is closed.
func (w *fileWatch) readEvents() {
	buffer := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return
		}
		if !w.hasRelevantEvent(buffer[:n]) {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// hasRelevantEvent reports whether any of the events may mean that a watched file is gone.
func (w *fileWatch) hasRelevantEvent(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(events[4:])
		size := int(binary.NativeEndian.Uint32(events[12:]))
		name := bytes.TrimRight(events[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00")
		events = events[unix.SizeofInotifyEvent+size:]
		if names := w.names.Load(); mask&fileEvents == 0 || names != nil && (*names)[string(name)] {
			return true // also IN_UNMOUNT and IN_Q_OVERFLOW
		}
	}
	return false
}

func (w *fileWatch) close() {
	if w != nil {
		_ = w.file.Close()
	}
}
