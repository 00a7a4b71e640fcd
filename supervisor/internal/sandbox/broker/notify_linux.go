package broker

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A seccompNotif is the kernel's struct seccomp_notif: a system call that waits for an answer.
type seccompNotif struct {
	ID    uint64
	PID   uint32 // thread ID of the caller
	Flags uint32
	Data  struct {
		Number             int32
		Audit              uint32
		InstructionPointer uint64
		Args               [6]uint64
	}
}

// A seccompResp is the kernel's struct seccomp_notif_resp: the answer to a call.
type seccompResp struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// The ioctl requests for the descriptor of a filter.
const (
	ioctlNotifRecv     = 0xc0502100 // SECCOMP_IOCTL_NOTIF_RECV
	ioctlNotifSend     = 0xc0182101 // SECCOMP_IOCTL_NOTIF_SEND
	ioctlNotifIDValid  = 0x40082102 // SECCOMP_IOCTL_NOTIF_ID_VALID
	ioctlNotifSetFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS

	notifSyncWakeUp = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP: the monitor and the program that waits for it share a processor

	notifContinue = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
)

func callIoctl(fd int, request uintptr, p unsafe.Pointer) error {
	_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	runtime.KeepAlive(p)
	if no != 0 {
		return no
	}
	return nil
}

func errnoOf(err error) unix.Errno {
	if no, ok := errors.AsType[unix.Errno](err); ok {
		return no
	}
	return unix.EACCES
}
