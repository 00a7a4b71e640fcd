package filestate

import (
	"time"
)

// minFileAge is the minimum age of a file's modification time for it to be trusted, because two
// changes may get the same time.
const minFileAge = 50 * time.Millisecond

// A Record is the stamp of a file when it was last checked; it is zero if the file did not exist.
type Record struct {
	Stamp
	IsRecent bool // it had just changed, so it is checked again
}

// Records maps the names of files to their records.
type Records map[string]Record

// RecordFile records the present state of a file.
func (r Records) RecordFile(name string) {
	now := StampOf(name)
	r[name] = Record{now, now != Stamp{} && time.Since(time.Unix(0, now.Changed)) < minFileAge}
}

// HasChanged reports whether a file may have changed since it was recorded.
func (r Records) HasChanged(name string) bool {
	was := r[name]
	return was.IsRecent || StampOf(name) != was.Stamp
}

// IsStale reports whether any of the files may have changed.
func (r Records) IsStale() bool {
	for name := range r {
		if r.HasChanged(name) {
			return true
		}
	}
	return false
}
