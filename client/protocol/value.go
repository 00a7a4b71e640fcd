package protocol

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/ipc"
)

// parseValue parses tagged JSON: an object as an [ipc.Object], or as a map if asMaps is set,
// and other values as [ipc.DecodeValue] returns them.
func parseValue(text []byte, asMaps bool) (any, error) {
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
	case r.values > ipc.MaxValueElements:
		return nil, fmt.Errorf("it has more than %d values", ipc.MaxValueElements)
	case depth > 2*ipc.MaxValueDepth: // a tag is a level, too
		return nil, fmt.Errorf("it is nested deeper than %d", ipc.MaxValueDepth)
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
	return parseNumber(string(r.text[start:r.offset]))
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
		return "", errors.New("the text is not UTF-8")
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
			return nil, placeError("["+strconv.Itoa(len(list))+"]", err)
		}
		list = append(list, v)
	}
	r.offset++
	return list, nil
}

func (r *taggedReader) readObject(depth int) (any, error) {
	wrapped, err := r.isTag(ipc.TagObject)
	if err != nil {
		return nil, err
	}
	if wrapped {
		if r.next() != '{' {
			return nil, fmt.Errorf("the value of %s is not an object", ipc.TagObject)
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
	return untagValue(o[0].Name, o[0].Value)
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

// untagValue returns the value that an object with one field stands for.
func untagValue(tag string, v any) (any, error) {
	text, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("the value of %s has the wrong type", tag)
	}
	switch tag {
	case ipc.TagBytes:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not base64: %w", tag, err)
		}
		return b, nil
	case ipc.TagTime:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, fmt.Errorf("%s is not a time such as 2026-01-31T12:00:00Z: %w", tag, err)
		}
		return at.UTC(), nil
	case ipc.TagFloat:
		return strconv.ParseFloat(text, 64)
	case ipc.TagInt:
		return parseNumber(text)
	}
	return nil, fmt.Errorf("unknown tag %q; an object with this field has the tag %s", tag, ipc.TagObject)
}

func (r *taggedReader) readFields(depth int) (ipc.Object, error) {
	o := ipc.Object{}
	for r.offset++; r.next() != '}'; {
		name, err := r.readText()
		if err != nil {
			return nil, err
		}
		v, err := r.readValue(depth + 1)
		if err != nil {
			return nil, placeError(name, err)
		}
		o = append(o, ipc.Field{Name: name, Value: v})
	}
	r.offset++
	return o, nil
}

// finishObject returns the object in the form that the caller wants.
func (r *taggedReader) finishObject(o ipc.Object) any {
	if !r.asMaps {
		return o
	}
	m := make(map[string]any, len(o))
	for _, f := range o {
		m[f.Name] = f.Value
	}
	return m
}

// parseNumber parses a number: an integer exactly, another one as the nearest float.
func parseNumber(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		return strconv.ParseFloat(text, 64)
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	return nil, fmt.Errorf("%.40q is not an integer of 64 bits", text)
}

// A placedError is an error with the place of the invalid part of a value.
type placedError struct {
	place string
	err   error
}

func (e *placedError) Error() string { return shorten(e.place) + ": " + e.err.Error() }
func (e *placedError) Unwrap() error { return e.err }

// placeError adds a step to the place of an error.
func placeError(step string, err error) error {
	inner, ok := err.(*placedError)
	switch {
	case !ok:
		return &placedError{step, err}
	case strings.HasPrefix(inner.place, "["):
		return &placedError{step + inner.place, inner.err}
	}
	return &placedError{step + "." + inner.place, inner.err}
}

// shorten cuts a long place.
func shorten(place string) string {
	const most = 120
	if len(place) <= most {
		return place
	}
	return strings.ToValidUTF8(place[:most], "") + "…"
}
