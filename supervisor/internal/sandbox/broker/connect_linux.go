package broker

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// emulateConnect makes a connect(2) on behalf of a thread of the session.
func (b *Broker) emulateConnect(n *seccompNotif) error {
	if int32(n.Data.Args[2]) < 0 || n.Data.Args[2] > unix.SizeofSockaddrAny+16 { // struct sockaddr_storage
		return unix.EINVAL
	}
	address := make([]byte, int(n.Data.Args[2]))
	if err := workerview.PeekMemory(int(n.PID), n.Data.Args[1], address); err != nil {
		return unix.EFAULT
	}
	socket, err := b.CopyDescriptor(int(n.PID), int(int32(n.Data.Args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	// The call is still pending after both were read, so the thread ID did not belong to another
	// thread.
	if err := callIoctl(b.NotifyFD, ioctlNotifIDValid, unsafe.Pointer(&n.ID)); err != nil {
		return err
	}
	domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	if b.plan.Mechanism != "" { // the session shares the machine's network, so every target is outside
		to, ok := b.Egress.Target(socket, address)
		if !ok || domain != unix.AF_INET {
			return unix.EACCES
		}
		return b.connectEgress(n, socket, to)
	}
	if domain != unix.AF_UNIX || len(address) < 2 || binary.NativeEndian.Uint16(address) != unix.AF_UNIX {
		if to, ok := b.Egress.Target(socket, address); ok {
			return b.connectEgress(n, socket, to)
		}
		return connectTo(socket, address)
	}
	switch {
	case len(address) > 2 && address[2] != 0:
		file, err := b.openListener(int(n.PID), string(cutAtNul(address[2:])))
		if err != nil {
			return err
		}
		defer unix.Close(file)
		address = append(address[:2], "/proc/self/fd/"+strconv.Itoa(file)+"\x00"...)
	case b.plan.Network: // in the user's network, an abstract name does not show who listens
		if isOwn, err := b.ownsListener(unixListener{abstract: string(address[2:])}); err != nil || !isOwn {
			return unix.ECONNREFUSED
		}
	}
	if err := connectTo(socket, address); err != nil {
		return err
	}
	// Processes outside have no pid in the session's pid namespace.
	if c, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil || c.Pid == 0 {
		_ = unix.Shutdown(socket, unix.SHUT_RDWR)
		return unix.EACCES
	}
	return nil
}

func cutAtNul(b []byte) []byte {
	b, _, _ = bytes.Cut(b, []byte{0})
	return b
}

func connectTo(socket int, address []byte) error {
	var p unsafe.Pointer
	if len(address) > 0 {
		p = unsafe.Pointer(&address[0])
	}
	_, _, no := unix.Syscall(unix.SYS_CONNECT, uintptr(socket), uintptr(p), uintptr(len(address)))
	runtime.KeepAlive(address)
	if no != 0 {
		return no
	}
	return nil
}

// openListener opens the file of a socket whose server is in the session. A read-only mount would
// not prevent a connect.
func (b *Broker) openListener(pid int, path string) (int, error) {
	if !strings.HasPrefix(path, "/") {
		var dir [unix.PathMax]byte
		n, err := unix.Readlinkat(b.ProcFD, strconv.Itoa(pid)+"/cwd", dir[:])
		if err != nil {
			return -1, err
		}
		path = string(dir[:n]) + "/" + path
	}
	file, err := b.OpenPath(append([]byte(path), 0))
	if err != nil {
		return -1, err
	}
	inside, err := b.isInsideSession(pid, file)
	if err != nil || !inside {
		unix.Close(file)
		return -1, unix.EACCES
	}
	return file, nil
}

func (b *Broker) isInsideSession(pid, file int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(file, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return false, err
	}
	// The kernel identifies sockets by the device of the filesystem. For some filesystems, stat
	// returns a different device.
	device, err := b.DeviceOf(pid, st.Mnt_id)
	if err != nil {
		return false, err
	}
	return b.ownsListener(unixListener{device: device, file: uint32(st.Ino)})
}
