package supervisor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/privatedir"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Bounds on the saved transcripts of crashed sessions. The oldest are removed first.
const (
	maxCrashedAge      = 24 * time.Hour
	maxCrashedSessions = 32
	maxCrashedBytes    = 512 << 20
)

const (
	// crashedFormat is the format version of the timeline's files. It is in the lock file of a session,
	// because another version of the program may find them.
	crashedFormat = 1

	// crashedMark and the format end the directory name of a crashed session.
	crashedMark = ".crashed-"

	// The directory of a crashed session holds a description of the session next to the timeline's
	// files. An empty second file records that the crash was reported to a user.
	infoFileName     = "info"
	reportedFileName = "reported"
)

// lockFileInfo is the content of a session's lock file. It identifies the session whose transcript
// is saved if its program is killed.
type lockFileInfo struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`  // Spec.Dir
	Spec string `json:"spec"` // Spec.Name

	// Format is crashedFormat of the program that wrote the files; 0 means 1.
	Format int `json:"format"`
}

// fileFormat returns the format of the files.
func (i lockFileInfo) fileFormat() int { return cmp.Or(i.Format, 1) }

// A CrashedSession is the saved transcript of a session whose program was killed.
//
// Variables do not survive the program, but the two files of the timeline do. The next program
// saves them for a day, so the inputs and output of a killed daemon are not lost with it. A session
// that was closed leaves nothing: its lock file is emptied when the close starts.
//
// Workers that outlive their supervisor were rejected, because nothing would watch these processes.
// A separate journal was rejected: the files of the timeline already contain all that it would. The
// saved inputs are not run again automatically. They would change files and other machines a second
// time.
type CrashedSession struct {
	Name       string
	ID         string    // unique, unlike the name
	Worker     string    // the name of the Spec
	Found      time.Time // when the crash was found; the transcript is kept for a day after that
	Bytes      int64
	OutputPath string

	// Format is the format version of its files. If it is unreadable, another version of this program
	// wrote them, and Events yields nothing.
	Format     int
	Unreadable bool

	dir      string
	info     lockFileInfo
	reported bool
}

// CrashedSessions returns the crashed sessions of programs that ran with this Options.Dir and with
// Options.RecoverCommand, newest first. At most 32 transcripts and 512 MiB are saved, each for a
// day.
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

// Events yields the recorded events of the session from its start. Events of the last tenth of a
// second may be missing, and so may events beyond the size limit of the file.
func (c CrashedSession) Events() iter.Seq[timeline.Event] {
	if c.Unreadable {
		return func(func(timeline.Event) bool) {}
	}
	return timeline.ReadFile(c.dir)
}

// Inputs counts the turns that the events record.
func (c CrashedSession) Inputs() (n int) {
	for e := range c.Events() {
		if _, ok := e.Body.(timeline.TurnStarted); ok {
			n++
		}
	}
	return n
}

// updateLockInfo records in the lock file which session it belongs to.
func (s *Session) updateLockInfo(info lockFileInfo) {
	s.lockInfoMu.Lock()
	defer s.lockInfoMu.Unlock()
	if !s.lockInfoCleared {
		writeLockInfo(s.lock, info)
	}
}

// clearLockInfo marks the session as closed, so that no transcript is saved if this program is
// killed later. The lock file stays locked until just before the directory is removed, but other
// programs may read it in between.
func (s *Session) clearLockInfo() {
	s.lockInfoMu.Lock()
	defer s.lockInfoMu.Unlock()
	s.lockInfoCleared = true
	_ = s.lock.Truncate(0) // fails if the directory was removed
}

// writeLockInfo writes the identity of a session into its lock file.
func writeLockInfo(lock *os.File, info lockFileInfo) {
	text, err := json.Marshal(info)
	if err != nil {
		return
	}
	// On a full disk there is no transcript to save, either.
	if _, err := lock.WriteAt(text, 0); err == nil {
		_ = lock.Truncate(int64(len(text)))
	}
}

// retainCrashed saves the transcript of an abandoned session if a user has run anything in it, and
// reports whether it did. lock is the session's lock file. The caller holds it, and retainCrashed
// closes it.
func retainCrashed(dir string, lock *os.File) bool {
	var info lockFileInfo
	text, err := io.ReadAll(io.LimitReader(lock, 64<<10))
	_ = lock.Close() // first: Windows cannot move a directory with an open file
	if err != nil || json.Unmarshal(text, &info) != nil || info.Name == "" || info.fileFormat() == crashedFormat && !hasUserTurn(dir) {
		return false
	}
	saved := dir + crashedMark + strconv.Itoa(info.fileFormat())
	if os.Rename(dir, saved) == nil {
		removePrivateFiles(saved)
	}
	// Otherwise another program has just moved it or is moving it: Windows cannot move a directory
	// with an open file. The next program that starts tries again.
	return true
}

// hasUserTurn reports whether a session ran anything but silent turns, which tools use. Sessions
// that a daemon keeps warm run only silent turns.
func hasUserTurn(dir string) bool {
	for e := range timeline.ReadFile(dir) {
		if e.Turn > 0 && !e.Silent { // its TurnStarted may be gone if the files were restarted
			return true
		}
	}
	return false
}

// removePrivateFiles removes everything that is not saved from the directory of a crashed session.
// If it is interrupted, this or another program can repeat it.
func removePrivateFiles(dir string) {
	path := filepath.Join(dir, infoFileName)
	if os.Rename(filepath.Join(dir, lockFileName), path) == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
	entries, _ := os.ReadDir(dir)
	for _, f := range entries {
		if !slices.Contains([]string{infoFileName, reportedFileName, timeline.EventsName, timeline.OutputName}, f.Name()) {
			_ = removeTree(filepath.Join(dir, f.Name()))
		}
	}
}

// listCrashedSessions returns the crashed sessions in a directory, newest first. It removes those
// that exceed a bound.
func listCrashedSessions(dir string) []CrashedSession {
	var all []CrashedSession
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+crashedMark+"*"))
	for _, path := range paths {
		if strings.HasSuffix(path, discardedSuffix) {
			continue
		}
		removePrivateFiles(path)
		c, err := readCrashedSession(path)
		switch {
		case err == nil:
			all = append(all, c)
		case errors.Is(err, errNotCrashedSession):
			_ = discardDir(path)
		} // otherwise another program is changing it
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Found.After(all[j].Found) })
	saved, size := all[:0], int64(0)
	for _, c := range all {
		if size += c.Bytes; len(saved) == maxCrashedSessions || size > maxCrashedBytes || time.Since(c.Found) > maxCrashedAge {
			_ = discardDir(c.dir)
			continue
		}
		saved = append(saved, c)
	}
	return saved
}

var errNotCrashedSession = errors.New("not a crashed session")

// readCrashedSession reads the description of a crashed session. It rejects files that are not
// regular or not owned by the user.
func readCrashedSession(dir string) (CrashedSession, error) {
	id, format, _ := strings.Cut(filepath.Base(dir), crashedMark)
	c := CrashedSession{dir: dir, ID: id, OutputPath: filepath.Join(dir, timeline.OutputName)}
	if i, err := os.Lstat(dir); err != nil || !i.IsDir() || !privatedir.IsOwnedByUser(i) {
		return c, errNotCrashedSession
	}
	for _, name := range []string{timeline.EventsName, timeline.OutputName} {
		i, err := statOwnFile(dir, name)
		if err != nil {
			return c, err
		}
		c.Bytes += i.Size()
	}
	i, err := statOwnFile(dir, infoFileName)
	if err != nil {
		return c, err
	}
	text, err := os.ReadFile(filepath.Join(dir, infoFileName))
	if err != nil {
		return c, err
	}
	if json.Unmarshal(text, &c.info) != nil || c.info.Name == "" {
		return c, errNotCrashedSession
	}
	c.Worker, c.info.Format = c.info.Spec, c.info.fileFormat()
	if c.Format, err = strconv.Atoi(format); err != nil {
		return c, errNotCrashedSession
	}
	c.Unreadable = c.Format != crashedFormat
	_, err = statOwnFile(dir, reportedFileName)
	c.Name, c.Found, c.reported = c.info.Name, i.ModTime(), err == nil
	return c, nil
}

// statOwnFile returns the file's info, or an error unless it is a regular file owned by the user.
func statOwnFile(dir, name string) (os.FileInfo, error) {
	i, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !i.Mode().IsRegular() || !privatedir.IsOwnedByUser(i) {
		return nil, errNotCrashedSession
	}
	return i, nil
}

// claimCrashed returns the newest crashed session with this name and directory that has not been
// reported yet, and marks it as reported. It returns nil if there is no such session.
func (sup *Supervisor) claimCrashed(info lockFileInfo) *CrashedSession {
	if sup.o.RecoverCommand == "" {
		return nil
	}
	var newest *CrashedSession
	for _, c := range listCrashedSessions(sup.o.Dir) {
		if c.info != info || c.Unreadable || c.reported || !createExclusive(filepath.Join(c.dir, reportedFileName)) {
			continue
		}
		if newest == nil {
			newest = &c
		}
	}
	return newest
}

// createExclusive creates a file and reports whether this call created it. Moving a file would not
// be exclusive: on Windows, two programs that both have it open can both move it.
func createExclusive(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// clearReported lets a later session of that name report this crash again.
func (c *CrashedSession) clearReported() { _ = os.Remove(filepath.Join(c.dir, reportedFileName)) }

// noticeText returns the notice that the session crashed and how to get its transcript.
func (c *CrashedSession) noticeText(command string) string {
	return fmt.Sprintf("the previous session %s crashed because its program was killed; its output is in %s, and %q writes its inputs", c.Name, c.OutputPath, command+" "+c.Name)
}

// removeAbandoned removes the directories that a killed program left behind, except for transcripts
// to save. The program's processes have already ended. A directory without a lock file is still
// being created, so it stays.
func removeAbandoned(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "*", lockFileName))
	for _, path := range locks {
		if dir := filepath.Dir(path); strings.Contains(filepath.Base(dir), crashedMark) || strings.HasSuffix(dir, discardedSuffix) {
			continue // the first is saved, and the second is being removed
		}
		if lock, err := privatedir.LockFile(path); err == nil && !retainCrashed(filepath.Dir(path), lock) {
			_ = discardDir(filepath.Dir(path))
		}
	}
	discarded, _ := filepath.Glob(filepath.Join(dir, "*"+discardedSuffix))
	for _, path := range discarded {
		_ = removeTree(path)
	}
}
