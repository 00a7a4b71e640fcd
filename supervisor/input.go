package supervisor

import (
	"bytes"

	"github.com/turnstone-repl/turnstone/session"
)

// maxInputPieceBytes bounds the input for one request that wants all input, in bytes.
const maxInputPieceBytes = 1 << 20

// An inputQueue holds answers that readers have not consumed. The worker asks for one line at a
// time, so only this queue holds unread input. The runtime and its child processes share it, and an
// interrupt empties it.
type inputQueue struct {
	data       []byte
	eofOffsets []int // offsets into data after which a reader sees one end of file
	author     string
}

func (q *inputQueue) add(author string, in session.Input) {
	q.data = append(q.data, in.Data...)
	if in.EOF {
		q.eofOffsets = append(q.eofOffsets, len(q.data))
	}
	q.author = author
}

func (q *inputQueue) isEmpty() bool { return len(q.data) == 0 && len(q.eofOffsets) == 0 }

// nextPiece removes and returns one line, or up to maxInputPieceBytes bytes if all is set. eof
// reports that the reader gets an end of file after it.
func (q *inputQueue) nextPiece(all bool) (data []byte, eof bool) {
	n := len(q.data)
	if all {
		n = min(n, maxInputPieceBytes)
	} else if i := bytes.IndexByte(q.data, '\n'); i >= 0 {
		n = i + 1
	}
	if len(q.eofOffsets) > 0 && q.eofOffsets[0] <= n {
		n, eof = q.eofOffsets[0], true
		q.eofOffsets = q.eofOffsets[1:]
	}
	data = q.data[:n:n]
	q.data = q.data[n:]
	for i := range q.eofOffsets {
		q.eofOffsets[i] -= n
	}
	if len(q.data) == 0 {
		q.data = nil // frees the memory of a large answer
	}
	return data, eof
}

// dropAll empties the queue and returns the number of bytes it held.
func (q *inputQueue) dropAll() int {
	n := len(q.data)
	*q = inputQueue{}
	return n
}

// MaxInputBytes bounds one submitted input, which must fit one frame.
const MaxInputBytes = session.MaxInputBytes
