package session

import (
	"fmt"
	"io"
	"time"
)

// A File is one in a session's own directory: its transcript, what it records, and pictures.
type File struct {
	Name     string    `json:"name"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// A FilePart is a part of a file in a session's own directory. Bytes is the size of the file at
// that moment: it may grow, and begins anew when it is full.
type FilePart struct {
	BlobPart
	ID string `json:"id,omitempty"` // another one means another file of that name; "" where the system does not tell
}

// CopyFile writes a file of a session to w in pieces, as long as it is at the first one. read reads
// a piece from an offset on. A file that becomes shorter meanwhile, or another one, is an error.
func CopyFile(w io.Writer, read func(offset int64) (FilePart, error)) error {
	p, err := read(0)
	first := p
	for at := int64(0); err == nil; p, err = read(at) {
		rest := first.Bytes - at
		if p.ID != first.ID || rest > 0 && len(p.Data) == 0 {
			return fmt.Errorf("the file was begun anew while it was read: %d of %d bytes came; read it again", at, first.Bytes)
		}
		data := p.Data[:min(int64(len(p.Data)), rest)]
		if _, err := w.Write(data); err != nil {
			return err
		}
		if at += int64(len(data)); at == first.Bytes {
			return nil
		}
	}
	return err
}
