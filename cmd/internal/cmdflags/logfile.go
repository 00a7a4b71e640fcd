package cmdflags

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

// maxLogBytes bounds a log file. One older file is kept next to it.
const maxLogBytes = 1 << 20

// DaemonLogName is the log file of a daemon in cmdkit.StateDir.
const DaemonLogName = "serve.log"

// A LogFile is a program's log, including its crash output. Several programs may share a file: each
// writes whole lines.
type LogFile struct {
	path string

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// OpenLog opens a log file, and creates it and its directory if they do not exist.
func OpenLog(path string) (*LogFile, error) {
	l := &LogFile{path: path}
	return l, l.open(0)
}

// open opens the file with additional flags. The caller holds mu, or no other goroutine has l yet.
func (l *LogFile) open(how int) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|how, 0o600)
	if err != nil {
		return err
	}
	_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // the runtime keeps its own descriptor
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = f
	return nil
}

// Write writes one whole line to the current file, and first replaces a file that is full.
func (l *LogFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.makeRoom(int64(len(b))); err != nil {
		return 0, err
	}
	return l.file.Write(b)
}

// makeRoom makes sure that n bytes fit into the file. Another program may have written to the file,
// or moved it, since the last write.
func (l *LogFile) makeRoom(n int64) error {
	current, err := os.Stat(l.path)
	opened, err2 := l.file.Stat()
	switch {
	case err != nil || err2 != nil || !os.SameFile(current, opened):
		return l.open(0)
	case opened.Size() == 0 || opened.Size()+n <= maxLogBytes:
		return nil
	}
	how := 0
	unlock := lockLogFile(l.file)
	current, err = os.Stat(l.path)
	isMine := err == nil && os.SameFile(current, opened)   // or another program was faster
	if isMine && os.Rename(l.path, l.path+".old") != nil { // Windows does not move a file that any program has open
		if text, err := os.ReadFile(l.path); err == nil {
			_ = os.WriteFile(l.path+".old", text, 0o600)
		}
		how = os.O_TRUNC // even if the copy failed, so that the file stays within its bound
	}
	unlock()
	return l.open(how)
}

// DefaultLogPath returns the path of a daemon's log if the user gave none, or "" if the user has no
// directory for it.
func DefaultLogPath() string {
	dir := cmdkit.StateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, DaemonLogName)
}
