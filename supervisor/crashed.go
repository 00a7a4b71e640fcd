package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Bounds on kept transcripts of lost sessions. The oldest are removed first.
const (
	maxCrashedAge      = 24 * time.Hour
	maxCrashedSessions = 32
	maxCrashedBytes    = 512 << 20
)

const (
	// crashedSuffix ends the name of a lost session's directory. Its number is that of the
	// format of the timeline's files.
	crashedSuffix = ".crashed-1"

	// A lost session's directory has a description of the session beside the timeline's files,
	// and an empty file once a user was told of the loss.
	infoFileName     = "info"
	reportedFileName = "reported"
)

// lockFileInfo is in the lock file of a session whose transcript must be kept if its program is
// killed.
type lockFileInfo struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`  // Spec.Dir
	Spec string `json:"spec"` // its name
}

// A CrashedSession is the transcript of a session whose program was killed.
type CrashedSession struct {
	Name       string
	ID         string    // unique, unlike the name
	Worker     string    // the name of its Spec
	Found      time.Time // it is kept for a day from then on
	Bytes      int64
	OutputPath string

	dir      string
	info     lockFileInfo
	reported bool
}

// CrashedSessions returns the lost sessions of programs with this Options.Dir that had
// Options.RecoverCommand, newest first. They are kept for a day, 32 of them, up to 512 MiB.
func CrashedSessions(dir string) ([]CrashedSession, error) {
	if dir == "" {
		dir = defaultDir()
	}
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		return nil, nil
	}
	if err := checkPrivateDir(dir); err != nil {
		return nil, err
	}
	removeAbandoned(dir)
	return listCrashedSessions(dir), nil
}

// Events yields the recorded events of the session, from its beginning. The last tenth of a
// second may be missing, and so may events beyond the bound of the file.
func (l CrashedSession) Events() iter.Seq[timeline.Event] { return timeline.ReadFile(l.dir) }

// Inputs counts the inputs among the events.
func (l CrashedSession) Inputs() (n int) {
	for e := range l.Events() {
		if _, ok := e.Body.(timeline.TurnStarted); ok {
			n++
		}
	}
	return n
}

// updateLockInfo writes into a session's lock file whose it is.
func (s *Session) updateLockInfo(a lockFileInfo) {
	s.lockInfoMu.Lock()
	defer s.lockInfoMu.Unlock()
	if !s.lockInfoCleared {
		writeLockInfo(s.lock, a)
	}
}

// clearLockInfo makes the session one of which nothing is kept, whatever becomes of this program: it was
// closed, and is not lost. The lock file stays locked until the directory is about to go, but
// between the two other programs may look at it.
func (s *Session) clearLockInfo() {
	s.lockInfoMu.Lock()
	defer s.lockInfoMu.Unlock()
	s.lockInfoCleared = true
	_ = s.lock.Truncate(0) // it may be in a directory that was removed
}

// writeLockInfo writes into a lock file whose it is.
func writeLockInfo(lock *os.File, a lockFileInfo) {
	text, err := json.Marshal(a)
	if err != nil {
		return
	}
	// On a full disk there is no transcript to keep, either.
	if _, err := lock.WriteAt(text, 0); err == nil {
		_ = lock.Truncate(int64(len(text)))
	}
}

// retainCrashed keeps the transcript of an abandoned session if anybody has used it, and reports
// whether it did. lock is its lock file, which is held, and closed here.
func retainCrashed(dir string, lock *os.File) bool {
	var a lockFileInfo
	text, err := io.ReadAll(io.LimitReader(lock, 64<<10))
	_ = lock.Close() // first: Windows cannot move a directory with an open file
	if err != nil || json.Unmarshal(text, &a) != nil || a.Name == "" || !hasUserTurn(dir) {
		return false
	}
	if os.Rename(dir, dir+crashedSuffix) == nil {
		removePrivateFiles(dir + crashedSuffix)
	}
	// Otherwise another program has just done it, or is doing it: Windows cannot move a
	// directory with an open file. The next program that starts tries again.
	return true
}

// hasUserTurn reports whether anything was run in a session but what tools run in silence, as in one
// that a daemon keeps warm.
func hasUserTurn(dir string) bool {
	for e := range timeline.ReadFile(dir) {
		if e.Turn > 0 && !e.Silent { // its input may be gone, where the files have begun anew
			return true
		}
	}
	return false
}

// removePrivateFiles removes everything from a lost session's directory that is not kept. If it is broken
// off, it can be repeated, also by another program.
func removePrivateFiles(dir string) {
	path := filepath.Join(dir, infoFileName)
	if os.Rename(filepath.Join(dir, lockFileName), path) == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
	inside, _ := os.ReadDir(dir)
	for _, f := range inside {
		if !slices.Contains([]string{infoFileName, reportedFileName, timeline.EventsName, timeline.OutputName}, f.Name()) {
			_ = removeTree(filepath.Join(dir, f.Name()))
		}
	}
}

// listCrashedSessions returns the lost sessions in a directory, and removes those that are over
// a bound.
func listCrashedSessions(dir string) []CrashedSession {
	var all []CrashedSession
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+crashedSuffix))
	for _, path := range paths {
		removePrivateFiles(path)
		l, err := readCrashedSession(path)
		switch {
		case err == nil:
			all = append(all, l)
		case errors.Is(err, errNotCrashedSession):
			_ = discardDir(path)
		} // otherwise another program is changing it
	}
	slices.SortFunc(all, func(a, b CrashedSession) int { return b.Found.Compare(a.Found) })
	kept, size := all[:0], int64(0)
	for _, l := range all {
		if size += l.Bytes; len(kept) == maxCrashedSessions || size > maxCrashedBytes || time.Since(l.Found) > maxCrashedAge {
			_ = discardDir(l.dir)
			continue
		}
		kept = append(kept, l)
	}
	return kept
}

var errNotCrashedSession = errors.New("not a lost session")

// readCrashedSession reads the description of a lost session. A file that is not plain, or not the
// user's own, is not ours.
func readCrashedSession(dir string) (CrashedSession, error) {
	l := CrashedSession{dir: dir, ID: strings.TrimSuffix(filepath.Base(dir), crashedSuffix), OutputPath: filepath.Join(dir, timeline.OutputName)}
	if i, err := os.Lstat(dir); err != nil || !i.IsDir() || !host.IsOwnedByUser(i) {
		return l, errNotCrashedSession
	}
	for _, name := range []string{timeline.EventsName, timeline.OutputName} {
		i, err := statOwnFile(dir, name)
		if err != nil {
			return l, err
		}
		l.Bytes += i.Size()
	}
	i, err := statOwnFile(dir, infoFileName)
	if err != nil {
		return l, err
	}
	text, err := os.ReadFile(filepath.Join(dir, infoFileName))
	if err != nil {
		return l, err
	}
	if json.Unmarshal(text, &l.info) != nil || l.info.Name == "" {
		return l, errNotCrashedSession
	}
	l.Worker = l.info.Spec
	_, err = statOwnFile(dir, reportedFileName)
	l.Name, l.Found, l.reported = l.info.Name, i.ModTime(), err == nil
	return l, nil
}

// statOwnFile describes a file; it is an error unless it is plain and the user's own.
func statOwnFile(dir, name string) (os.FileInfo, error) {
	i, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !i.Mode().IsRegular() || !host.IsOwnedByUser(i) {
		return nil, errNotCrashedSession
	}
	return i, nil
}

// claimCrashed returns the newest lost session of this name and directory whose loss was not
// reported yet; nil when there is none.
func (v *Supervisor) claimCrashed(a lockFileInfo) *CrashedSession {
	if v.o.RecoverCommand == "" {
		return nil
	}
	var newest *CrashedSession
	for _, l := range listCrashedSessions(v.o.Dir) {
		if l.info != a || l.reported || !createExclusive(filepath.Join(l.dir, reportedFileName)) {
			continue
		}
		if newest == nil {
			newest = &l
		}
	}
	return newest
}

// createExclusive makes a file and reports whether nobody else has. To move one would not do: on Windows two
// programs that have opened it may both move it.
func createExclusive(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// clearReported lets another session of that name say that this one was lost.
func (l *CrashedSession) clearReported() { _ = os.Remove(filepath.Join(l.dir, reportedFileName)) }

// noticeText says that a session was lost, and how to get its transcript.
func (l *CrashedSession) noticeText(command string) string {
	return fmt.Sprintf("the session %s before this one was lost when its program was killed: its output is in %s, and %q writes what was run in it", l.Name, l.OutputPath, command+" "+l.Name)
}
