package store

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

// A FileWriter writes the events file and the output file. Only the writer goroutine uses it.
type FileWriter struct {
	dir            string
	create         CreateFunc
	events, output io.WriteCloser
	maxFileBytes   int64 // of each file, in bytes

	end        EventPosition // after the last event written
	outputSize int64
	Transcript event.TranscriptPrinter
	records    []byte // to be written to events

	blobs         map[event.Digest]event.FileRange // the data that is in the events file
	indexedOffset int64                            // offset of the last position in the index
	markedOffset  int64                            // offset of the last line mark
}

// BatchResult says which events of a batch were written and where they are.
type BatchResult struct {
	Lines         []int // the lines where its events begin; fewer than the events if the files are full
	Index         Index
	Marks         []LineMark
	Blobs         []event.BlobLocation // of its events
	End           EventPosition
	FinishedLines int  // lines in output.txt
	IsFull        bool // the remaining events do not fit
	NeverFits     bool // the next event would not fit even into empty files
}

// NewFileWriter creates both files in dir, or empties them. limit bounds each file, in bytes. After an
// error the writer cannot be used.
func NewFileWriter(dir string, limit int64, create CreateFunc) (*FileWriter, error) {
	s := &FileWriter{dir: dir, create: create, maxFileBytes: limit, end: EventPosition{Seq: 1}}
	return s, s.openFiles()
}

// openFiles creates the files, empty.
func (fw *FileWriter) openFiles() (err error) {
	fw.end.Offset, fw.end.LastStructural = 0, -1
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

// RestartFiles replaces full files by empty ones. Readers of the old files can continue, except
// on systems where an open file cannot be removed.
func (fw *FileWriter) RestartFiles() error {
	fw.Close()
	_ = os.Remove(filepath.Join(fw.dir, EventsName))
	_ = os.Remove(filepath.Join(fw.dir, OutputName))
	if err := fw.openFiles(); err != nil {
		return err
	}
	label := fmt.Sprintf("gap: this file had reached its limit of %s: earlier output is not in it", text.Bytes(fw.maxFileBytes))
	n, err := fw.output.Write([]byte(screen.LabelLine(label) + "\n"))
	fw.outputSize, fw.Transcript.FinishedLines = int64(n), 1
	return err
}

// Close closes the files that are open; openFiles may have failed halfway.
func (fw *FileWriter) Close() {
	for _, f := range []io.WriteCloser{fw.events, fw.output} {
		if f != nil {
			f.Close()
		}
	}
}

// CloseIdleFiles frees large buffers and closes the files until the next write.
func (fw *FileWriter) CloseIdleFiles() {
	for _, f := range []io.WriteCloser{fw.events, fw.output} {
		if f, ok := f.(*reopeningFile); ok {
			f.closeUntilWrite()
		}
	}
	if cap(fw.records) > maxIdleBufferBytes {
		fw.records = nil
	}
	if cap(fw.Transcript.Out) > maxIdleBufferBytes {
		fw.Transcript.Out = nil
	}
	if cap(fw.Transcript.Line) > maxIdleBufferBytes && len(fw.Transcript.Line) <= maxIdleBufferBytes {
		fw.Transcript.Line = bytes.Clone(fw.Transcript.Line)
	}
}

// WriteBatch writes events to both files, up to the first that no longer fits.
func (fw *FileWriter) WriteBatch(batch []Entry) (BatchResult, error) {
	w := BatchResult{Lines: make([]int, 0, len(batch))}
	fw.records, fw.Transcript.Out = fw.records[:0], fw.Transcript.Out[:0]
	for _, e := range batch {
		if !fw.addEntry(e, &w) {
			w.IsFull = true
			if fw.end.Offset == 0 {
				w.NeverFits = true
				fw.writeEndNotice()
			}
			break
		}
	}
	w.End, w.FinishedLines = fw.end, fw.Transcript.FinishedLines
	if _, err := fw.output.Write(fw.Transcript.Out); err != nil {
		return BatchResult{}, err
	}
	if _, err := fw.events.Write(fw.records); err != nil {
		return BatchResult{}, err
	}
	fw.outputSize += int64(len(fw.Transcript.Out))
	return w, nil
}

// addEntry renders and encodes an event. It returns false, without changing anything, if the
// event would make a file too large.
func (fw *FileWriter) addEntry(e Entry, w *BatchResult) bool {
	at := e.Position
	at.Offset, at.LastStructural = fw.end.Offset, fw.end.LastStructural
	e.Line = fw.Transcript.FinishedLines + 1

	printed, encoded := len(fw.Transcript.Out), len(fw.records)
	var placed []event.BlobLocation
	fw.records, placed = event.AppendRecord(fw.records, e.Event, at.Offset, at.LastStructural, fw.blobs)
	size := int64(len(fw.records) - encoded)
	if at.Offset+size > fw.maxFileBytes || !fw.printEvent(e.Event) {
		fw.records = fw.records[:encoded]
		return false
	}
	fw.end = at.AfterEvent(e.Event, size)
	for _, b := range placed {
		fw.blobs[b.Sum] = b.Ranges
	}
	w.Blobs = append(w.Blobs, placed...)
	w.Lines = append(w.Lines, e.Line)
	if at.Offset-fw.indexedOffset >= indexStride {
		fw.indexedOffset = at.Offset
		w.Index = append(w.Index, at)
	}
	if n := bytes.LastIndexByte(fw.Transcript.Out[printed:], '\n'); n >= 0 {
		offset := fw.outputSize + int64(printed+n+1)
		if offset-fw.markedOffset >= indexStride {
			fw.markedOffset = offset
			w.Marks = append(w.Marks, LineMark{fw.Transcript.FinishedLines + 1, offset})
		}
	}
	return true
}

// printEvent adds an event to output.txt. It returns false, without changing anything, if there
// is no room for it, its unfinished line and the line of writeEndNotice.
func (fw *FileWriter) printEvent(e event.Event) bool {
	room := fw.maxFileBytes - fw.outputSize - screen.MaxLabelBytes
	if used := fw.pendingOutputBytes(); used+event.PayloadBytes(e.Body)*maxGrowth+screen.MaxLabelBytes < room {
		fw.Transcript.PrintEvent(e)
		return true
	}
	before, printed := fw.Transcript, len(fw.Transcript.Out)
	before.Line = bytes.Clone(fw.Transcript.Line)
	fw.Transcript.PrintEvent(e)
	if fw.pendingOutputBytes() < room {
		return true
	}
	before.Out = fw.Transcript.Out[:printed]
	fw.Transcript = before
	return false
}

// pendingOutputBytes returns the maximum size in output.txt of the events of a batch, including
// the unfinished line.
func (fw *FileWriter) pendingOutputBytes() int64 {
	return int64(len(fw.Transcript.Out) + 2*len(fw.Transcript.Line)) // a cell may take twice as many bytes
}

// maxGrowth bounds how many bytes one byte of text can become when printed: a cursor movement
// of seven bytes may print screen.MaxColumn spaces.
const maxGrowth = screen.MaxColumn / 6

// writeEndNotice writes the last line of output.txt, which says that the file ends there.
func (fw *FileWriter) writeEndNotice() {
	fw.Transcript.EndTurn()
	fw.Transcript.PrintLabel(fmt.Sprintf("gap: this file has reached its limit of %s: later output is not in it", text.Bytes(fw.maxFileBytes)))
}
