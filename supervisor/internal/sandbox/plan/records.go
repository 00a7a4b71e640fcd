package plan

import (
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// minFileAge is the minimum age of a file's modification time for it to be trusted, because two
// changes may get the same time.
const minFileAge = 50 * time.Millisecond

// A record is the stamp of a file when it was last checked; it is zero if the file did not exist.
type record struct {
	filestate.Stamp
	isRecent bool // it had just changed, so it is checked again
}

// records maps the names of files to their records.
type records map[string]record

func (r records) recordFile(name string) {
	now := filestate.StampOf(name)
	r[name] = record{now, now != filestate.Stamp{} && time.Since(time.Unix(0, now.Changed)) < minFileAge}
}

func (r records) hasChanged(name string) bool {
	was := r[name]
	return was.isRecent || filestate.StampOf(name) != was.Stamp
}

func (r records) isStale() bool {
	for name := range r {
		if r.hasChanged(name) {
			return true
		}
	}
	return false
}
