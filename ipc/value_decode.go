package ipc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// parseNumber parses a JSON number: integers exactly, others as the nearest float.
func parseNumber(n json.Number) (any, error) {
	if !strings.ContainsAny(string(n), ".eE") {
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			return i, nil
		}
		if u, err := strconv.ParseUint(string(n), 10, 64); err == nil {
			return u, nil
		}
		return nil, errIntegerRange
	}
	return n.Float64()
}

// ValueFromJSON parses JSON: objects as an [Object], in order, and integers exactly.
func ValueFromJSON(text []byte) (any, error) {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.UseNumber()
	v, err := fromJSON(dec, 0)
	if err == nil && dec.More() {
		err = errors.New("more than one JSON value")
	}
	return v, err
}

func fromJSON(dec *json.Decoder, depth int) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if depth > MaxValueDepth {
		return nil, errValueDepth
	}
	switch t := t.(type) {
	case json.Number:
		return parseNumber(t)
	case json.Delim:
		if t == '[' {
			list := []any{}
			for dec.More() {
				v, err := fromJSON(dec, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err = dec.Token()
			return list, err
		}
		o := Object{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := fromJSON(dec, depth+1)
			if err != nil {
				return nil, err
			}
			o = append(o, Field{name.(string), v})
		}
		_, err = dec.Token()
		return o, err
	}
	return t, nil
}

// DecodeValue returns the Go value of an encoded value: nil, bool, int64 (uint64 if it does not
// fit), float64, string, []byte, time.Time, []any or map[string]any.
func DecodeValue(b []byte) (any, error) {
	if len(b) > MaxValueBytes {
		return nil, errValueBytes
	}
	r := valueDecoder{reader: payloadReader{payload: b}}
	v, err := r.decodeValue(0)
	if rest := len(b) - r.reader.offset; err == nil && rest > 0 {
		err = fmt.Errorf("%d bytes after the value", rest)
	}
	if errors.Is(err, errTruncated) {
		err = errors.New("the encoding is truncated")
	}
	return v, err
}

// A valueDecoder reads one encoded value.
type valueDecoder struct {
	reader payloadReader
	values int
}

func (d *valueDecoder) decodeValue(depth int) (any, error) {
	if d.values++; d.values > MaxValueElements {
		return nil, errValueElements
	}
	h, err := d.reader.readHeader()
	if err != nil {
		return nil, err
	}
	switch h.kind {
	case kindNil:
		return nil, nil
	case kindBool:
		return h.n == 1, nil
	case kindUint:
		if h.n > math.MaxInt64 {
			return h.n, nil
		}
		return int64(h.n), nil
	case kindInt:
		return int64(h.n), nil
	case kindFloat:
		return math.Float64frombits(h.n), nil
	case kindText:
		b, err := d.reader.takeBytes(h.n)
		if err == nil && !utf8.Valid(b) {
			err = errNotUTF8
		}
		return string(b), err
	case kindBytes:
		b, err := d.reader.takeBytes(h.n)
		return append([]byte{}, b...), err
	case kindArray:
		return d.decodeArray(h.n, depth)
	case kindMap:
		return d.decodeMap(h.n, depth)
	case kindExtension:
		return d.decodeTime()
	}
	return nil, fmt.Errorf("unexpected %s in a value", h.kind)
}

// checkRoom checks that n values can follow, so that memory is only allocated for existing
// data.
func (d *valueDecoder) checkRoom(n uint64, depth int) error {
	switch {
	case depth >= MaxValueDepth:
		return errValueDepth
	case n > MaxValueElements:
		return errValueElements
	case n > uint64(len(d.reader.payload)-d.reader.offset):
		return errTruncated
	}
	return nil
}

func (d *valueDecoder) decodeArray(n uint64, depth int) (any, error) {
	if err := d.checkRoom(n, depth); err != nil {
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		var err error
		if list[i], err = d.decodeValue(depth + 1); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (d *valueDecoder) decodeMap(n uint64, depth int) (any, error) {
	if err := d.checkRoom(2*n, depth); err != nil {
		return nil, err
	}
	m := make(map[string]any, min(n, 1<<10))
	for range n {
		name, err := d.decodeValue(depth + 1)
		if err != nil {
			return nil, err
		}
		text, ok := name.(string)
		if !ok {
			return nil, errors.New("a map key is not a string")
		}
		if m[text], err = d.decodeValue(depth + 1); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// decodeTime reads a timestamp, the only extension type of a value.
func (d *valueDecoder) decodeTime() (any, error) {
	in := &d.reader
	var size uint64
	switch in.payload[in.offset-1] {
	case 0xc7:
		b, err := in.takeBytes(1)
		if err != nil {
			return nil, err
		}
		size = uint64(b[0])
	case 0xd6:
		size = 4
	case 0xd7:
		size = 8
	}
	b, err := in.takeBytes(1 + size)
	if err != nil {
		return nil, err
	}
	seconds, nanos := int64(0), uint64(0)
	switch {
	case b[0] != 0xff:
		size = 0
	case size == 4:
		seconds = int64(binary.BigEndian.Uint32(b[1:]))
	case size == 8:
		n := binary.BigEndian.Uint64(b[1:])
		seconds, nanos = int64(n&(1<<34-1)), n>>34
	case size == 12:
		nanos, seconds = uint64(binary.BigEndian.Uint32(b[1:])), int64(binary.BigEndian.Uint64(b[5:]))
	}
	if size != 4 && size != 8 && size != 12 || nanos >= 1e9 {
		return nil, errors.New("the extension is not a timestamp")
	}
	return time.Unix(seconds, int64(nanos)).UTC(), nil
}
