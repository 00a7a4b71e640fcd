package timeline

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// ErrNoBlob means that the log has no data with that digest, or has dropped it.
var ErrNoBlob = errors.New("timeline: no event has data with that digest, or not any more")

// A storedBlob is data that events of a log share. It is dropped when none of them is in memory
// or in the file. The log's lock guards its fields.
type storedBlob struct {
	size   int64
	data   []byte          // nil when no event in memory has it
	refs   int             // number of events in memory that have it
	ranges event.FileRange // in the events file; zero when it is not there
}

// addBlobsLocked records the blobs of a display that enters memory. It returns the display with
// data that is already there in place of its own.
func (l *Log) addBlobsLocked(d Display) Display {
	digests := event.DigestsOf(d)
	if len(digests) == 0 {
		return d
	}
	d.Data = maps.Clone(d.Data)
	for mime, sum := range digests {
		b := l.blobLocked(sum, int64(len(d.Data[mime])))
		if b.refs++; b.data == nil {
			b.data = d.Data[mime]
		}
		d.Data[mime] = b.data
	}
	return d
}

func (l *Log) blobLocked(sum event.Digest, size int64) *storedBlob {
	if l.blobs == nil {
		l.blobs = make(map[event.Digest]*storedBlob)
	}
	if l.blobs[sum] == nil {
		l.blobs[sum] = &storedBlob{size: size}
	}
	return l.blobs[sum]
}

// dropBlobsLocked records that an event leaves memory.
func (l *Log) dropBlobsLocked(body Body) {
	d, _ := body.(Display)
	for _, sum := range event.DigestsOf(d) {
		b := l.blobs[sum]
		if b.refs--; b.refs > 0 {
			continue
		}
		b.data = nil
		if b.ranges == (event.FileRange{}) {
			delete(l.blobs, sum)
		}
	}
}

// forgetFileBlobsLocked records that the events file is about to be replaced.
func (l *Log) forgetFileBlobsLocked() {
	for sum, b := range l.blobs {
		b.ranges = event.FileRange{}
		if b.refs == 0 {
			delete(l.blobs, sum)
		}
	}
}

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
		data, at := b.data, b.ranges
		l.mu.Unlock()
		from := min(max(offset, 0), b.size)
		to := min(from+int64(max(limit, 0)), b.size)
		if data != nil {
			return data[from:to:to], b.size, nil
		}
		piece, err = readRanges(filepath.Join(l.opts.Dir, EventsName), at, from, to)
		l.mu.Lock()
		same := l.blobs[sum] == b && b.ranges == at
		l.mu.Unlock()
		if same {
			if err != nil {
				err = fmt.Errorf("%w: %w", ErrNoBlob, err)
			}
			return piece, b.size, err
		}
	}
	return nil, 0, ErrNoBlob
}

// readRanges reads the bytes from offset from to offset to of data in the file.
func readRanges(path string, at event.FileRange, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, to-from)
	_, err = f.ReadAt(data, at.Offset+from)
	return data, err
}
