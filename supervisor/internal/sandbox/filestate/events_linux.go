package filestate

import (
	"encoding/binary"
	"iter"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// ChangeEvents reports whether files have changed since the last check, without a system call for
// each file. All sessions of a program share one inotify instance, because a user has few of them
// (fs.inotify.max_user_instances).
//
// No goroutine waits for events: a turn reads those in the queue, and an idle session costs
// nothing. The kernel queues at most 16 384 events (max_queued_events) and reports an overflow. The
// zero value is ready, and nil watches nothing.
type ChangeEvents struct {
	mu           sync.Mutex
	opened       bool
	fd           int              // -1 without an instance
	eventCounts  map[int32]uint64 // how many events each watch had
	staleWatches map[int32]bool   // watches whose file may have moved
	watchUsers   map[int32]int
	overflows    uint64 // number of overflows of the kernel's queue
}

// maxWatches bounds the watches of a program. Further paths are checked on each turn.
const maxWatches = 4096

const (
	dirEvents  = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB
	fileEvents = unix.IN_MODIFY | unix.IN_ATTRIB
	goneEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// EventMarks are the event counts of a set of paths at one moment. nil means that the paths are not
// watched yet.
type EventMarks struct {
	events      *ChangeEvents // nil if they cannot be watched
	eventCounts map[int32]uint64
	overflows   uint64
}

// WatchPaths watches paths, whether they exist or not, and the directories above them. The marks
// are never quiet if a path leads through a symbolic link or is on a filesystem that other machines
// may change.
func (e *ChangeEvents) WatchPaths(paths []string) *EventMarks {
	if e == nil {
		return &EventMarks{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.openInotify() {
		return &EventMarks{}
	}
	e.readEvents()
	m := &EventMarks{events: e, eventCounts: map[int32]uint64{}, overflows: e.overflows}
	known := map[string]bool{}
	for _, path := range paths {
		if filepath.IsAbs(path) && !e.watchWithParents(filepath.Clean(path), m, known) {
			e.releaseMarks(m)
			return &EventMarks{}
		}
	}
	return m
}

// watchWithParents watches the directories above a path before the path itself, so that a
// replacement of the path is noticed.
func (e *ChangeEvents) watchWithParents(path string, m *EventMarks, known map[string]bool) bool {
	if known[path] {
		return true
	}
	known[path] = true
	above := filepath.Dir(path)
	return (above == path || e.watchWithParents(above, m, known)) && e.addWatch(path, m)
}

// openInotify opens the inotify instance, unless it is open.
func (e *ChangeEvents) openInotify() bool {
	if !e.opened {
		e.opened = true
		e.eventCounts, e.staleWatches, e.watchUsers = map[int32]uint64{}, map[int32]bool{}, map[int32]int{}
		fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		if e.fd = fd; err != nil {
			e.fd = -1
		}
	}
	return e.fd >= 0
}

// Close closes the inotify instance. From then on every file is checked.
func (e *ChangeEvents) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.openInotify() {
		unix.Close(e.fd)
		e.fd = -1
	}
}

// addWatch adds a watch to marks. It reports whether a change of the path will be noticed.
func (e *ChangeEvents) addWatch(path string, m *EventMarks) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err == unix.ENOENT || err == unix.ENOTDIR // the watch of the directory above notices its creation
	}
	mask := uint32(goneEvents | fileEvents)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return false
	case unix.S_IFDIR:
		mask = goneEvents | dirEvents
	}
	if len(e.watchUsers) >= maxWatches || !isLocal(path) {
		return false
	}
	wd, err := unix.InotifyAddWatch(e.fd, path, mask|unix.IN_MASK_ADD|unix.IN_DONT_FOLLOW)
	if err != nil {
		return false
	}
	if _, marked := m.eventCounts[int32(wd)]; !marked {
		m.eventCounts[int32(wd)] = e.eventCounts[int32(wd)]
		e.watchUsers[int32(wd)]++
	}
	return true
}

// isLocal reports whether only this system changes a filesystem, so that inotify reports all
// changes.
func isLocal(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// readEvents counts the queued events.
func (e *ChangeEvents) readEvents() {
	var buffer [16 << 10]byte
	for {
		n, err := unix.Read(e.fd, buffer[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for wd, mask := range InotifyEvents(buffer[:n]) {
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				e.overflows++
			case e.watchUsers[wd] > 0:
				e.eventCounts[wd]++
				if mask&(goneEvents|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
					e.staleWatches[wd] = true
				}
			}
		}
	}
}

// InotifyEvents returns the watch and mask of each event in the bytes of a read.
func InotifyEvents(read []byte) iter.Seq2[int32, uint32] {
	return func(yield func(watch int32, mask uint32) bool) {
		for at := 0; at+unix.SizeofInotifyEvent <= len(read); {
			watch, mask := int32(binary.NativeEndian.Uint32(read[at:])), binary.NativeEndian.Uint32(read[at+4:])
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(read[at+12:])) // with its name
			if !yield(watch, mask) {
				return
			}
		}
	}
}

// catchUp sets the marks to the present counts.
func (e *ChangeEvents) catchUp(m *EventMarks) {
	m.overflows = e.overflows
	for wd := range m.eventCounts {
		m.eventCounts[wd] = e.eventCounts[wd]
	}
}

// releaseMarks removes the watches that only these marks use, and closes the instance when no watch
// remains.
func (e *ChangeEvents) releaseMarks(m *EventMarks) {
	for wd := range m.eventCounts {
		if e.watchUsers[wd]--; e.watchUsers[wd] <= 0 {
			if e.fd >= 0 {
				_, _ = unix.InotifyRmWatch(e.fd, uint32(wd)) // the watch may have ended
			}
			delete(e.watchUsers, wd)
			delete(e.eventCounts, wd)
			delete(e.staleWatches, wd)
		}
	}
	m.eventCounts = nil
	if len(e.watchUsers) == 0 && e.fd >= 0 {
		unix.Close(e.fd)
		e.fd, e.opened = -1, false
	}
}

// AreQuiet reports whether no event was counted for the paths since the marks were set.
func (m *EventMarks) AreQuiet() bool {
	if m == nil || m.events == nil {
		return false
	}
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.events.readEvents()
	if m.events.fd < 0 || m.overflows != m.events.overflows {
		return false
	}
	for wd, n := range m.eventCounts {
		if m.events.eventCounts[wd] != n {
			return false
		}
	}
	return true
}

// RenewedMarks returns marks of the same paths as of now, or nil if one of them may have become
// another file or directory.
func (m *EventMarks) RenewedMarks() *EventMarks {
	if m == nil || m.events == nil {
		return m
	}
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.events.readEvents()
	for wd := range m.eventCounts {
		if m.events.staleWatches[wd] || m.events.fd < 0 {
			m.events.releaseMarks(m)
			return nil
		}
	}
	m.events.catchUp(m)
	return m
}

// Unwatch releases the watches of the marks.
func (m *EventMarks) Unwatch() {
	if m == nil || m.events == nil {
		return
	}
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.events.releaseMarks(m)
}
