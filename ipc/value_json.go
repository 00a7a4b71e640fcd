package ipc

import (
	"bytes"
	"cmp"
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
	tagBytes  = "$bytes"  // base64
	tagTime   = "$time"   // RFC 3339 in UTC
	tagFloat  = "$float"  // NaN, Infinity or -Infinity; any other float is accepted, too
	tagInt    = "$int"    // an integer that JavaScript cannot read exactly, in decimal
	tagObject = "$object" // an object that looks like a tag
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
		w.writeTag(tagBytes, func() { w.out = base64.StdEncoding.AppendEncode(w.out, b) })
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
			w.writeTag(tagInt, func() { w.out = strconv.AppendInt(w.out, v, 10) })
		} else {
			w.out = strconv.AppendInt(w.out, v, 10)
		}
	case uint64:
		w.writeTag(tagInt, func() { w.out = strconv.AppendUint(w.out, v, 10) })
	case float64:
		w.writeFloat(v)
	case time.Time:
		if v.Year() < 0 || v.Year() > 9999 {
			return fmt.Errorf("the time %v cannot be written as JSON: its year is not between 0 and 9999", v)
		}
		w.writeTag(tagTime, func() { w.out = v.AppendFormat(w.out, time.RFC3339Nano) })
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
		w.writeTag(tagFloat, func() { w.out = append(w.out, "NaN"...) })
	case math.IsInf(f, 0):
		w.writeTag(tagFloat, func() { w.out = append(w.out, map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0]...) })
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
		w.out = append(w.out[:start], `{"`+tagObject+`":`+inner+`}`...)
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

// ValueFromTaggedJSON parses tagged JSON: an object as an [Object], or as a map if asMaps is set,
// and other values as [DecodeValue] returns them.
func ValueFromTaggedJSON(text []byte, asMaps bool) (any, error) {
	if !json.Valid(text) {
		var v any
		return nil, cmp.Or(json.Unmarshal(text, &v), errors.New("it is not JSON")) // for a message that says where
	}
	r := taggedReader{text: text, asMaps: asMaps}
	return r.readValue(0)
}

// A taggedReader reads one value of tagged JSON from a text that is valid JSON. A json.Decoder that
// reads tokens takes ten times as long.
type taggedReader struct {
	text   []byte
	offset int
	asMaps bool
	values int
}

// next skips white space, commas and colons, and returns the byte after them. In valid JSON they
// carry no information.
func (r *taggedReader) next() byte {
	for {
		switch c := r.text[r.offset]; c {
		case ' ', '\t', '\n', '\r', ',', ':':
			r.offset++
		default:
			return c
		}
	}
}

func (r *taggedReader) readValue(depth int) (any, error) {
	switch r.values++; {
	case r.values > MaxValueElements:
		return nil, errValueElements
	case depth > 2*MaxValueDepth: // a tag is a level, too
		return nil, errValueDepth
	}
	switch r.next() {
	case '{':
		return r.readObject(depth)
	case '[':
		return r.readArray(depth)
	case '"':
		return r.readText()
	case 'n':
		r.offset += len("null")
		return nil, nil
	case 't':
		r.offset += len("true")
		return true, nil
	case 'f':
		r.offset += len("false")
		return false, nil
	}
	start := r.offset
	for r.offset < len(r.text) && strings.IndexByte("+-.eE0123456789", r.text[r.offset]) >= 0 {
		r.offset++
	}
	return parseNumber(json.Number(r.text[start:r.offset]))
}

// readText reads a string. Half of a surrogate pair is refused, because it is not a character.
func (r *taggedReader) readText() (string, error) {
	start, escaped := r.offset, false
	for r.offset++; r.text[r.offset] != '"'; r.offset++ {
		if r.text[r.offset] == '\\' {
			escaped = true
			r.offset++
		}
	}
	r.offset++
	raw := r.text[start:r.offset]
	if !utf8.Valid(raw) {
		return "", errNotUTF8
	}
	if !escaped {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if strings.Count(s, "\uFFFD") > bytes.Count(raw, []byte("\uFFFD"))+bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return "", errors.New("the string contains half of a surrogate pair")
	}
	return s, nil
}

func (r *taggedReader) readArray(depth int) (any, error) {
	list := []any{}
	for r.offset++; r.next() != ']'; {
		v, err := r.readValue(depth + 1)
		if err != nil {
			return nil, newPathError("["+strconv.Itoa(len(list))+"]", err)
		}
		list = append(list, v)
	}
	r.offset++
	return list, nil
}

func (r *taggedReader) readObject(depth int) (any, error) {
	wrapped, err := r.isTag(tagObject)
	if err != nil {
		return nil, err
	}
	if wrapped {
		if r.next() != '{' {
			return nil, fmt.Errorf("the value of %s is not an object", tagObject)
		}
		o, err := r.readFields(depth + 1)
		r.next()
		r.offset++ // the end of the wrapper
		return r.finishObject(o), err
	}
	o, err := r.readFields(depth)
	if err != nil {
		return nil, err
	}
	if len(o) != 1 || !strings.HasPrefix(o[0].Name, "$") {
		return r.finishObject(o), nil
	}
	return untag(o[0].Name, o[0].Value)
}

// isTag reports whether the object at the offset has a single field of this name, and moves the
// offset to its value if so.
func (r *taggedReader) isTag(tag string) (bool, error) {
	start := r.offset
	r.offset++
	if r.next() == '"' {
		name, err := r.readText()
		if err != nil {
			return false, err
		}
		if name == tag {
			value := r.offset
			r.skipValue()
			if r.next() == '}' {
				r.offset = value
				return true, nil
			}
		}
	}
	r.offset = start
	return false, nil
}

// skipValue moves the offset behind the next value.
func (r *taggedReader) skipValue() {
	r.next()
	for depth := 0; ; {
		switch r.text[r.offset] {
		case '"':
			for r.offset++; r.text[r.offset] != '"'; r.offset++ {
				if r.text[r.offset] == '\\' {
					r.offset++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return // after a number or a word
			}
		case ',':
			if depth == 0 {
				return
			}
		}
		r.offset++
		if c := r.text[r.offset-1]; depth == 0 && (c == '"' || c == '}' || c == ']') {
			return
		}
	}
}

// untag returns the value that an object with one field stands for.
func untag(tag string, v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("the value of %s has the wrong type", tag)
	}
	switch tag {
	case tagBytes:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not base64: %w", tag, err)
		}
		return b, nil
	case tagTime:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, fmt.Errorf("%s is not a time such as 2026-01-31T12:00:00Z: %w", tag, err)
		}
		return at.UTC(), nil
	case tagFloat:
		return strconv.ParseFloat(text, 64)
	case tagInt:
		return parseNumber(json.Number(text))
	}
	return nil, fmt.Errorf("unknown tag %q; an object with this field has the tag %s", tag, tagObject)
}

func (r *taggedReader) readFields(depth int) (Object, error) {
	o := Object{}
	for r.offset++; r.next() != '}'; {
		name, err := r.readText()
		if err != nil {
			return nil, err
		}
		v, err := r.readValue(depth + 1)
		if err != nil {
			return nil, newPathError(name, err)
		}
		o = append(o, Field{name, v})
	}
	r.offset++
	return o, nil
}

// finishObject returns the object in the form that the caller wants.
func (r *taggedReader) finishObject(o Object) any {
	if !r.asMaps {
		return o
	}
	m := make(map[string]any, len(o))
	for _, f := range o {
		m[f.Name] = f.Value
	}
	return m
}
