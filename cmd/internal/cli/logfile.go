package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
)

// maxLogBytes bounds a log file; what was before is kept once, in a file next to it.
const maxLogBytes = 1 << 20

// A logFile is where a daemon without a terminal, or an MCP server, says what it has to
// say, its last words included.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File // guarded by mu
	size int64    // guarded by mu
}

// openLog opens a log file, and makes it and its directory if they are not there.
func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

// open opens the file; mu is held, or nobody else has l yet.
func (l *logFile) open() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	i, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // it keeps a descriptor of its own
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = f, i.Size()
	return nil
}

// Write writes a line.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(b)) > maxLogBytes {
		_ = l.file.Close() // first: Windows moves no open file
		l.file = nil
		_ = os.Rename(l.path, l.path+".old")
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.file == nil {
		return 0, os.ErrClosed
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

// defaultLog returns the log of a daemon that is detached; "" when there is no place.
func defaultLog() string {
	dir := stateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "serve.log")
}
