package ipc

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

// frameBytes returns a frame of n bytes, followed by the rest of the stream.
func frameBytes(n int, rest ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	return append(append(b, make([]byte, n)...), rest...)
}

func TestFrameReader(t *testing.T) {
	t.Run("a large length alone does not grow the buffer", func(t *testing.T) {
		b := binary.BigEndian.AppendUint32(nil, MaxFrameBytes)
		f := frameReader{r: bytes.NewReader(append(b, make([]byte, 5000)...))}
		if _, err := f.nextPayload(); err != io.ErrUnexpectedEOF {
			t.Fatalf("got %v, want io.ErrUnexpectedEOF", err)
		}
		if len(f.buf) > 16<<10 {
			t.Errorf("got a buffer of %d bytes for 5004 that arrived", len(f.buf))
		}
	})

	t.Run("frees the memory of a large frame", func(t *testing.T) {
		next := frameBytes(3)
		f := frameReader{r: bytes.NewReader(frameBytes(MaxFrameBytes, next...))}
		if b, err := f.nextPayload(); err != nil || len(b) != MaxFrameBytes {
			t.Fatalf("got %d bytes, %v", len(b), err)
		}
		if b, err := f.nextPayload(); err != nil || len(b) != 3 {
			t.Fatalf("got %d bytes, %v", len(b), err)
		}
		if len(f.buf) > maxRetainedBufferBytes {
			t.Errorf("got a buffer of %d bytes after a small frame, want at most %d", len(f.buf), maxRetainedBufferBytes)
		}
	})

	t.Run("reuses its buffer for output frames", func(t *testing.T) {
		f := frameReader{r: &repeatingReader{frame: frameBytes(MaxOutputBytes + 40)}}
		for range 4 {
			if _, err := f.nextPayload(); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(100, func() { f.nextPayload() }); n != 0 {
			t.Errorf("got %v allocations a frame, want 0", n)
		}
	})

	t.Run("a reader that returns nothing is an error", func(t *testing.T) {
		f := frameReader{r: idleReader{}}
		if _, err := f.nextPayload(); err == nil {
			t.Error("got no error")
		}
	})
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// repeatingReader yields one frame again and again.
type repeatingReader struct {
	frame []byte
	at    int
}

func (r *repeatingReader) Read(b []byte) (int, error) {
	n := copy(b, r.frame[r.at:])
	r.at = (r.at + n) % len(r.frame)
	return n, nil
}
