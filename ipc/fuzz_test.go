package ipc_test

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// Each accepted message can be sent again, and is then unchanged.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f) {
		if b := v.frameBytes(f); len(b) >= 4 {
			f.Add(b[4:], v.fromSide() == ipc.FromWorker)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, worker bool) {
		from := ipc.FromSupervisor
		if worker {
			from = ipc.FromWorker
		}
		before := bytes.Clone(payload)
		m, err := ipc.Decode(payload, from)
		if !bytes.Equal(payload, before) {
			t.Fatal("the payload was changed")
		}
		if err != nil {
			if p, ok := err.(*ipc.ProtocolError); !ok || p.Reason == "" || len(p.Offender) > 203 {
				t.Fatalf("got %#v", err)
			}
			return
		}
		clear(payload) // the message must not refer to it
		frame, err := ipc.AppendFrame(nil, m)
		if err != nil {
			t.Fatalf("%#v was accepted and cannot be sent: %v", m, err)
		}
		again, err := ipc.Decode(frame[4:], from)
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("got  %#v, %v\nwant %#v", again, err, m)
		}
	})
}

// How a stream is split into reads makes no difference.
func FuzzReceive(f *testing.F) {
	var all []byte
	for i, v := range readVectors(f) {
		f.Add(v.frameBytes(f), uint16(i+1))
		if v.From == "worker" && v.Refused == "" {
			all = append(all, v.frameBytes(f)...)
		}
	}
	f.Add(all, uint16(4097))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint16) {
		whole := receiveAll(bytes.NewReader(stream))
		pieces := receiveAll(&chunkReader{stream, int(piece) + 1})
		if whole != pieces {
			t.Fatalf("whole:  %s\npieces: %s", whole, pieces)
		}
	})
}

func receiveAll(r io.Reader) string {
	c := ipc.NewConn(readOnlyChannel{r}, ipc.FromWorker)
	defer c.Close()
	var all []byte
	for {
		m, err := c.Receive()
		if err != nil {
			return fmt.Sprintf("%x, then %v", all, err)
		}
		all, _ = ipc.AppendFrame(all, m)
	}
}

// A chunkReader returns at most size bytes at a time.
type chunkReader struct {
	rest []byte
	size int
}

func (r *chunkReader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.rest[:min(r.size, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}
