package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
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

	// MaxAheadBytes bounds how many bytes before a piece of a file may still be missing when it
	// arrives.
	MaxAheadBytes = 8 << 20

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
// have the same Transfer and Path, and follow each other. The first piece is sent alone. Others may
// arrive before their predecessors, by up to MaxAheadBytes.
type FilePiece struct {
	Path     string `json:"path"`
	Transfer string `json:"transfer"`         // random, one for each file that is put: 16 to 64 letters, digits, hyphens and underscores
	Offset   int64  `json:"offset,omitempty"` // where the piece begins; 0 begins the transfer
	Data     []byte `json:"data,omitempty"`   // at most MaxPartBytes
	Last     bool   `json:"last,omitempty"`

	// CRC32 may be given with Last: the CRC-32 of the file as in gzip (RFC 1952), as 8 hexadecimal
	// digits. A file with another one is not written.
	CRC32 string `json:"crc32,omitempty"`

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

// transferWindow bounds the parts of a file that are under way at the same time, so that a copy does
// not wait for each answer.
const transferWindow = 4

// CopyFile writes a file of a session to w in parts, up to the size that it had at first. read
// reads a part from an offset on; all parts but the last have the same size. Several goroutines call
// read at the same time. If the file was replaced, became shorter or, in the working directory, was
// changed at all in the meantime, the error is of KindFileChanged.
func CopyFile(w io.Writer, read func(offset int64) (FilePart, error)) error {
	first, err := read(0)
	if err != nil {
		return err
	}
	type answer struct {
		part FilePart
		err  error
	}
	var ahead []chan answer // the parts that are being read, in order
	defer func() {
		for _, a := range ahead {
			<-a
		}
	}()
	size := int64(len(first.Data)) // of each part
	part, next := first, size
	for at := int64(0); ; {
		for ; len(ahead) < transferWindow && size > 0 && next < first.Bytes; next += size {
			a, offset := make(chan answer, 1), next
			ahead = append(ahead, a)
			go func() {
				part, err := read(offset)
				a <- answer{part, err}
			}()
		}
		rest := first.Bytes - at
		if part.ID != first.ID || int64(len(part.Data)) < min(rest, max(size, 1)) {
			return Errorf(KindFileChanged, "the file was changed while it was read, after %d of %d bytes; read it again", at, first.Bytes)
		}
		data := part.Data[:min(int64(len(part.Data)), rest)]
		if _, err := w.Write(data); err != nil {
			return err
		}
		if at += int64(len(data)); at == first.Bytes {
			return nil
		}
		a := <-ahead[0]
		if ahead = ahead[1:]; a.err != nil {
			return a.err
		}
		part = a.part
	}
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
	ctx, stop := context.WithCancel(ctx)
	var sent []sentPiece // without an answer, in order
	defer func() {
		stop()
		for _, piece := range sent {
			<-piece.answer
		}
	}()
	settle := func(left int) error { // waits until at most left pieces have no answer
		for len(sent) > left {
			first := sent[0]
			sent = sent[1:]
			if err := <-first.answer; err != nil {
				return err
			}
			if onProgress != nil {
				onProgress(first.end)
			}
		}
		return nil
	}
	sum := crc32.NewIEEE()
	for !p.Last {
		data := make([]byte, MaxPartBytes) // the call keeps it
		n, err := io.ReadFull(r, data)
		switch last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); {
		case err != nil && !last:
			return err
		case p.Offset+int64(n) > MaxFileBytes:
			return Errorf(KindTooLarge, "the file is too large: it has more than %d bytes", int64(MaxFileBytes))
		default:
			p.Data, p.Last = data[:n], last
		}
		if _, _ = sum.Write(p.Data); p.Last {
			p.CRC32 = fmt.Sprintf("%08x", sum.Sum32())
		}
		sent = append(sent, sendPiece(ctx, s, p))
		left := transferWindow - 1
		if p.Offset == 0 { // the session begins the transfer with it
			left = 0
		}
		if err := settle(left); err != nil {
			return err
		}
		p.Offset += int64(n)
	}
	return settle(0)
}

// A sentPiece is a piece of a file that was sent.
type sentPiece struct {
	end    int64
	answer chan error
}

// sendPiece sends a piece in a goroutine of its own.
func sendPiece(ctx context.Context, s FileTransfer, p FilePiece) sentPiece {
	sent := sentPiece{p.Offset + int64(len(p.Data)), make(chan error, 1)}
	go func() {
		now, err := s.PutFile(ctx, p)
		if err == nil && (now.Bytes < sent.end || p.Last && !now.Done) { // a piece that comes again may come after the last one
			err = fmt.Errorf("after %d bytes the session says that it has %d", sent.end, now.Bytes)
		}
		sent.answer <- err
	}()
	return sent
}
