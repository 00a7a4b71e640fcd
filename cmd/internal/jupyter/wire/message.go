package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Bounds of a message. A message that exceeds one of them is rejected.
const (
	MaxFrames     = 64       // frames in all
	MaxIdentities = 8        // frames before the delimiter
	MaxIdentity   = 255      // bytes of one identity, as in ZMTP
	MaxHeader     = 64 << 10 // bytes of a header or parent header
	MaxBytes      = 64 << 20 // bytes of all frames
	MaxDepth      = 256      // nested objects and arrays
)

// ProtocolVersion is the version of the messaging protocol of this package.
const ProtocolVersion = "5.4"

const delimiter = "<IDS|MSG>"

// A Header identifies a message, its type and its sender.
type Header struct {
	ID       string `json:"msg_id"`
	Session  string `json:"session"` // of the sender: one for each client, and for each kernel process
	Username string `json:"username"`
	Date     string `json:"date"` // RFC 3339
	Type     string `json:"msg_type"`
	Version  string `json:"version"`

	// raw is the header as received. A reply repeats it, including unknown fields.
	raw json.RawMessage
}

// NewHeader returns the header of a new message.
func NewHeader(session, username, kind string) Header {
	return Header{
		ID: NewID(), Session: session, Username: username, Type: kind,
		Date: time.Now().UTC().Format(time.RFC3339Nano), Version: ProtocolVersion,
	}
}

// NewID returns a random id of 32 hexadecimal digits, which cannot be guessed.
func NewID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// isNone reports whether h is the parent header of a message without a parent.
func (h *Header) isNone() bool { return h.ID == "" && h.raw == nil }

func (h *Header) encode() ([]byte, error) {
	switch {
	case h.raw != nil:
		return h.raw, nil
	case h.isNone():
		return []byte("{}"), nil
	}
	return json.Marshal(h)
}

func (h *Header) decode(frame []byte) error {
	if len(frame) > MaxHeader {
		return fmt.Errorf("%d bytes, more than %d", len(frame), MaxHeader)
	}
	if err := checkObject(frame); err != nil {
		return err
	}
	if err := json.Unmarshal(frame, h); err != nil {
		return err
	}
	if h.ID != "" || h.Type != "" {
		h.raw = bytes.Clone(frame)
	}
	return nil
}

// A Message holds the parts of a Jupyter message on any channel.
type Message struct {
	// Identities are the addresses on a ROUTER socket, or the topic on the iopub channel.
	Identities [][]byte

	Header   Header
	Parent   Header          // the zero Header without a parent
	Metadata json.RawMessage // a JSON object; nil is {}
	Content  json.RawMessage // a JSON object; nil is {}
	Buffers  [][]byte
}

// NewReply returns a reply of the given kind to m, for the same peer. The caller sets its Header.Session.
func (m *Message) NewReply(kind string, content any) (Message, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return Message{}, fmt.Errorf("content of a %s: %w", kind, err)
	}
	return Message{
		Identities: m.Identities, Parent: m.Header, Content: raw,
		Header: NewHeader(m.Header.Session, m.Header.Username, kind),
	}, nil
}

// signedFrames returns the four signed frames of m.
func (m *Message) signedFrames() ([4][]byte, error) {
	var body [4][]byte
	var err error
	if body[0], err = m.Header.encode(); err != nil {
		return body, err
	}
	if body[1], err = m.Parent.encode(); err != nil {
		return body, err
	}
	body[2], body[3] = orEmptyObject(m.Metadata), orEmptyObject(m.Content)
	return body, nil
}

func orEmptyObject(object json.RawMessage) []byte {
	if len(object) == 0 {
		return []byte("{}")
	}
	return object
}

// splitFrames checks the shape of a message and returns its parts: identities, the signature, and the
// frames after it.
func splitFrames(frames [][]byte) (identities [][]byte, signature []byte, rest [][]byte, err error) {
	if len(frames) > MaxFrames {
		return nil, nil, nil, fmt.Errorf("%d frames exceed the limit of %d", len(frames), MaxFrames)
	}
	size := 0
	for _, frame := range frames {
		size += len(frame)
	}
	if size > MaxBytes {
		return nil, nil, nil, fmt.Errorf("%d bytes, more than %d", size, MaxBytes)
	}
	for i, frame := range frames {
		if string(frame) == delimiter {
			if len(frames)-i < 6 {
				return nil, nil, nil, fmt.Errorf("%d frames follow the delimiter, fewer than 5", len(frames)-i-1)
			}
			return frames[:i], frames[i+1], frames[i+2:], nil
		}
		if i == MaxIdentities {
			return nil, nil, nil, fmt.Errorf("more than %d frames precede the delimiter", MaxIdentities)
		}
		if len(frame) > MaxIdentity {
			return nil, nil, nil, fmt.Errorf("an identity of %d bytes, more than %d", len(frame), MaxIdentity)
		}
	}
	return nil, nil, nil, errors.New("no delimiter " + delimiter)
}

// parseMessage parses a message from its parts, after its signature was checked.
func parseMessage(identities, rest [][]byte) (Message, error) {
	m := Message{Identities: identities, Metadata: rest[2], Content: rest[3], Buffers: rest[4:]}
	if err := m.Header.decode(rest[0]); err != nil {
		return Message{}, fmt.Errorf("header: %w", err)
	}
	if m.Header.ID == "" || m.Header.Type == "" {
		return Message{}, errors.New("header: msg_id or msg_type is missing")
	}
	if err := m.Parent.decode(rest[1]); err != nil {
		return Message{}, fmt.Errorf("parent header: %w", err)
	}
	if err := checkObject(m.Metadata); err != nil {
		return Message{}, fmt.Errorf("metadata: %w", err)
	}
	if err := checkObject(m.Content); err != nil {
		return Message{}, fmt.Errorf("content: %w", err)
	}
	return m, nil
}

// checkObject returns an error unless the text is one JSON object of at most MaxDepth.
func checkObject(text []byte) error {
	if bracketDepth(text) > MaxDepth {
		return fmt.Errorf("objects and arrays are nested more than %d deep", MaxDepth)
	}
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(text) {
		return errors.New("not a JSON object")
	}
	return nil
}

// bracketDepth returns how deep the brackets of text are nested. It is exact for JSON.
func bracketDepth(text []byte) int {
	now, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
