package host

import "golang.org/x/sys/unix"

// growPipe lets a pipe hold n bytes, if the user may still have so many; they take memory only when
// they are there.
func growPipe(fd, n int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, n) }
