package ipc

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// initialBufferBytes is the initial size of a read buffer, in bytes: enough for a quiet
	// session.
	initialBufferBytes = 4 << 10

	// maxRetainedBufferBytes bounds the buffer that is kept for the next frame, in bytes: enough
	// for a full output frame and half of the next.
	maxRetainedBufferBytes = 128 << 10

	// maxReadBytes bounds one read, in bytes, by the size of a pipe. Some systems are slow when
	// asked for more, even if less arrives.
	maxReadBytes = 64 << 10

	// maxEmptyReads bounds the number of consecutive reads that return nothing.
	maxEmptyReads = 100
)

// A frameReader splits a stream of bytes into payloads. Its buffer grows with the bytes that
// have arrived, not with the length that a frame claims.
type frameReader struct {
	r          io.Reader
	buf        []byte
	start, end int   // buf[start:end] was read and is not consumed
	err        error // final error; every later call returns it
}

// nextPayload returns the payload of the next frame. It is valid until the next call.
func (f *frameReader) nextPayload() ([]byte, error) {
	f.shrinkBuffer()
	for f.err == nil {
		have := f.buf[f.start:f.end]
		if len(have) < headerBytes {
			f.fillBuffer(headerBytes)
			continue
		}
		size := binary.BigEndian.Uint32(have)
		if size > MaxFrameBytes {
			f.err = &ProtocolError{
				Reason:   fmt.Sprintf("the frame has %d bytes, at most %d are allowed", size, MaxFrameBytes),
				Offender: printableText(have[:headerBytes]),
			}
			break
		}
		want := headerBytes + int(size)
		if len(have) < want {
			f.fillBuffer(want)
			continue
		}
		f.start += want
		return have[headerBytes:want], nil
	}
	return nil, f.err
}

// fillBuffer reads once, to complete a frame of want bytes.
func (f *frameReader) fillBuffer(want int) {
	if f.start == f.end {
		f.start, f.end = 0, 0
	}
	if f.end == len(f.buf) {
		f.makeRoom(want)
	}
	for range maxEmptyReads {
		n, err := f.r.Read(f.buf[f.end:min(len(f.buf), f.end+maxReadBytes)])
		f.end += n
		switch {
		case n > 0:
			return // the next read returns the same error again
		case err == io.EOF && f.start < f.end:
			f.err = io.ErrUnexpectedEOF
			return
		case err == io.EOF:
			f.err = io.EOF
			return
		case err != nil:
			f.err = fmt.Errorf("ipc: receive: %w", err)
			return
		}
	}
	f.err = fmt.Errorf("ipc: receive: %w", io.ErrNoProgress)
}

// makeRoom moves the unconsumed bytes to the front, or to a buffer of twice the size. A buffer
// above maxRetainedBufferBytes is exactly as large as the frame.
func (f *frameReader) makeRoom(want int) {
	to := f.buf
	if f.start == 0 {
		to = make([]byte, max(initialBufferBytes, min(2*len(f.buf), max(want, maxRetainedBufferBytes))))
	}
	f.end = copy(to, f.buf[f.start:f.end])
	f.start, f.buf = 0, to
}

// shrinkBuffer frees the memory of a large frame.
func (f *frameReader) shrinkBuffer() {
	rest := f.buf[f.start:f.end]
	if len(f.buf) > maxRetainedBufferBytes && len(rest) <= maxRetainedBufferBytes/2 {
		f.buf = append(make([]byte, 0, maxRetainedBufferBytes), rest...)[:maxRetainedBufferBytes]
		f.start, f.end = 0, len(rest)
	}
}
