package timeline

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files of a Log.
const (
	EventsName = "events"
	OutputName = "output.txt"
)

const (
	// The most that the writer takes at a time.
	batchBytes  = spillBytes
	batchEvents = 1024

	// restBytes bounds the buffers that an idle writer keeps.
	restBytes = 16 << 10
)

// createFunc creates a file. Tests replace it to simulate failing disks.
type createFunc func(path string) (io.WriteCloser, error)

// A restingFile is open only while something is written: sessions are many, most of them idle,
// and a program may have only so many open files.
type restingFile struct {
	path string
	made os.FileInfo // of the file as it was created
	size int64       // what was written to it, in bytes
	file *os.File    // nil while it rests
}

func createFile(path string) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	made, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &restingFile{path: path, made: made, file: f}, nil
}

// Write appends b. It refuses a file that is not the one that was created.
func (r *restingFile) Write(b []byte) (int, error) {
	if r.file == nil && len(b) > 0 {
		f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return 0, err
		}
		now, err := f.Stat()
		if err == nil && (!os.SameFile(r.made, now) || now.Size() != r.size) { // a number may be given anew
			err = fmt.Errorf("%s was replaced", r.path)
		}
		if err != nil {
			f.Close()
			return 0, err
		}
		r.file = f
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := r.file.Write(b)
	r.size += int64(n)
	return n, err
}

// rest closes the file until there is more to write.
func (r *restingFile) rest() { _ = r.Close() }

func (r *restingFile) Close() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}

// spill is the writer. It moves events to the files until the log is closed or the files
// are given up.
func (l *Log) spill(kick <-chan struct{}, s *spool) {
	defer close(l.ended)
	defer s.close()
	for open := true; open; {
		select {
		case _, open = <-kick:
		case <-l.timer.C:
			l.expire()
		}
		for batch := l.batch(); len(batch) > 0; batch = l.batch() {
			w, err := s.write(batch)
			if !l.written(batch, w, err) {
				return
			}
			if w.full {
				l.beginAnew()
				if err := s.beginAnew(); !l.begun(s.page.lines, err) {
					return
				}
			}
		}
		s.rest()
	}
}

// expire makes all events due, because they have waited long enough.
func (l *Log) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	l.due = l.end.seq - 1
}

// batch returns the events to write next; none if none are due.
func (l *Log) batch() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen || l.disk.seq > l.due && l.backlog < l.spillBytes() {
		return nil
	}
	if len(l.memory) == 0 || l.memory[0].Seq > l.disk.seq {
		return nil // closed, and gone since
	}
	rest := l.memory[l.disk.seq-l.memory[0].Seq:]
	n, size := 0, int64(0)
	for n < min(len(rest), batchEvents) && size < batchBytes {
		size += memoryBytes(rest[n].Body)
		n++
	}
	return append([]entry(nil), rest[:n]...)
}

// written records which events were written and reports whether to go on.
func (l *Log) written(batch []entry, w written, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen {
		return false // given up meanwhile
	}
	if err != nil {
		l.filesOffLocked(err)
		return false
	}
	first := l.memory[0].Seq
	for _, e := range batch[:len(w.lines)] {
		if e.Seq >= first {
			l.memory[e.Seq-first].Line = w.lines[e.Seq-batch[0].Seq]
		}
		l.backlog -= memoryBytes(e.Body)
	}
	l.index = append(l.index, w.index...)
	l.marks = append(l.marks, w.marks...)
	for _, b := range w.blobs {
		l.blobLocked(b.sum, int64(b.at.size)).at = b.at
	}
	l.disk, l.lines = w.end, w.finished
	if w.hopeless {
		l.files = filesFull
		l.clearBacklogLocked()
		return false
	}
	l.writerProgressLocked()
	if l.disk.seq == l.end.seq {
		l.armed = false
		l.timer.Stop()
	} else if !l.armed && l.writingLocked() {
		l.armed = true
		l.timer.Reset(spillDelay)
	}
	return true
}

// beginAnew forgets the contents of the files, which are about to be replaced.
func (l *Log) beginAnew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.index {
		l.lost.add(p)
	}
	for i := range l.memory {
		l.memory[i].Line = 0 // a line of the old file
	}
	l.disk.offset, l.disk.structural = 0, -1
	l.oldest, l.index, l.marks, l.lines = l.disk, nil, nil, 0
	l.outline.forget(l.oldest.seq)
	l.forgetFileLocked()
}

// begun records the start of the new files and reports whether to go on.
func (l *Log) begun(lines int, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen {
		return false
	}
	if err != nil {
		l.filesOffLocked(err)
		return false
	}
	l.lines = lines
	return true
}

// A spool is the two files. Only the writer uses it.
type spool struct {
	dir            string
	create         createFunc
	events, output io.WriteCloser
	limit          int64 // of each file, in bytes

	end        place // after the last event written
	outputSize int64
	page       page
	records    []byte // to be written to events

	blobs   map[digest]region // the data that is in the events file
	indexed int64             // offset of the last place in the index
	marked  int64             // offset of the last line mark
}

// written is the result of writing a batch.
type written struct {
	lines    []int // the lines where its events begin; shorter than the batch if full
	index    index
	marks    []lineMark
	blobs    []placedBlob // of its events
	end      place
	finished int  // lines in output.txt
	full     bool // the rest does not fit
	hopeless bool // it would not even fit into empty files
}

func newSpool(dir string, limit int64, create createFunc) (*spool, error) {
	s := &spool{dir: dir, create: create, limit: limit, end: place{seq: 1}}
	return s, s.open()
}

// open creates the files, empty.
func (s *spool) open() (err error) {
	s.end.offset, s.end.structural = 0, -1
	s.outputSize, s.indexed, s.marked = 0, -indexStride, -indexStride
	s.blobs = make(map[digest]region)
	if s.events, err = s.create(filepath.Join(s.dir, EventsName)); err != nil {
		return fmt.Errorf("timeline: events file: %w", err)
	}
	if s.output, err = s.create(filepath.Join(s.dir, OutputName)); err != nil {
		s.events.Close()
		return fmt.Errorf("timeline: output file: %w", err)
	}
	return nil
}

// beginAnew replaces full files by empty ones. Readers of the old files can go on, except
// on systems where an open file cannot be removed.
func (s *spool) beginAnew() error {
	s.close()
	_ = os.Remove(filepath.Join(s.dir, EventsName))
	_ = os.Remove(filepath.Join(s.dir, OutputName))
	if err := s.open(); err != nil {
		return err
	}
	label := fmt.Sprintf("gap: this file had reached its limit of %s: earlier output is not in it", ByteCount(s.limit))
	n, err := s.output.Write([]byte(bracketed(label) + "\n"))
	s.outputSize, s.page.lines = int64(n), 1
	return err
}

// close closes the files that there are: open may have failed.
func (s *spool) close() {
	for _, f := range []io.WriteCloser{s.events, s.output} {
		if f != nil {
			f.Close()
		}
	}
}

// rest frees large buffers and closes the files until there is more to write.
func (s *spool) rest() {
	for _, f := range []io.WriteCloser{s.events, s.output} {
		if f, ok := f.(*restingFile); ok {
			f.rest()
		}
	}
	if cap(s.records) > restBytes {
		s.records = nil
	}
	if cap(s.page.out) > restBytes {
		s.page.out = nil
	}
	if cap(s.page.line) > restBytes && len(s.page.line) <= restBytes {
		s.page.line = bytes.Clone(s.page.line)
	}
}

// write writes events to both files, up to the first that no longer fits.
func (s *spool) write(batch []entry) (written, error) {
	w := written{lines: make([]int, 0, len(batch))}
	s.records, s.page.out = s.records[:0], s.page.out[:0]
	for _, e := range batch {
		if !s.add(e, &w) {
			w.full = true
			if s.end.offset == 0 {
				w.hopeless = true
				s.seal()
			}
			break
		}
	}
	w.end, w.finished = s.end, s.page.lines
	if _, err := s.output.Write(s.page.out); err != nil {
		return written{}, err
	}
	if _, err := s.events.Write(s.records); err != nil {
		return written{}, err
	}
	s.outputSize += int64(len(s.page.out))
	return w, nil
}

// add renders and encodes an event. It reports false, and changes nothing, if
// that makes a file too large.
func (s *spool) add(e entry, w *written) bool {
	at := e.at
	at.offset, at.structural = s.end.offset, s.end.structural
	e.Line = s.page.lines + 1

	printed, encoded := len(s.page.out), len(s.records)
	var placed []placedBlob
	s.records, placed = appendRecord(s.records, e.Event, at, s.blobs)
	size := int64(len(s.records) - encoded)
	if at.offset+size > s.limit || !s.print(e.Event) {
		s.records = s.records[:encoded]
		return false
	}
	s.end = at.after(e.Event, size)
	for _, b := range placed {
		s.blobs[b.sum] = b.at
	}
	w.blobs = append(w.blobs, placed...)
	w.lines = append(w.lines, e.Line)
	if at.offset-s.indexed >= indexStride {
		s.indexed = at.offset
		w.index = append(w.index, at)
	}
	if n := bytes.LastIndexByte(s.page.out[printed:], '\n'); n >= 0 {
		offset := s.outputSize + int64(printed+n+1)
		if offset-s.marked >= indexStride {
			s.marked = offset
			w.marks = append(w.marks, lineMark{s.page.lines + 1, offset})
		}
	}
	return true
}

// print adds an event to output.txt. It reports false, and changes nothing, if
// there is no room for it, its unfinished line and the line that seal writes.
func (s *spool) print(e Event) bool {
	room := s.limit - s.outputSize - maxLabelBytes
	if used := s.used(); used+payloadBytes(e.Body)*maxGrowth+maxLabelBytes < room {
		s.page.print(e)
		return true
	}
	before, printed := s.page, len(s.page.out)
	before.line = bytes.Clone(s.page.line)
	s.page.print(e)
	if s.used() < room {
		return true
	}
	before.out = s.page.out[:printed]
	s.page = before
	return false
}

// used returns the most that the events of a batch take in output.txt, with the
// unfinished line.
func (s *spool) used() int64 {
	return int64(len(s.page.out) + 2*len(s.page.line)) // a cell becomes twice as long
}

// maxGrowth bounds the bytes that one byte of text becomes when it is printed: a cursor
// movement of seven bytes may print maxColumn spaces.
const maxGrowth = maxColumn / 6

// seal writes a last line to output.txt that says it ends there.
func (s *spool) seal() {
	s.page.endTurn()
	s.page.label(fmt.Sprintf("gap: this file has reached its limit of %s: later output is not in it", ByteCount(s.limit)))
}
