package pty

import "golang.org/x/sys/unix"

// inputCalls maps the numbers of system calls that wait for input to their kinds.
var inputCalls = map[int]callKind{
	unix.SYS_READ:         callRead,
	unix.SYS_READV:        callRead,
	unix.SYS_POLL:         callPoll,
	unix.SYS_PPOLL:        callPpoll,
	unix.SYS_SELECT:       callSelect,
	unix.SYS_PSELECT6:     callSelect,
	unix.SYS_EPOLL_WAIT:   callEpollWait,
	unix.SYS_EPOLL_PWAIT:  callEpollWait,
	unix.SYS_EPOLL_PWAIT2: callEpollWait2,
}
