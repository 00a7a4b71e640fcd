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
	file  string // of /proc/sysvipc, which lists them
	size  int    // the argument that says how large one is; -1: it grows
	at    int    // where a line of that file says it
	unit  uint64 // bytes for each of that size
	flags int    // the argument with the flags
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

// answerObject makes an object in the program's place. Objects are made one after the other: of two that
// each fit alone, the second may not fit any more.
func (b *Box) answerObject(n *notification, k objectKind) {
	id, err := b.object(n, k)
	r := reply{ID: n.ID, Value: int64(id)}
	if err != nil {
		r.Value, r.Error = 0, -int32(errnoOf(err))
	}
	if control(b.calls, answerCall, unsafe.Pointer(&r)) != nil && err == nil && uint32(n.Data.Args[0]) == unix.IPC_PRIVATE {
		k.remove(id) // a signal has interrupted the program, which does not know it
	}
}

func (b *Box) object(n *notification, k objectKind) (uintptr, error) {
	args := n.Data.Args
	call := func() (uintptr, error) {
		id, _, no := unix.Syscall(uintptr(n.Data.Number), uintptr(args[0]), uintptr(args[1]), uintptr(args[2]))
		if no != 0 {
			return 0, no
		}
		return id, nil
	}
	private := uint32(args[0]) == unix.IPC_PRIVATE
	if !private && args[k.flags]&unix.IPC_CREAT == 0 || b.hasRoom(k, &args) {
		return call()
	}
	if private {
		return 0, unix.ENOSPC
	}
	args[k.flags] &^= unix.IPC_CREAT // perhaps it is there
	id, err := call()
	if err == unix.ENOENT {
		err = unix.ENOSPC
	}
	return id, err
}

// hasRoom reports whether the session's objects stay within their limit with one more.
func (b *Box) hasRoom(k objectKind, args *[6]uint64) bool {
	amount := uint64(1)
	if k.size >= 0 {
		amount = args[k.size]
	}
	most := uint64(b.plan.Objects)
	return amount <= most/k.unit && b.objects()+objectBytes+amount*k.unit <= most
}

// objects are the bytes that the objects of the session may take.
func (b *Box) objects() (n uint64) {
	for _, k := range objectKinds {
		first := true
		for line := range strings.Lines(b.list(k.file)) {
			if first { // the names of the columns
				first = false
				continue
			}
			amount := uint64(1)
			if f := strings.Fields(line); k.at >= 0 && k.at < len(f) {
				amount, _ = strconv.ParseUint(f[k.at], 10, 64)
			}
			n += objectBytes + amount*k.unit
		}
	}
	return n
}

// list reads a file of /proc/sysvipc, which is that of the namespace of the thread that opens it.
func (b *Box) list(file string) string {
	fd, err := unix.Openat(b.proc, "sysvipc/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// remove removes an object.
func (k objectKind) remove(id uintptr) {
	switch k.file {
	case "shm":
		_, _, _ = unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0)
	case "sem":
		_, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
	case "msg":
		_, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0)
	}
}
