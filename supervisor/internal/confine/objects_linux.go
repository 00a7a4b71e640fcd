package confine

import (
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An objectKind is a kind of objects that programs share by number (System V). They keep memory when no
// process uses them. Only user 0 of the namespace can set the kernel's own limits for them.
type objectKind struct {
	file       string // of /proc/sysvipc, which lists them
	sizeArg    int    // the argument that says how large one is; -1: it grows
	sizeColumn int    // where a line of that file says it
	unitBytes  uint64 // bytes for each of that size
	flagsArg   int    // the argument with the flags
}

const (
	objectBytes = 512     // of the object itself, about
	semBytes    = 64      // of a semaphore
	queueBytes  = 1 << 20 // of a queue that is full of small messages
)

// objectKinds are the calls that make them.
var objectKinds = map[string]objectKind{
	"shmget": {"shm", 1, 3, 1, 2},
	"semget": {"sem", 1, 3, semBytes, 2},
	"msgget": {"msg", -1, -1, queueBytes, 1},
}

// objectCalls are the same by number.
func objectCalls() map[int32]objectKind {
	calls := map[int32]objectKind{}
	for name, k := range objectKinds {
		calls[int32(architectures[runtime.GOARCH].calls[name])] = k
	}
	return calls
}

// answerObjectCall makes an object in the program's place. Objects are made one after the other: of two that
// each fit alone, the second may not fit any more.
func (b *Sandbox) answerObjectCall(n *seccompNotif, k objectKind) {
	id, err := b.makeObject(n, k)
	r := seccompResp{ID: n.ID, Value: int64(id)}
	if err != nil {
		r.Value, r.Error = 0, -int32(errnoOf(err))
	}
	if callIoctl(b.notifyFD, ioctlNotifSend, unsafe.Pointer(&r)) != nil && err == nil && uint32(n.Data.Args[0]) == unix.IPC_PRIVATE {
		k.removeObject(id) // a signal has interrupted the program, which does not know it
	}
}

func (b *Sandbox) makeObject(n *seccompNotif, k objectKind) (uintptr, error) {
	args := n.Data.Args
	call := func() (uintptr, error) {
		id, _, no := unix.Syscall(uintptr(n.Data.Number), uintptr(args[0]), uintptr(args[1]), uintptr(args[2]))
		if no != 0 {
			return 0, no
		}
		return id, nil
	}
	private := uint32(args[0]) == unix.IPC_PRIVATE
	if !private && args[k.flagsArg]&unix.IPC_CREAT == 0 || b.hasRoom(k, &args) {
		return call()
	}
	if private {
		return 0, unix.ENOSPC
	}
	args[k.flagsArg] &^= unix.IPC_CREAT // perhaps it is there
	id, err := call()
	if err == unix.ENOENT {
		err = unix.ENOSPC
	}
	return id, err
}

// hasRoom reports whether the session's objects stay within their limit with one more.
func (b *Sandbox) hasRoom(k objectKind, args *[6]uint64) bool {
	amount := uint64(1)
	if k.sizeArg >= 0 {
		amount = args[k.sizeArg]
	}
	most := uint64(b.plan.Objects)
	return amount <= most/k.unitBytes && b.usedObjectBytes()+objectBytes+amount*k.unitBytes <= most
}

// usedObjectBytes are the bytes that the objects of the session may take.
func (b *Sandbox) usedObjectBytes() (n uint64) {
	for _, k := range objectKinds {
		first := true
		for line := range strings.Lines(b.readObjectList(k.file)) {
			if first { // the names of the columns
				first = false
				continue
			}
			amount := uint64(1)
			if f := strings.Fields(line); k.sizeColumn >= 0 && k.sizeColumn < len(f) {
				amount, _ = strconv.ParseUint(f[k.sizeColumn], 10, 64)
			}
			n += objectBytes + amount*k.unitBytes
		}
	}
	return n
}

// readObjectList reads a file of /proc/sysvipc, which is that of the namespace of the thread that opens it.
func (b *Sandbox) readObjectList(file string) string {
	fd, err := unix.Openat(b.procFD, "sysvipc/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "" // this kernel has none of that kind
	}
	defer unix.Close(fd)
	var text []byte
	var part [4096]byte
	for {
		k, err := unix.Read(fd, part[:])
		if err != nil || k <= 0 {
			return string(text)
		}
		text = append(text, part[:k]...)
	}
}

// removeObject removes an object.
func (k objectKind) removeObject(id uintptr) {
	switch k.file {
	case "shm":
		_, _, _ = unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0)
	case "sem":
		_, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
	case "msg":
		_, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0)
	}
}
