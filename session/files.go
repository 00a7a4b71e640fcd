package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// OwnFiles begins the path of a file in a session's own directory, such as
	// "session:output.txt". A file of the working directory with such a name has the path
	// "./session:…".
	OwnFiles = "session:"

	// RawPath begins a path that has bytes as in a URL: "bytes:caf%E9" is a name in Latin-1. JSON
	// has no other form for a name that is not UTF-8.
	RawPath = "bytes:"

	// MaxListedFiles bounds one list of files.
	MaxListedFiles = 10_000

	// MaxFileBytes bounds a file that is put.
	MaxFileBytes = 4 << 30

	// MaxOpenPuts bounds the files that are being put into one session at the same time.
	MaxOpenPuts = 16
)

// A File is a name in a session's working directory, or in its own directory.
type File struct {
	Name       string    `json:"name"` // to show; bytes that are not UTF-8 are replaced
	Path       string    `json:"path"` // to use in calls; it always leads to the file
	Type       FileType  `json:"type,omitempty"`
	Bytes      int64     `json:"bytes"`
	Modified   time.Time `json:"modified"`
	Executable bool      `json:"executable,omitempty"`
}

// A FileType says what a name in a directory is; "" is a regular file.
type FileType string

// The types of a File that is not regular.
const (
	FileDirectory FileType = "directory"
	FileLink      FileType = "link"
	FileOther     FileType = "other" // a pipe, a socket or a device
)

// A FileList lists a directory, by name. With More, the directory has more names than are listed.
type FileList struct {
	Files []File `json:"files"`
	More  bool   `json:"more,omitempty"`
}

// A FilePart is a part of a file. Bytes is the current size of the file. A file of the session's own
// directory may grow, and it starts over when it is full.
type FilePart struct {
	BlobPart

	// ID changes with the file. In the working directory that is each change. In the session's own
	// directory it is another file of the same name, and "" where the system cannot tell.
	ID         string `json:"id,omitempty"`
	Executable bool   `json:"executable,omitempty"`
}

// A FilePiece is a piece of a file that is put into the working directory. The pieces of a file
// have the same Transfer and Path, and follow each other.
type FilePiece struct {
	Path     string `json:"path"`
	Transfer string `json:"transfer"`         // random, one for each file that is put: 16 to 64 letters, digits, hyphens and underscores
	Offset   int64  `json:"offset,omitempty"` // where the piece begins; 0 begins the transfer
	Data     []byte `json:"data,omitempty"`   // at most MaxPartBytes
	Last     bool   `json:"last,omitempty"`
	Digest   string `json:"digest,omitempty"` // with Last: the SHA-256 of the file, in hexadecimal

	Overwrite  bool `json:"overwrite,omitempty"`  // replace a file of that name
	Executable bool `json:"executable,omitempty"` // the user may execute the file
	Parents    bool `json:"parents,omitempty"`    // create missing directories of the path

	Abort bool `json:"abort,omitempty"` // give the transfer up, and remove what has arrived
}

// PutProgress says how much of a file has arrived.
type PutProgress struct {
	Bytes int64 `json:"bytes"`
	Done  bool  `json:"done,omitempty"` // the file has its name
}

// CopyFile writes a file of a session to w in parts, up to the size that it had at first. read
// reads a part from an offset on. If the file was replaced, became shorter or, in the working
// directory, was changed at all in the meantime, the error is of KindFileChanged.
func CopyFile(w io.Writer, read func(offset int64) (FilePart, error)) error {
	p, err := read(0)
	first := p
	for at := int64(0); err == nil; p, err = read(at) {
		rest := first.Bytes - at
		if p.ID != first.ID || rest > 0 && len(p.Data) == 0 {
			return Errorf(KindFileChanged, "the file was changed while it was read, after %d of %d bytes; read it again", at, first.Bytes)
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

// Get writes a file of the session's working directory to w. A path that begins with OwnFiles names
// a file of its own directory. An error of KindFileChanged means that the file was changed while
// it was read, and w has some of it.
func Get(ctx context.Context, s FileTransfer, path string, w io.Writer) error {
	return CopyFile(w, func(offset int64) (FilePart, error) { return s.File(ctx, path, offset, 0) })
}

// PutOptions say how Put writes a file, and who follows its progress.
type PutOptions struct {
	Overwrite  bool // replace a file of that name
	Executable bool // the user may execute the file
	Parents    bool // create missing directories of the path

	OnProgress func(bytes int64) // called after each piece
}

// abortTimeout bounds the call that gives up a transfer.
const abortTimeout = 5 * time.Second

// Put writes what r has, up to its end, to a file of the session's working directory. The file
// appears as a whole at the end, or not at all. nil means no options.
func Put(ctx context.Context, s FileTransfer, path string, r io.Reader, o *PutOptions) error {
	if o == nil {
		o = &PutOptions{}
	}
	p := FilePiece{Path: path, Transfer: rand.Text(), Overwrite: o.Overwrite, Executable: o.Executable, Parents: o.Parents}
	err := putPieces(ctx, s, p, r, o.OnProgress)
	if err != nil {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer stop()
		_, _ = s.PutFile(ctx, FilePiece{Path: path, Transfer: p.Transfer, Abort: true}) // otherwise the session gives it up itself, later
	}
	return err
}

func putPieces(ctx context.Context, s FileTransfer, p FilePiece, r io.Reader, onProgress func(int64)) error {
	piece, sum := make([]byte, MaxPartBytes), sha256.New()
	for {
		n, err := io.ReadFull(r, piece)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			p.Last = true
		case err != nil:
			return err
		}
		if p.Data = bytes.Clone(piece[:n]); p.Offset+int64(n) > MaxFileBytes { // the call may keep the data
			return Errorf(KindTooLarge, "the file is too large: it has more than %d bytes", int64(MaxFileBytes))
		}
		_, _ = sum.Write(p.Data)
		if p.Last {
			p.Digest = hex.EncodeToString(sum.Sum(nil))
		}
		now, err := s.PutFile(ctx, p)
		if err != nil {
			return err
		}
		if p.Offset += int64(n); now.Bytes < p.Offset || p.Last != now.Done {
			return fmt.Errorf("after %d bytes the session says that it has %d", p.Offset, now.Bytes)
		}
		if onProgress != nil {
			onProgress(p.Offset)
		}
		if p.Last {
			return nil
		}
	}
}
