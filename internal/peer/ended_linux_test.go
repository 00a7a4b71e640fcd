package peer

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The number of an ended process may be reused by the next client. So a waiting connection of the ended
// process must get no proof.
func TestNewProof_EndedProcess(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	socket := serveSocket(t, func(conn net.Conn, socket string) { _ = AnswerQuestion(conn, CanonicalAddress(socket), k) })
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); errors.Is(err, unix.ENOPROTOOPT) {
		return // this kernel does not report ended processes
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), connectEnv+"="+socket), []*os.File{file}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = RequestProof(t.Context(), conn, CanonicalAddress(socket), k)
	if e, ok := errors.AsType[*UnprovenError](err); !ok || !strings.Contains(e.Reason, "has ended") {
		t.Errorf("got %v, want no proof", err)
	}
}

// The Go runtime signals its own threads. A poll that such a signal interrupts says nothing about the client.
func TestNewProof_Signals(t *testing.T) {
	t.Parallel()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, done, stopped := unix.Gettid(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGURG)
			}
		}
	}()
	for range 20_000 {
		if err = checkAlive(ends[0]); err != nil {
			break
		}
	}
	close(done)
	<-stopped
	if err != nil {
		t.Error(err)
	}
}
