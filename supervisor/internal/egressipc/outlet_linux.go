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

// A Conn is one end of the socket. One goroutine may receive, any may send.
type Conn struct{ socket *net.UnixConn }

// NewPair returns the supervisor's end, and that of the stage as a file to be inherited.
func NewPair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, err := NewConn(os.NewFile(uintptr(fds[0]), "outlet"))
	if err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "outlet"), nil
}

// NewConn makes a Conn of an end, which it closes.
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

// Send sends a message with a descriptor, which stays the caller's; -1 is none.
func (c *Conn) Send(m Message, fd int) error {
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

// Receive returns the next message and its descriptor, nil if it has none. The error is
// io.EOF when the other side is gone.
func (c *Conn) Receive() (m Message, file *os.File, err error) {
	buf, rights := make([]byte, maxMessageBytes), make([]byte, unix.CmsgSpace(4))
	n, nr, flags, _, err := c.socket.ReadMsgUnix(buf, rights)
	file, wrong := parseRights(rights[:max(nr, 0)])
	switch {
	case err == nil && n == 0 && nr == 0, errors.Is(err, syscall.ECONNRESET):
		err = io.EOF
	case err == nil && (wrong || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || json.Unmarshal(buf[:n], &m) != nil):
		err = errMalformed
	}
	if err != nil && file != nil {
		file.Close()
		file = nil
	}
	return m, file, err
}

// parseRights returns the one descriptor in the rights of a message. It reports whether they are
// something else.
func parseRights(rights []byte) (file *os.File, wrong bool) {
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
	return os.NewFile(uintptr(fds[0]), "outlet"), false
}

// Close ends both directions, and a Receive under way.
func (c *Conn) Close() error { return c.socket.Close() }
