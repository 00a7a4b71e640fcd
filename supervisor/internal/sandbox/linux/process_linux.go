package linux

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (v *workerView) umaskOf(tid int) (int, error) {
	value, err := v.threadStatus(tid, "Umask:")
	if err != nil {
		return 0, err
	}
	mask, err := strconv.ParseUint(value, 8, 32)
	return int(mask), err
}

// deviceOf returns the device of a mount, as a process sees it.
func (v *workerView) deviceOf(pid int, mount uint64) (uint32, error) {
	fd, err := unix.Openat(v.procFD, strconv.Itoa(pid)+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
func (v *workerView) copyDescriptor(tid, fd int) (int, error) {
	p, err := unix.PidfdOpen(tid, unix.O_EXCL) // PIDFD_THREAD
	if err == unix.EINVAL {                    // before Linux 6.9: use the first thread of the process, whose descriptors most threads share
		leader, e := v.threadGroupID(tid)
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
func (v *workerView) copyDescriptorWithRights(tid, fd int) (copied int, err error) {
	if copied, err = v.copyDescriptor(tid, fd); err == unix.EPERM {
		err = withRights(func() (err error) {
			copied, err = v.copyDescriptor(tid, fd)
			return err
		})
	}
	return copied, err
}

// threadGroupID returns the process of a thread.
func (v *workerView) threadGroupID(tid int) (int, error) {
	value, err := v.threadStatus(tid, "Tgid:")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}

// threadStatus returns a value from the status file of a thread.
func (v *workerView) threadStatus(tid int, name string) (string, error) {
	text, err := readAt(v.procFD, strconv.Itoa(tid)+"/status")
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
