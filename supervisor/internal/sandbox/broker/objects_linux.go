package broker

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
)

// An ipcObjectKind is a kind of System V IPC objects, which programs share by number. They use memory
// even if no process uses them. Only user 0 of the namespace can set the kernel's own limits for
// them.
type ipcObjectKind struct {
	file       string // name of the file in /proc/sysvipc that lists them
	sizeArg    int    // the argument with the size; -1 if the object grows
	sizeColumn int    // the column of the size in that file
	unitBytes  uint64 // bytes per unit of size
	flagsArg   int    // the argument with the flags
}

const (
	ipcObjectBytes = 512     // of the object itself, approximately
	semBytes       = 64      // of a semaphore
	queueBytes     = 1 << 20 // of a queue full of small messages
)

// ipcObjectKinds has the calls that make IPC objects, by name.
var ipcObjectKinds = map[string]ipcObjectKind{
	"shmget": {"shm", 1, 3, 1, 2},
	"semget": {"sem", 1, 3, semBytes, 2},
	"msgget": {"msg", -1, -1, queueBytes, 1},
}

// ReportedObjectCalls returns the names of the calls that make System V IPC objects, if the plan limits
// the memory of these objects; otherwise none.
func ReportedObjectCalls(p *plan.Plan) []string {
	if p.Objects <= 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(ipcObjectKinds))
}

// ipcObjectCalls returns ipcObjectKinds by the number of the call.
func ipcObjectCalls() map[int32]ipcObjectKind {
	calls := map[int32]ipcObjectKind{}
	for name, k := range ipcObjectKinds {
		calls[int32(seccomp.Architectures[runtime.GOARCH].Calls[name])] = k
	}
	return calls
}

// answerIPCObjectCall creates an object on behalf of the program. Objects are created one at a
// time, because two that each fit may not fit together.
func (b *Broker) answerIPCObjectCall(n *seccompNotif, k ipcObjectKind) {
	id, err := b.createIPCObject(n, k)
	r := seccompResp{ID: n.ID, Value: int64(id)}
	if err != nil {
		r.Value, r.Error = 0, -int32(errnoOf(err))
	}
	if callIoctl(b.NotifyFD, ioctlNotifSend, unsafe.Pointer(&r)) != nil && err == nil && uint32(n.Data.Args[0]) == unix.IPC_PRIVATE {
		k.removeObject(id) // a signal has interrupted the program, which does not know its ID
	}
}

func (b *Broker) createIPCObject(n *seccompNotif, k ipcObjectKind) (uintptr, error) {
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
	args[k.flagsArg] &^= unix.IPC_CREAT // it may exist already
	id, err := call()
	if err == unix.ENOENT {
		err = unix.ENOSPC
	}
	return id, err
}

// hasRoom reports whether the session's objects stay within their limit with one more.
func (b *Broker) hasRoom(k ipcObjectKind, args *[6]uint64) bool {
	amount := uint64(1)
	if k.sizeArg >= 0 {
		amount = args[k.sizeArg]
	}
	limit := uint64(b.plan.Objects)
	return amount <= limit/k.unitBytes && b.usedObjectBytes()+ipcObjectBytes+amount*k.unitBytes <= limit
}

// usedObjectBytes returns the bytes that the session's objects may use.
func (b *Broker) usedObjectBytes() (n uint64) {
	for _, k := range ipcObjectKinds {
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
			n += ipcObjectBytes + amount*k.unitBytes
		}
	}
	return n
}

// readObjectList reads a file of /proc/sysvipc, which lists the objects of the opening thread's
// namespace.
func (b *Broker) readObjectList(file string) string {
	fd, err := unix.Openat(b.ProcFD, "sysvipc/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "" // this kernel does not support this kind
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

// removeObject removes an object by its ID.
func (k ipcObjectKind) removeObject(id uintptr) {
	switch k.file {
	case "shm":
		_, _, _ = unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0)
	case "sem":
		_, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
	case "msg":
		_, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0)
	}
}
