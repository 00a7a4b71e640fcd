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

// How long and how many transcripts of lost sessions are kept. The oldest go first.
const (
	lostAge   = 24 * time.Hour
	maxLost   = 32
	lostBytes = 512 << 20
)

const (
	// lostSuffix is of the directory of a lost session, with the number of the
	// format of the timeline's files in it.
	lostSuffix = ".lost-1"

	// What a lost session's directory has beside the timeline's files: what the
	// session was, under one name until somebody was told that it is lost, and then
	// under the other.
	aboutName = "about"
	toldName  = "told"
)

// about is in the lock file of a session that is to be kept, should its program be
// killed.
type about struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`  // Spec.Dir
	Spec string `json:"spec"` // its name
}

// A LostSession is what is left of a session whose program was killed: the
// transcript of what was run and printed in it.
type LostSession struct {
	Name       string
	ID         string    // tells those of one name apart
	Worker     string    // the name of its Spec
	Found      time.Time // it is kept for a day from then on
	Bytes      int64
	OutputPath string

	dir   string
	about about
	told  bool
}

// LostSessions returns the sessions that were lost, the newest first, of programs
// with this Options.Dir that had Options.Recover. They are kept for a day, 32 of
// them, and up to 512 MiB.
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

// Events is what was recorded of the session, from its beginning. The last tenth of
// a second may be missing, and what exceeded the bound of the file.
func (l LostSession) Events() iter.Seq[timeline.Event] { return timeline.ReadFile(l.dir) }

// keepLost keeps what is worth it of an abandoned session, and reports whether it
// did. lock is its file, which is held and is closed here.
func keepLost(dir string, lock *os.File) bool {
	var a about
	text, err := io.ReadAll(io.LimitReader(lock, 64<<10))
	_ = lock.Close() // first: Windows moves no directory with an open file
	if err != nil || json.Unmarshal(text, &a) != nil || a.Name == "" || !anyInput(dir) {
		return false
	}
	if os.Rename(dir, dir+lostSuffix) == nil {
		strip(dir + lostSuffix)
	}
	// Else another program has just done it, or does: Windows moves no directory in
	// which somebody has a file open. The next one that starts tries again.
	return true
}

// anyInput reports whether anything was run in a session.
func anyInput(dir string) bool {
	for e := range timeline.ReadFile(dir) {
		if e.Turn > 0 { // its input may be gone, where the files have begun anew
			return true
		}
	}
	return false
}

// strip leaves in a lost session's directory what is kept. It may be done again, by
// others too, until it was done to the end.
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
		} // else another program is about to change it
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

// lostAt reads what is known of a lost session. What is not a plain file of the
// user's own is not one of ours.
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
	name := aboutName
	i, err := plain(dir, name)
	if err != nil {
		name = toldName // in this order: it may get the other name right now
		i, err = plain(dir, name)
	}
	if err != nil {
		return l, err
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return l, err
	}
	if json.Unmarshal(text, &l.about) != nil || l.about.Name == "" {
		return l, errNotOurs
	}
	l.Worker = l.about.Spec
	l.Name, l.Found, l.told = l.about.Name, i.ModTime(), name == toldName
	return l, nil
}

// plain is what is known of a plain file of the user's own.
func plain(dir, name string) (os.FileInfo, error) {
	i, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !i.Mode().IsRegular() || !host.OwnedByUs(i) {
		return nil, errNotOurs
	}
	return i, nil
}

// claimLost is the newest session of this name and directory that was lost and of
// which nobody was told; nil when there is none.
func (v *Supervisor) claimLost(a about) *LostSession {
	if v.o.Recover == "" {
		return nil
	}
	var newest *LostSession
	for _, l := range lostIn(v.o.Dir) {
		if l.about != a || l.told || os.Rename(filepath.Join(l.dir, aboutName), filepath.Join(l.dir, toldName)) != nil {
			continue
		}
		if newest == nil {
			newest = &l
		}
	}
	return newest
}

// notice says that a session was lost, and how its transcript is had.
func (l *LostSession) notice(command string) string {
	return fmt.Sprintf("the session %s before this one was lost when its program was killed: its output is in %s, and %q writes what was run in it", l.Name, l.OutputPath, command+" "+l.Name)
}
