package jsonrpc2

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Reader reads lines of bounded length. Only one goroutine may use it.
type Reader struct {
	in  *bufio.Reader
	max int
}

// NewReader returns a Reader for lines of at most max bytes.
func NewReader(in io.Reader, max int) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 64<<10), max: max}
}

// A TooLongError reports a line above the limit. The Reader has skipped it and can continue.
type TooLongError struct {
	Max int
	ID  json.RawMessage // of the message, if its first or last bytes show it
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("line skipped: it is longer than %d bytes", e.Max)
}

// Next returns the next line without its newline. If the stream ends without a newline, Next
// returns the remaining text together with the error, such as io.EOF.
func (r *Reader) Next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > r.max+1 { // with the newline
			return nil, r.skipLine(line, part, err)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// readFull fills b with the next bytes.
func (r *Reader) readFull(b []byte) error {
	_, err := io.ReadFull(r.in, b)
	return err
}

// maxEndBytes bounds the part at each end of a too long line that is searched for the id, in bytes.
const maxEndBytes = 4 << 10

// skipLine skips the rest of a line. begin and part have already been read.
func (r *Reader) skipLine(begin, part []byte, err error) error {
	head := bytes.Clone(begin[:min(len(begin), maxEndBytes)])
	head = append(head, part[:min(len(part), maxEndBytes-len(head))]...)
	tail := append(bytes.Clone(lastBytes(begin)), lastBytes(part)...)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = r.in.ReadSlice('\n')
		tail = append(tail, lastBytes(part)...)
		tail = append(tail[:0], lastBytes(tail)...)
	}
	if err != nil {
		return err
	}
	return &TooLongError{Max: r.max, ID: outerID(head, tail)}
}

// lastBytes returns the last maxEndBytes of a text.
func lastBytes(text []byte) []byte { return text[max(0, len(text)-maxEndBytes):] }

// outerID returns the id of a message, or nil. Only the two ends of the message are known.
func outerID(head, tail []byte) json.RawMessage {
	if id := leadingID(head); id != nil {
		return id
	}
	// The last brace ends the message itself, so a key right before it is not inside a string.
	tail = bytes.TrimSpace(tail)
	var last struct {
		ID json.RawMessage `json:"id"`
	}
	i := bytes.LastIndex(tail, []byte(`"id"`))
	if i < 0 || json.Unmarshal(append([]byte{'{'}, tail[i:]...), &last) != nil || !IsID(last.ID) {
		return nil
	}
	return last.ID
}

// leadingID returns the id at the beginning of a message, before any long value, or nil.
func leadingID(head []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(head))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		if key == "id" && IsID(value) {
			return value
		}
	}
	return nil
}
