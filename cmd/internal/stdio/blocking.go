package stdio

import (
	"os"
	"sync"
)

// blockingBytes bounds one read of a blockingReader, in bytes.
const blockingBytes = 64 << 10

// A blockingReader reads a stream whose reads cannot be interrupted. Close only ends the waiting.
type blockingReader struct {
	results chan readResult
	closed  chan struct{}
	once    sync.Once
	rest    readResult // for Read alone
}

type readResult struct {
	data []byte
	err  error
}

func newBlockingReader(f *os.File) *blockingReader {
	r := &blockingReader{results: make(chan readResult), closed: make(chan struct{})}
	go r.readAll(f)
	return r
}

func (r *blockingReader) readAll(f *os.File) {
	for {
		b := make([]byte, blockingBytes)
		n, err := f.Read(b)
		select {
		case r.results <- readResult{b[:n], err}:
		case <-r.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read returns data, or the error of the stream. After Close it returns os.ErrClosed.
func (r *blockingReader) Read(b []byte) (int, error) {
	for len(r.rest.data) == 0 {
		if r.rest.err != nil {
			return 0, r.rest.err
		}
		select {
		case <-r.closed:
			return 0, os.ErrClosed
		default:
		}
		select {
		case r.rest = <-r.results:
		case <-r.closed:
			return 0, os.ErrClosed
		}
	}
	n := copy(b, r.rest.data)
	r.rest.data = r.rest.data[n:]
	return n, nil
}

func (r *blockingReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

// A blockingWriter writes to a stream whose writes cannot be interrupted. Close only ends the
// waiting.
type blockingWriter struct {
	data    chan []byte
	results chan writeResult
	closed  chan struct{}
	once    sync.Once
}

type writeResult struct {
	n   int
	err error
}

func newBlockingWriter(f *os.File) *blockingWriter {
	w := &blockingWriter{data: make(chan []byte), results: make(chan writeResult, 1), closed: make(chan struct{})}
	go w.writeAll(f)
	return w
}

func (w *blockingWriter) writeAll(f *os.File) {
	for {
		select {
		case b := <-w.data:
			n, err := f.Write(b)
			w.results <- writeResult{n, err}
		case <-w.closed:
			return
		}
	}
}

// Write returns when b is written, or with os.ErrClosed after Close. Only one goroutine may write.
func (w *blockingWriter) Write(b []byte) (int, error) {
	select {
	case <-w.closed:
		return 0, os.ErrClosed
	default:
	}
	select {
	case w.data <- append([]byte(nil), b...): // a copy, because Write may return first
	case <-w.closed:
		return 0, os.ErrClosed
	}
	select {
	case r := <-w.results:
		return r.n, r.err
	case <-w.closed:
		return 0, os.ErrClosed
	}
}

func (w *blockingWriter) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}
