package peer

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// peerCredentials returns the user and the process at the other end of a socket: unix(7),
// SO_PEERCRED.
func peerCredentials(fd int) (uid uint32, pid int, err error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	return c.Uid, int(c.Pid), nil
}

// checkAlive returns an error if the process that has connected has ended, so that its number may
// be reused. Before Linux 6.5 this is unknown, and it returns nil.
func checkAlive(fd int) error {
	process, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	if err == nil {
		defer unix.Close(process)
		ended := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
		var n int
		for n, err = unix.Poll(ended, 0); errors.Is(err, unix.EINTR); { // any signal that is pending
			n, err = unix.Poll(ended, 0)
		}
		if err == nil && n > 0 {
			err = unix.ESRCH
		}
	}
	if err != nil {
		return fmt.Errorf("the client process has ended: %w", err)
	}
	return nil
}

// processName returns the name that a process has for itself in a proof: its number and the
// namespace of that number, which differs in a container. A process that is not visible from here
// has the number 0.
func processName(pid int) string {
	own := pidNamespace("self")
	space := pidNamespace(strconv.Itoa(pid))
	if space == "" || space == own {
		return strconv.Itoa(pid) + "@" + own
	}
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			return fields[len(fields)-1] + "@" + space
		}
	}
	return "0@" + space
}

// ownProcessName returns the name of this process in a proof.
func ownProcessName() string { return strconv.Itoa(os.Getpid()) + "@" + pidNamespace("self") }

// pidNamespace returns the number of the process namespace of a process; "" if unknown.
func pidNamespace(process string) string {
	link, _ := os.Readlink("/proc/" + process + "/ns/pid") // pid:[4026531836]
	return strings.Trim(link, "pid:[]")
}
