package workdir

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// tempPrefix begins the name of a file until it is complete.
	tempPrefix = ".put-"

	// maxIdleTime is how long a transfer waits for its next piece while others need its place.
	maxIdleTime = 10 * time.Minute

	// maxGapTime is how long a piece waits for the ones before it.
	maxGapTime = time.Minute

	// maxDone bounds the complete transfers that are remembered, so that their last piece can come
	// again.
	maxDone = 64
)

// Puts are the files that are being put into one session. The zero value is ready.
type Puts struct {
	mu     sync.Mutex
	open   map[string]*put
	done   []donePut // the oldest first; at most maxDone
	closed bool

	renaming sync.Mutex // held while a file gets its name; a second put to that name comes after the check of the first
}

type donePut struct {
	transfer, path string
	bytes          int64
}

// A put is a file that is being put.
type put struct {
	path string // as the client names it
	name string
	used time.Time // of its last piece; guarded by Puts.mu

	mu        sync.Mutex    // held while a piece is written to the disk
	moved     chan struct{} // closed when bytes or isOver changes
	at        *place
	temp      string
	file      *os.File // nil before the first piece
	isOver    bool     // the file has its name, or the transfer was given up
	fileInfo  fs.FileInfo
	bytes     int64
	sum       hash.Hash32
	overwrite bool
}

// transferID is the form of FilePiece.Transfer.
var transferID = text.Pattern(`^[A-Za-z0-9_-]{16,64}$`)

// Take takes a piece. It waits for the pieces before it, until ctx ends. dir is asked for only where a
// name is created.
func (p *Puts) Take(ctx context.Context, dir func() (Dir, error), piece session.FilePiece) (session.PutProgress, error) {
	var none session.PutProgress
	switch {
	case !transferID().MatchString(piece.Transfer):
		return none, session.Errorf(session.KindInvalid, "transfer: use 16 to 64 letters, digits, hyphens and underscores, chosen at random for each file")
	case piece.Abort:
		p.abort(piece.Transfer)
		return none, nil
	case len(piece.Data) > session.MaxPartBytes:
		return none, session.Errorf(session.KindTooLarge, "the piece has %d bytes; the limit is %d", len(piece.Data), session.MaxPartBytes)
	case piece.Offset < 0:
		return none, session.Errorf(session.KindInvalid, "offset is %d: use 0 or more", piece.Offset)
	case piece.Offset+int64(len(piece.Data)) > session.MaxFileBytes:
		return none, session.Errorf(session.KindTooLarge, "the file is too large; the limit is %d bytes", int64(session.MaxFileBytes))
	}
	one, done, err := p.find(piece)
	if done != nil || err != nil {
		return session.PutProgress{Bytes: done.size(), Done: done != nil}, err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if err := one.awaitOffsetLocked(ctx, piece.Offset); err != nil {
		return none, err
	}
	now, err := one.take(p, dir, piece)
	one.signalLocked()
	if again, ok := errors.AsType[retryableError](err); ok {
		return now, again.error
	}
	if err != nil {
		one.drop()
		p.forget(piece.Transfer)
	}
	return now, err
}

func (d *donePut) size() int64 {
	if d == nil {
		return 0
	}
	return d.bytes
}

// find returns the transfer of a piece, which is new for the first piece, or a complete one.
func (p *Puts) find(piece session.FilePiece) (*put, *donePut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, session.ErrClosed
	}
	if done := p.findDoneLocked(piece.Transfer); done != nil {
		if done.path != piece.Path {
			return nil, nil, otherPath(piece)
		}
		return nil, done, nil
	}
	one := p.open[piece.Transfer]
	switch {
	case one != nil && one.path != piece.Path:
		return nil, nil, otherPath(piece)
	case one == nil && piece.Offset > 0:
		return nil, nil, session.Errorf(session.KindStale, "no transfer %q is under way: it was given up; begin it again", piece.Transfer)
	case one == nil && len(p.open) >= session.MaxOpenPuts && !p.dropIdleLocked():
		return nil, nil, session.Errorf(session.KindLimit, "%d files are being put into this session; wait until one of them is complete", len(p.open))
	case one == nil:
		one = &put{path: piece.Path, sum: crc32.NewIEEE(), overwrite: piece.Overwrite, moved: make(chan struct{})}
		if p.open == nil {
			p.open = map[string]*put{}
		}
		p.open[piece.Transfer] = one
	}
	one.used = time.Now()
	return one, nil, nil
}

// findDoneLocked returns a complete transfer, or nil. The caller holds p.mu.
func (p *Puts) findDoneLocked(transfer string) *donePut {
	i := slices.IndexFunc(p.done, func(d donePut) bool { return d.transfer == transfer })
	if i < 0 {
		return nil
	}
	return &p.done[i]
}

func otherPath(piece session.FilePiece) error {
	return session.Errorf(session.KindInvalid, "transfer %q is for another path; use a new one for each file", piece.Transfer)
}

// dropIdleLocked gives up the transfer that has been idle for longest, and for too long.
func (p *Puts) dropIdleLocked() bool {
	oldest := ""
	for id, one := range p.open {
		if time.Since(one.used) > maxIdleTime && (oldest == "" || one.used.Before(p.open[oldest].used)) {
			oldest = id
		}
	}
	one := p.open[oldest]
	if one == nil || !one.mu.TryLock() { // a piece of it is just being written
		return false
	}
	defer one.mu.Unlock()
	one.drop()
	delete(p.open, oldest)
	return true
}

// abort gives up a transfer. It is not an error if there is none.
func (p *Puts) abort(transfer string) {
	p.mu.Lock()
	one := p.open[transfer]
	delete(p.open, transfer)
	p.mu.Unlock()
	if one != nil {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.drop()
	}
}

func (p *Puts) forget(transfer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, transfer)
}

// Close gives up all transfers and removes their temporary files. Later pieces are refused.
func (p *Puts) Close() {
	p.mu.Lock()
	p.closed = true
	open := p.open
	p.open = nil
	p.mu.Unlock()
	for _, one := range open {
		one.mu.Lock()
		one.drop()
		one.mu.Unlock()
	}
}

// A retryableError is an error after which a piece can be sent again.
type retryableError struct{ error }

// Retryable marks the error of Take's dir as temporary: the transfer stays, and its piece can be
// sent again.
func Retryable(err error) error { return retryableError{err} }

// awaitOffsetLocked waits until the pieces before an offset have arrived, or the transfer is over. The
// caller holds one.mu, which is released meanwhile.
func (one *put) awaitOffsetLocked(ctx context.Context, offset int64) error {
	wait, stop := context.WithTimeout(ctx, maxGapTime)
	defer stop()
	for offset > one.bytes && !one.isOver {
		moved := one.moved
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case wait.Err() != nil || offset > one.bytes+session.MaxAheadBytes:
			return session.Errorf(session.KindInvalid, "the next piece begins at %d, and this one at %d", one.bytes, offset)
		}
		one.mu.Unlock()
		select {
		case <-moved:
		case <-wait.Done():
		}
		one.mu.Lock()
	}
	return nil
}

// signalLocked wakes the pieces that wait for others. The caller holds one.mu.
func (one *put) signalLocked() {
	close(one.moved)
	one.moved = make(chan struct{})
}

// take takes a piece of this file. The ones before it have arrived.
func (one *put) take(p *Puts, dir func() (Dir, error), piece session.FilePiece) (session.PutProgress, error) {
	if one.isOver { // it ended while this piece waited
		p.mu.Lock()
		done := p.findDoneLocked(piece.Transfer)
		p.mu.Unlock()
		if done != nil { // this piece came again
			return session.PutProgress{Bytes: one.bytes, Done: true}, nil
		}
		return session.PutProgress{}, session.Errorf(session.KindStale, "the transfer %q is over", piece.Transfer)
	}
	if one.file == nil {
		if err := one.begin(dir, piece); err != nil {
			return session.PutProgress{}, err
		}
	}
	if end := piece.Offset + int64(len(piece.Data)); end > one.bytes {
		data := piece.Data[one.bytes-piece.Offset:] // what came before is already there
		if _, err := one.file.Write(data); err != nil {
			return session.PutProgress{}, fileError(session.KindFileFailed, err, "%.200q cannot be written: %v", one.name, causeOf(err))
		}
		_, _ = one.sum.Write(data)
		one.bytes = end
	}
	if !piece.Last {
		return session.PutProgress{Bytes: one.bytes}, nil
	}
	if err := one.finish(p, dir, piece); err != nil {
		return session.PutProgress{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, piece.Transfer)
	if p.done = append(p.done, donePut{piece.Transfer, piece.Path, one.bytes}); len(p.done) > maxDone {
		p.done = slices.Delete(p.done, 0, 1)
	}
	return session.PutProgress{Bytes: one.bytes, Done: true}, nil
}

// begin creates the temporary file.
func (one *put) begin(dir func() (Dir, error), piece session.FilePiece) (err error) {
	if strings.HasPrefix(piece.Path, session.OwnFiles) {
		return session.Errorf(session.KindNoAccess, "the session's own directory is read-only; put the file into the working directory")
	}
	if one.name, err = parsePath(piece.Path); err != nil {
		return err
	}
	d, err := dir()
	if err != nil {
		return err
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if piece.Parents {
		if err := d.makeParents(root, one.name); err != nil {
			return err
		}
	}
	at, err := openPlace(root, one.name)
	if err != nil {
		return err
	}
	if err = one.createTemp(d, at, piece); err != nil {
		at.close()
		return err
	}
	one.at = at
	return nil
}

func (one *put) createTemp(d Dir, at *place, piece session.FilePiece) error {
	old, err := one.checkTarget(d, at)
	if err != nil {
		return err
	}
	one.temp = tempPrefix + strings.ToLower(rand.Text())
	if err := d.checkCreate(at, one.temp); err != nil {
		return err
	}
	mode := fs.FileMode(0o666)
	if piece.Executable {
		mode = 0o777
	}
	f, err := at.dir.OpenFile(one.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return openError(err, one.name)
	}
	if old != nil { // a private file stays private
		mode := old.Mode().Perm() &^ 0o111
		if piece.Executable {
			mode |= mode & 0o444 >> 2
		}
		err = f.Chmod(mode)
	}
	if err == nil {
		one.fileInfo, err = f.Stat()
	}
	if err != nil {
		_ = f.Close()
		_ = at.dir.Remove(one.temp)
		return openError(err, one.name)
	}
	one.file = f
	return nil
}

// checkTarget returns the file that will be replaced, or nil, and an error if the name cannot be
// given to a file.
func (one *put) checkTarget(d Dir, at *place) (fs.FileInfo, error) {
	old, err := at.dir.Lstat(at.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return nil, openError(err, one.name)
	case !old.Mode().IsRegular():
		return nil, notRegular(one.name, old.Mode())
	case !one.overwrite:
		return nil, session.Errorf(session.KindFileExists, "%.200q exists already; it was not replaced", one.name)
	}
	return old, d.checkCreate(at, at.name)
}

// finish gives the file its name.
func (one *put) finish(p *Puts, dir func() (Dir, error), piece session.FilePiece) error {
	if got := fmt.Sprintf("%08x", one.sum.Sum32()); piece.CRC32 != "" && !strings.EqualFold(piece.CRC32, got) {
		return session.Errorf(session.KindInvalid, "the file has the CRC-32 %s, and not %q; it was not written", got, piece.CRC32)
	}
	d, err := dir() // the sandbox may have changed since the beginning
	if err != nil {
		return err
	}
	if err := one.checkPlace(d); err != nil {
		return err
	}
	old, err := one.checkTarget(d, one.at)
	if err != nil {
		return err
	}
	err = one.file.Close() // Windows cannot rename an open file
	if err != nil {
		return fileError(session.KindFileFailed, err, "%.200q cannot be written: %v", one.name, causeOf(err))
	}
	p.renaming.Lock()
	defer p.renaming.Unlock()
	if err := one.rename(old != nil); err != nil {
		return err
	}
	if err := d.checkCreated(one.at); err != nil {
		_ = one.at.dir.Remove(one.at.name)
		return err
	}
	if i, err := one.at.dir.Lstat(one.at.name); err != nil || !isSameFile(i, one.fileInfo) {
		return fileError(session.KindFileChanged, err, "%.200q was replaced by a program when it was complete", one.name)
	}
	one.isOver = true
	one.at.close()
	return nil
}

// checkPlace returns an error if the path leads to another directory now, or if a program has
// exchanged the temporary file.
func (one *put) checkPlace(d Dir) error {
	changed := func(err error) error {
		return fileError(session.KindFileChanged, err, "the directory of %.200q was changed while the file was put; put it again", one.name)
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	now, err := openPlace(root, one.name)
	if err != nil {
		return changed(err)
	}
	defer now.close()
	a, errA := now.file.Stat()
	b, errB := one.at.file.Stat()
	if err := errors.Join(errA, errB); err != nil || !os.SameFile(a, b) {
		return changed(err)
	}
	if i, err := one.at.dir.Lstat(one.temp); err != nil || !isSameFile(i, one.fileInfo) {
		return changed(err)
	}
	return nil
}

func isSameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) && a.Mode().IsRegular() }

// rename gives the temporary file its name. Without replace it fails if the name exists, so that of
// two puts that do not overwrite only one succeeds.
func (one *put) rename(replace bool) error {
	if !replace {
		err := one.at.dir.Link(one.temp, one.at.name)
		switch {
		case err == nil:
			_ = one.at.dir.Remove(one.temp)
			return nil
		case errors.Is(err, fs.ErrExist):
			return openError(err, one.name)
		}
		if _, err := one.at.dir.Lstat(one.at.name); err == nil { // the filesystem has no hard links
			return session.Errorf(session.KindFileExists, "%.200q exists already; it was not replaced", one.name)
		}
	}
	if err := one.at.dir.Rename(one.temp, one.at.name); err != nil {
		return openError(err, one.name)
	}
	return nil
}

// drop ends the transfer and removes what has arrived.
func (one *put) drop() {
	if one.file != nil && !one.isOver {
		_ = one.file.Close()
		_ = one.at.dir.Remove(one.temp)
		one.at.close()
	}
	one.isOver = true
	one.signalLocked()
}
