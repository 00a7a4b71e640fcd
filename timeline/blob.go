package timeline

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
)

// A Blob names data that was left out of a display.
type Blob struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest,omitempty"` // argument of Log.Blob; "" if the data is gone
}

// minBlobBytes is the size from which data of a display has a digest. A log keeps equal data of
// that size once, in memory and in the file.
const minBlobBytes = 4 << 10

// ErrNoBlob means that the log has no data with that digest, or has dropped it.
var ErrNoBlob = errors.New("timeline: no event has data with that digest, or not any more")

// A digest is the SHA-256 of data.
type digest [sha256.Size]byte

// String returns the digest as in Blob.Digest.
func (d digest) String() string { return hex.EncodeToString(d[:]) }

func parseDigest(text string) (d digest, err error) {
	if n, err := hex.Decode(d[:], []byte(text[:min(len(text), 2*len(d))])); err != nil || n != len(d) || len(text) != 2*n || d.String() != text {
		return d, fmt.Errorf("timeline: %.80q is not a SHA-256 in 64 lower-case hexadecimal digits", text)
	}
	return d, nil
}

// withDigests returns the display with the digests of its large data.
func (d Display) withDigests() Display {
	d.digests = nil
	for mime, data := range d.Data {
		if len(data) < minBlobBytes {
			continue
		}
		if d.digests == nil {
			d.digests = make(map[string]digest)
		}
		d.digests[mime] = sha256.Sum256(data)
	}
	return d
}

// A fileRange is the position of data in the events file.
type fileRange struct {
	offset int64
	size   uint64
}

// read reads the data from the events file.
func (r fileRange) read(file *io.SectionReader) ([]byte, error) {
	if r.size > uint64(file.Size()) {
		return nil, errMalformedRecord
	}
	data := make([]byte, r.size)
	_, err := file.ReadAt(data, r.offset)
	return data, err
}

// withFullData returns the event with the data that its record does not repeat, read from the
// events file. Types with more than most bytes are left out without being read: events that
// share large data are small in the file, and may be many.
func (e Event) withFullData(file *io.SectionReader, most int64) (Event, error) {
	d, ok := e.Body.(Display)
	if !ok || len(d.unread) == 0 {
		return e, nil
	}
	apart := d.unread
	d.unread, d.Data = nil, maps.Clone(d.Data)
	for mime, at := range apart {
		if size := int64(at.size); size > most {
			if d.Omitted == nil {
				d.Omitted = make(map[string]Blob)
			}
			delete(d.Data, mime)
			d.Omitted[mime] = Blob{Bytes: size, Digest: d.digests[mime].String()}
			continue
		}
		data, err := at.read(file)
		if err != nil {
			return e, err
		}
		d.Data[mime] = data
	}
	e.Body = d
	return e, nil
}

// A storedBlob is data that events of a log share. It is dropped when none of them is in memory
// or in the file. The log's lock guards its fields.
type storedBlob struct {
	size   int64
	data   []byte    // nil when no event in memory has it
	refs   int       // number of events in memory that have it
	ranges fileRange // in the events file; zero when it is not there
}

// addBlobsLocked records the blobs of a display that enters memory. It returns the display with
// data that is already there in place of its own.
func (l *Log) addBlobsLocked(d Display) Display {
	if len(d.digests) == 0 {
		return d
	}
	d.Data = maps.Clone(d.Data)
	for mime, sum := range d.digests {
		b := l.blobLocked(sum, int64(len(d.Data[mime])))
		if b.refs++; b.data == nil {
			b.data = d.Data[mime]
		}
		d.Data[mime] = b.data
	}
	return d
}

func (l *Log) blobLocked(sum digest, size int64) *storedBlob {
	if l.blobs == nil {
		l.blobs = make(map[digest]*storedBlob)
	}
	if l.blobs[sum] == nil {
		l.blobs[sum] = &storedBlob{size: size}
	}
	return l.blobs[sum]
}

// dropBlobsLocked records that an event leaves memory.
func (l *Log) dropBlobsLocked(body Body) {
	d, _ := body.(Display)
	for _, sum := range d.digests {
		b := l.blobs[sum]
		if b.refs--; b.refs > 0 {
			continue
		}
		b.data = nil
		if b.ranges == (fileRange{}) {
			delete(l.blobs, sum)
		}
	}
}

// forgetFileBlobsLocked records that the events file is about to be replaced.
func (l *Log) forgetFileBlobsLocked() {
	for sum, b := range l.blobs {
		b.ranges = fileRange{}
		if b.refs == 0 {
			delete(l.blobs, sum)
		}
	}
}

// Blob returns data of an event by its digest: at most limit bytes from an offset on, and the
// total size. ErrNoBlob means that it does not exist. Data under 4 KiB has no digest.
func (l *Log) Blob(name string, offset int64, limit int) (piece []byte, size int64, err error) {
	sum, err := parseDigest(name)
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
func readRanges(path string, at fileRange, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, to-from)
	_, err = f.ReadAt(data, at.offset+from)
	return data, err
}
