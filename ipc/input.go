package ipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// A payloadReader reads one payload, value by value. It accepts only what the protocol allows: a
// value of another kind, a length beyond the payload, and deep nesting are errors. Libraries were
// rejected for reading, because they convert kinds, trust lengths and recurse as deep as the sender
// wants (ADR 5).
type payloadReader struct {
	payload    []byte
	offset     int // start of the next value
	itemOffset int // start of the last key, for error messages
}

var (
	errTruncated = errors.New("the frame ends inside a value")
	errDepth     = fmt.Errorf("nested deeper than %d", MaxDepth)
)

// valueKind is the kind of a value, regardless of its encoded width.
type valueKind string

const (
	kindNil       valueKind = "nil"
	kindBool      valueKind = "a boolean"
	kindUint      valueKind = "an unsigned integer"
	kindInt       valueKind = "a signed integer"
	kindFloat     valueKind = "a floating-point number"
	kindText      valueKind = "text"
	kindBytes     valueKind = "binary"
	kindArray     valueKind = "an array"
	kindMap       valueKind = "a map"
	kindExtension valueKind = "an extension"
	kindInvalid   valueKind = "an invalid byte"
)

// A valueHeader is the first part of an encoded value: its kind, and its content or size.
type valueHeader struct {
	kind valueKind

	// n is the number itself: an int64 if signed, or the bits of a floating-point number. It is 1
	// for true, and otherwise the number of bytes, values or pairs that follow.
	n uint64
}

// formatCodes maps the first bytes 0xc0 to 0xdf to a kind and the number of bytes of n that
// follow.
var formatCodes = [32]struct {
	kind  valueKind
	width int
}{
	{kindNil, 0}, {kindInvalid, 0}, {kindBool, 0}, {kindBool, 0},
	{kindBytes, 1}, {kindBytes, 2}, {kindBytes, 4},
	{kindExtension, 0}, {kindExtension, 0}, {kindExtension, 0},
	{kindFloat, 4}, {kindFloat, 8},
	{kindUint, 1}, {kindUint, 2}, {kindUint, 4}, {kindUint, 8},
	{kindInt, 1}, {kindInt, 2}, {kindInt, 4}, {kindInt, 8},
	{kindExtension, 0}, {kindExtension, 0}, {kindExtension, 0}, {kindExtension, 0}, {kindExtension, 0},
	{kindText, 1}, {kindText, 2}, {kindText, 4},
	{kindArray, 2}, {kindArray, 4},
	{kindMap, 2}, {kindMap, 4},
}

// readHeader reads the header of the next value.
func (r *payloadReader) readHeader() (valueHeader, error) {
	rest := r.payload[r.offset:]
	if len(rest) == 0 {
		return valueHeader{}, errTruncated
	}
	r.offset++
	switch code := rest[0]; {
	case code < 0x80:
		return valueHeader{kindUint, uint64(code)}, nil
	case code < 0x90:
		return valueHeader{kindMap, uint64(code & 0x0f)}, nil
	case code < 0xa0:
		return valueHeader{kindArray, uint64(code & 0x0f)}, nil
	case code < 0xc0:
		return valueHeader{kindText, uint64(code & 0x1f)}, nil
	case code >= 0xe0:
		return valueHeader{kindInt, uint64(int8(code))}, nil
	}
	c := formatCodes[rest[0]-0xc0]
	if len(rest) <= c.width {
		return valueHeader{}, errTruncated
	}
	r.offset += c.width
	h := valueHeader{kind: c.kind}
	switch rest = rest[1:]; c.width {
	case 0:
		h.n = uint64(r.payload[r.offset-1] & 1) // the value of a boolean
	case 1:
		h.n = uint64(rest[0])
	case 2:
		h.n = uint64(binary.BigEndian.Uint16(rest))
	case 4:
		h.n = uint64(binary.BigEndian.Uint32(rest))
	case 8:
		h.n = binary.BigEndian.Uint64(rest)
	}
	switch {
	case c.kind == kindInt:
		unused := 64 - 8*c.width
		h.n = uint64(int64(h.n<<unused) >> unused)
	case c.kind == kindFloat && c.width == 4:
		h.n = math.Float64bits(float64(math.Float32frombits(uint32(h.n))))
	}
	return h, nil
}

// expectKind reads the header of the next value, which must be of kind k.
func (r *payloadReader) expectKind(k valueKind) (n uint64, err error) {
	h, err := r.readHeader()
	if err == nil && h.kind != k {
		err = kindError(h.kind, k)
	}
	return h.n, err
}

func kindError(got, want valueKind) error { return fmt.Errorf("got %s, want %s", got, want) }

func (r *payloadReader) readBool() (bool, error) {
	n, err := r.expectKind(kindBool)
	return n == 1, err
}

// readUint reads a non-negative integer in any encoding.
func (r *payloadReader) readUint() (uint64, error) {
	h, err := r.readHeader()
	switch {
	case err != nil:
	case h.kind != kindUint && h.kind != kindInt:
		err = kindError(h.kind, kindUint)
	case h.kind == kindInt && int64(h.n) < 0:
		err = fmt.Errorf("%d is less than 0", int64(h.n))
	}
	return h.n, err
}

// readInt reads an integer in any encoding.
func (r *payloadReader) readInt() (int64, error) {
	h, err := r.readHeader()
	switch {
	case err != nil:
	case h.kind != kindUint && h.kind != kindInt:
		err = kindError(h.kind, kindInt)
	case h.kind == kindUint && h.n > math.MaxInt64:
		err = fmt.Errorf("%d is more than %d", h.n, int64(math.MaxInt64))
	}
	return int64(h.n), err
}

// readNumber reads an integer or a floating-point number.
func (r *payloadReader) readNumber() (float64, error) {
	h, err := r.readHeader()
	switch {
	case err != nil:
		return 0, err
	case h.kind == kindUint:
		return float64(h.n), nil
	case h.kind == kindInt:
		return float64(int64(h.n)), nil
	case h.kind == kindFloat:
		return math.Float64frombits(h.n), nil
	}
	return 0, kindError(h.kind, kindFloat)
}

// readText reads and copies text. The caller checks that it is UTF-8.
func (r *payloadReader) readText() (string, error) {
	b, err := r.readTextBytes()
	return string(b), err
}

// readTextBytes reads text without a copy: the result is part of the payload.
func (r *payloadReader) readTextBytes() ([]byte, error) {
	return r.readContent(kindText)
}

// readBytes reads and copies binary data. Empty data is nil.
func (r *payloadReader) readBytes() ([]byte, error) {
	b, err := r.readContent(kindBytes)
	return append([]byte(nil), b...), err
}

// readContent reads text or binary data without a copy: the result is part of the payload.
func (r *payloadReader) readContent(k valueKind) ([]byte, error) {
	n, err := r.expectKind(k)
	if err != nil {
		return nil, err
	}
	return r.takeBytes(n)
}

// takeBytes returns the next n bytes.
func (r *payloadReader) takeBytes(n uint64) ([]byte, error) {
	if n > uint64(len(r.payload)-r.offset) {
		return nil, errTruncated
	}
	begin := r.offset
	r.offset += int(n)
	return r.payload[begin:r.offset:r.offset], nil
}

// readTexts reads an array of texts; most is the largest number allowed.
func (r *payloadReader) readTexts(most int) ([]string, error) {
	n, err := r.readArrayLen(most)
	if err != nil || n == 0 {
		return nil, err
	}
	list := make([]string, n)
	for i := range list {
		if list[i], err = r.readText(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readBundle reads a map with text keys, at most MaxTypes of them, and binary values.
func (r *payloadReader) readBundle() (map[string][]byte, error) {
	n, err := r.readMapLen()
	if err == nil {
		err = checkSize(n, MaxTypes, "entries")
	}
	if err != nil || n == 0 {
		return nil, err
	}
	data := make(map[string][]byte, n)
	for range n {
		mime, err := r.readText()
		if err != nil {
			return nil, err
		}
		if _, twice := data[mime]; twice {
			return nil, errTwice
		}
		if data[mime], err = r.readBytes(); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// readArrayLen reads the header of an array and returns its length, at most most.
func (r *payloadReader) readArrayLen(most int) (int, error) {
	n, err := r.expectKind(kindArray)
	if err == nil {
		err = checkSize(clampCount(n), most, "entries")
	}
	return clampCount(n), err
}

// readMapLen reads the header of a map and returns its number of pairs.
func (r *payloadReader) readMapLen() (int, error) {
	n, err := r.expectKind(kindMap)
	return clampCount(n), err
}

// clampCount returns n as an int, which may have 32 bits; no frame holds so many values.
func clampCount(n uint64) int { return int(min(n, math.MaxInt32)) }

// readKey reads the name of a field: a part of the payload.
func (r *payloadReader) readKey() ([]byte, error) {
	r.itemOffset = r.offset
	b, err := r.readTextBytes()
	if err != nil {
		return nil, fmt.Errorf("field name: %w", err)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("field name: %w", errNotUTF8)
	}
	return b, nil
}

// skipValue skips one value that is nested inside depth arrays and maps.
func (r *payloadReader) skipValue(depth int) error {
	h, err := r.readHeader()
	if err != nil {
		return err
	}
	inside := h.n // number of nested values
	switch h.kind {
	case kindText, kindBytes:
		_, err = r.takeBytes(h.n)
		return err
	case kindExtension, kindInvalid:
		return fmt.Errorf("%s is not allowed", h.kind)
	case kindMap:
		inside *= 2
	case kindArray:
	default:
		return nil
	}
	if depth >= MaxDepth {
		return errDepth
	}
	for ; inside > 0 && err == nil; inside-- {
		err = r.skipValue(depth + 1)
	}
	return err
}

// findMessageType returns the value of the field "type", which may be at any position. The
// result is part of the payload.
func (r *payloadReader) findMessageType() ([]byte, error) {
	n, err := r.readMapLen()
	if err == nil && n > MaxFields {
		err = errFields
	}
	for ; n > 0 && err == nil; n-- {
		var key []byte
		if key, err = r.readKey(); err != nil {
			break
		}
		if string(key) == "type" {
			b, err := r.readTextBytes()
			if err != nil {
				err = fmt.Errorf("field type: %w", err)
			}
			return b, err
		}
		if err = r.skipValue(1); err != nil {
			err = fmt.Errorf("field %s: %w", printableText(key), err)
		}
	}
	if err == nil {
		err = errors.New("field type: missing")
	}
	return nil, err
}
