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

// maxDrafts bounds the files that are being written.
const maxDrafts = 64

// settingsDrafts are the files that are being written.
type settingsDrafts struct {
	count atomic.Int32 // of open
	mu    sync.Mutex
	open  map[int32]*settingsDraft // by watch
	file  *os.File                 // an inotify instance, while there is one in open
	fd    int                      // of file
}

// A settingsDraft is a file that a program writes in the place of settings.
type settingsDraft struct {
	fd      int       // to read it
	target  nameInDir // the settings; its path may be another one by now
	program string
}

// needsDraft reports whether an open gets a sink. In a repository of somebody else's it does only if all of
// the text is to be new.
func (b *Sandbox) needsDraft(s nameInDir, flags int) bool {
	return flags&writeFlags != 0 && b.isSettingsTarget(s) && (flags&unix.O_TRUNC != 0 || b.accessOf(s.fullPath) == accessRemove)
}

// openDraft opens a file in the place of settings, with their text unless that is to be cut.
func (b *Sandbox) openDraft(n *seccompNotif, s nameInDir, flags int, mode uint32) (fd int, err error) {
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
	err = b.withUmask(n, func() (err error) {
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
		err = protectedNameError{path: s.fullPath}
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

// watchDraft waits for the close of a file.
func (b *Sandbox) watchDraft(fd int, s nameInDir, by string) error {
	b.drafts.mu.Lock()
	defer b.drafts.mu.Unlock()
	if len(b.drafts.open) >= maxDrafts {
		return protectedNameError{path: s.fullPath}
	}
	k := &settingsDraft{fd: -1, target: nameInDir{dir: -1, name: s.name, fullPath: s.fullPath}, program: by}
	var err error
	if k.fd, err = unix.Open(selfFDPath(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		k.target.dir, err = unix.FcntlInt(uintptr(s.dir), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err == nil && b.drafts.file == nil {
		err = b.startDraftWatch()
	}
	var watch int
	if err == nil {
		watch, err = unix.InotifyAddWatch(b.drafts.fd, selfFDPath(fd), unix.IN_CLOSE_WRITE)
	}
	if err != nil {
		k.close()
		b.stopDraftWatch()
		return err
	}
	if b.drafts.open == nil {
		b.drafts.open = map[int32]*settingsDraft{}
	}
	b.drafts.open[int32(watch)] = k
	b.drafts.count.Store(int32(len(b.drafts.open)))
	return nil
}

func (k *settingsDraft) close() {
	if k.fd >= 0 {
		unix.Close(k.fd)
	}
	if k.target.dir >= 0 {
		k.target.close()
	}
}

func (b *Sandbox) startDraftWatch() error {
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
	b.runUnprivileged(func(err error) {
		if err != nil {
			return // the next call that changes files takes what was written
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

// stopDraftWatch gives the inotify instance back when nothing is written any more.
func (b *Sandbox) stopDraftWatch() {
	b.drafts.count.Store(int32(len(b.drafts.open)))
	if len(b.drafts.open) == 0 && b.drafts.file != nil {
		go b.drafts.file.Close() // which waits for the goroutine that watches
		b.drafts.file = nil
	}
}

// applyDrafts judges the settings that programs have written.
func (b *Sandbox) applyDrafts() {
	if b.drafts.count.Load() == 0 {
		return
	}
	b.drafts.mu.Lock()
	defer b.drafts.mu.Unlock()
	if b.drafts.file == nil {
		return
	}
	var events [maxDrafts * unix.SizeofInotifyEvent]byte // none has a name
	n, _ := unix.Read(b.drafts.fd, events[:])
	for watch := range inotifyEvents(events[:max(n, 0)]) {
		k := b.drafts.open[watch]
		if k == nil {
			continue
		}
		delete(b.drafts.open, watch)
		if kept, isKept := b.applyDraft(k).(protectedNameError); isKept {
			b.reportDenial(kept.newDenial(&fileCall{op: "write"}, k.program))
		}
		k.close()
	}
	b.stopDraftWatch()
}

// applyDraft judges the settings in a sink, and puts a copy in their place.
func (b *Sandbox) applyDraft(k *settingsDraft) error {
	above, err := b.realPath(k.target.dir)
	if err != nil {
		return err
	}
	k.target.fullPath = strings.TrimRight(above, "/") + "/" + k.target.name
	text, mode, err := settingsIn(k.fd)
	if err != nil || b.accessOf(k.target.fullPath) == accessNone && !b.isSettingsTarget(k.target) {
		return protectedNameError{path: k.target.fullPath}
	}
	return b.checkAndPutSettings(k.target, text, mode)
}
