package timeline

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

// ErrNoBlob means that the log has no data with that digest, or has dropped it.
var ErrNoBlob = errors.New("timeline: no event has data with that digest, or not any more")

// Blob returns data of an event by its digest: at most limit bytes from an offset on, and the
// total size. ErrNoBlob means that it does not exist. Data under 4 KiB has no digest.
func (l *Log) Blob(name string, offset int64, limit int) (piece []byte, size int64, err error) {
	sum, err := event.ParseDigest(name)
	if err != nil {
		return nil, 0, err
	}
	for range 2 { // the file may be restarted in the meantime and contain the data again
		l.mu.Lock()
		b := l.blobs[sum]
		if b == nil {
			l.mu.Unlock()
			return nil, 0, ErrNoBlob
		}
		data, at := b.Data, b.Ranges
		l.mu.Unlock()
		from := min(max(offset, 0), b.Size)
		to := min(from+int64(max(limit, 0)), b.Size)
		if data != nil {
			return data[from:to:to], b.Size, nil
		}
		piece, err = store.ReadRanges(filepath.Join(l.opts.Dir, EventsName), at, from, to)
		l.mu.Lock()
		same := l.blobs[sum] == b && b.Ranges == at
		l.mu.Unlock()
		if same {
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrNoBlob, err)
			}
			return piece, b.Size, err
		}
	}
	return nil, 0, ErrNoBlob
}
