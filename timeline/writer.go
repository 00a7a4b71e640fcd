package timeline

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/event"
	"github.com/turnstone-repl/turnstone/timeline/internal/store"
)

// The names of the two files of a Log: its events as records, and its text as lines.
const (
	EventsName = store.EventsName
	OutputName = store.OutputName
)

const (
	// maxBatchBytes bounds what the writer takes at a time.
	maxBatchBytes  = flushBytes
	maxBatchEvents = 1024
)

// runWriter is the writer goroutine. It moves events to the files until the log is closed or
// the files are turned off.
func (l *Log) runWriter(kick <-chan struct{}, s *store.FileWriter) {
	defer close(l.writerDone)
	defer s.Close()
	for open := true; open; {
		select {
		case _, open = <-kick:
		case <-l.timer.C:
			l.markAllDue()
		}
		for batch := l.nextBatch(); len(batch) > 0; batch = l.nextBatch() {
			w, err := s.WriteBatch(batch)
			if !l.recordWritten(batch, w, err) {
				return
			}
			if w.IsFull {
				l.forgetFiles()
				if err := s.RestartFiles(); !l.recordRestart(s.Transcript.FinishedLines, err) {
					return
				}
			}
		}
		s.CloseIdleFiles()
	}
}

// markAllDue makes all events due, because they have waited long enough.
func (l *Log) markAllDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerRunning = false
	l.dueSeq = l.end.Seq - 1
}

// nextBatch returns the events to write next, or none if none are due.
func (l *Log) nextBatch() []store.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen || l.diskEnd.Seq > l.dueSeq && l.backlog < l.flushThreshold() {
		return nil
	}
	if len(l.memory) == 0 || l.memory[0].Seq > l.diskEnd.Seq {
		return nil // the log was closed
	}
	rest := l.memory[l.diskEnd.Seq-l.memory[0].Seq:]
	n, size := 0, int64(0)
	for n < min(len(rest), maxBatchEvents) && size < maxBatchBytes {
		size += event.MemoryBytes(rest[n].Body)
		n++
	}
	return append([]store.Entry(nil), rest[:n]...)
}

// recordWritten records which events were written and reports whether to continue.
func (l *Log) recordWritten(batch []store.Entry, w store.BatchResult, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen {
		return false // the files were turned off in the meantime
	}
	if err != nil {
		l.disableFilesLocked(err)
		return false
	}
	first := l.memory[0].Seq
	for _, e := range batch[:len(w.Lines)] {
		if e.Seq >= first {
			l.memory[e.Seq-first].Line = w.Lines[e.Seq-batch[0].Seq]
		}
		l.backlog -= event.MemoryBytes(e.Body)
	}
	l.index = append(l.index, w.Index...)
	l.lineMarks = append(l.lineMarks, w.Marks...)
	for _, b := range w.Blobs {
		l.blobs.SetRange(b)
	}
	l.diskEnd, l.outputLines = w.End, w.FinishedLines
	if w.NeverFits {
		l.files = filesFull
		l.clearBacklogLocked()
		return false
	}
	l.writerProgressLocked()
	if l.diskEnd.Seq == l.end.Seq {
		l.timerRunning = false
		l.timer.Stop()
	} else if !l.timerRunning && l.writingLocked() {
		l.timerRunning = true
		l.timer.Reset(flushDelay)
	}
	return true
}

// forgetFiles forgets the contents of the files, which are about to be replaced.
func (l *Log) forgetFiles() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.index {
		l.lostEstimate.AddPosition(p)
	}
	for i := range l.memory {
		l.memory[i].Line = 0 // it referred to the old file
	}
	l.diskEnd.Offset, l.diskEnd.LastStructural = 0, -1
	l.diskStart, l.index, l.lineMarks, l.outputLines = l.diskEnd, nil, nil, 0
	l.turnIndex.forgetBefore(l.diskStart.Seq)
	l.blobs.ForgetFile()
}

// recordRestart records the start of the new files and reports whether to continue.
func (l *Log) recordRestart(lines int, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen {
		return false
	}
	if err != nil {
		l.disableFilesLocked(err)
		return false
	}
	l.outputLines = lines
	return true
}
