//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what the kernel takes, in bytes: sun_path without the final NUL.
const maxSocketPath = len(syscall.RawSockaddrUnix{}.Path) - 1

// probeTime bounds the look whether somebody serves a socket.
const probeTime = 2 * time.Second

// A Listener accepts clients on a unix socket.
type Listener struct {
	net.Listener
	lock *os.File // held while the socket is ours; nil for one that was handed over
}

// Close stops listening and, if the socket is ours, removes it.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	if l.lock != nil {
		_ = l.lock.Close()
	}
	return err
}

// Listen makes the socket at path, or takes the one that systemd hands over. It
// never takes a socket from a daemon that lives, and removes nothing that is not a
// dead one. ErrServed says that one lives there.
func Listen(path string) (*Listener, error) {
	if l, err := activated(); l != nil || err != nil {
		return l, err
	}
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path of the socket is %d bytes long, and the system allows %d: %s (name a shorter one with --socket)", len(path), maxSocketPath, path)
	}
	if err := privateDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	if err := removeDead(path); err != nil {
		_ = lock.Close()
		return nil, err
	}
	// From its first instant the socket is the user's own, even in a directory that
	// somebody opens later.
	before := syscall.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(before)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("cannot make the socket %s: %w", path, err)
	}
	return &Listener{l, lock}, nil
}

// privateDir makes sure that nobody else can reach what is in dir.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of the socket: %w", err)
	}
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := i.Sys().(*syscall.Stat_t)
	switch {
	case !i.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	case ok && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to another user; name a socket elsewhere with --socket", dir)
	case i.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others can reach %s (mode %04o), and with it the socket: chmod 0700 it, or name a socket elsewhere with --socket", dir, i.Mode().Perm())
	}
	return nil
}

// lockFile takes the lock that the daemon of a socket holds while it lives.
func lockFile(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the lock of the socket: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(path)
		_ = lock.Close()
		return nil, fmt.Errorf("%w: by the process %s, which holds %s", ErrServed, strings.TrimSpace(string(holder)), path)
	}
	if err == nil {
		err = lock.Truncate(0)
	}
	if err == nil {
		_, err = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("cannot lock the socket: %w", err)
	}
	return lock, nil
}

// removeDead removes the socket of a daemon that was killed.
func removeDead(path string) error {
	i, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if i.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket; it is left alone: name another with --socket", path)
	}
	conn, err := net.DialTimeout("unix", path, probeTime)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%w: %s", ErrServed, path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether %s is in use: %w", path, err)
	}
	return os.Remove(path)
}

// activated is the socket that a service manager hands over: systemd.socket(5). It
// is not ours to remove, and not for our children.
func activated() (*Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if p, err := strconv.Atoi(pid); err != nil || p != os.Getpid() {
		return nil, nil
	}
	if n, err := strconv.Atoi(count); err != nil || n < 1 {
		return nil, nil
	}
	const first = 3
	syscall.CloseOnExec(first)
	file := os.NewFile(first, "activation")
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("what the service manager handed over is no listening socket: %w", err)
	}
	if _, ok := l.(*net.UnixListener); !ok {
		_ = l.Close()
		return nil, fmt.Errorf("the service manager handed over a socket for %s; it must be a unix socket", l.Addr().Network())
	}
	return &Listener{Listener: l}, nil
}

// authorize refuses a client that is another user's, whatever the file's mode.
func authorize(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("it came over %s", conn.RemoteAddr().Network())
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var uid uint32
	var peerErr error
	if err := raw.Control(func(fd uintptr) { uid, peerErr = peerUID(int(fd)) }); err != nil {
		return err
	}
	if peerErr != nil {
		return fmt.Errorf("its user is not known: %w", peerErr)
	}
	if int(uid) != os.Geteuid() && uid != 0 {
		return fmt.Errorf("it belongs to the user %d", uid)
	}
	return nil
}

// isTemporary reports whether accepting can go on after err.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
