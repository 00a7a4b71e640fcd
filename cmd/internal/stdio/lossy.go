package stdio

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// maxLossyBytes bounds the lines that a LossyWriter keeps, in bytes.
const maxLossyBytes = 64 << 10

// A LossyWriter writes lines to a stream that may never have room, such as a standard error that the
// parent does not read. Write never blocks. Lines beyond maxLossyBytes are left out, and a line
// tells how many.
type LossyWriter struct {
	to   io.Writer
	wake chan struct{} // holds one token when there is something to write
	idle chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	lines   [][]byte // guarded by mu
	size    int      // guarded by mu; bytes in lines and in the current write
	leftOut int      // guarded by mu; lines that were left out since the last notice
	closed  bool     // guarded by mu
}

// NewLossyWriter returns a LossyWriter and starts its goroutine.
func NewLossyWriter(to io.Writer) *LossyWriter {
	w := &LossyWriter{to: to, wake: make(chan struct{}, 1), idle: make(chan struct{})}
	go w.writeAll()
	return w
}

// Write queues whole lines. It never fails.
func (w *LossyWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.size+len(b) > maxLossyBytes {
		w.leftOut += bytes.Count(b, []byte("\n"))
		return len(b), nil
	}
	w.lines, w.size = append(w.lines, bytes.Clone(b)), w.size+len(b)
	w.wakeWriter()
	return len(b), nil
}

func (w *LossyWriter) wakeWriter() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *LossyWriter) writeAll() {
	defer close(w.idle)
	for range w.wake {
		for {
			line, over := w.takeLine()
			if over {
				return
			}
			if line == nil {
				break
			}
			_, _ = w.to.Write(line) // nobody can be told
			w.mu.Lock()
			w.size -= len(line)
			w.mu.Unlock()
		}
	}
}

// takeLine returns the next line to write; nil if there is none. over means that there will be no
// more.
func (w *LossyWriter) takeLine() (line []byte, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.lines) > 0:
		line, w.lines = w.lines[0], w.lines[1:]
	case w.leftOut > 0:
		line = fmt.Appendf(nil, "repl: %d lines were left out, because standard error was full\n", w.leftOut)
		w.leftOut, w.size = 0, w.size+len(line)
	default:
		over = w.closed
	}
	return line, over
}

// Close waits until all lines are written, for timeout at most.
func (w *LossyWriter) Close(timeout time.Duration) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wakeWriter()
	select {
	case <-w.idle:
	case <-time.After(timeout):
	}
}
