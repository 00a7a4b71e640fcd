package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/transportcmd"
)

// pingsPerKeepAlive is the number of pings that a client sends in [CommandDialer.KeepAlive].
const pingsPerKeepAlive = 10

// A CommandConn is a connection over the standard streams of a transport command. It is a
// [net.Conn]; its other methods belong to the command.
type CommandConn struct {
	*transportcmd.Process
	command      *CommandDialer
	greeting     Greeting
	skippedBytes int  // foreign bytes between the daemon's lines
	corrupted    bool // foreign output was inside one of the daemon's lines
}

// Greeting returns the greeting of repl bridge.
func (c *CommandConn) Greeting() Greeting { return c.greeting }

// Read implements net.Conn. When the command exits, the error has its last output, and is also
// io.EOF.
func (c *CommandConn) Read(b []byte) (int, error) {
	n, err := c.Process.Read(b)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case <-c.Done():
	case <-time.After(stderrTimeout):
		return 0, err
	}
	status := c.ExitState()
	if status.Success() && c.Stderr() == "" {
		return 0, err
	}
	return 0, &endError{fmt.Sprintf("%s ended with %s%s", c.command, exitDescription(status), quoteOutput("it said", c.Stderr()))}
}

// An endError is the end of a connection with its reason.
type endError struct{ text string }

func (e *endError) Error() string   { return e.text }
func (e *endError) Is(t error) bool { return t == io.EOF }

// Close implements net.Conn. It does not wait for the command to exit; Terminate does.
func (c *CommandConn) Close() error {
	go c.Terminate()
	return nil
}

// PingInterval returns how often something must be sent so that repl bridge does not exit, see
// [CommandDialer.KeepAlive]; 0 means never.
func (c *CommandConn) PingInterval() time.Duration { return c.command.KeepAlive / pingsPerKeepAlive }

// CanSkip reports whether a line that is not a message can be skipped. It cannot if it may
// contain part of a message, which would be lost: messages begin with a brace.
func (c *CommandConn) CanSkip(line []byte) bool {
	c.skippedBytes += len(line) + 1
	if c.corrupted { // the connection has ended, and this is its rest
		return true
	}
	if len(line) > 0 && c.skippedBytes <= maxPreambleBytes && !strings.Contains(string(line), "{") {
		return true
	}
	c.corrupted = true
	c.command.recordCorruption(string(line[:min(len(line), maxQuotedBytes)]))
	return false
}

// LocalAddr implements net.Conn.
func (c *CommandConn) LocalAddr() net.Addr { return commandAddr("here") }

// RemoteAddr implements net.Conn: it is the transport command.
func (c *CommandConn) RemoteAddr() net.Addr { return commandAddr(c.command.String()) }

// SetReadDeadline implements net.Conn. It is also the deadline of writes.
func (c *CommandConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements net.Conn. It is also the deadline of reads.
func (c *CommandConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

type commandAddr string

func (commandAddr) Network() string  { return "command" }
func (a commandAddr) String() string { return string(a) }
