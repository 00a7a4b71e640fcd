package timeline

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// The names of the two files of a Log: its events as records, and its text as lines.
const (
	EventsName = "events"
	OutputName = "output.txt"
)

// maxIdleBufferBytes bounds the buffers that an idle writer keeps.
const maxIdleBufferBytes = 16 << 10

// A fileWriter writes the events file and the output file. Only the writer goroutine uses it.
type fileWriter struct {
	dir            string
	create         createFunc
	events, output io.WriteCloser
	maxFileBytes   int64 // of each file, in bytes

	end        eventPosition // after the last event written
	outputSize int64
	transcript event.TranscriptPrinter
	records    []byte // to be written to events

	blobs         map[event.Digest]event.FileRange // the data that is in the events file
	indexedOffset int64                            // offset of the last position in the index
	markedOffset  int64                            // offset of the last line mark
}

// batchResult says which events of a batch were written and where they are.
type batchResult struct {
	lines         []int // the lines where its events begin; fewer than the events if the files are full
	index         index
	marks         []lineMark
	blobs         []event.BlobLocation // of its events
	end           eventPosition
	finishedLines int  // lines in output.txt
	isFull        bool // the remaining events do not fit
	neverFits     bool // the next event would not fit even into empty files
}

func newFileWriter(dir string, limit int64, create createFunc) (*fileWriter, error) {
	s := &fileWriter{dir: dir, create: create, maxFileBytes: limit, end: eventPosition{seq: 1}}
	return s, s.openFiles()
}

// openFiles creates the files, empty.
func (fw *fileWriter) openFiles() (err error) {
	fw.end.offset, fw.end.lastStructural = 0, -1
	fw.outputSize, fw.indexedOffset, fw.markedOffset = 0, -indexStride, -indexStride
	fw.blobs = make(map[event.Digest]event.FileRange)
	if fw.events, err = fw.create(filepath.Join(fw.dir, EventsName)); err != nil {
		return fmt.Errorf("timeline: events file: %w", err)
	}
	if fw.output, err = fw.create(filepath.Join(fw.dir, OutputName)); err != nil {
		fw.events.Close()
		return fmt.Errorf("timeline: output file: %w", err)
	}
	return nil
}

// restartFiles replaces full files by empty ones. Readers of the old files can continue, except
// on systems where an open file cannot be removed.
func (fw *fileWriter) restartFiles() error {
	fw.close()
	_ = os.Remove(filepath.Join(fw.dir, EventsName))
	_ = os.Remove(filepath.Join(fw.dir, OutputName))
	if err := fw.openFiles(); err != nil {
		return err
	}
	label := fmt.Sprintf("gap: this file had reached its limit of %s: earlier output is not in it", text.Bytes(fw.maxFileBytes))
	n, err := fw.output.Write([]byte(screen.LabelLine(label) + "\n"))
	fw.outputSize, fw.transcript.FinishedLines = int64(n), 1
	return err
}

// close closes the files that are open; openFiles may have failed halfway.
func (fw *fileWriter) close() {
	for _, f := range []io.WriteCloser{fw.events, fw.output} {
		if f != nil {
			f.Close()
		}
	}
}

// closeIdleFiles frees large buffers and closes the files until the next write.
func (fw *fileWriter) closeIdleFiles() {
	for _, f := range []io.WriteCloser{fw.events, fw.output} {
		if f, ok := f.(*reopeningFile); ok {
			f.closeUntilWrite()
		}
	}
	if cap(fw.records) > maxIdleBufferBytes {
		fw.records = nil
	}
	if cap(fw.transcript.Out) > maxIdleBufferBytes {
		fw.transcript.Out = nil
	}
	if cap(fw.transcript.Line) > maxIdleBufferBytes && len(fw.transcript.Line) <= maxIdleBufferBytes {
		fw.transcript.Line = bytes.Clone(fw.transcript.Line)
	}
}

// writeBatch writes events to both files, up to the first that no longer fits.
func (fw *fileWriter) writeBatch(batch []entry) (batchResult, error) {
	w := batchResult{lines: make([]int, 0, len(batch))}
	fw.records, fw.transcript.Out = fw.records[:0], fw.transcript.Out[:0]
	for _, e := range batch {
		if !fw.addEntry(e, &w) {
			w.isFull = true
			if fw.end.offset == 0 {
				w.neverFits = true
				fw.writeEndNotice()
			}
			break
		}
	}
	w.end, w.finishedLines = fw.end, fw.transcript.FinishedLines
	if _, err := fw.output.Write(fw.transcript.Out); err != nil {
		return batchResult{}, err
	}
	if _, err := fw.events.Write(fw.records); err != nil {
		return batchResult{}, err
	}
	fw.outputSize += int64(len(fw.transcript.Out))
	return w, nil
}

// addEntry renders and encodes an event. It returns false, without changing anything, if the
// event would make a file too large.
func (fw *fileWriter) addEntry(e entry, w *batchResult) bool {
	at := e.position
	at.offset, at.lastStructural = fw.end.offset, fw.end.lastStructural
	e.Line = fw.transcript.FinishedLines + 1

	printed, encoded := len(fw.transcript.Out), len(fw.records)
	var placed []event.BlobLocation
	fw.records, placed = event.AppendRecord(fw.records, e.Event, at.offset, at.lastStructural, fw.blobs)
	size := int64(len(fw.records) - encoded)
	if at.offset+size > fw.maxFileBytes || !fw.printEvent(e.Event) {
		fw.records = fw.records[:encoded]
		return false
	}
	fw.end = at.afterEvent(e.Event, size)
	for _, b := range placed {
		fw.blobs[b.Sum] = b.Ranges
	}
	w.blobs = append(w.blobs, placed...)
	w.lines = append(w.lines, e.Line)
	if at.offset-fw.indexedOffset >= indexStride {
		fw.indexedOffset = at.offset
		w.index = append(w.index, at)
	}
	if n := bytes.LastIndexByte(fw.transcript.Out[printed:], '\n'); n >= 0 {
		offset := fw.outputSize + int64(printed+n+1)
		if offset-fw.markedOffset >= indexStride {
			fw.markedOffset = offset
			w.marks = append(w.marks, lineMark{fw.transcript.FinishedLines + 1, offset})
		}
	}
	return true
}

// printEvent adds an event to output.txt. It returns false, without changing anything, if there
// is no room for it, its unfinished line and the line of writeEndNotice.
func (fw *fileWriter) printEvent(e Event) bool {
	room := fw.maxFileBytes - fw.outputSize - screen.MaxLabelBytes
	if used := fw.pendingOutputBytes(); used+event.PayloadBytes(e.Body)*maxGrowth+screen.MaxLabelBytes < room {
		fw.transcript.PrintEvent(e)
		return true
	}
	before, printed := fw.transcript, len(fw.transcript.Out)
	before.Line = bytes.Clone(fw.transcript.Line)
	fw.transcript.PrintEvent(e)
	if fw.pendingOutputBytes() < room {
		return true
	}
	before.Out = fw.transcript.Out[:printed]
	fw.transcript = before
	return false
}

// pendingOutputBytes returns the maximum size in output.txt of the events of a batch, including
// the unfinished line.
func (fw *fileWriter) pendingOutputBytes() int64 {
	return int64(len(fw.transcript.Out) + 2*len(fw.transcript.Line)) // a cell may take twice as many bytes
}

// maxGrowth bounds how many bytes one byte of text can become when printed: a cursor movement
// of seven bytes may print screen.MaxColumn spaces.
const maxGrowth = screen.MaxColumn / 6

// writeEndNotice writes the last line of output.txt, which says that the file ends there.
func (fw *fileWriter) writeEndNotice() {
	fw.transcript.EndTurn()
	fw.transcript.PrintLabel(fmt.Sprintf("gap: this file has reached its limit of %s: later output is not in it", text.Bytes(fw.maxFileBytes)))
}
