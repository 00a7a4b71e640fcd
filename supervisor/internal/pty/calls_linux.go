//go:build !amd64

package pty

import "golang.org/x/sys/unix"

// inputCalls maps the numbers of system calls that wait for input to their kinds, on architectures
// that never had poll, select and epoll_wait.
var inputCalls = map[int]callKind{
	unix.SYS_READ:         callRead,
	unix.SYS_READV:        callRead,
	unix.SYS_PPOLL:        callPpoll,
	unix.SYS_PSELECT6:     callSelect,
	unix.SYS_EPOLL_PWAIT:  callEpollWait,
	unix.SYS_EPOLL_PWAIT2: callEpollWait2,
}
