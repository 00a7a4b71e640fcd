package broker

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// Some programs write git settings in place: cp, tar and libraries. They get an unnamed file
// instead. When it is closed, its text is checked like any new settings, and a copy replaces the
// old ones. Until then no one sees it.
//
// The close event is queued before the program's close returns. So any later call of the session
// that the monitor makes finds the new settings; only an immediate read may still find the old
// ones.

// maxDrafts bounds the drafts that are open at the same time.
const maxDrafts = 64

// settingsDrafts are the drafts of a session that programs have open.
type settingsDrafts struct {
	count atomic.Int32 // length of open
	mu    sync.Mutex
	open  map[int32]*settingsDraft // by inotify watch
	file  *os.File                 // an inotify instance, while open is not empty
	fd    int                      // descriptor of file
}

// A settingsDraft is an unnamed file that a program writes in place of a settings file.
type settingsDraft struct {
	fd      int                  // for reading the draft
	target  workerview.NameInDir // the settings file; its path may have changed
	program string
}

// needsDraft reports whether an open gets a draft. In a foreign repository, that is so only if the
// whole text is to be replaced.
func (b *Broker) needsDraft(s workerview.NameInDir, flags int) bool {
	return flags&seccomp.WriteFlags != 0 && b.IsSettingsTarget(s) && (flags&unix.O_TRUNC != 0 || b.AccessOf(s.FullPath) == nameguard.AccessRemove)
}

// openDraft opens a draft in place of a settings file, with the present text unless the open
// truncates it.
func (b *Broker) openDraft(n *seccompNotif, s workerview.NameInDir, flags int, mode uint32) (fd int, err error) {
	text, old, err := nameguard.ReadSettings(s.Dir, s.Name)
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
	err = b.withUmask(n, func() (err error) {
		if isNew { // the name exists from now on
			created, err := unix.Openat(s.Dir, s.Name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode&0o777)
			if err != nil {
				return err
			}
			unix.Close(created)
		}
		fd, err = unix.Openat(s.Dir, ".", unix.O_TMPFILE|unix.O_CLOEXEC|access|flags&unix.O_APPEND, mode&0o777)
		return err
	})
	if err == unix.EOPNOTSUPP || err == unix.EISDIR { // the filesystem has no unnamed files
		err = nameguard.ProtectedNameError{Path: s.FullPath}
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
		err = b.watchDraft(fd, s, b.programName(int(n.PID)))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// watchDraft watches for the close of a draft.
func (b *Broker) watchDraft(fd int, s workerview.NameInDir, by string) error {
	b.drafts.mu.Lock()
	defer b.drafts.mu.Unlock()
	if len(b.drafts.open) >= maxDrafts {
		return nameguard.ProtectedNameError{Path: s.FullPath}
	}
	d := &settingsDraft{fd: -1, target: workerview.NameInDir{Dir: -1, Name: s.Name, FullPath: s.FullPath}, program: by}
	var err error
	if d.fd, err = unix.Open(workerview.SelfFDPath(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		d.target.Dir, err = unix.FcntlInt(uintptr(s.Dir), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err == nil && b.drafts.file == nil {
		err = b.startDraftWatch()
	}
	var watch int
	if err == nil {
		watch, err = unix.InotifyAddWatch(b.drafts.fd, workerview.SelfFDPath(fd), unix.IN_CLOSE_WRITE)
	}
	if err != nil {
		d.close()
		b.stopDraftWatch()
		return err
	}
	if b.drafts.open == nil {
		b.drafts.open = map[int32]*settingsDraft{}
	}
	b.drafts.open[int32(watch)] = d
	b.drafts.count.Store(int32(len(b.drafts.open)))
	return nil
}

func (d *settingsDraft) close() {
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
	if d.target.Dir >= 0 {
		d.target.Close()
	}
}

func (b *Broker) startDraftWatch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "inotify")
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	b.drafts.file, b.drafts.fd = file, fd
	b.RunUnprivileged(func(err error) {
		if err != nil {
			return // the next call that changes files applies the drafts
		}
		_ = conn.Read(func(uintptr) bool {
			b.applyDrafts()
			b.drafts.mu.Lock()
			defer b.drafts.mu.Unlock()
			return b.drafts.file != file
		})
	})
	return nil
}

// stopDraftWatch closes the inotify instance when no draft is open.
func (b *Broker) stopDraftWatch() {
	b.drafts.count.Store(int32(len(b.drafts.open)))
	if len(b.drafts.open) == 0 && b.drafts.file != nil {
		go b.drafts.file.Close() // Close waits for the watching goroutine
		b.drafts.file = nil
	}
}

// applyDrafts checks and applies the drafts that programs have closed.
func (b *Broker) applyDrafts() {
	if b.drafts.count.Load() == 0 {
		return
	}
	b.drafts.mu.Lock()
	defer b.drafts.mu.Unlock()
	if b.drafts.file == nil {
		return
	}
	var events [maxDrafts * unix.SizeofInotifyEvent]byte // the events have no names
	n, _ := unix.Read(b.drafts.fd, events[:])
	for watch := range filestate.InotifyEvents(events[:max(n, 0)]) {
		d := b.drafts.open[watch]
		if d == nil {
			continue
		}
		delete(b.drafts.open, watch)
		if denied, isDenied := b.applyDraft(d).(nameguard.ProtectedNameError); isDenied {
			b.reportDenial(newGuardDenial(denied, &fileCall{op: "write"}, d.program))
		}
		d.close()
	}
	b.stopDraftWatch()
}

// applyDraft checks the text of a draft, and replaces the settings by a copy of it.
func (b *Broker) applyDraft(d *settingsDraft) error {
	above, err := b.RealPath(d.target.Dir)
	if err != nil {
		return err
	}
	d.target.FullPath = strings.TrimRight(above, "/") + "/" + d.target.Name
	text, mode, err := nameguard.SettingsIn(d.fd)
	if err != nil || b.AccessOf(d.target.FullPath) == nameguard.AccessNone && !b.IsSettingsTarget(d.target) {
		return nameguard.ProtectedNameError{Path: d.target.FullPath}
	}
	return b.CheckAndPutSettings(d.target, text, mode)
}
