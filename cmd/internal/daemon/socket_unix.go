//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/peer"
)

const (
	// probeTimeout bounds the check whether another daemon serves a socket. startTimeout bounds it
	// while this daemon starts: another one that is starting answers only when it is ready.
	probeTimeout = 500 * time.Millisecond
	startTimeout = 10 * time.Second

	// probeInterval is the pause between two checks.
	probeInterval = 20 * time.Millisecond
)

// A Listener accepts clients on a Unix socket, and restores the socket when another program removes
// it.
type Listener struct {
	path          string   // "" for a socket of a service manager, which is not restored
	isDefault     bool     // path is one of daemonlock.SocketPaths, where clients find the daemon of the user
	fallbackPaths []string // other paths, used if path cannot be
	keys          peer.KeyDirs

	// addresses maps each socket path that clients may be connected to, to the canonical path that
	// clients know. A link that is created above a path later does not count.
	addresses *sync.Map

	mu          sync.Mutex
	listener    *net.UnixListener // guarded by mu
	socket      os.FileInfo       // guarded by mu; the socket file of this daemon
	lock        *os.File          // guarded by mu; the lock file, locked while this daemon owns the socket
	userLock    *daemonlock.Lock  // guarded by mu; makes this the only daemon of the user on this host
	entryPath   string            // guarded by mu; the file that names the socket; "" without one
	warning     string            // guarded by mu; why other clients may not find the daemon
	crashedPID  int               // guarded by mu; the process named in the lock file of a crashed daemon
	hasServed   bool              // guarded by mu; Listen has returned it
	moveReason  string            // guarded by mu; why it is not at its first path
	sessionDirs []string          // guarded by mu; the directories that sessions may write, once for each session
	closed      bool              // guarded by mu
}

// Listen creates the socket at path, or takes the socket that systemd passes. It removes only dead
// sockets, and never a socket at which a program listens. At a path of [daemonlock.SocketPaths] it
// is the only daemon of this user on this host. It uses another of these paths if path cannot be
// used. ErrServed means that a live daemon of this user has the socket, and has proved it.
func Listen(path string) (*Listener, error) {
	l, err := activatedListener()
	if err != nil {
		return nil, err
	}
	if l == nil {
		if err := daemonlock.CheckPath(path); err != nil {
			return nil, err
		}
		l = &Listener{path: path}
	} else {
		path = l.listener.Addr().String()
	}
	l.addresses = &sync.Map{}
	l.addresses.Store(path, peer.CanonicalAddress(path))
	l.keys = daemonlock.UserKeys(os.Getenv, os.Geteuid())
	if _, err := l.keys.LoadOrCreate(); err != nil {
		_ = l.discardUnserved()
		return nil, err
	}
	sockets := daemonlock.SocketPaths(os.Getenv)
	if l.isDefault = slices.Contains(sockets, path); l.isDefault {
		l.fallbackPaths = slices.DeleteFunc(sockets, func(other string) bool { return other == path })
		if err := l.acquireUserLock(); err != nil {
			_ = l.discardUnserved()
			return nil, err
		}
	}
	if _, err := l.Renew(); err != nil {
		_ = l.discardUnserved()
		return nil, err
	}
	l.hasServed = true
	return l, nil
}

// acquireUserLock ensures that no other daemon of this user runs on this host.
func (l *Listener) acquireUserLock() error {
	if err := checkServedElsewhere(); err != nil {
		return err
	}
	lock, err := daemonlock.AcquireLock(os.Getenv)
	l.userLock = lock
	if err := checkServedElsewhere(); err != nil { // another daemon may have started in the meantime
		return err
	}
	if other, ok := errors.AsType[*daemonlock.LockedError](err); ok && other.Proven {
		return fmt.Errorf("%w: %w", ErrServed, other)
	}
	if err != nil {
		l.warning = "a second daemon of this user may start: " + err.Error()
	}
	for _, other := range l.fallbackPaths { // finds a daemon that could not get the lock
		if daemonlock.IsServed(os.Getenv, other) {
			return fmt.Errorf("%w: %s", ErrServed, other)
		}
	}
	return nil
}

// checkServedElsewhere returns an error if another daemon of this user has an entry.
func checkServedElsewhere() error {
	if entry, ok := daemonlock.ReadEntry(os.Getenv); ok && entry.PID != os.Getpid() {
		return fmt.Errorf("%w: by process %d, at %s", ErrServed, entry.PID, entry.Socket)
	}
	return nil
}

// discardUnserved closes a listener that Listen does not return.
func (l *Listener) discardUnserved() error {
	l.userLock.Release()
	if l.listener != nil {
		return l.listener.Close()
	}
	return nil
}

// Renew creates the lock, the socket and the entry again if their files are missing or replaced.
// logind removes the directory at the logout, and cleanup programs do so, too. If the socket cannot
// be created again, or another program listens at its path, the daemon of the user moves to another
// path. Renew reports whether a file was missing. ErrServed means that another daemon of this user
// serves there now, and has proved it. This error may be temporary, and so may the lack of a usable
// directory.
func (l *Listener) Renew() (renewed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, nil
	}
	if l.path != "" {
		renewed, err = l.renewFiles()
		for _, other := range l.fallbackPaths {
			if err == nil || errors.Is(err, ErrServed) || isSameFile(l.path, l.socket) {
				break
			}
			if other != l.path && !isBelowAny(other, l.sessionDirs) && l.moveTo(other) == nil {
				l.moveReason = err.Error()
				return true, l.writeEntryLocked()
			}
		}
	}
	if err != nil {
		return renewed, err
	}
	return renewed, l.writeEntryLocked()
}

// writeEntryLocked writes the entry that names the socket. A failure becomes a warning: clients of
// this login find the daemon without an entry.
func (l *Listener) writeEntryLocked() error {
	if !l.isDefault {
		return nil
	}
	entry, err := daemonlock.WriteEntry(os.Getenv, l.listener.Addr().String())
	if err != nil {
		l.warning = err.Error()
		return nil
	}
	if l.entryPath = entry; l.userLock != nil {
		l.warning = ""
	}
	return nil
}

// Warning returns why other clients may not find the daemon, or why a second one may start; ""
// without a problem.
func (l *Listener) Warning() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.warning
}

// MoveReason returns why the daemon is not at its first path; "" if it is.
func (l *Listener) MoveReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moveReason
}

// watchedFiles returns the files that other programs must not remove.
func (l *Listener) watchedFiles() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var files []string
	if l.path != "" {
		files = append(files, l.path, l.lockPath())
	}
	if l.entryPath != "" {
		files = append(files, l.entryPath)
	}
	return files
}

// moveTo replaces the socket by one at another path.
func (l *Listener) moveTo(path string) error {
	target := &Listener{path: path, keys: l.keys, addresses: l.addresses, hasServed: l.hasServed}
	if _, err := target.renewFiles(); err != nil {
		return err
	}
	lock, before := l.lock, l.listener
	if isSameFile(l.path, l.socket) {
		_ = os.Remove(l.path)
	}
	if !slices.Contains(l.fallbackPaths, l.path) {
		l.fallbackPaths = append(l.fallbackPaths, l.path)
	}
	l.path, l.listener, l.socket, l.lock = path, target.listener, target.socket, target.lock
	if lock != nil {
		_ = lock.Close()
	}
	if before != nil {
		_ = before.Close() // Accept continues with the new socket
	}
	return nil
}

// MoveOutOf moves the daemon of the user to another of its sockets if the current socket is in one
// of the given directories. A session is about to get write access to them. The session could
// replace the socket: no client would accept the replacement, and none would find the daemon. A
// socket that the user named stays. MoveOutOf returns the files of the daemon after the move. The
// caller calls ended when the session no longer writes there.
func (l *Listener) MoveOutOf(dirs []string) (keep []string, ended func()) {
	l.mu.Lock()
	l.sessionDirs = append(l.sessionDirs, dirs...)
	if !l.closed && l.path != "" && isBelowAny(l.path, l.sessionDirs) {
		from := l.path
		for _, other := range slices.Clone(l.fallbackPaths) {
			if !isBelowAny(other, l.sessionDirs) && l.moveTo(other) == nil {
				l.moveReason = "a session may write to the directory of " + from
				_ = l.writeEntryLocked()
				break
			}
		}
	}
	l.mu.Unlock()
	return l.watchedFiles(), func() { l.forgetDirs(dirs) }
}

// forgetDirs notes that a session no longer writes these directories.
func (l *Listener) forgetDirs(dirs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, dir := range dirs {
		if i := slices.Index(l.sessionDirs, dir); i >= 0 {
			l.sessionDirs = slices.Delete(l.sessionDirs, i, i+1)
		}
	}
}

// isBelowAny reports whether a socket is below one of these directories.
func isBelowAny(socket string, dirs []string) bool {
	address := peer.CanonicalAddress(socket)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return paths.Contains(filepath.Clean(paths.RealOrSame(dir)), address)
	})
}

// renewFiles creates the lock file and the socket again, if they are missing or replaced.
func (l *Listener) renewFiles() (renewed bool, err error) {
	locked, bound := l.isLocked(), isSameFile(l.path, l.socket)
	if locked && bound {
		return false, nil
	}
	if err := ensurePrivateDir(filepath.Dir(l.path)); err != nil {
		return false, err
	}
	if !locked {
		lock, crashed, err := acquireLockFile(l.lockPath())
		if other, ok := errors.AsType[*inUseError](err); ok && bound { // another daemon that is starting, and is about to find this one
			return false, nil
		} else if ok {
			err = l.classifyInUse(other)
		}
		if err != nil {
			return false, err
		}
		if l.lock != nil {
			_ = l.lock.Close()
		}
		l.lock, l.crashedPID = lock, crashed
	}
	if bound {
		return true, nil
	}
	socket, file, err := l.bindSocket()
	if err == nil && !l.isLocked() {
		// The directory may have been replaced, so that the lock file belongs to another daemon.
		_ = socket.Close()
		err = errors.New("the lock file of the socket was removed in the meantime; try again")
	}
	if err != nil {
		// Another daemon that creates a socket there needs the lock.
		_ = l.lock.Close()
		l.lock = nil
		return false, err
	}
	before := l.listener
	l.listener, l.socket = socket, file
	l.addresses.Store(l.path, peer.CanonicalAddress(l.path))
	if before != nil {
		_ = before.Close() // Accept continues with the new socket
	}
	return true, nil
}

func (l *Listener) lockPath() string { return l.path + ".lock" }

// isLocked reports whether this daemon holds the lock, and its file is still at the path.
func (l *Listener) isLocked() bool { return isSameFile(l.lockPath(), statOf(l.lock)) }

// An inUseError means that another process has a socket, or its lock.
type inUseError struct {
	path string
	by   string // ": by process N", or "" if unknown
}

func (e *inUseError) Error() string { return e.path + " is in use" + e.by }

// classifyInUse returns ErrServed if a daemon of this user has the socket, otherwise ErrInUse.
func (l *Listener) classifyInUse(other *inUseError) error {
	limit := startTimeout
	if l.hasServed {
		limit = probeTimeout // the owner must not block for long
	}
	for end := time.Now().Add(limit); ; time.Sleep(probeInterval) {
		err := daemonlock.VerifyDaemon(context.Background(), os.Getenv, l.path, time.Until(end))
		if err == nil {
			return fmt.Errorf("%w%s: %s", ErrServed, other.by, other.path)
		}
		if _, unproven := errors.AsType[*peer.UnprovenError](err); unproven {
			return fmt.Errorf("%w: %w", ErrInUse, err)
		}
		if time.Until(end) < probeInterval {
			return fmt.Errorf("%w%s: %s, but no daemon of yours answers there: %w", ErrInUse, other.by, other.path, err)
		}
	}
}

// bindSocket creates the socket, in place of a dead one.
func (l *Listener) bindSocket() (*net.UnixListener, os.FileInfo, error) {
	err := removeDeadSocket(l.path)
	if other, ok := errors.AsType[*inUseError](err); ok {
		err = l.classifyInUse(other)
	}
	if err != nil {
		return nil, nil, err
	}
	return makeSocket(l.path)
}

// makeSocket creates a socket that only the user can reach.
func makeSocket(path string) (*net.UnixListener, os.FileInfo, error) {
	// From the start only the user can reach the socket, even if the directory is opened to other
	// users later. Linux gives the file the mode of the socket. A umask is no alternative: it would
	// also apply to directories that sessions create at the same time. Elsewhere the mode is set
	// once the file exists.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot create the socket %s: %w", path, err)
	}
	l := listener.(*net.UnixListener)
	l.SetUnlinkOnClose(false) // Close must not remove a file that has replaced the socket
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, nil, err
	}
	file, err := os.Lstat(path)
	if err != nil {
		_ = l.Close()
		return nil, nil, err
	}
	return l, file, nil
}

// statOf returns the file info of an open file; nil without a file.
func statOf(f *os.File) os.FileInfo {
	if f == nil {
		return nil
	}
	i, _ := f.Stat()
	return i
}

// isSameFile reports whether path still names this file.
func isSameFile(path string, file os.FileInfo) bool {
	now, err := os.Lstat(path)
	return err == nil && file != nil && os.SameFile(now, file)
}

// Prove answers a client that asks whether this is the daemon of its user.
func (l *Listener) Prove(conn io.ReadWriteCloser, nonce string) (peer.Proof, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return peer.Proof{}, errors.New("not a connection of a Unix socket")
	}
	address, ok := l.addresses.Load(c.LocalAddr().String())
	if !ok {
		return peer.Proof{}, fmt.Errorf("the connection is at %s, which is not a socket of this daemon", c.LocalAddr())
	}
	return peer.NewProof(c, nonce, address.(string), l.keys)
}

// Accept waits for a client at the current socket, and continues at the next one after a move.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		current := l.listener
		l.mu.Unlock()
		conn, err := current.Accept()
		if err == nil {
			return conn, nil
		}
		l.mu.Lock()
		renewed := l.listener != current
		l.mu.Unlock()
		if !renewed {
			return nil, err
		}
	}
}

// Addr returns the address at which clients find the daemon.
func (l *Listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listener.Addr()
}

// Close stops listening. It removes the socket file if this daemon still owns it.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if isSameFile(l.path, l.socket) {
		_ = os.Remove(l.path)
	}
	if l.entryPath != "" {
		daemonlock.RemoveEntry(l.entryPath)
	}
	l.userLock.Release()
	err := l.listener.Close()
	if l.lock != nil {
		_ = l.lock.Truncate(0) // an empty lock file marks a clean end
		_ = l.lock.Close()
	}
	return err
}

// CrashedPID returns the process of the daemon that last served here, if it crashed; otherwise 0.
func (l *Listener) CrashedPID() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crashedPID
}

// activatedListener returns the socket that a service manager passes: systemd.socket(5). It returns
// nil without such a socket. The daemon does not remove this socket, and its child processes do not
// inherit it.
func activatedListener() (*Listener, error) {
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
		return nil, fmt.Errorf("the file descriptor from the service manager is not a listening socket: %w", err)
	}
	socket, ok := l.(*net.UnixListener)
	if !ok {
		_ = l.Close()
		return nil, fmt.Errorf("the socket from the service manager is for %s; it must be a Unix socket", l.Addr().Network())
	}
	return &Listener{listener: socket}, nil
}

// peerPID returns the process at the other end of a connection, or 0 if unknown.
func peerPID(conn io.ReadWriteCloser) int {
	_, pid, _ := peer.Credentials(conn)
	return pid
}

// authorizePeer refuses clients of other users, whatever the mode of the socket file is. Root is
// allowed.
func authorizePeer(conn net.Conn) error {
	uid, _, err := peer.Credentials(conn)
	if err != nil {
		return fmt.Errorf("unknown user of the client: %w", err)
	}
	if int(uid) != os.Geteuid() && uid != 0 {
		return fmt.Errorf("the client belongs to another user (uid %d)", uid)
	}
	return nil
}

// isTemporary reports whether the listener can accept clients again after err.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
