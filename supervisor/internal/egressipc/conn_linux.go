package egressipc

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Conn is the monitor's or the supervisor's end of the egress socket. Only one goroutine may
// receive; any may send.
type Conn struct{ socket *net.UnixConn }

// NewPair returns the supervisor's end, and the monitor's end as a file to be inherited.
func NewPair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, err := NewConn(os.NewFile(uintptr(fds[0]), "egress"))
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "egress"), nil
}

// NewConn makes a Conn from a socket file, which it closes.
func NewConn(end *os.File) (*Conn, error) {
	defer end.Close()
	c, err := net.FileConn(end)
	if err != nil {
		return nil, err
	}
	socket, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errMalformed
	}
	return &Conn{socket}, nil
}

// Send sends a message, with a copy of the descriptor fd unless it is -1.
func (c *Conn) Send(m Packet, fd int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	_, _, err = c.socket.WriteMsgUnix(text, rights, nil)
	return err
}

// Receive returns the next message and its descriptor, or a nil file if it has none. The error is
// io.EOF once the other end is closed.
func (c *Conn) Receive() (m Packet, file *os.File, err error) {
	buf, rights := make([]byte, maxMessageBytes), make([]byte, unix.CmsgSpace(4))
	n, nr, flags, _, err := c.socket.ReadMsgUnix(buf, rights)
	file, malformed := parseRights(rights[:max(nr, 0)])
	switch {
	case err == nil && n == 0 && nr == 0, errors.Is(err, syscall.ECONNRESET):
		err = io.EOF
	case err == nil && (malformed || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || json.Unmarshal(buf[:n], &m) != nil):
		err = errMalformed
	}
	if err != nil && file != nil {
		file.Close()
		file = nil
	}
	return m, file, err
}

// parseRights returns the descriptor in the control data of a message. It reports whether the data
// holds anything but one descriptor.
func parseRights(rights []byte) (file *os.File, malformed bool) {
	if len(rights) == 0 {
		return nil, false
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, true
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, true
	}
	return os.NewFile(uintptr(fds[0]), "egress"), false
}

// Close closes the socket and ends a pending Receive.
func (c *Conn) Close() error { return c.socket.Close() }
