package ipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// An input reads one payload, value by value. It accepts only what the protocol allows: a
// value of another kind, a length beyond the payload, and deep nesting are errors. ADR 50
// says why no library does this.
type input struct {
	payload []byte
	at      int // where the next value begins
	item    int // where the last key began, for messages
}

var (
	errTruncated = errors.New("the frame ends inside a value")
	errDepth     = fmt.Errorf("nested deeper than %d", MaxDepth)
)

// kind is the kind of a value, for all widths of its encoding.
type kind string

const (
	kindNil       kind = "nil"
	kindBool      kind = "a boolean"
	kindUint      kind = "an unsigned integer"
	kindInt       kind = "a signed integer"
	kindFloat     kind = "a floating-point number"
	kindText      kind = "text"
	kindBytes     kind = "binary"
	kindArray     kind = "an array"
	kindMap       kind = "a map"
	kindExtension kind = "an extension"
	kindInvalid   kind = "an invalid byte"
)

// A head is the beginning of a value: all of it, or its size.
type head struct {
	kind kind

	// n is the number itself (a signed one as int64, a floating-point one by its bits),
	// 1 for true, or the number of bytes, values or pairs that follow.
	n uint64
}

// codes are the kinds of the first bytes from 0xc0 to 0xdf, and how many bytes of n
// follow.
var codes = [32]struct {
	kind  kind
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

// head takes the head of the next value.
func (in *input) head() (head, error) {
	rest := in.payload[in.at:]
	if len(rest) == 0 {
		return head{}, errTruncated
	}
	in.at++
	switch code := rest[0]; {
	case code < 0x80:
		return head{kindUint, uint64(code)}, nil
	case code < 0x90:
		return head{kindMap, uint64(code & 0x0f)}, nil
	case code < 0xa0:
		return head{kindArray, uint64(code & 0x0f)}, nil
	case code < 0xc0:
		return head{kindText, uint64(code & 0x1f)}, nil
	case code >= 0xe0:
		return head{kindInt, uint64(int8(code))}, nil
	}
	c := codes[rest[0]-0xc0]
	if len(rest) <= c.width {
		return head{}, errTruncated
	}
	in.at += c.width
	h := head{kind: c.kind}
	switch rest = rest[1:]; c.width {
	case 0:
		h.n = uint64(in.payload[in.at-1] & 1) // of a boolean
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

// want takes the head of the next value, which must be of kind k.
func (in *input) want(k kind) (n uint64, err error) {
	h, err := in.head()
	if err == nil && h.kind != k {
		err = wrong(h.kind, k)
	}
	return h.n, err
}

func wrong(got, want kind) error { return fmt.Errorf("%s where %s must be", got, want) }

func (in *input) bool() (bool, error) {
	n, err := in.want(kindBool)
	return n == 1, err
}

// uint takes an integer of any encoding that is not negative.
func (in *input) uint() (uint64, error) {
	h, err := in.head()
	switch {
	case err != nil:
	case h.kind != kindUint && h.kind != kindInt:
		err = wrong(h.kind, kindUint)
	case h.kind == kindInt && int64(h.n) < 0:
		err = fmt.Errorf("%d is less than 0", int64(h.n))
	}
	return h.n, err
}

// int takes an integer of any encoding.
func (in *input) int() (int64, error) {
	h, err := in.head()
	switch {
	case err != nil:
	case h.kind != kindUint && h.kind != kindInt:
		err = wrong(h.kind, kindInt)
	case h.kind == kindUint && h.n > math.MaxInt64:
		err = fmt.Errorf("%d is more than %d", h.n, int64(math.MaxInt64))
	}
	return int64(h.n), err
}

// number takes an integer or a floating-point number.
func (in *input) number() (float64, error) {
	h, err := in.head()
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
	return 0, wrong(h.kind, kindFloat)
}

// text takes text; its bytes are copied. The caller checks that it is UTF-8.
func (in *input) text() (string, error) {
	b, err := in.textBytes()
	return string(b), err
}

// textBytes returns text without the copy: a part of the payload.
func (in *input) textBytes() ([]byte, error) {
	return in.sized(kindText)
}

// bytes takes binary, as a copy. An empty one is nil.
func (in *input) bytes() ([]byte, error) {
	b, err := in.sized(kindBytes)
	return append([]byte(nil), b...), err
}

// sized returns the content of text or binary: a part of the payload.
func (in *input) sized(k kind) ([]byte, error) {
	n, err := in.want(k)
	if err != nil {
		return nil, err
	}
	return in.take(n)
}

// take returns the next n bytes.
func (in *input) take(n uint64) ([]byte, error) {
	if n > uint64(len(in.payload)-in.at) {
		return nil, errTruncated
	}
	begin := in.at
	in.at += int(n)
	return in.payload[begin:in.at:in.at], nil
}

// texts takes an array of at most most texts.
func (in *input) texts(most int) ([]string, error) {
	n, err := in.arrayLen(most)
	if err != nil || n == 0 {
		return nil, err
	}
	list := make([]string, n)
	for i := range list {
		if list[i], err = in.text(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// bundle takes a map of at most MaxTypes texts to binary.
func (in *input) bundle() (map[string][]byte, error) {
	n, err := in.mapLen()
	if err == nil {
		err = checkSize(n, MaxTypes, "entries")
	}
	if err != nil || n == 0 {
		return nil, err
	}
	data := make(map[string][]byte, n)
	for range n {
		mime, err := in.text()
		if err != nil {
			return nil, err
		}
		if _, twice := data[mime]; twice {
			return nil, errTwice
		}
		if data[mime], err = in.bytes(); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// arrayLen takes the head of an array of at most most values.
func (in *input) arrayLen(most int) (int, error) {
	n, err := in.want(kindArray)
	if err == nil {
		err = checkSize(count(n), most, "entries")
	}
	return count(n), err
}

// mapLen takes the head of a map: how many keys and values follow.
func (in *input) mapLen() (int, error) {
	n, err := in.want(kindMap)
	return count(n), err
}

// count returns n as an int, which may have 32 bits; no frame holds so many values.
func count(n uint64) int { return int(min(n, math.MaxInt32)) }

// key takes the name of a field: a part of the payload.
func (in *input) key() ([]byte, error) {
	in.item = in.at
	b, err := in.textBytes()
	if err != nil {
		return nil, fmt.Errorf("the name of a field: %w", err)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("the name of a field: %w", errNotUTF8)
	}
	return b, nil
}

// skip skips one value, which is inside depth arrays and maps.
func (in *input) skip(depth int) error {
	h, err := in.head()
	if err != nil {
		return err
	}
	inside := h.n // values
	switch h.kind {
	case kindText, kindBytes:
		_, err = in.take(h.n)
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
		err = in.skip(depth + 1)
	}
	return err
}

// messageType returns the value of the field "type", at any position: a part of the
// payload.
func (in *input) messageType() ([]byte, error) {
	n, err := in.mapLen()
	if err == nil && n > MaxFields {
		err = errFields
	}
	for ; n > 0 && err == nil; n-- {
		var key []byte
		if key, err = in.key(); err != nil {
			break
		}
		if string(key) == "type" {
			b, err := in.textBytes()
			if err != nil {
				err = fmt.Errorf("field type: %w", err)
			}
			return b, err
		}
		if err = in.skip(1); err != nil {
			err = fmt.Errorf("field %s: %w", printable(key), err)
		}
	}
	if err == nil {
		err = errors.New("field type: missing")
	}
	return nil, err
}
