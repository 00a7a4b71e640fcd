package session

import (
	"fmt"
	"io"
	"time"
)

// A File is a file in a session's own directory: its transcript, its recordings, and images.
type File struct {
	Name     string    `json:"name"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// A FilePart is a part of a file in a session's own directory. Bytes is the current size of the
// file: it may grow, and the file starts over when it is full.
type FilePart struct {
	BlobPart
	ID string `json:"id,omitempty"` // a different ID means a different file with the same name; "" where the system has no such ID
}

// CopyFile writes a file of a session to w in parts, up to the size that it had at first. read
// reads a part from an offset on. If the file becomes shorter or is replaced in the meantime,
// that is an error.
func CopyFile(w io.Writer, read func(offset int64) (FilePart, error)) error {
	p, err := read(0)
	first := p
	for at := int64(0); err == nil; p, err = read(at) {
		rest := first.Bytes - at
		if p.ID != first.ID || rest > 0 && len(p.Data) == 0 {
			return fmt.Errorf("the file was replaced while it was read, after %d of %d bytes; read it again", at, first.Bytes)
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
