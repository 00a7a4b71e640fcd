package host

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// seesReaders reports whether the kernel tells, in /proc/<pid>/syscall, the
// call a thread is blocked in and its arguments. Some sandboxes do not have the
// file, and some security settings keep it from the user of the process.
func seesReaders(worker int) bool { return readProc(worker, "syscall") != "" }

// readers looks at the descendants of root, and at root itself unless that is
// a stage.
//
// Waiting without end counts: a read, or a poll, select or epoll_wait without
// a timeout. A finite timeout means that the program has other things to do.
func (p *pseudo) readers(root int, stage bool) []Reader {
	var found []Reader
	walk(root, func(pid int, tid string) {
		if pid == root && stage {
			return
		}
		call, ok := parseCall(readProc(pid, "task/"+tid+"/syscall"))
		if ok && p.waitsHere(pid, call) {
			found = append(found, Reader{PID: pid, TID: atoi(tid)})
		}
	})
	if len(found) == 0 {
		return nil
	}
	secret := p.secret()
	blocked := found[:0]
	for _, r := range found {
		dir := "task/" + strconv.Itoa(r.TID)
		r.Secret = secret
		r.Command = strings.TrimSuffix(readProc(r.PID, dir+"/comm"), "\n")
		r.Key = waitKey(r.PID, r.TID)
		// The key must be of the very call that was seen: one that was woken
		// meanwhile is asked again another time.
		call, ok := parseCall(readProc(r.PID, dir+"/syscall"))
		if ok && p.waitsHere(r.PID, call) && waitKey(r.PID, r.TID) == r.Key {
			blocked = append(blocked, r)
		}
	}
	if p.queued() > 0 {
		return nil // with input in the queue they are about to read that
	}
	return blocked
}

// waitKey changes when the thread has run: the kernel counts how often it was
// switched away from.
func waitKey(pid, tid int) string {
	dir := "task/" + strconv.Itoa(tid)
	start := "gone"
	if f := statFields(readProc(pid, dir+"/stat")); f != nil {
		start = f[statStart]
	}
	switches := 0
	for line := range strings.Lines(readProc(pid, dir+"/status")) {
		if name, n, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "_ctxt_switches") {
			switches += atoi(strings.TrimSpace(n))
		}
	}
	return fmt.Sprintf("%d/%d/%s/%d", pid, tid, start, switches)
}

// A call is a system call that a thread is blocked in.
type call struct {
	number int
	args   [6]uint64
}

// parseCall reads "0 0x3 0x7ffc… …"; a thread that is not blocked in a call
// says "running" or "-1 …".
func parseCall(text string) (c call, ok bool) {
	f := strings.Fields(text)
	if len(f) < 7 {
		return c, false
	}
	c.number = atoi(f[0])
	for i := range c.args {
		c.args[i], _ = strconv.ParseUint(strings.TrimPrefix(f[i+1], "0x"), 16, 64)
	}
	return c, c.number >= 0
}

// waitsHere reports whether the call waits for input from this terminal, and
// for as long as it takes.
func (p *pseudo) waitsHere(pid int, c call) bool {
	a := c.args
	switch calls[c.number] {
	case callRead: // fd, …
		return p.isThis(pid, int(int32(a[0])))
	case callPoll: // fds, n, timeout in ms
		return int32(a[2]) < 0 && p.inPoll(pid, a[0], a[1])
	case callPpoll: // fds, n, *timeout
		return a[2] == 0 && p.inPoll(pid, a[0], a[1])
	case callSelect: // n, *read, *write, *except, *timeout
		return a[4] == 0 && p.inSelect(pid, a[0], a[1])
	case callEpollWait: // epfd, *events, n, timeout in ms
		return int32(a[3]) < 0 && p.inEpoll(pid, int(int32(a[0])))
	case callEpollWait2: // epfd, *events, n, *timeout
		return a[3] == 0 && p.inEpoll(pid, int(int32(a[0])))
	}
	return false
}

// The calls that wait for input, by their arguments. Their numbers are in
// calls, one table for each architecture.
type callKind uint8

const (
	callRead callKind = iota + 1
	callPoll
	callPpoll
	callSelect
	callEpollWait
	callEpollWait2
)

// maxWatched bounds the descriptors of one call that are looked at.
const maxWatched = 1024

func (p *pseudo) inPoll(pid int, fds, n uint64) bool {
	const size = 8 // struct pollfd: fd int32, events int16, revents int16
	b := make([]byte, size*min(n, maxWatched))
	if len(b) == 0 || !peek(pid, fds, b) {
		return false
	}
	for ; len(b) > 0; b = b[size:] {
		events := binary.NativeEndian.Uint16(b[4:])
		if events&unix.POLLIN != 0 && p.isThis(pid, int(int32(binary.NativeEndian.Uint32(b)))) {
			return true
		}
	}
	return false
}

func (p *pseudo) inSelect(pid int, n, set uint64) bool {
	n = min(n, maxWatched)
	b := make([]byte, (n+63)/64*8)
	if len(b) == 0 || set == 0 || !peek(pid, set, b) {
		return false
	}
	for fd := range int(n) {
		word := binary.NativeEndian.Uint64(b[fd/64*8:])
		if word>>(fd%64)&1 != 0 && p.isThis(pid, fd) {
			return true
		}
	}
	return false
}

// inEpoll reads "tfd: 0 events: 19 data: …" lines.
func (p *pseudo) inEpoll(pid, epfd int) bool {
	for line := range strings.Lines(readProc(pid, "fdinfo/"+strconv.Itoa(epfd))) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != "tfd:" {
			continue
		}
		events, _ := strconv.ParseUint(f[3], 16, 64)
		if events&unix.EPOLLIN != 0 && p.isThis(pid, atoi(f[1])) {
			return true
		}
	}
	return false
}

// peek copies memory of another process.
func peek(pid int, address uint64, b []byte) bool {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	return err == nil && n == len(b)
}

// isThis reports whether a descriptor of a process is this terminal: the very
// slave, or /dev/tty in a process whose controlling terminal it is.
func (p *pseudo) isThis(pid, fd int) bool {
	if fd < 0 {
		return false
	}
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(fd), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return false
	}
	if st.Rdev == unix.Mkdev(5, 0) { // /dev/tty
		f := statFields(readProc(pid, "stat"))
		return f != nil && uint64(atoi(f[statTerminal])) == statDevice(p.slave.Rdev)
	}
	return st.Rdev == p.slave.Rdev && st.Ino == p.slave.Ino && st.Dev == p.slave.Dev
}

// statDevice is a device number as /proc/<pid>/stat writes it.
func statDevice(dev uint64) uint64 {
	major, minor := uint64(unix.Major(dev)), uint64(unix.Minor(dev))
	return minor&0xff | major<<8 | minor&^0xff<<12
}
