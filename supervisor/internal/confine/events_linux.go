package confine

import (
	"encoding/binary"
	"iter"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// FileEvents tells whether files have changed since they were looked at, without a look at each. All sessions
// of a program share one inotify instance while there are any, because a user has few
// (fs.inotify.max_user_instances). Nothing waits for its events: a turn takes those that have queued, and an
// idle session costs nothing. The kernel keeps at most 16 384 (max_queued_events) and says when there were
// more. The zero value is ready, and nil watches nothing.
type FileEvents struct {
	mu       sync.Mutex
	opened   bool
	fd       int              // -1 without an instance
	happened map[int32]uint64 // how many events each watch had
	ended    map[int32]bool   // watches whose file may have another path now
	users    map[int32]int
	lost     uint64 // how often the kernel had more events than it keeps
}

// maxWatches bounds the watches of a program. Paths beyond it are looked at.
const maxWatches = 4096

const (
	dirEvents  = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB
	fileEvents = unix.IN_MODIFY | unix.IN_ATTRIB
	goneEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// fileMarks remembers how many events paths had. nil stands for paths that are not watched yet.
type fileMarks struct {
	events   *FileEvents // nil where they cannot be watched
	happened map[int32]uint64
	lost     uint64
}

// mark watches paths, whether they are there or not, and the directories above them. Its marks are never quiet
// if one of them is reached by a symbolic link, or is on a filesystem that others may change.
func (e *FileEvents) mark(paths []string) *fileMarks {
	if e == nil {
		return &fileMarks{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open() {
		return &fileMarks{}
	}
	e.take()
	m := &fileMarks{events: e, happened: map[int32]uint64{}, lost: e.lost}
	known := map[string]bool{}
	for _, path := range paths {
		if filepath.IsAbs(path) && !e.watchDown(filepath.Clean(path), m, known) {
			e.release(m)
			return &fileMarks{}
		}
	}
	return m
}

// watchDown watches the directories above a path before the path: what takes its place is told then.
func (e *FileEvents) watchDown(path string, m *fileMarks, known map[string]bool) bool {
	if known[path] {
		return true
	}
	known[path] = true
	above := filepath.Dir(path)
	return (above == path || e.watchDown(above, m, known)) && e.watch(path, m)
}

// open makes the instance.
func (e *FileEvents) open() bool {
	if !e.opened {
		e.opened = true
		e.happened, e.ended, e.users = map[int32]uint64{}, map[int32]bool{}, map[int32]int{}
		fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		if e.fd = fd; err != nil {
			e.fd = -1
		}
	}
	return e.fd >= 0
}

// Close gives the instance back. All is looked at from then on.
func (e *FileEvents) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open() {
		unix.Close(e.fd)
		e.fd = -1
	}
}

// watch adds a watch to marks. It reports whether a change of the path will be told.
func (e *FileEvents) watch(path string, m *fileMarks) bool {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err == unix.ENOENT || err == unix.ENOTDIR // the directory above tells when it comes
	}
	mask := uint32(goneEvents | fileEvents)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return false
	case unix.S_IFDIR:
		mask = goneEvents | dirEvents
	}
	if len(e.users) >= maxWatches || !isLocal(path) {
		return false
	}
	wd, err := unix.InotifyAddWatch(e.fd, path, mask|unix.IN_MASK_ADD|unix.IN_DONT_FOLLOW)
	if err != nil {
		return false
	}
	if _, marked := m.happened[int32(wd)]; !marked {
		m.happened[int32(wd)] = e.happened[int32(wd)]
		e.users[int32(wd)]++
	}
	return true
}

// isLocal reports whether only this system changes a filesystem, so that it tells all changes.
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

// take counts the events that have queued.
func (e *FileEvents) take() {
	var buffer [16 << 10]byte
	for {
		n, err := unix.Read(e.fd, buffer[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		for wd, mask := range inotifyEvents(buffer[:n]) {
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				e.lost++
			case e.users[wd] > 0:
				e.happened[wd]++
				if mask&(goneEvents|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
					e.ended[wd] = true
				}
			}
		}
	}
}

// inotifyEvents returns the watches and masks of the events that a read has got.
func inotifyEvents(read []byte) iter.Seq2[int32, uint32] {
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

// catchUp marks what has happened until now.
func (e *FileEvents) catchUp(m *fileMarks) {
	m.lost = e.lost
	for wd := range m.happened {
		m.happened[wd] = e.happened[wd]
	}
}

// release gives up the watches that only these marks have, and the instance when none is left.
func (e *FileEvents) release(m *fileMarks) {
	for wd := range m.happened {
		if e.users[wd]--; e.users[wd] <= 0 {
			if e.fd >= 0 {
				_, _ = unix.InotifyRmWatch(e.fd, uint32(wd)) // it may have ended
			}
			delete(e.users, wd)
			delete(e.happened, wd)
			delete(e.ended, wd)
		}
	}
	m.happened = nil
	if len(e.users) == 0 && e.fd >= 0 {
		unix.Close(e.fd)
		e.fd, e.opened = -1, false
	}
}

// areQuiet reports whether nothing has happened to the paths.
func (m *fileMarks) areQuiet() bool {
	if m == nil || m.events == nil {
		return false
	}
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.events.take()
	if m.events.fd < 0 || m.lost != m.events.lost {
		return false
	}
	for wd, n := range m.happened {
		if m.events.happened[wd] != n {
			return false
		}
	}
	return true
}

// renewed returns marks from now on: of the same paths, or nil if one may be another file or directory.
func (m *fileMarks) renewed() *fileMarks {
	if m == nil || m.events == nil {
		return m
	}
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.events.take()
	for wd := range m.happened {
		if m.events.ended[wd] || m.events.fd < 0 {
			m.events.release(m)
			return nil
		}
	}
	m.events.catchUp(m)
	return m
}

// end gives the watches up.
func (m *fileMarks) end() {
	if m == nil || m.events == nil {
		return
	}
	m.events.mu.Lock()
	defer m.events.mu.Unlock()
	m.events.release(m)
}
