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
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// socketName is the file name of the socket, which has its own directory.
const socketName = "daemon.sock"

// probeTimeout bounds the check whether a daemon listens at a socket.
const probeTimeout = 2 * time.Second

// SocketPaths returns where the daemon of a user may listen, the preferred path first. These are
// the runtime directory of the login, if there is one, and then directories that do not depend on a
// login. getenv is os.Getenv.
func SocketPaths(getenv func(string) string) []string {
	var sockets []string
	if dir := loginDir(getenv); dir != "" {
		if path := filepath.Join(dir, "turnstone", socketName); CheckPath(path) == nil {
			sockets = append(sockets, path)
		}
	}
	return append(sockets, PersistentSocketPaths(getenv)...)
}

// PersistentSocketPaths returns the paths of [SocketPaths] that do not depend on a login: they stay
// when the user logs out.
func PersistentSocketPaths(getenv func(string) string) []string {
	inTmp := filepath.Join("turnstone-"+strconv.Itoa(os.Getuid()), socketName)
	path := filepath.Join(getenv("TMPDIR"), inTmp)
	if !filepath.IsAbs(path) || CheckPath(path) != nil {
		path = filepath.Join("/tmp", inTmp)
	}
	sockets := []string{path}
	// Another user may have taken the first path. The entry then says where the daemon is.
	if dir, host := userdirs.ProgramState(getenv), hostName(); dir != "" && host != "" {
		if path := filepath.Join(dir, "run-"+host, socketName); CheckPath(path) == nil {
			sockets = append(sockets, path)
		}
	}
	return sockets
}

// maxPathBytes bounds the path of a socket, in bytes: sun_path without its final NUL.
const maxPathBytes = len(syscall.RawSockaddrUnix{}.Path) - 1

// CheckPath returns an error if the path of a socket is too long for the system.
func CheckPath(path string) error {
	if len(path) > maxPathBytes {
		return fmt.Errorf("the path of the socket is %d bytes long, and the system allows %d: %s; name a shorter one, for example with TURNSTONE_SOCKET", len(path), maxPathBytes, path)
	}
	return nil
}

// CheckOwner returns an error if a socket belongs to another user, whose daemon would refuse the
// client. A socket of root is allowed, because systemd may have created it.
func CheckOwner(path string, user int) error {
	i, err := os.Stat(path)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no access to %s, which is another user's: %w", path, errors.Unwrap(err))
	}
	if err != nil {
		return nil // connecting reports the error
	}
	if owner, ok := i.Sys().(*syscall.Stat_t); ok && user != 0 && owner.Uid != 0 && int(owner.Uid) != user {
		return fmt.Errorf("the daemon at %s is another user's (uid %d) and serves only that user", path, owner.Uid)
	}
	return nil
}

// SocketOwner returns the owner of a socket; 0 if that is unknown, or root.
func SocketOwner(path string) int {
	if i, err := os.Stat(path); err == nil {
		if owner, ok := i.Sys().(*syscall.Stat_t); ok {
			return int(owner.Uid)
		}
	}
	return 0
}

// loginDir returns the directory that the system creates while a user is logged in, or "" if there
// is none. After su, XDG_RUNTIME_DIR may belong to another user; in a batch job, to another host.
func loginDir(getenv func(string) string) string {
	for _, dir := range []string{userdirs.Runtime(getenv), "/run/user/" + strconv.Itoa(os.Geteuid())} {
		if filepath.IsAbs(dir) && isOwnDir(dir) {
			return dir
		}
	}
	return ""
}

// UserKeys returns where the key of a user is, by which clients recognize the daemon. It is in the
// state directory, or in a directory of the user in /tmp if no file can be created there. Sessions
// can neither see nor change these directories. TMPDIR is not suitable, because it may be in a
// workspace.
func UserKeys(getenv func(string) string, uid int) peer.KeyDirs {
	state := userdirs.ProgramState(getenv)
	if uid != os.Geteuid() { // root asks for the key of another user
		state = ""
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && filepath.IsAbs(u.HomeDir) {
			state = filepath.Join(u.HomeDir, ".local", "state", "turnstone")
		}
	}
	k := peer.KeyDirs{Dirs: []string{"/tmp/turnstone-" + strconv.Itoa(uid)}, UID: uid}
	if state != "" {
		k.Dirs = append([]string{state}, k.Dirs...)
	}
	return k
}

// isOwnDir reports whether a directory exists and belongs to this user.
func isOwnDir(dir string) bool {
	i, err := os.Stat(dir)
	return err == nil && i.IsDir() && isOwnFile(i)
}

// isOwnFile reports whether a file belongs to this user.
func isOwnFile(i os.FileInfo) bool {
	owner, ok := i.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// FindSocket returns where the daemon of this user on this host listens, or would listen. It skips
// sockets that a killed daemon has left, and sockets of other programs.
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

// isSocket reports whether path is a socket of this user, in a directory of this user.
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

// VerifyDaemon asks the program that listens at a socket to prove that it is a daemon of this user.
// The error is a *peer.UnprovenError if it does not.
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
