package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
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

// emulateConnect makes a connect(2) on behalf of a thread of the session.
func (sb *ActiveSandbox) emulateConnect(n *seccompNotif) error {
	if int32(n.Data.Args[2]) < 0 || n.Data.Args[2] > unix.SizeofSockaddrAny+16 { // struct sockaddr_storage
		return unix.EINVAL
	}
	address := make([]byte, int(n.Data.Args[2]))
	if err := peekMemory(int(n.PID), n.Data.Args[1], address); err != nil {
		return unix.EFAULT
	}
	socket, err := sb.copyDescriptor(int(n.PID), int(int32(n.Data.Args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	// The call is still pending after both were read, so the thread ID did not belong to another
	// thread.
	if err := callIoctl(sb.notifyFD, ioctlNotifIDValid, unsafe.Pointer(&n.ID)); err != nil {
		return err
	}
	domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	if sb.plan.Mechanism != "" { // the session shares the machine's network, so every target is outside
		to, ok := sb.egressTarget(socket, address)
		if !ok || domain != unix.AF_INET {
			return unix.EACCES
		}
		return sb.connectEgress(n, socket, to)
	}
	if domain != unix.AF_UNIX || len(address) < 2 || binary.NativeEndian.Uint16(address) != unix.AF_UNIX {
		if to, ok := sb.egressTarget(socket, address); ok {
			return sb.connectEgress(n, socket, to)
		}
		return connectTo(socket, address)
	}
	switch {
	case len(address) > 2 && address[2] != 0:
		file, err := sb.openListener(int(n.PID), string(cutAtNul(address[2:])))
		if err != nil {
			return err
		}
		defer unix.Close(file)
		address = append(address[:2], "/proc/self/fd/"+strconv.Itoa(file)+"\x00"...)
	case sb.plan.Network: // in the user's network, an abstract name does not show who listens
		if isOwn, err := sb.ownsListener(unixListener{abstract: string(address[2:])}); err != nil || !isOwn {
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
func (sb *ActiveSandbox) openListener(pid int, path string) (int, error) {
	if !strings.HasPrefix(path, "/") {
		var dir [unix.PathMax]byte
		n, err := unix.Readlinkat(sb.procFD, strconv.Itoa(pid)+"/cwd", dir[:])
		if err != nil {
			return -1, err
		}
		path = string(dir[:n]) + "/" + path
	}
	file, err := sb.openPath(append([]byte(path), 0))
	if err != nil {
		return -1, err
	}
	inside, err := sb.isInsideSession(pid, file)
	if err != nil || !inside {
		unix.Close(file)
		return -1, unix.EACCES
	}
	return file, nil
}

func (sb *ActiveSandbox) isInsideSession(pid, file int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(file, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return false, err
	}
	// The kernel identifies sockets by the device of the filesystem. For some filesystems, stat
	// returns a different device.
	device, err := sb.deviceOf(pid, st.Mnt_id)
	if err != nil {
		return false, err
	}
	return sb.ownsListener(unixListener{device: device, file: uint32(st.Ino)})
}

// deviceOf returns the device of a mount, as a process sees it.
func (sb *ActiveSandbox) deviceOf(pid int, mount uint64) (uint32, error) {
	fd, err := unix.Openat(sb.procFD, strconv.Itoa(pid)+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), "mountinfo")
	defer f.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(f); err != nil {
		return 0, err
	}
	id := strconv.FormatUint(mount, 10)
	for line := range strings.Lines(text.String()) { // 36 35 98:0 /root /point …
		w := strings.Fields(line)
		if len(w) < 3 || w[0] != id {
			continue
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(w[2], "%d:%d", &major, &minor); err != nil {
			return 0, err
		}
		return major<<20 | minor, nil
	}
	return 0, unix.ENOENT
}

// copyDescriptor returns a copy of a descriptor of a thread.
func (sb *ActiveSandbox) copyDescriptor(tid, fd int) (int, error) {
	p, err := unix.PidfdOpen(tid, unix.O_EXCL) // PIDFD_THREAD
	if err == unix.EINVAL {                    // before Linux 6.9: use the first thread of the process, whose descriptors most threads share
		leader, e := sb.threadGroupID(tid)
		if e != nil {
			return -1, err
		}
		p, err = unix.PidfdOpen(leader, 0)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(p)
	return unix.PidfdGetfd(p, fd, 0)
}

// copyDescriptorWithRights is copyDescriptor that also works for a program that may not be traced.
func (sb *ActiveSandbox) copyDescriptorWithRights(tid, fd int) (copied int, err error) {
	if copied, err = sb.copyDescriptor(tid, fd); err == unix.EPERM {
		err = withRights(func() (err error) {
			copied, err = sb.copyDescriptor(tid, fd)
			return err
		})
	}
	return copied, err
}

// threadGroupID returns the process of a thread.
func (sb *ActiveSandbox) threadGroupID(tid int) (int, error) {
	value, err := sb.threadStatus(tid, "Tgid:")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}

// threadStatus returns a value from the status file of a thread.
func (sb *ActiveSandbox) threadStatus(tid int, name string) (string, error) {
	text, err := readAt(sb.procFD, strconv.Itoa(tid)+"/status")
	if err != nil {
		return "", err
	}
	if value := valueIn(text, name); value != "" {
		return value, nil
	}
	return "", unix.ESRCH
}

// readAt reads a short file of /proc.
func readAt(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// valueIn returns the value of a name in lines such as "Tgid:     1", or "".
func valueIn(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// peekMemory copies memory of a thread.
func peekMemory(pid int, at uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err == nil && n < len(b) {
		err = unix.EFAULT
	}
	return err
}
