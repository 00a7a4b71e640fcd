package timeline

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

const (
	// maxBatchBytes bounds what the writer takes at a time.
	maxBatchBytes  = flushBytes
	maxBatchEvents = 1024
)

// runWriter is the writer goroutine. It moves events to the files until the log is closed or
// the files are turned off.
func (l *Log) runWriter(kick <-chan struct{}, s *fileWriter) {
	defer close(l.writerDone)
	defer s.close()
	for open := true; open; {
		select {
		case _, open = <-kick:
		case <-l.timer.C:
			l.markAllDue()
		}
		for batch := l.nextBatch(); len(batch) > 0; batch = l.nextBatch() {
			w, err := s.writeBatch(batch)
			if !l.recordWritten(batch, w, err) {
				return
			}
			if w.isFull {
				l.forgetFiles()
				if err := s.restartFiles(); !l.recordRestart(s.transcript.FinishedLines, err) {
					return
				}
			}
		}
		s.closeIdleFiles()
	}
}

// markAllDue makes all events due, because they have waited long enough.
func (l *Log) markAllDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerRunning = false
	l.dueSeq = l.end.seq - 1
}

// nextBatch returns the events to write next, or none if none are due.
func (l *Log) nextBatch() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files != filesOpen || l.diskEnd.seq > l.dueSeq && l.backlog < l.flushThreshold() {
		return nil
	}
	if len(l.memory) == 0 || l.memory[0].Seq > l.diskEnd.seq {
		return nil // the log was closed
	}
	rest := l.memory[l.diskEnd.seq-l.memory[0].Seq:]
	n, size := 0, int64(0)
	for n < min(len(rest), maxBatchEvents) && size < maxBatchBytes {
		size += event.MemoryBytes(rest[n].Body)
		n++
	}
	return append([]entry(nil), rest[:n]...)
}

// recordWritten records which events were written and reports whether to continue.
func (l *Log) recordWritten(batch []entry, w batchResult, err error) bool {
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
	for _, e := range batch[:len(w.lines)] {
		if e.Seq >= first {
			l.memory[e.Seq-first].Line = w.lines[e.Seq-batch[0].Seq]
		}
		l.backlog -= event.MemoryBytes(e.Body)
	}
	l.index = append(l.index, w.index...)
	l.lineMarks = append(l.lineMarks, w.marks...)
	for _, b := range w.blobs {
		l.blobs.setRange(b)
	}
	l.diskEnd, l.outputLines = w.end, w.finishedLines
	if w.neverFits {
		l.files = filesFull
		l.clearBacklogLocked()
		return false
	}
	l.writerProgressLocked()
	if l.diskEnd.seq == l.end.seq {
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
		l.lostEstimate.addPosition(p)
	}
	for i := range l.memory {
		l.memory[i].Line = 0 // it referred to the old file
	}
	l.diskEnd.offset, l.diskEnd.lastStructural = 0, -1
	l.diskStart, l.index, l.lineMarks, l.outputLines = l.diskEnd, nil, nil, 0
	l.turnIndex.forgetBefore(l.diskStart.seq)
	l.blobs.forgetFile()
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
