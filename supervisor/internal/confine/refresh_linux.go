package confine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Refresh shows the session what is now in these places, and returns when it sees it. A place that goes
// meanwhile stays as it was.
func (b *Box) Refresh(places []Place) {
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
		for _, place := range places {
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
