package ipc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// An input reads one payload, value by value. It is stricter than the decoder
// that it drives, which turns one kind of value into another, believes lengths,
// and recurses as deep as the sender wants.
type input struct {
	payload []byte
	rest    bytes.Reader // of payload
	dec     *msgpack.Decoder
	item    int // where in payload the last key began, for messages
}

var (
	errTruncated = errors.New("the frame ends inside a value")
	errDepth     = fmt.Errorf("nested deeper than %d", MaxDepth)
)

// kind is what a value is, whatever the width of its encoding.
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

func kindOf(code byte) kind {
	switch {
	case code <= msgpcode.PosFixedNumHigh:
		return kindUint
	case code >= msgpcode.NegFixedNumLow:
		return kindInt
	case msgpcode.IsFixedMap(code):
		return kindMap
	case msgpcode.IsFixedArray(code):
		return kindArray
	case msgpcode.IsFixedString(code):
		return kindText
	}
	switch code {
	case msgpcode.Nil:
		return kindNil
	case msgpcode.False, msgpcode.True:
		return kindBool
	case msgpcode.Uint8, msgpcode.Uint16, msgpcode.Uint32, msgpcode.Uint64:
		return kindUint
	case msgpcode.Int8, msgpcode.Int16, msgpcode.Int32, msgpcode.Int64:
		return kindInt
	case msgpcode.Float, msgpcode.Double:
		return kindFloat
	case msgpcode.Str8, msgpcode.Str16, msgpcode.Str32:
		return kindText
	case msgpcode.Bin8, msgpcode.Bin16, msgpcode.Bin32:
		return kindBytes
	case msgpcode.Array16, msgpcode.Array32:
		return kindArray
	case msgpcode.Map16, msgpcode.Map32:
		return kindMap
	}
	if msgpcode.IsExt(code) {
		return kindExtension
	}
	return kindInvalid
}

func (in *input) reset(payload []byte) {
	in.payload = payload
	in.rest.Reset(payload)
	in.dec.Reset(&in.rest)
}

// offset is where the next value begins.
func (in *input) offset() int { return len(in.payload) - in.rest.Len() }

// peek is the kind of the next value; it stays where it is.
func (in *input) peek() (kind, error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return kindInvalid, errTruncated
	}
	return kindOf(code), nil
}

// want makes sure that the next value is of kind k.
func (in *input) want(k kind) error {
	switch got, err := in.peek(); {
	case err != nil:
		return err
	case got != k:
		return fmt.Errorf("%s where %s must be", got, k)
	}
	return nil
}

// value reads one value that needs no bound.
func value[T any](v T, err error) (T, error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errTruncated
	}
	return v, err
}

func (in *input) bool() (bool, error) {
	if err := in.want(kindBool); err != nil {
		return false, err
	}
	return value(in.dec.DecodeBool())
}

// uint takes an integer of any encoding that is not negative.
func (in *input) uint() (uint64, error) {
	k, err := in.peek()
	if err != nil {
		return 0, err
	}
	if k == kindInt {
		n, err := value(in.dec.DecodeInt64())
		if err == nil && n < 0 {
			err = fmt.Errorf("%d is less than 0", n)
		}
		return uint64(n), err
	}
	if err := in.want(kindUint); err != nil {
		return 0, err
	}
	return value(in.dec.DecodeUint64())
}

// int takes an integer of any encoding.
func (in *input) int() (int64, error) {
	k, err := in.peek()
	if err != nil {
		return 0, err
	}
	if k == kindUint {
		n, err := value(in.dec.DecodeUint64())
		if err == nil && n > math.MaxInt64 {
			err = fmt.Errorf("%d is more than %d", n, math.MaxInt64)
		}
		return int64(n), err
	}
	if err := in.want(kindInt); err != nil {
		return 0, err
	}
	return value(in.dec.DecodeInt64())
}

// number takes an integer or a floating-point number.
func (in *input) number() (float64, error) {
	k, err := in.peek()
	if err != nil {
		return 0, err
	}
	switch k {
	case kindUint:
		n, err := value(in.dec.DecodeUint64())
		return float64(n), err
	case kindInt:
		n, err := value(in.dec.DecodeInt64())
		return float64(n), err
	}
	if err := in.want(kindFloat); err != nil {
		return 0, err
	}
	return value(in.dec.DecodeFloat64())
}

// text takes text; its bytes are copied. The caller checks that it is UTF-8.
func (in *input) text() (string, error) {
	b, err := in.textBytes()
	return string(b), err
}

// textBytes is text without the copy: a part of the payload.
func (in *input) textBytes() ([]byte, error) {
	if err := in.want(kindText); err != nil {
		return nil, err
	}
	return in.sized()
}

// bytes takes binary; it is copied. None at all is nil.
func (in *input) bytes() ([]byte, error) {
	if err := in.want(kindBytes); err != nil {
		return nil, err
	}
	b, err := in.sized()
	return append([]byte(nil), b...), err
}

// sized is the content of the text or binary that comes next.
func (in *input) sized() ([]byte, error) {
	n, err := value(in.dec.DecodeBytesLen())
	if err == nil && (n < 0 || n > in.rest.Len()) {
		err = errTruncated
	}
	if err != nil {
		return nil, err
	}
	at := in.offset()
	in.rest.Reset(in.payload[at+n:])
	return in.payload[at : at+n : at+n], nil
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

// arrayLen takes the header of an array of at most most values.
func (in *input) arrayLen(most int) (int, error) {
	if err := in.want(kindArray); err != nil {
		return 0, err
	}
	n, err := value(in.dec.DecodeArrayLen())
	if err == nil {
		err = checkSize(n, most, "entries")
	}
	return n, err
}

// mapLen takes the header of a map: how many keys and values follow.
func (in *input) mapLen() (int, error) {
	if err := in.want(kindMap); err != nil {
		return 0, err
	}
	return value(in.dec.DecodeMapLen())
}

// key takes the name of a field: a part of the payload.
func (in *input) key() ([]byte, error) {
	in.item = in.offset()
	b, err := in.textBytes()
	if err != nil {
		return nil, fmt.Errorf("the name of a field: %w", err)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("the name of a field: %w", errNotUTF8)
	}
	return b, nil
}

// skip passes over one value that depth arrays and maps are around.
func (in *input) skip(depth int) error {
	k, err := in.peek()
	if err != nil {
		return err
	}
	var n int // values inside
	switch k {
	case kindText, kindBytes:
		_, err = in.sized()
	case kindArray:
		n, err = value(in.dec.DecodeArrayLen())
	case kindMap:
		n, err = value(in.dec.DecodeMapLen())
		n *= 2
	case kindNil, kindBool, kindUint, kindInt, kindFloat:
		_, err = value(0, in.dec.Skip())
	case kindExtension, kindInvalid:
		err = fmt.Errorf("%s is not allowed", k)
	}
	if (k == kindArray || k == kindMap) && depth >= MaxDepth {
		err = errDepth
	}
	for ; n > 0 && err == nil; n-- {
		err = in.skip(depth + 1)
	}
	return err
}

// messageType is the value of the field "type", wherever it stands: a part of the
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
