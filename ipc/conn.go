package ipc

import (
	"errors"
	"io"
)

// A Side is one end of the channel.
type Side uint8

// The two ends.
const (
	FromSupervisor Side = iota + 1
	FromWorker
)

// Errors of sending.
var (
	ErrTooLarge  = errors.New("ipc: the message is too large for one frame")
	ErrQueueFull = errors.New("ipc: too many unsent bytes: the peer does not read")
	ErrClosed    = errors.New("ipc: the connection is closed")
)

// A ProtocolError says how a frame broke the protocol.
type ProtocolError struct {
	Type     string
	Reason   string
	Offender string
}

func (e *ProtocolError) Error() string { return "ipc: " + e.Type + ": " + e.Reason + ": " + e.Offender }

// A Conn is one end of a worker's channel.
type Conn struct{ rw io.ReadWriteCloser }

// NewConn is under construction.
func NewConn(rw io.ReadWriteCloser, peer Side) *Conn { return &Conn{rw: rw} }

// Send is under construction.
func (c *Conn) Send(m Message) error { return errors.ErrUnsupported }

// Receive is under construction.
func (c *Conn) Receive() (Message, error) { return nil, errors.ErrUnsupported }

// Close is under construction.
func (c *Conn) Close() error { return c.rw.Close() }

// AppendFrame is under construction.
func AppendFrame(dst []byte, m Message) ([]byte, error) { return nil, errors.ErrUnsupported }

// Decode is under construction.
func Decode(payload []byte, from Side) (Message, error) { return nil, errors.ErrUnsupported }
