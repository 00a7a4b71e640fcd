//go:build unix

package daemonlock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/internal/peer"
)

// socketName is that of the socket, in a directory of its own.
const socketName = "daemon.sock"

// probeTimeout bounds asking whether a daemon listens at a socket.
const probeTimeout = 2 * time.Second

// SocketPaths returns where the daemon of a user may listen, the best first: in the directory of
// the login, if there is one, then in a directory that no login owns. getenv is os.Getenv.
func SocketPaths(getenv func(string) string) []string {
	var sockets []string
	if dir := loginDir(getenv); dir != "" {
		if path := filepath.Join(dir, "turnstone", socketName); CheckPath(path) == nil {
			sockets = append(sockets, path)
		}
	}
	return append(sockets, PersistentSocketPaths(getenv)...)
}

// PersistentSocketPaths returns those of [Sockets] that no login owns: they stay when the user logs out.
func PersistentSocketPaths(getenv func(string) string) []string {
	inTmp := filepath.Join("turnstone-"+strconv.Itoa(os.Getuid()), socketName)
	path := filepath.Join(getenv("TMPDIR"), inTmp)
	if !filepath.IsAbs(path) || CheckPath(path) != nil {
		path = filepath.Join("/tmp", inTmp)
	}
	sockets := []string{path}
	// Another user may have taken that name. The entry says where the daemon is then.
	if dir, host := StateDir(getenv), hostName(); dir != "" && host != "" {
		if path := filepath.Join(dir, "run-"+host, socketName); CheckPath(path) == nil {
			sockets = append(sockets, path)
		}
	}
	return sockets
}

// maxPathBytes is how long the path of a socket may be, in bytes: sun_path without its final NUL.
const maxPathBytes = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckPath refuses the path of a socket that is too long for the system.
func CheckPath(path string) error {
	if len(path) > maxPathBytes {
		return fmt.Errorf("the path of the socket is %d bytes long, and the system allows %d: %s (name a shorter one, as with TURNSTONE_SOCKET)", len(path), maxPathBytes, path)
	}
	return nil
}

// CheckOwner refuses a user the socket of another one, whose daemon serves nobody else. One of root's
// may be a socket that systemd has made.
func CheckOwner(path string, user int) error {
	i, err := os.Stat(path)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%s is closed to you, as another user's: %w", path, errors.Unwrap(err))
	}
	if err != nil {
		return nil // who connects says why it cannot
	}
	if owner, ok := i.Sys().(*syscall.Stat_t); ok && user != 0 && owner.Uid != 0 && int(owner.Uid) != user {
		return fmt.Errorf("the daemon at %s is another user's (uid %d), and serves nobody else", path, owner.Uid)
	}
	return nil
}

// SocketOwner returns the user to whom a socket belongs; 0 if that is unknown, or root.
func SocketOwner(path string) int {
	if i, err := os.Stat(path); err == nil {
		if owner, ok := i.Sys().(*syscall.Stat_t); ok {
			return int(owner.Uid)
		}
	}
	return 0
}

// loginDir returns the directory that the system makes for the time in which a user is logged
// in; "" if there is none. XDG_RUNTIME_DIR may be another user's, after su, or another
// host's, in a job.
func loginDir(getenv func(string) string) string {
	for _, dir := range []string{getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(os.Geteuid())} {
		if filepath.IsAbs(dir) && isOwnDir(dir) {
			return dir
		}
	}
	return ""
}

// StateDir returns the directory for what outlives a program; "" if there is none. A home
// directory of another user is not taken, which HOME may name after su or sudo.
func StateDir(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "turnstone")
	}
	home := getenv("HOME")
	if !isOwnDir(home) {
		if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && filepath.IsAbs(u.HomeDir) {
			home = u.HomeDir
		}
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "state", "turnstone")
}

// UserKeys returns where the key of a user is, by which clients know the daemon: in the state directory,
// or if no file can be made there, in a directory of the user's in /tmp. No session writes or sees either.
// TMPDIR would not do, because it may be in a workspace.
func UserKeys(getenv func(string) string, uid int) peer.Keys {
	state := StateDir(getenv)
	if uid != os.Geteuid() { // root asks for another user's
		state = ""
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && filepath.IsAbs(u.HomeDir) {
			state = filepath.Join(u.HomeDir, ".local", "state", "turnstone")
		}
	}
	k := peer.Keys{Dirs: []string{"/tmp/turnstone-" + strconv.Itoa(uid)}, UID: uid}
	if state != "" {
		k.Dirs = append([]string{state}, k.Dirs...)
	}
	return k
}

// isOwnDir reports whether a directory is there and belongs to this user.
func isOwnDir(dir string) bool {
	i, err := os.Stat(dir)
	return err == nil && i.IsDir() && isOwnFile(i)
}

// isOwnFile reports whether a file belongs to this user.
func isOwnFile(i os.FileInfo) bool {
	owner, ok := i.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// FindSocket returns where the daemon of this user on this host listens, or where one would. A socket
// that a killed daemon has left leads nowhere, and neither does one of another program.
func FindSocket(getenv func(string) string) string {
	if e, ok := ReadEntry(getenv); ok {
		return e.Socket
	}
	sockets := SocketPaths(getenv)
	answers := func(socket string) bool { return IsServed(getenv, socket) }
	if i := slices.IndexFunc(sockets, answers); i > 0 {
		return sockets[i]
	}
	return sockets[0]
}

// isSocket reports whether a socket of this user is there, in a directory of this user.
func isSocket(path string) bool {
	dir, err := os.Lstat(filepath.Dir(path))
	if err != nil || !dir.IsDir() || !isOwnFile(dir) {
		return false
	}
	i, err := os.Lstat(path)
	return err == nil && i.Mode().Type() == os.ModeSocket && isOwnFile(i)
}

// IsServed reports whether a daemon of this user listens at a socket, within two seconds.
func IsServed(getenv func(string) string, path string) bool {
	return isSocket(path) && VerifyDaemon(context.Background(), getenv, path, probeTimeout) == nil
}

// VerifyDaemon asks the program that listens at a socket whether it is a daemon of this user. The error is a
// *peer.UnprovenError if it is not.
func VerifyDaemon(ctx context.Context, getenv func(string) string, path string, limit time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	address := peer.CanonicalAddress(path)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	defer conn.Close()
	return peer.RequestProof(ctx, conn, address, UserKeys(getenv, os.Geteuid()))
}
