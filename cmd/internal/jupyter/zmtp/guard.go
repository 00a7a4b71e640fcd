package zmtp

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
)

// Bounds of the data that a peer may send.
const (
	MaxMessage = 64 << 20  // bytes of a message, and so of each frame
	MaxFrames  = 64        // frames of a message
	maxUnread  = 256 << 20 // bytes of incomplete messages on all connections of a listener
)

// Sizes and flags of ZMTP's framing.
const (
	greetingSize = 64
	flagMore     = 1
	flagLong     = 2
	flagCommand  = 4
	maxCommand   = 64 << 10 // bytes; READY carries a few names
)

// A framingGuard is a network connection that parses the framing of what its peer sends. It fails
// before it passes on a header that exceeds a bound, because the library allocates as many bytes as
// a header announces. One goroutine reads and one writes.
type framingGuard struct {
	net.Conn
	in     *bufio.Reader
	out    *bufio.Writer // nil during the handshake
	unread *atomic.Int64 // shared by the connections of a listener

	leftBytes     uint64 // bytes of the greeting or frame that may be passed on
	frames        int    // of the message so far
	messageBytes  int64  // bytes of the message so far, which are counted in unread
	handshakeDone bool   // commands are not allowed any more
	skipsLarge    bool   // a frame that is too large is replaced by an empty one
	skippedBytes  uint64 // bytes of such frames in the message so far
	emptyHeader   []byte // the rest of the header that replaces such a frame
	err           error
}

func newFramingGuard(conn net.Conn, unread *atomic.Int64) *framingGuard {
	return &framingGuard{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10), unread: unread, leftBytes: greetingSize}
}

func (g *framingGuard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if g.leftBytes == 0 && len(g.emptyHeader) == 0 {
		if err := g.readHeader(); err != nil {
			g.err = err
			return 0, err
		}
	}
	if len(g.emptyHeader) > 0 {
		n := copy(p, g.emptyHeader)
		g.emptyHeader = g.emptyHeader[n:]
		return n, nil
	}
	if uint64(len(p)) > g.leftBytes {
		p = p[:g.leftBytes]
	}
	n, err := g.in.Read(p)
	g.leftBytes -= uint64(n)
	return n, err
}

// readHeader checks the next header without consuming it, unless it skips the frame.
func (g *framingGuard) readHeader() error {
	head, err := g.in.Peek(2)
	if err != nil {
		return err
	}
	flags, size, length := head[0], uint64(head[1]), uint64(2)
	if flags&flagLong != 0 {
		if head, err = g.in.Peek(9); err != nil {
			return err
		}
		size, length = binary.BigEndian.Uint64(head[1:]), 9
	}
	if g.skipsLarge && g.handshakeDone && flags&^(flagMore|flagLong) == 0 && size > MaxMessage-uint64(g.messageBytes) && size < 1<<62 {
		g.skippedBytes += size
		g.emptyHeader = []byte{flags &^ flagLong, 0}
		if _, err := io.CopyN(io.Discard, g.in, int64(length+size)); err != nil {
			return err
		}
		return g.checkHeader(flags&^flagLong, 0)
	}
	if err := g.checkHeader(flags, size); err != nil {
		return err
	}
	g.leftBytes = length + size
	return nil
}

func (g *framingGuard) checkHeader(flags byte, size uint64) error {
	switch command := flags&flagCommand != 0; {
	case flags&^(flagMore|flagLong|flagCommand) != 0:
		return fmt.Errorf("zmtp: frame with unknown flags %#x", flags)
	case command && (g.handshakeDone || flags&flagMore != 0):
		return fmt.Errorf("zmtp: unexpected command")
	case command && size > maxCommand:
		return fmt.Errorf("zmtp: command of %d bytes, more than %d", size, maxCommand)
	case !command && !g.handshakeDone:
		return fmt.Errorf("zmtp: message before the end of the handshake")
	case size > MaxMessage-uint64(g.messageBytes):
		return fmt.Errorf("zmtp: message of more than %d bytes", MaxMessage)
	case g.frames == MaxFrames:
		return fmt.Errorf("zmtp: message of more than %d frames", MaxFrames)
	}
	g.messageBytes += int64(size)
	g.frames++
	if g.unread.Add(int64(size)) > maxUnread {
		return fmt.Errorf("zmtp: incomplete messages of all peers exceed %d bytes", maxUnread)
	}
	return nil
}

// endMessage resets the counters once a message was received whole, or was given up.
func (g *framingGuard) endMessage() {
	g.unread.Add(-g.messageBytes)
	g.messageBytes, g.frames, g.skippedBytes = 0, 0, 0
}

// endHandshake records that the handshake is over. From then on, output is buffered until flushOutput, so
// that a message takes one system call.
func (g *framingGuard) endHandshake() {
	g.endMessage()
	g.handshakeDone = true
	g.out = bufio.NewWriterSize(g.Conn, 64<<10)
}

func (g *framingGuard) Write(p []byte) (int, error) {
	if g.out == nil {
		return g.Conn.Write(p)
	}
	return g.out.Write(p)
}

func (g *framingGuard) flushOutput() error { return g.out.Flush() }
