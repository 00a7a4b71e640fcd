package timeline

import (
	"maps"
	"os"

	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// A storedBlob is data that events of a log share. It is dropped when none of them is in memory
// or in the file. The log's lock guards its fields.
type storedBlob struct {
	size   int64
	data   []byte          // nil when no event in memory has it
	refs   int             // number of events in memory that have it
	ranges event.FileRange // in the events file; zero when it is not there
}

// A blobTable has the data that events of a log share, by digest. The zero value is empty. The log's
// lock guards it.
type blobTable map[event.Digest]*storedBlob

// addBlobs records the blobs of a display that enters memory. It returns the display with
// data that is already there in place of its own.
func (t *blobTable) addBlobs(d Display) Display {
	digests := event.DigestsOf(d)
	if len(digests) == 0 {
		return d
	}
	d.Data = maps.Clone(d.Data)
	for mime, sum := range digests {
		b := t.blobOf(sum, int64(len(d.Data[mime])))
		if b.refs++; b.data == nil {
			b.data = d.Data[mime]
		}
		d.Data[mime] = b.data
	}
	return d
}

// blobOf returns the blob with this digest, a new one if there is none.
func (t *blobTable) blobOf(sum event.Digest, size int64) *storedBlob {
	if *t == nil {
		*t = make(blobTable)
	}
	if (*t)[sum] == nil {
		(*t)[sum] = &storedBlob{size: size}
	}
	return (*t)[sum]
}

// dropBlobs records that an event leaves memory.
func (t blobTable) dropBlobs(body Body) {
	d, _ := body.(Display)
	for _, sum := range event.DigestsOf(d) {
		b := t[sum]
		if b.refs--; b.refs > 0 {
			continue
		}
		b.data = nil
		if b.ranges == (event.FileRange{}) {
			delete(t, sum)
		}
	}
}

// setRange records where data is in the events file.
func (t *blobTable) setRange(b event.BlobLocation) {
	t.blobOf(b.Sum, int64(b.Ranges.Size)).ranges = b.Ranges
}

// forgetFile records that the events file is about to be replaced.
func (t blobTable) forgetFile() {
	for sum, b := range t {
		b.ranges = event.FileRange{}
		if b.refs == 0 {
			delete(t, sum)
		}
	}
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
