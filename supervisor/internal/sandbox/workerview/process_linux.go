package workerview

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// UmaskOf returns the umask of a thread.
func (v *View) UmaskOf(tid int) (int, error) {
	value, err := v.ThreadStatus(tid, "Umask:")
	if err != nil {
		return 0, err
	}
	mask, err := strconv.ParseUint(value, 8, 32)
	return int(mask), err
}

// DeviceOf returns the device of a mount, as a process sees it.
func (v *View) DeviceOf(pid int, mount uint64) (uint32, error) {
	fd, err := unix.Openat(v.ProcFD, strconv.Itoa(pid)+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// CopyDescriptor returns a copy of a descriptor of a thread, which the caller closes.
func (v *View) CopyDescriptor(tid, fd int) (int, error) {
	p, err := unix.PidfdOpen(tid, unix.O_EXCL) // PIDFD_THREAD
	if err == unix.EINVAL {                    // before Linux 6.9: use the first thread of the process, whose descriptors most threads share
		leader, e := v.ThreadGroupID(tid)
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

// CopyDescriptorWithRights is like CopyDescriptor, but also works for a program that may not be
// traced.
func (v *View) CopyDescriptorWithRights(tid, fd int) (copied int, err error) {
	if copied, err = v.CopyDescriptor(tid, fd); err == unix.EPERM {
		err = WithRights(func() (err error) {
			copied, err = v.CopyDescriptor(tid, fd)
			return err
		})
	}
	return copied, err
}

// ThreadGroupID returns the process of a thread.
func (v *View) ThreadGroupID(tid int) (int, error) {
	value, err := v.ThreadStatus(tid, "Tgid:")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}

// ThreadStatus returns a value from the status file of a thread.
func (v *View) ThreadStatus(tid int, name string) (string, error) {
	text, err := ReadAt(v.ProcFD, strconv.Itoa(tid)+"/status")
	if err != nil {
		return "", err
	}
	if value := ValueIn(text, name); value != "" {
		return value, nil
	}
	return "", unix.ESRCH
}

// ReadAt returns at most the first 4096 bytes of a file in an open directory of /proc.
func ReadAt(dir int, name string) (string, error) {
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

// ValueIn returns the value of a name in lines such as "Tgid:     1", or "". The name includes the colon.
func ValueIn(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
