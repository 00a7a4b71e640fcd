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
	lostAge   = 24 * time.Hour
	maxLost   = 32
	lostBytes = 512 << 20
)

const (
	// lostSuffix ends the name of a lost session's directory. Its number is that of the
	// format of the timeline's files.
	lostSuffix = ".lost-1"

	// A lost session's directory has a description of the session beside the timeline's files,
	// and an empty file once a user was told of the loss.
	aboutName = "about"
	toldName  = "told"
)

// about is in the lock file of a session whose transcript must be kept if its program is
// killed.
type about struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`  // Spec.Dir
	Spec string `json:"spec"` // its name
}

// A LostSession is the transcript of a session whose program was killed.
type LostSession struct {
	Name       string
	ID         string    // unique, unlike the name
	Worker     string    // the name of its Spec
	Found      time.Time // it is kept for a day from then on
	Bytes      int64
	OutputPath string

	dir   string
	about about
	told  bool
}

// LostSessions returns the lost sessions of programs with this Options.Dir that had
// Options.Recover, newest first. They are kept for a day, 32 of them, up to 512 MiB.
func LostSessions(dir string) ([]LostSession, error) {
	if dir == "" {
		dir = defaultDir()
	}
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		return nil, nil
	}
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	removeAbandoned(dir)
	return lostIn(dir), nil
}

// Events yields the recorded events of the session, from its beginning. The last tenth of a
// second may be missing, and so may events beyond the bound of the file.
func (l LostSession) Events() iter.Seq[timeline.Event] { return timeline.ReadFile(l.dir) }

// Inputs counts the inputs among the events.
func (l LostSession) Inputs() (n int) {
	for e := range l.Events() {
		if _, ok := e.Body.(timeline.TurnStarted); ok {
			n++
		}
	}
	return n
}

// describe writes into a session's lock file whose it is.
func (s *Session) describe(a about) {
	s.describing.Lock()
	defer s.describing.Unlock()
	if !s.disowned {
		describe(s.lock, a)
	}
}

// disown makes the session one of which nothing is kept, whatever becomes of this program: it was
// closed, and is not lost. The lock file stays locked until the directory is about to go, but
// between the two other programs may look at it.
func (s *Session) disown() {
	s.describing.Lock()
	defer s.describing.Unlock()
	s.disowned = true
	_ = s.lock.Truncate(0) // it may be in a directory that was removed
}

// describe writes into a lock file whose it is.
func describe(lock *os.File, a about) {
	text, err := json.Marshal(a)
	if err != nil {
		return
	}
	// On a full disk there is no transcript to keep, either.
	if _, err := lock.WriteAt(text, 0); err == nil {
		_ = lock.Truncate(int64(len(text)))
	}
}

// keepLost keeps the transcript of an abandoned session if anybody has used it, and reports
// whether it did. lock is its lock file, which is held, and closed here.
func keepLost(dir string, lock *os.File) bool {
	var a about
	text, err := io.ReadAll(io.LimitReader(lock, 64<<10))
	_ = lock.Close() // first: Windows cannot move a directory with an open file
	if err != nil || json.Unmarshal(text, &a) != nil || a.Name == "" || !anyUse(dir) {
		return false
	}
	if os.Rename(dir, dir+lostSuffix) == nil {
		strip(dir + lostSuffix)
	}
	// Otherwise another program has just done it, or is doing it: Windows cannot move a
	// directory with an open file. The next program that starts tries again.
	return true
}

// anyUse reports whether anything was run in a session but what tools run in silence, as in one
// that a daemon keeps warm.
func anyUse(dir string) bool {
	for e := range timeline.ReadFile(dir) {
		if e.Turn > 0 && !e.Silent { // its input may be gone, where the files have begun anew
			return true
		}
	}
	return false
}

// strip removes everything from a lost session's directory that is not kept. If it is broken
// off, it can be repeated, also by another program.
func strip(dir string) {
	path := filepath.Join(dir, aboutName)
	if os.Rename(filepath.Join(dir, lockName), path) == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now)
	}
	inside, _ := os.ReadDir(dir)
	for _, f := range inside {
		if !slices.Contains([]string{aboutName, toldName, timeline.EventsName, timeline.OutputName}, f.Name()) {
			_ = removeTree(filepath.Join(dir, f.Name()))
		}
	}
}

// lostIn returns the lost sessions in a directory, and removes those that are over
// a bound.
func lostIn(dir string) []LostSession {
	var all []LostSession
	paths, _ := filepath.Glob(filepath.Join(dir, "*"+lostSuffix))
	for _, path := range paths {
		strip(path)
		l, err := lostAt(path)
		switch {
		case err == nil:
			all = append(all, l)
		case errors.Is(err, errNotOurs):
			_ = discard(path)
		} // otherwise another program is changing it
	}
	slices.SortFunc(all, func(a, b LostSession) int { return b.Found.Compare(a.Found) })
	kept, size := all[:0], int64(0)
	for _, l := range all {
		if size += l.Bytes; len(kept) == maxLost || size > lostBytes || time.Since(l.Found) > lostAge {
			_ = discard(l.dir)
			continue
		}
		kept = append(kept, l)
	}
	return kept
}

var errNotOurs = errors.New("not a lost session")

// lostAt reads the description of a lost session. A file that is not plain, or not the
// user's own, is not ours.
func lostAt(dir string) (LostSession, error) {
	l := LostSession{dir: dir, ID: strings.TrimSuffix(filepath.Base(dir), lostSuffix), OutputPath: filepath.Join(dir, timeline.OutputName)}
	if i, err := os.Lstat(dir); err != nil || !i.IsDir() || !host.OwnedByUs(i) {
		return l, errNotOurs
	}
	for _, name := range []string{timeline.EventsName, timeline.OutputName} {
		i, err := plain(dir, name)
		if err != nil {
			return l, err
		}
		l.Bytes += i.Size()
	}
	i, err := plain(dir, aboutName)
	if err != nil {
		return l, err
	}
	text, err := os.ReadFile(filepath.Join(dir, aboutName))
	if err != nil {
		return l, err
	}
	if json.Unmarshal(text, &l.about) != nil || l.about.Name == "" {
		return l, errNotOurs
	}
	l.Worker = l.about.Spec
	_, err = plain(dir, toldName)
	l.Name, l.Found, l.told = l.about.Name, i.ModTime(), err == nil
	return l, nil
}

// plain describes a file; it is an error unless it is plain and the user's own.
func plain(dir, name string) (os.FileInfo, error) {
	i, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !i.Mode().IsRegular() || !host.OwnedByUs(i) {
		return nil, errNotOurs
	}
	return i, nil
}

// claimLost returns the newest lost session of this name and directory whose loss was not
// reported yet; nil when there is none.
func (v *Supervisor) claimLost(a about) *LostSession {
	if v.o.Recover == "" {
		return nil
	}
	var newest *LostSession
	for _, l := range lostIn(v.o.Dir) {
		if l.about != a || l.told || !isFirst(filepath.Join(l.dir, toldName)) {
			continue
		}
		if newest == nil {
			newest = &l
		}
	}
	return newest
}

// isFirst makes a file and reports whether nobody else has. To move one would not do: on Windows two
// programs that have opened it may both move it.
func isFirst(path string) bool {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// untold lets another session of that name say that this one was lost.
func (l *LostSession) untold() { _ = os.Remove(filepath.Join(l.dir, toldName)) }

// notice says that a session was lost, and how to get its transcript.
func (l *LostSession) notice(command string) string {
	return fmt.Sprintf("the session %s before this one was lost when its program was killed: its output is in %s, and %q writes what was run in it", l.Name, l.OutputPath, command+" "+l.Name)
}
