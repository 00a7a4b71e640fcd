package ipc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// A Side identifies the end of the channel from which a frame comes.
type Side uint8

// The two ends of the channel.
const (
	FromSupervisor Side = iota + 1
	FromWorker
)

// String returns the side's name in schema.json.
func (s Side) String() string {
	switch s {
	case FromSupervisor:
		return "supervisor"
	case FromWorker:
		return "worker"
	}
	return fmt.Sprintf("ipc.Side(%d)", uint8(s))
}

// headerBytes is the size of the length field of a frame.
const headerBytes = 4

// AppendFrame appends m as a frame, including its length field. If m violates the protocol, it
// returns dst unchanged and an error, which is [ErrTooLarge] if m is too large.
func AppendFrame(dst []byte, m Message) ([]byte, error) {
	if m == nil {
		return dst, errors.New("ipc: no message to send")
	}
	kind, ok := messageTypes[m.Type()]
	if !ok {
		return dst, fmt.Errorf("ipc: %T is not a protocol message", m)
	}
	out := appender{append(dst, make([]byte, headerBytes)...)}
	w := fieldVisitor{encoder: msgpack.GetEncoder()}
	w.encoder.Reset(&out)
	defer msgpack.PutEncoder(w.encoder)

	kind.write(&w, m)
	size := len(out.buf) - len(dst) - headerBytes
	w.recordError("", checkSize(size, MaxFrameBytes, "bytes"))
	if w.err != nil {
		return dst, fmt.Errorf("ipc: cannot send %s: %w", m.Type(), w.err)
	}
	binary.BigEndian.PutUint32(out.buf[len(dst):], uint32(size))
	return out.buf, nil
}

// Decode decodes the payload of one frame from the given side, without its length field. The
// message shares no memory with payload. The error is a [*ProtocolError].
func Decode(payload []byte, from Side) (Message, error) {
	in := &payloadReader{payload: payload}
	name, err := in.findMessageType()
	if err != nil {
		return nil, &ProtocolError{Reason: err.Error(), Offender: printableText(payload)}
	}
	kind, ok := messageTypes[string(name)]
	if !ok || kind.from != from {
		reason := "unknown message type"
		if ok {
			reason = fmt.Sprintf("%s is for the other direction", name)
		}
		return nil, &ProtocolError{Reason: reason, Offender: printableText(payload)}
	}
	in.offset = 0
	w := fieldVisitor{reader: in}
	m := kind.read(&w)
	if rest := len(payload) - in.offset; w.err == nil && rest > 0 {
		w.err = fmt.Errorf("%d bytes after the message", rest)
		in.itemOffset = in.offset
	}
	if w.err == nil {
		return m, nil
	}
	offender := printableText(payload[in.itemOffset:])
	if kind.confidential {
		offender = ""
	}
	return nil, &ProtocolError{Type: string(name), Reason: w.err.Error(), Offender: offender}
}

// An appender is an append-only writer for the msgpack encoder.
type appender struct{ buf []byte }

func (a *appender) Write(b []byte) (int, error) {
	a.buf = append(a.buf, b...)
	return len(b), nil
}

func (a *appender) WriteByte(c byte) error {
	a.buf = append(a.buf, c)
	return nil
}
