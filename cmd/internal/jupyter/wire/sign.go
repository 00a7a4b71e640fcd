package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
)

// Scheme is the only supported signature scheme, which is also Jupyter's default.
const Scheme = "hmac-sha256"

// MaxSignatures bounds the signatures that a Codec remembers, to detect a replayed message. The oldest
// are forgotten first.
const MaxSignatures = 65536

// Errors of Decode for a message that was not sent by an owner of the key.
var (
	ErrSignature = errors.New("wrong signature of a message")
	ErrReplay    = errors.New("replayed message")
)

// A Codec converts messages to frames and back, and signs and verifies them with one key. It is safe for
// concurrent use.
type Codec struct {
	key []byte // empty: messages are not signed

	mu            sync.Mutex
	seen          map[[sha256.Size]byte]struct{}
	signatureRing [][sha256.Size]byte // the elements of seen in the order of arrival, starting at next
	next          int
}

// NewCodec returns the Codec for a key. With an empty key, messages are not signed; reading a connection
// file checks whether that is allowed.
func NewCodec(key string) *Codec {
	return &Codec{key: []byte(key), seen: map[[sha256.Size]byte]struct{}{}}
}

// Encode returns the frames of m.
func (c *Codec) Encode(m *Message) ([][]byte, error) {
	body, err := m.signedFrames()
	if err != nil {
		return nil, err
	}
	frames := make([][]byte, 0, len(m.Identities)+6+len(m.Buffers))
	frames = append(frames, m.Identities...)
	frames = append(frames, []byte(delimiter), c.signBody(body[:]))
	frames = append(frames, body[:]...)
	return append(frames, m.Buffers...), nil
}

// Decode checks the frames of a message and parses them. The message keeps the frames.
func (c *Codec) Decode(frames [][]byte) (Message, error) {
	identities, signature, rest, err := splitFrames(frames)
	if err != nil {
		return Message{}, fmt.Errorf("not a Jupyter message: %w", err)
	}
	if err := c.verifyBody(signature, rest[:4]); err != nil {
		return Message{}, err
	}
	m, err := parseMessage(identities, rest)
	if err != nil {
		return Message{}, fmt.Errorf("not a Jupyter message: %w", err)
	}
	return m, nil
}

func (c *Codec) bodySum(body [][]byte) [sha256.Size]byte {
	mac := hmac.New(sha256.New, c.key)
	for _, frame := range body {
		mac.Write(frame)
	}
	var sum [sha256.Size]byte
	mac.Sum(sum[:0])
	return sum
}

func (c *Codec) signBody(body [][]byte) []byte {
	if len(c.key) == 0 {
		return nil
	}
	sum := c.bodySum(body)
	return hex.AppendEncode(nil, sum[:])
}

func (c *Codec) verifyBody(signature []byte, body [][]byte) error {
	if len(c.key) == 0 {
		return nil
	}
	want := c.bodySum(body)
	var got [sha256.Size]byte
	if len(signature) != hex.EncodedLen(len(got)) {
		return ErrSignature
	}
	if _, err := hex.Decode(got[:], signature); err != nil || !hmac.Equal(got[:], want[:]) {
		return ErrSignature
	}
	return c.rememberSignature(want)
}

// rememberSignature records a signature. It returns ErrReplay if the signature was recorded before.
func (c *Codec) rememberSignature(sum [sha256.Size]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.seen[sum]; ok {
		return ErrReplay
	}
	if len(c.signatureRing) < MaxSignatures {
		c.signatureRing = append(c.signatureRing, sum)
	} else {
		delete(c.seen, c.signatureRing[c.next])
		c.signatureRing[c.next] = sum
		c.next = (c.next + 1) % MaxSignatures
	}
	c.seen[sum] = struct{}{}
	return nil
}
