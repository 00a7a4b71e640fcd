package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Refresh takes in what programs outside have changed: it protects what git's settings lead to now, and
// shows the session what is in these places, and returns when that is so. A place that goes in the meantime
// stays as it was.
func (b *Box) Refresh(changed *Grant) {
	b.guardMore(nil, changed.Reach)
	if len(changed.Places) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // and never unlocked, as for a grant
		defer close(done)
		b.giving.Lock()
		defer b.giving.Unlock()
		if unix.Unshare(unix.CLONE_FS) != nil {
			return
		}
		var clones []clone
		for _, place := range changed.Places {
			fd, err := cloneOfPlace(string(place.Path))
			if err != nil {
				continue
			}
			defer unix.Close(fd)
			if setAttributes(fd, "", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV) == nil {
				clones = append(clones, clone{place, fd})
			}
		}
		if unix.Setns(b.mounts, unix.CLONE_NEWNS) != nil {
			return
		}
		for _, c := range clones { // programs that have the old one open keep it
			if unix.Unmount(string(c.Path), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
				_ = moveToPlace(c.fd, string(c.Path))
			}
		}
	}()
	<-done
}
