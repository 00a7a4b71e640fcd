package event

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
)

// A Blob names data that was left out of a display.
type Blob struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest,omitempty"` // argument of Log.Blob; "" if the data is gone
}

// minBlobBytes is the size from which data of a display has a digest. A log keeps equal data of
// that size once, in memory and in the file.
const minBlobBytes = 4 << 10

// A Digest is the SHA-256 of data.
type Digest [sha256.Size]byte

// String returns the digest as in Blob.Digest.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads a digest as in Blob.Digest.
func ParseDigest(text string) (d Digest, err error) {
	if n, err := hex.Decode(d[:], []byte(text[:min(len(text), 2*len(d))])); err != nil || n != len(d) || len(text) != 2*n || d.String() != text {
		return d, fmt.Errorf("timeline: %.80q is not a SHA-256 in 64 lower-case hexadecimal digits", text)
	}
	return d, nil
}

// WithDigests returns the display with the digests of its large data.
func WithDigests(d Display) Display {
	d.digests = nil
	for mime, data := range d.Data {
		if len(data) < minBlobBytes {
			continue
		}
		if d.digests == nil {
			d.digests = make(map[string]Digest)
		}
		d.digests[mime] = sha256.Sum256(data)
	}
	return d
}

// DigestsOf returns the digests of the display's large data, by MIME type.
func DigestsOf(d Display) map[string]Digest { return d.digests }

// A FileRange is the position of data in the events file.
type FileRange struct {
	Offset int64
	Size   uint64
}

// read reads the data from the events file.
func (r FileRange) read(file *io.SectionReader) ([]byte, error) {
	if r.Size > uint64(file.Size()) {
		return nil, errMalformedRecord
	}
	data := make([]byte, r.Size)
	_, err := file.ReadAt(data, r.Offset)
	return data, err
}

// WithFullData returns the event with the data that its record does not repeat, read from the
// events file. Types with more than most bytes are left out without being read: events that
// share large data are small in the file, and may be many.
func WithFullData(e Event, file *io.SectionReader, most int64) (Event, error) {
	d, ok := e.Body.(Display)
	if !ok || len(d.unread) == 0 {
		return e, nil
	}
	apart := d.unread
	d.unread, d.Data = nil, maps.Clone(d.Data)
	for mime, at := range apart {
		if size := int64(at.Size); size > most {
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
