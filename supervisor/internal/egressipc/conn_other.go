//go:build !linux

package egressipc

import (
	"errors"
	"os"
)

// A Conn stands for an end of the egress socket, which exists on Linux only.
type Conn struct{}

func NewPair() (*Conn, *os.File, error)            { return nil, nil, errors.ErrUnsupported }
func NewConn(*os.File) (*Conn, error)              { return nil, errors.ErrUnsupported }
func (c *Conn) Send(Packet, int) error             { return errors.ErrUnsupported }
func (c *Conn) Receive() (Packet, *os.File, error) { return Packet{}, nil, errMalformed }
func (c *Conn) Close() error                       { return nil }
