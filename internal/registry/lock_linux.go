package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pauseTime is the pause after a failure to accept a caller.
const pauseTime = 100 * time.Millisecond

// A Lock shows that this process is the daemon of its user on this host. The kernel frees it
// when the process ends. It is a name that the kernel keeps, so no cleaning program, full
// disk or network file system can lose it.
type Lock struct {
	listener net.Listener
	wg       sync.WaitGroup
}

// Hold takes the lock. The error is [ErrHeld] when another process has it. Users with several
// state directories have one lock for each.
func Hold(getenv func(string) string) (*Lock, error) {
	config := net.ListenConfig{}
	listener, err := config.Listen(context.Background(), "unix", lockName(getenv))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, holder(getenv)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take the lock of this user's daemon: %w", err)
	}
	l := &Lock{listener: listener}
	l.wg.Go(func() {
		for {
			conn, err := listener.Accept() // of one who asks for our process
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too few file descriptors
				time.Sleep(pauseTime)
				continue
			}
			_ = conn.Close()
		}
	})
	return l, nil
}

// Release frees the lock.
func (l *Lock) Release() {
	if l != nil {
		_ = l.listener.Close()
		l.wg.Wait()
	}
}

// lockName is the name of the lock in the kernel. The namespace of processes is in it, because
// a container may share the network of its host.
func lockName(getenv func(string) string) string {
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := sha256.Sum256([]byte(StateDir(getenv)))
	return fmt.Sprintf("@turnstone/%d/%s/%x", os.Geteuid(), strings.Trim(space, "pid:[]"), sum[:8])
}

// holder returns who holds the lock, as an error.
func holder(getenv func(string) string) error {
	conn, err := net.DialTimeout("unix", lockName(getenv), askTime)
	if err != nil {
		return &HeldError{Own: true} // it has just ended, or has too many callers
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return &HeldError{Own: true}
	}
	var who *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		who, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || asked != nil {
		return &HeldError{Own: true}
	}
	return &HeldError{PID: int(who.Pid), Own: int(who.Uid) == os.Geteuid()}
}
