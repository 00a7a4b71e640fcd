package daemonlock

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that takes the lock accepts connections a moment later. If another process tries to take the
// lock in that moment, it must wait. Otherwise it would report a program that is not a daemon.
func TestAcquireLock_BoundNotListening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] }
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: lockName(getenv)}); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(3*acceptRetryDelay/2, func() { _ = unix.Close(fd) })
	lock, err := AcquireLock(getenv)
	if err != nil {
		t.Fatalf("got %v, want the lock once it is free", err)
	}
	lock.Release()
}

func TestAcquireLock_NeverListening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	getenv := func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] }
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: lockName(getenv)}); err != nil {
		t.Fatal(err)
	}
	if _, err := AcquireLock(getenv); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
}
