package daemonlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/internal/atomicfile"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

const (
	// maxEntryBytes bounds the file of an entry, in bytes.
	maxEntryBytes = 4 << 10

	// maxEntryAge is how long the entry of an earlier boot is kept: it may belong to another host
	// with the same name.
	maxEntryAge = 30 * 24 * time.Hour

	// bootIDBytes is how much of the boot id is in the name of an entry, in bytes.
	bootIDBytes = 8

	entryPrefix, entrySuffix = "daemon-", ".json"
)

// hostName returns a name for this host, its current boot, and its process namespace. A container
// may share the state directory and the name of its host.
func hostName() string {
	host, _ := os.Hostname()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) < bootIDBytes {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	space = strings.Trim(strings.TrimPrefix(space, "pid:"), "[]")
	return fileNameOf(host) + "-" + string(boot[:bootIDBytes]) + "-" + space
}

// fileNameOf returns the name of a host as part of a file name.
func fileNameOf(host string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
			return r
		}
		return '_'
	}, host[:min(len(host), 64)])
}

// entryPaths returns the paths of the entry, the preferred one first: the state directory may be
// full or read-only.
func entryPaths(getenv func(string) string) []string {
	host := hostName()
	if host == "" {
		return nil
	}
	var paths []string
	if dir := userdirs.ProgramState(getenv); dir != "" {
		paths = append(paths, filepath.Join(dir, entryPrefix+host+entrySuffix))
	}
	for _, socket := range PersistentSocketPaths(getenv)[:1] {
		paths = append(paths, filepath.Join(filepath.Dir(socket), entryPrefix+host+entrySuffix))
	}
	return paths
}

// ReadEntry returns the entry of a live daemon. Sessions cannot write to the state directory.
// Elsewhere a session could have written the entry, so the daemon there must prove that it is one.
// getenv is os.Getenv.
func ReadEntry(getenv func(string) string) (e LockEntry, ok bool) {
	for _, path := range entryPaths(getenv) {
		if e, err := loadEntry(path); err == nil && e.isAlive() && (isInState(getenv, path) || IsServed(getenv, e.Socket)) {
			return e, true
		}
	}
	return LockEntry{}, false
}

// isInState reports whether a path is in the state directory itself.
func isInState(getenv func(string) string, path string) bool {
	return filepath.Dir(path) == userdirs.ProgramState(getenv)
}

// loadEntry reads an entry that no other user can have written.
func loadEntry(path string) (e LockEntry, err error) {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return e, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // do not block on a pipe
	if err != nil {
		return e, err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return e, err
	}
	if !i.Mode().IsRegular() || !isOwnFile(i) || i.Mode().Perm()&0o022 != 0 || !isOwnFile(dir) || dir.Mode().Perm()&0o022 != 0 {
		return e, fmt.Errorf("%s or its directory could have been written by another user", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEntryBytes))
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, err
	}
	if !filepath.IsAbs(e.Socket) || e.PID <= 0 {
		return e, fmt.Errorf("%s is not a daemon entry", path)
	}
	return e, nil
}

// isAlive reports whether the process of an entry still runs, and is the one that wrote it.
func (e LockEntry) isAlive() bool {
	ticks, err := processStart(e.PID)
	return err == nil && ticks == e.StartTicks
}

// processStart returns when a process of this user started, in clock ticks since the boot.
func processStart(pid int) (uint64, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	i, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, err
	}
	// The name of the program is in parentheses, and may contain parentheses and spaces. proc(5):
	// the start time is field 22, the state field 3.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 || !isOwnFile(i) || fields[0] == "Z" {
		return 0, fmt.Errorf("process %d is not a live process of this user", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// WriteEntry writes or replaces the entry of this process, which holds the lock. It returns the
// path of the entry, also if the entry was already up to date.
func WriteEntry(getenv func(string) string, socket string) (path string, err error) {
	ticks, err := processStart(os.Getpid())
	if err != nil {
		return "", err
	}
	e := LockEntry{PID: os.Getpid(), StartTicks: ticks, Socket: socket, Since: time.Now()}
	var failures []error
	for _, path := range entryPaths(getenv) {
		now, err := loadEntry(path)
		if err == nil && now.PID == e.PID && now.StartTicks == e.StartTicks && now.Socket == e.Socket {
			return path, nil
		}
		if err = e.writeFile(path); err == nil {
			removeOldEntries(filepath.Dir(path))
			return path, nil
		}
		failures = append(failures, err)
	}
	return "", fmt.Errorf("cannot write the entry that names the socket: %w", errors.Join(failures...))
}

// writeFile writes an entry atomically.
func (e LockEntry) writeFile(path string) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if !isOwnDir(dir) {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return atomicfile.Write(path, append(text, '\n'), 0o600)
}

// removeOldEntries removes the entries of daemons in earlier boots of this host.
func removeOldEntries(dir string) {
	host, _ := os.Hostname()
	now := hostName()
	entries, _ := os.ReadDir(dir)
	for _, f := range entries {
		name := f.Name()
		if !strings.HasPrefix(name, entryPrefix+fileNameOf(host)+"-") || name == entryPrefix+now+entrySuffix {
			continue
		}
		if i, err := f.Info(); err == nil && time.Since(i.ModTime()) > maxEntryAge {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}

// RemoveEntry removes the entry at a path that [WriteEntry] returned, if it still belongs to this
// process.
func RemoveEntry(path string) {
	if e, err := loadEntry(path); err == nil && e.PID == os.Getpid() && e.isAlive() {
		_ = os.Remove(path)
	}
}

// RequestRenewal asks a live daemon to check its socket, by touching the entry, which the daemon
// watches. It reports whether there is such a daemon. It trusts only an entry in the state
// directory, because a daemon without a socket cannot prove itself. getenv is os.Getenv.
func RequestRenewal(getenv func(string) string) bool {
	for _, path := range entryPaths(getenv) {
		if e, err := loadEntry(path); err == nil && e.isAlive() && isInState(getenv, path) {
			now := time.Now()
			_ = os.Chtimes(path, now, now)
			return true
		}
	}
	return false
}
