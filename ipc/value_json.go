package ipc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The tagged JSON form of a value is for programs that speak JSON, such as the clients of a daemon.
// It is plain JSON, except for values that JSON cannot express. Each of them is an object with one
// field, whose name is its tag. An object of the user with one field that begins with $ has the tag
// $object.
const (
	TagBytes  = "$bytes"  // base64
	TagTime   = "$time"   // RFC 3339 in UTC
	TagFloat  = "$float"  // NaN, Infinity or -Infinity; any other float is accepted, too
	TagInt    = "$int"    // an integer that JavaScript cannot read exactly, in decimal
	TagObject = "$object" // an object that looks like a tag
)

// maxPlainInt is the largest integer that JavaScript reads exactly.
const maxPlainInt = 1<<53 - 1

// EncodedToJSON returns an encoded value as tagged JSON. Objects keep their order.
func EncodedToJSON(encoded []byte) (json.RawMessage, error) {
	w := jsonWriter{valueDecoder: valueDecoder{reader: payloadReader{payload: encoded}}, out: make([]byte, 0, len(encoded)+len(encoded)/2+16)}
	if err := w.writeValue(0); err != nil {
		return nil, err
	}
	if rest := len(encoded) - w.reader.offset; rest > 0 {
		return nil, fmt.Errorf("%d bytes after the value", rest)
	}
	return w.out, nil
}

// A jsonWriter writes one encoded value as tagged JSON.
type jsonWriter struct {
	valueDecoder
	out []byte
}

func (w *jsonWriter) writeValue(depth int) error {
	start := w.reader.offset
	h, err := w.reader.readHeader()
	if err != nil {
		return err
	}
	switch h.kind {
	case kindText:
		b, err := w.reader.takeBytes(h.n)
		if err == nil && !utf8.Valid(b) {
			err = errNotUTF8
		}
		w.out = appendJSONText(w.out, b)
		return err
	case kindBytes:
		b, err := w.reader.takeBytes(h.n)
		w.writeTag(TagBytes, func() { w.out = base64.StdEncoding.AppendEncode(w.out, b) })
		return err
	case kindArray:
		return w.writeArray(h.n, depth)
	case kindMap:
		return w.writeMap(h.n, depth)
	}
	w.reader.offset = start
	v, err := w.decodeValue(depth)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		if v > maxPlainInt || v < -maxPlainInt {
			w.writeTag(TagInt, func() { w.out = strconv.AppendInt(w.out, v, 10) })
		} else {
			w.out = strconv.AppendInt(w.out, v, 10)
		}
	case uint64:
		w.writeTag(TagInt, func() { w.out = strconv.AppendUint(w.out, v, 10) })
	case float64:
		w.writeFloat(v)
	case time.Time:
		if v.Year() < 0 || v.Year() > 9999 {
			return fmt.Errorf("the time %v cannot be written as JSON: its year is not between 0 and 9999", v)
		}
		w.writeTag(TagTime, func() { w.out = v.AppendFormat(w.out, time.RFC3339Nano) })
	}
	return nil
}

// writeTag writes a value that JSON cannot express, as text.
func (w *jsonWriter) writeTag(tag string, writeText func()) {
	w.out = append(append(append(w.out, '{', '"'), tag...), `":"`...)
	writeText()
	w.out = append(w.out, `"}`...)
}

// writeFloat writes a float so that it is not read as an integer.
func (w *jsonWriter) writeFloat(f float64) {
	switch {
	case math.IsNaN(f):
		w.writeTag(TagFloat, func() { w.out = append(w.out, "NaN"...) })
	case math.IsInf(f, 0):
		w.writeTag(TagFloat, func() { w.out = append(w.out, map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0]...) })
	default:
		start := len(w.out)
		w.out = strconv.AppendFloat(w.out, f, 'g', -1, 64)
		if !strings.ContainsAny(string(w.out[start:]), ".e") {
			w.out = append(w.out, ".0"...)
		}
	}
}

func (w *jsonWriter) writeArray(n uint64, depth int) error {
	if err := w.checkRoom(n, depth); err != nil {
		return err
	}
	w.out = append(w.out, '[')
	for i := range n {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.writeValue(depth + 1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) writeMap(n uint64, depth int) error {
	if err := w.checkRoom(2*n, depth); err != nil {
		return err
	}
	start := len(w.out)
	isTag := false
	w.out = append(w.out, '{')
	for i := range n {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		name, err := w.decodeValue(depth + 1)
		if err != nil {
			return err
		}
		text, ok := name.(string)
		if !ok {
			return errors.New("a map key is not a string")
		}
		isTag = n == 1 && strings.HasPrefix(text, "$")
		w.out = append(appendJSONText(w.out, []byte(text)), ':')
		if err := w.writeValue(depth + 1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	if isTag {
		inner := string(w.out[start:])
		w.out = append(w.out[:start], `{"`+TagObject+`":`+inner+`}`...)
	}
	return nil
}

// appendJSONText appends UTF-8 text as a JSON string.
func appendJSONText(out, text []byte) []byte {
	const hexDigits = "0123456789abcdef"
	out = append(out, '"')
	done := 0
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		out = append(out, text[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		default:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(out, text[done:]...), '"')
}
