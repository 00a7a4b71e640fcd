//go:build !linux

package egressipc

import (
	"errors"
	"os"
)

// A Conn stands for an end of the egress socket, which exists on Linux only.
type Conn struct{}

// NewPair returns an error.
func NewPair() (*Conn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

// NewConn returns an error.
func NewConn(*os.File) (*Conn, error) { return nil, errors.ErrUnsupported }

// Send returns an error.
func (c *Conn) Send(Packet, int) error { return errors.ErrUnsupported }

// Receive returns an error.
func (c *Conn) Receive() (Packet, *os.File, error) { return Packet{}, nil, errMalformed }

// Close does nothing.
func (c *Conn) Close() error { return nil }
