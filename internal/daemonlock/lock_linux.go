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
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

const (
	// acceptRetryDelay is the pause after a failed accept, and before a lock is tried again.
	acceptRetryDelay = 100 * time.Millisecond

	// bindTimeout is how long a process that has the lock may refuse connections. Every process
	// refuses them between bind and listen, and while it ends.
	bindTimeout = 2 * time.Second

	// lockTimeout bounds the question whether a daemon holds the lock, and its answer. Only a
	// process that hangs takes so long.
	lockTimeout = 10 * time.Second

	// maxProofRequests bounds the processes that are answered concurrently.
	maxProofRequests = 16
)

// A Lock shows that this process is the daemon of its user on this host. It is an abstract socket
// name, which the kernel frees when the process ends. So no cleanup program, full disk or network
// file system can lose it.
type Lock struct {
	listener net.Listener
	stop     context.CancelFunc // ends the answers under way
	wg       sync.WaitGroup
}

// AcquireLock takes the lock. The error is [ErrLocked] if another process has it. A user with
// several state directories has one lock for each.
func AcquireLock(getenv func(string) string) (*Lock, error) {
	name := lockName(getenv)
	config := net.ListenConfig{}
	var listener net.Listener
	var err error
	for end := time.Now().Add(bindTimeout); ; time.Sleep(acceptRetryDelay) {
		listener, err = config.Listen(context.Background(), "unix", name)
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		held, refused := lockHolderError(getenv, name)
		if !refused || time.Now().After(end) {
			return nil, held
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take the lock for the daemon of this user: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Lock{listener: listener, stop: stop}
	asking := make(chan struct{}, maxProofRequests)
	l.wg.Go(func() {
		for {
			conn, err := listener.Accept() // from a process that asks who holds the lock
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

// answerProof proves to a process that a daemon of the user holds the lock.
func answerProof(ctx context.Context, conn net.Conn, name string, getenv func(string) string) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(lockTimeout))
	_ = peer.AnswerQuestion(conn, name, UserKeys(getenv, os.Geteuid()))
}

// Release frees the lock. It does nothing for a nil lock.
func (l *Lock) Release() {
	if l != nil {
		_ = l.listener.Close()
		l.stop()
		l.wg.Wait()
	}
}

// lockName returns the name of the lock in the kernel. It contains the process namespace, because a
// container may share the network of its host.
func lockName(getenv func(string) string) string {
	space, _ := os.Readlink("/proc/self/ns/pid")
	sum := sha256.Sum256([]byte(userdirs.ProgramState(getenv)))
	return fmt.Sprintf("@turnstone/%d/%s/%x", os.Geteuid(), strings.Trim(space, "pid:[]"), sum[:8])
}

// lockHolderError returns a LockedError for the process that holds the lock, and whether that process
// refused the connection.
func lockHolderError(getenv func(string) string, name string) (held *LockedError, refused bool) {
	ctx, stop := context.WithTimeout(context.Background(), lockTimeout)
	defer stop()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return &LockedError{}, errors.Is(err, syscall.ECONNREFUSED)
	}
	defer conn.Close()
	_, pid, _ := peer.Credentials(conn)
	return &LockedError{PID: pid, Proven: peer.RequestProof(ctx, conn, name, UserKeys(getenv, os.Geteuid())) == nil}, false
}
