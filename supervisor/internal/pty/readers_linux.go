package pty

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// CanSeeReaders reports whether /proc/<pid>/syscall can be read. It shows the call that a thread is
// blocked in, and its arguments. Some sandboxes lack the file, and some security settings deny it
// even to the owner of the process.
func CanSeeReaders(worker int) bool { return procinfo.ReadProc(worker, "syscall") != "" }

// FindReaders searches the descendants of root, and root itself unless it is a monitor.
//
// A reader is in a read, or in a poll, select or epoll_wait whose set has the terminal. A thread that
// is stopped in its call does not wait for input: it waits to be continued. Neither does a program in
// the background, which the kernel stops once it reads.
func (p *Master) FindReaders(root int, isMonitor bool) []TerminalReader {
	var found []TerminalReader
	modes, err := p.currentModes()
	if err != nil {
		return nil
	}
	if p.unreadInput() > 0 {
		return nil // a thread that is blocked now may be about to get it
	}
	procinfo.VisitThreads(root, func(pid int, tid string) {
		if pid == root && isMonitor {
			return
		}
		call, ok := parseBlockedCall(procinfo.ReadProc(pid, "task/"+tid+"/syscall"))
		if ok && p.inputWaitOf(pid, call, modes) != noWait {
			found = append(found, TerminalReader{PID: pid, TID: procinfo.ParseInt(tid)})
		}
	})
	if len(found) == 0 {
		return nil
	}
	if modes, err = p.currentModes(); err != nil { // these readers may have set them since
		return nil
	}
	foreground, _ := p.ForegroundGroup()
	blocked := found[:0]
	for _, r := range found {
		r.Command = strings.TrimSuffix(procinfo.ReadProc(r.PID, "task/"+strconv.Itoa(r.TID)+"/comm"), "\n")
		if p.describeReader(&r, modes, foreground) {
			blocked = append(blocked, r)
		}
	}
	if p.unreadInput() > 0 {
		return nil // the threads are about to read the queued input
	}
	return blocked
}

// RefreshReader looks again at one thread that polled. That is much cheaper than FindReaders.
func (p *Master) RefreshReader(r TerminalReader) (TerminalReader, PollState) {
	modes, err := p.currentModes()
	if err != nil {
		return r, PollEnded
	}
	foreground, _ := p.ForegroundGroup()
	now := r
	switch {
	case p.describeReader(&now, modes, foreground):
		if !now.Polls || now.Key != r.Key {
			return r, PollEnded
		}
		return now, Polling
	case readerKey(r.PID, r.TID, true) != r.Key: // the thread is gone, or stopped
		return r, PollEnded
	}
	// A thread that is between two calls, or waits for a processor, shows no call.
	if _, blocked := parseBlockedCall(procinfo.ReadProc(r.PID, "task/"+strconv.Itoa(r.TID)+"/syscall")); blocked {
		return r, PollEnded
	}
	if stat := procinfo.ParseStat(procinfo.ReadProc(r.PID, "stat")); stat != nil {
		r.CPUTime = procinfo.CPUTime(stat)
	}
	return r, PollRunning
}

// describeReader fills in what is known about the thread of r, and reports whether it reads the
// terminal now.
func (p *Master) describeReader(r *TerminalReader, modes *unix.Termios, foreground int) bool {
	dir := "task/" + strconv.Itoa(r.TID)
	call, ok := parseBlockedCall(procinfo.ReadProc(r.PID, dir+"/syscall"))
	if !ok {
		return false
	}
	kind := p.inputWaitOf(r.PID, call, modes)
	stat := procinfo.ParseStat(procinfo.ReadProc(r.PID, "stat"))
	if kind == noWait || stat == nil || p.isInBackground(stat, foreground) {
		return false
	}
	r.Raw = modes.Lflag&unix.ICANON == 0
	r.Secret = modes.Lflag&unix.ECHO == 0 && !r.Raw
	r.Polls = kind == timedWait
	r.CPUTime = procinfo.CPUTime(stat)
	r.Threads = procinfo.ParseInt(stat[procinfo.StatThreads])
	r.IsRunnable = r.Threads > 1 && (r.Raw || r.Polls) && hasRunnableThread(r.PID)
	if r.Key = readerKey(r.PID, r.TID, r.Polls); r.Key == "" || r.Polls {
		return r.Key != ""
	}
	// The key must belong to the call that was seen above. A thread that was woken in between is left
	// to the next search.
	call, ok = parseBlockedCall(procinfo.ReadProc(r.PID, dir+"/syscall"))
	return ok && p.inputWaitOf(r.PID, call, modes) == kind && readerKey(r.PID, r.TID, false) == r.Key
}

// maxExaminedThreads bounds the threads of one process whose states are examined.
const maxExaminedThreads = 64

// hasRunnableThread reports whether a thread of a process runs or waits for a processor.
func hasRunnableThread(pid int) bool {
	tids := procinfo.ThreadIDs(pid)
	return slices.ContainsFunc(tids[:min(len(tids), maxExaminedThreads)], func(tid string) bool {
		f := procinfo.ParseStat(procinfo.ReadProc(pid, "task/"+tid+"/stat"))
		return f != nil && f[procinfo.StatState] == "R"
	})
}

// isInBackground reports whether a process with this terminal is in a group that may not read it. A
// process in a session of its own may read the terminal, too, if it has it open.
func (p *Master) isInBackground(stat []string, foreground int) bool {
	return foreground > 0 && p.isControllingTerminal(stat) && procinfo.ParseInt(stat[procinfo.StatGroup]) != foreground
}

// isControllingTerminal reports whether this terminal is the controlling one of a process.
func (p *Master) isControllingTerminal(stat []string) bool {
	return uint64(procinfo.ParseInt(stat[procinfo.StatTerminal])) == statDevice(p.slave.Rdev)
}

// readerKey returns a key for a thread that polls, or for one blocked call of a thread. The key of a
// call changes once the thread has run, because the kernel counts how often it was switched out. It is
// empty for a thread that is gone or stopped. The kernel stops a thread that reads from the
// background, for example a worker that reads before the monitor has given it the terminal. The call
// that /proc then shows will be made again, with another key, or never.
func readerKey(pid, tid int, polls bool) string {
	dir := "task/" + strconv.Itoa(tid)
	f := procinfo.ParseStat(procinfo.ReadProc(pid, dir+"/stat"))
	if f == nil || f[procinfo.StatState] == "T" || f[procinfo.StatState] == "t" { // t: by a debugger
		return ""
	}
	if polls {
		return fmt.Sprintf("%d/%d/%s/polls", pid, tid, f[procinfo.StatStart])
	}
	switches := 0
	for line := range strings.Lines(procinfo.ReadProc(pid, dir+"/status")) {
		if name, n, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "_ctxt_switches") {
			switches += procinfo.ParseInt(strings.TrimSpace(n))
		}
	}
	return fmt.Sprintf("%d/%d/%s/%d", pid, tid, f[procinfo.StatStart], switches)
}

// A blockedCall describes the system call that a thread is blocked in.
type blockedCall struct {
	number int
	args   [6]uint64
}

// parseBlockedCall reads "0 0x3 0x7ffc… …". A thread that is not blocked in a call shows
// "running" or "-1 …".
func parseBlockedCall(text string) (c blockedCall, ok bool) {
	f := strings.Fields(text)
	if len(f) < 7 {
		return c, false
	}
	c.number = procinfo.ParseInt(f[0])
	for i := range c.args {
		c.args[i], _ = strconv.ParseUint(strings.TrimPrefix(f[i+1], "0x"), 16, 64)
	}
	return c, c.number >= 0
}

// An inputWait says whether a call waits for input from the terminal.
type inputWait uint8

const (
	noWait      inputWait = iota
	endlessWait           // until there is input
	timedWait             // until there is input, or some time has passed
)

// inputWaitOf returns how a call waits for input from this terminal, which has these modes.
func (p *Master) inputWaitOf(pid int, c blockedCall, modes *unix.Termios) inputWait {
	a := c.args
	var reads, isTimed bool
	switch inputCalls[c.number] {
	case callRead: // fd, …
		reads = p.isThisTerminal(pid, int(int32(a[0])))
		isTimed = modes.Lflag&unix.ICANON == 0 && modes.Cc[unix.VMIN] == 0 && modes.Cc[unix.VTIME] > 0
	case callPoll: // fds, n, timeout in ms
		reads, isTimed = p.isInPollSet(pid, a[0], a[1]), int32(a[2]) >= 0
	case callPpoll: // fds, n, *timeout
		reads, isTimed = p.isInPollSet(pid, a[0], a[1]), a[2] != 0
	case callSelect: // n, *read, *write, *except, *timeout
		reads, isTimed = p.isInSelectSet(pid, a[0], a[1]), a[4] != 0
	case callEpollWait: // epfd, *events, n, timeout in ms
		reads, isTimed = p.isInEpollSet(pid, int(int32(a[0]))), int32(a[3]) >= 0
	case callEpollWait2: // epfd, *events, n, *timeout
		reads, isTimed = p.isInEpollSet(pid, int(int32(a[0]))), a[3] != 0
	}
	switch {
	case !reads:
		return noWait
	case isTimed:
		return timedWait
	}
	return endlessWait
}

// A callKind is a kind of system call that waits for input, by the form of its arguments. The table
// inputCalls has their numbers on each architecture.
type callKind uint8

const (
	noCall callKind = iota
	callRead
	callPoll
	callPpoll
	callSelect
	callEpollWait
	callEpollWait2
)

// maxPolledFDs bounds the descriptors of one call that are examined.
const maxPolledFDs = 1024

func (p *Master) isInPollSet(pid int, fds, n uint64) bool {
	const size = 8 // struct pollfd: fd int32, events int16, revents int16
	b := make([]byte, size*min(n, maxPolledFDs))
	if len(b) == 0 || !readMemory(pid, fds, b) {
		return false
	}
	for ; len(b) > 0; b = b[size:] {
		events := binary.NativeEndian.Uint16(b[4:])
		if events&unix.POLLIN != 0 && p.isThisTerminal(pid, int(int32(binary.NativeEndian.Uint32(b)))) {
			return true
		}
	}
	return false
}

func (p *Master) isInSelectSet(pid int, n, set uint64) bool {
	n = min(n, maxPolledFDs)
	b := make([]byte, (n+63)/64*8)
	if len(b) == 0 || set == 0 || !readMemory(pid, set, b) {
		return false
	}
	for fd := range int(n) {
		word := binary.NativeEndian.Uint64(b[fd/64*8:])
		if word>>(fd%64)&1 != 0 && p.isThisTerminal(pid, fd) {
			return true
		}
	}
	return false
}

// isInEpollSet reads "tfd: 0 events: 19 data: …" lines.
func (p *Master) isInEpollSet(pid, epfd int) bool {
	for line := range strings.Lines(procinfo.ReadProc(pid, "fdinfo/"+strconv.Itoa(epfd))) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != "tfd:" {
			continue
		}
		events, _ := strconv.ParseUint(f[3], 16, 64)
		if events&unix.EPOLLIN != 0 && p.isThisTerminal(pid, procinfo.ParseInt(f[1])) {
			return true
		}
	}
	return false
}

// readMemory copies memory of another process.
func readMemory(pid int, address uint64, b []byte) bool {
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	return err == nil && n == len(b)
}

// isThisTerminal reports whether a descriptor of a process is this terminal: its slave,
// or /dev/tty in a process whose controlling terminal it is.
func (p *Master) isThisTerminal(pid, fd int) bool {
	if fd < 0 {
		return false
	}
	var st unix.Stat_t
	if unix.Stat("/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(fd), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return false
	}
	if st.Rdev == unix.Mkdev(5, 0) { // /dev/tty
		f := procinfo.ParseStat(procinfo.ReadProc(pid, "stat"))
		return f != nil && p.isControllingTerminal(f)
	}
	return st.Rdev == p.slave.Rdev && st.Ino == p.slave.Ino && st.Dev == p.slave.Dev
}

// statDevice converts a device number to the form that /proc/<pid>/stat uses.
func statDevice(dev uint64) uint64 {
	major, minor := uint64(unix.Major(dev)), uint64(unix.Minor(dev))
	return minor&0xff | major<<8 | minor&^0xff<<12
}
