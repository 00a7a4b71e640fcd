package store

import (
	"maps"
	"os"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// A storedBlob is data that events of a log share. It is dropped when none of them is in memory
// or in the file. The log's lock guards its fields.
type storedBlob struct {
	Size   int64
	Data   []byte          // nil when no event in memory has it
	refs   int             // number of events in memory that have it
	Ranges event.FileRange // in the events file; zero when it is not there
}

// A BlobTable has the data that events of a log share, by digest. The zero value is empty. The log's
// lock guards it.
type BlobTable map[event.Digest]*storedBlob

// AddBlobs records the blobs of a display that enters memory. In the returned display, data that
// the table already has replaces equal data.
func (t *BlobTable) AddBlobs(d event.Display) event.Display {
	digests := event.DigestsOf(d)
	if len(digests) == 0 {
		return d
	}
	d.Data = maps.Clone(d.Data)
	for mime, sum := range digests {
		b := t.blobOf(sum, int64(len(d.Data[mime])))
		if b.refs++; b.Data == nil {
			b.Data = d.Data[mime]
		}
		d.Data[mime] = b.Data
	}
	return d
}

// blobOf returns the blob with this digest, a new one if there is none.
func (t *BlobTable) blobOf(sum event.Digest, size int64) *storedBlob {
	if *t == nil {
		*t = make(BlobTable)
	}
	if (*t)[sum] == nil {
		(*t)[sum] = &storedBlob{Size: size}
	}
	return (*t)[sum]
}

// DropBlobs records that an event leaves memory.
func (t BlobTable) DropBlobs(body event.Body) {
	d, _ := body.(event.Display)
	for _, sum := range event.DigestsOf(d) {
		b := t[sum]
		if b.refs--; b.refs > 0 {
			continue
		}
		b.Data = nil
		if b.Ranges == (event.FileRange{}) {
			delete(t, sum)
		}
	}
}

// SetRange records where data is in the events file.
func (t *BlobTable) SetRange(b event.BlobLocation) {
	t.blobOf(b.Sum, int64(b.Ranges.Size)).Ranges = b.Ranges
}

// ForgetFile records that the events file is about to be replaced.
func (t BlobTable) ForgetFile() {
	for sum, b := range t {
		b.Ranges = event.FileRange{}
		if b.refs == 0 {
			delete(t, sum)
		}
	}
}

// ReadRanges reads the bytes from offset from to offset to of data in the file.
func ReadRanges(path string, at event.FileRange, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, to-from)
	_, err = f.ReadAt(data, at.Offset+from)
	return data, err
}
