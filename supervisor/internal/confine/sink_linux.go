package confine

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Some programs write settings of git in place: cp, tar and libraries. They get a file without a name. When
// it is closed its text is judged like any new settings, and a copy takes their place. Until then nobody
// sees it. The event of a close is there when the program's call returns, so a later call of the session
// that the stage makes finds the new settings. Only a read at once may still find the old ones.

// mostSinks bounds the files that are being written.
const mostSinks = 64

// sinks are the files that are being written.
type sinks struct {
	count atomic.Int32 // of open
	mu    sync.Mutex
	open  map[int32]*sink // by watch
	file  *os.File        // an inotify instance, while there is one in open
	fd    int             // of file
}

// A sink is a file that a program writes in the place of settings.
type sink struct {
	fd int  // to read it
	to spot // the settings; its path may be another one by now
	by string
}

// takesInPlace reports whether an open gets a sink. In a repository of somebody else's it does only if all of
// the text is to be new.
func (b *Box) takesInPlace(s spot, flags int) bool {
	return flags&writes != 0 && b.takesSettings(s) && (flags&unix.O_TRUNC != 0 || b.freedomOf(s.full) == removal)
}

// openSink opens a file in the place of settings, with their text unless that is to be cut.
func (b *Box) openSink(n *notification, s spot, flags int, mode uint32) (fd int, err error) {
	text, old, err := readSettings(s.dir, s.name)
	switch {
	case err == nil && flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0:
		return -1, unix.EEXIST
	case err == nil:
		mode = old
	case err != unix.ENOENT || flags&unix.O_CREAT == 0:
		return -1, err
	}
	access := flags & unix.O_ACCMODE
	if access == unix.O_RDONLY {
		access = unix.O_RDWR
	}
	isNew := err != nil
	err = b.masked(n, func() (err error) {
		if isNew { // the name is there from now on
			made, err := unix.Openat(s.dir, s.name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode&0o777)
			if err != nil {
				return err
			}
			unix.Close(made)
		}
		fd, err = unix.Openat(s.dir, ".", unix.O_TMPFILE|unix.O_CLOEXEC|access|flags&unix.O_APPEND, mode&0o777)
		return err
	})
	if err == unix.EOPNOTSUPP || err == unix.EISDIR { // the filesystem has no such files
		err = keptError{path: s.full}
	}
	if err != nil {
		return -1, err
	}
	if flags&unix.O_TRUNC == 0 {
		if _, err = unix.Write(fd, text); err == nil {
			_, err = unix.Seek(fd, 0, unix.SEEK_SET)
		}
	}
	if err == nil {
		err = b.watchSink(fd, s, b.program(int(n.PID)))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// watchSink waits for the close of a file.
func (b *Box) watchSink(fd int, s spot, by string) error {
	b.sinks.mu.Lock()
	defer b.sinks.mu.Unlock()
	if len(b.sinks.open) >= mostSinks {
		return keptError{path: s.full}
	}
	k := &sink{fd: -1, to: spot{dir: -1, name: s.name, full: s.full}, by: by}
	var err error
	if k.fd, err = unix.Open(ownFile(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		k.to.dir, err = unix.FcntlInt(uintptr(s.dir), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err == nil && b.sinks.file == nil {
		err = b.startWatching()
	}
	var watch int
	if err == nil {
		watch, err = unix.InotifyAddWatch(b.sinks.fd, ownFile(fd), unix.IN_CLOSE_WRITE)
	}
	if err != nil {
		k.close()
		b.endWatching()
		return err
	}
	if b.sinks.open == nil {
		b.sinks.open = map[int32]*sink{}
	}
	b.sinks.open[int32(watch)] = k
	b.sinks.count.Store(int32(len(b.sinks.open)))
	return nil
}

func (k *sink) close() {
	if k.fd >= 0 {
		unix.Close(k.fd)
	}
	if k.to.dir >= 0 {
		k.to.close()
	}
}

func (b *Box) startWatching() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "inotify")
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	b.sinks.file, b.sinks.fd = file, fd
	b.apart(func(err error) {
		if err != nil {
			return // the next call that changes files takes what was written
		}
		_ = conn.Read(func(uintptr) bool {
			b.takeWritten()
			b.sinks.mu.Lock()
			defer b.sinks.mu.Unlock()
			return b.sinks.file != file
		})
	})
	return nil
}

// endWatching gives the inotify instance back when nothing is written any more.
func (b *Box) endWatching() {
	b.sinks.count.Store(int32(len(b.sinks.open)))
	if len(b.sinks.open) == 0 && b.sinks.file != nil {
		go b.sinks.file.Close() // which waits for the goroutine that watches
		b.sinks.file = nil
	}
}

// takeWritten judges the settings that programs have written.
func (b *Box) takeWritten() {
	if b.sinks.count.Load() == 0 {
		return
	}
	b.sinks.mu.Lock()
	defer b.sinks.mu.Unlock()
	if b.sinks.file == nil {
		return
	}
	var events [mostSinks * unix.SizeofInotifyEvent]byte // none has a name
	n, _ := unix.Read(b.sinks.fd, events[:])
	for watch := range inotifyEvents(events[:max(n, 0)]) {
		k := b.sinks.open[watch]
		if k == nil {
			continue
		}
		delete(b.sinks.open, watch)
		if kept, isKept := b.takeFrom(k).(keptError); isKept {
			b.denied(kept.denial(&fileCall{op: "write"}, k.by))
		}
		k.close()
	}
	b.endWatching()
}

// takeFrom judges the settings in a sink, and puts a copy in their place.
func (b *Box) takeFrom(k *sink) error {
	above, err := b.realPath(k.to.dir)
	if err != nil {
		return err
	}
	k.to.full = strings.TrimRight(above, "/") + "/" + k.to.name
	text, mode, err := settingsIn(k.fd)
	if err != nil || b.freedomOf(k.to.full) == nothing && !b.takesSettings(k.to) {
		return keptError{path: k.to.full}
	}
	return b.setSettings(k.to, text, mode)
}
