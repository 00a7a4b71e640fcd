package daemonlock

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

	"github.com/turnstone-repl/turnstone/internal/peer"
)

const (
	// acceptRetryDelay is the pause after a failure to accept a caller.
	acceptRetryDelay = 100 * time.Millisecond

	// lockTimeout bounds asking whether a daemon holds the lock, and answering that. Only a process that
	// hangs takes so long.
	lockTimeout = 10 * time.Second

	// maxProofRequests bounds those who ask at once.
	maxProofRequests = 16
)

// A Lock shows that this process is the daemon of its user on this host. The kernel frees it
// when the process ends. It is a name that the kernel keeps, so no cleaning program, full
// disk or network file system can lose it.
type Lock struct {
	listener net.Listener
	stop     context.CancelFunc // ends the answers that are being given
	wg       sync.WaitGroup
}

// AcquireLock takes the lock. The error is [ErrLocked] when another process has it. Users with several
// state directories have one lock for each.
func AcquireLock(getenv func(string) string) (*Lock, error) {
	name := lockName(getenv)
	config := net.ListenConfig{}
	listener, err := config.Listen(context.Background(), "unix", name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, lockHolderError(getenv, name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take the lock of this user's daemon: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Lock{listener: listener, stop: stop}
	asking := make(chan struct{}, maxProofRequests)
	l.wg.Go(func() {
		for {
			conn, err := listener.Accept() // of one who asks who we are
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too few file descriptors
				time.Sleep(acceptRetryDelay)
				continue
			}
			select {
			case asking <- struct{}{}:
				l.wg.Go(func() {
					answerProof(ctx, conn, name, getenv)
					<-asking
				})
			default:
				_ = conn.Close()
			}
		}
	})
	return l, nil
}

// answerProof proves to one who asks that a daemon of the user holds the lock.
func answerProof(ctx context.Context, conn net.Conn, name string, getenv func(string) string) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(lockTimeout))
	_ = peer.AnswerQuestion(conn, name, UserKeys(getenv, os.Geteuid()))
}

// Release frees the lock.
func (l *Lock) Release() {
	if l != nil {
		_ = l.listener.Close()
		l.stop()
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

// lockHolderError returns who holds the lock, as an error.
func lockHolderError(getenv func(string) string, name string) error {
	ctx, stop := context.WithTimeout(context.Background(), lockTimeout)
	defer stop()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return &LockedError{} // it has just ended, or takes nobody
	}
	defer conn.Close()
	_, pid, _ := peer.Credentials(conn)
	return &LockedError{PID: pid, Proven: peer.RequestProof(ctx, conn, name, UserKeys(getenv, os.Geteuid())) == nil}
}
