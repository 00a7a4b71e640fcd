package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
)

// maxLogBytes bounds a log file. One older file is kept next to it.
const maxLogBytes = 1 << 20

// daemonLogName is the log of a daemon, in stateDir.
const daemonLogName = "serve.log"

// A logFile is the log of a program, including its last words. Several programs may share one
// file: each writes whole lines.
type logFile struct {
	path string

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// openLog opens a log file, and makes it and its directory if they are not there.
func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open(0)
}

// open opens the file, with further flags; mu is held, or nobody else has l yet.
func (l *logFile) open(how int) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|how, 0o600)
	if err != nil {
		return err
	}
	_ = debug.SetCrashOutput(f, debug.CrashOptions{}) // it keeps a descriptor of its own
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = f
	return nil
}

// Write writes a line.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.makeRoom(int64(len(b))); err != nil {
		return 0, err
	}
	return l.file.Write(b)
}

// makeRoom sees to it that n bytes fit. Another program may have written to the file,
// or moved it, since.
func (l *logFile) makeRoom(n int64) error {
	there, err := os.Stat(l.path)
	mine, err2 := l.file.Stat()
	switch {
	case err != nil || err2 != nil || !os.SameFile(there, mine):
		return l.open(0)
	case mine.Size() == 0 || mine.Size()+n <= maxLogBytes:
		return nil
	}
	how := 0
	unlock := lock(l.file)
	there, err = os.Stat(l.path)
	isMine := err == nil && os.SameFile(there, mine)       // or another program was faster
	if isMine && os.Rename(l.path, l.path+".old") != nil { // Windows moves no file that is open, for a crash or elsewhere
		if text, err := os.ReadFile(l.path); err == nil {
			_ = os.WriteFile(l.path+".old", text, 0o600)
		}
		how = os.O_TRUNC // in any case: the bound holds
	}
	unlock()
	return l.open(how)
}

// defaultLogPath returns the path of a daemon's log unless the user gave another, or "" if the
// user has no directory for it.
func defaultLogPath() string {
	dir := stateDir()
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, daemonLogName)
}
