package ipc

import (
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of an encoded value: one value of user code, with everything in it.
const (
	MaxValueBytes    = 32 << 20 // when encoded
	MaxValueDepth    = 128      // nested arrays and maps
	MaxValueElements = 4 << 20  // including the keys of maps
)

// An Object is a map that preserves the order of its fields.
type Object []Field

// A Field is one key of an Object with its value.
type Field struct {
	Name  string
	Value any
}

var (
	errValueDepth    = fmt.Errorf("it is nested deeper than %d, or contains itself", MaxValueDepth)
	errValueElements = fmt.Errorf("it has more than %d values", MaxValueElements)
	errValueBytes    = fmt.Errorf("it has more than %d bytes", MaxValueBytes)
	errIntegerRange  = errors.New("the integer does not fit into 64 bits")
)

// EncodeValue returns v encoded. It accepts what encoding/json accepts, with the same struct
// tags, but preserves bytes, times, integers and NaN. A map must have string keys; an [Object]
// keeps its order. The error names the part of v that failed.
func EncodeValue(v any) ([]byte, error) {
	e := valueEncoder{}
	if err := e.encodeValue(reflect.ValueOf(v), 0); err != nil {
		return nil, err
	}
	return e.buf, nil
}

// A valueEncoder appends one encoded value to a buffer.
type valueEncoder struct {
	buf    []byte
	values int
}

// A pathError is an error with the path of the invalid part of a value.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

func newPathError(place string, err error) error {
	if inner, ok := err.(*pathError); ok {
		if !strings.HasPrefix(inner.path, "[") {
			place += "."
		}
		return &pathError{clipPath(place + inner.path), inner.err}
	}
	return &pathError{clipPath(place), err}
}

// clipPath shortens a long path.
func clipPath(place string) string {
	const most = 120
	if len(place) <= most {
		return place
	}
	return strings.ToValidUTF8(place[:most/2]+"…"+place[len(place)-most/2:], "")
}

func (e *valueEncoder) encodeValue(v reflect.Value, depth int) error {
	switch e.values++; {
	case e.values > MaxValueElements:
		return errValueElements
	case len(e.buf) > MaxValueBytes:
		return errValueBytes
	case !v.IsValid():
		e.buf = append(e.buf, 0xc0)
		return nil
	}
	for hops := 0; ; hops++ {
		if done, err := e.encodeSpecial(v, depth); done || err != nil {
			return err
		}
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			break
		}
		if hops > MaxValueDepth {
			return errValueDepth // a pointer that refers to itself
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Bool:
		e.buf = append(e.buf, 0xc2)
		if v.Bool() {
			e.buf[len(e.buf)-1]++
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.encodeInt(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.encodeUint(v.Uint())
	case reflect.Float32, reflect.Float64:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, 0xcb), math.Float64bits(v.Float()))
	case reflect.String:
		return e.encodeText(v.String())
	case reflect.Slice, reflect.Array:
		return e.encodeArray(v, depth)
	case reflect.Map:
		return e.encodeMap(v, depth)
	case reflect.Struct:
		return e.encodeObject(structFields(v, nil), depth)
	default:
		return fmt.Errorf("a Go %s cannot be passed to user code", v.Type())
	}
	return nil
}

// encodeSpecial encodes nil, types with a special encoding, and types with marshal methods.
func (e *valueEncoder) encodeSpecial(v reflect.Value, depth int) (done bool, err error) {
	switch {
	case (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil():
		e.buf = append(e.buf, 0xc0)
		return true, nil
	case isNil(v) || !v.CanInterface():
		return false, nil
	}
	if v.Kind() <= reflect.Float64 && v.Type().PkgPath() == "" || v.Type() == reflect.TypeFor[string]() {
		return false, nil // a plain value, which has no methods
	}
	switch x := v.Interface().(type) {
	case time.Time:
		e.encodeTime(x)
	case Object:
		return true, e.encodeObject(x, depth)
	case json.Number:
		n, err := parseNumber(x)
		if err != nil {
			return false, err
		}
		e.values--
		return true, e.encodeValue(reflect.ValueOf(n), depth)
	case json.Marshaler:
		text, err := x.MarshalJSON()
		if err != nil {
			return false, err
		}
		inner, err := ValueFromJSON(text)
		if err != nil {
			return false, err
		}
		e.values--
		return true, e.encodeValue(reflect.ValueOf(inner), depth)
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			return false, err
		}
		return true, e.encodeText(string(text))
	default:
		return false, nil
	}
	return true, nil
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return v.IsNil()
	}
	return false
}

func (e *valueEncoder) encodeArray(v reflect.Value, depth int) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return e.encodeBytes(v)
	}
	if v.Kind() == reflect.Slice && v.IsNil() {
		e.buf = append(e.buf, 0x90) // an empty array, which user code expects for a list
		return nil
	}
	if depth >= MaxValueDepth {
		return errValueDepth
	}
	if err := e.encodeHeader(0x90, 0xdc, v.Len()); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := e.encodeValue(v.Index(i), depth+1); err != nil {
			return newPathError("["+strconv.Itoa(i)+"]", err)
		}
	}
	return nil
}

func (e *valueEncoder) encodeBytes(v reflect.Value) error {
	n := v.Len()
	if n > MaxValueBytes {
		return errValueBytes
	}
	e.buf = appendBytesHeader(e.buf, n)
	if v.Kind() == reflect.Array && !v.CanAddr() {
		addressable := reflect.New(v.Type()).Elem()
		addressable.Set(v)
		v = addressable
	}
	e.buf = append(e.buf, v.Bytes()...)
	return e.checkBytes()
}

// BytesHeader returns the beginning of an encoded value of n bytes, which follow it.
func BytesHeader(n int) []byte { return appendBytesHeader(nil, n) }

func appendBytesHeader(b []byte, n int) []byte {
	switch {
	case n < 1<<8:
		return append(b, 0xc4, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
}

func (e *valueEncoder) checkBytes() error {
	if len(e.buf) > MaxValueBytes {
		return errValueBytes
	}
	return nil
}

func (e *valueEncoder) encodeMap(v reflect.Value, depth int) error {
	if v.Type().Key().Kind() != reflect.String {
		return fmt.Errorf("a %s has keys that are not strings", v.Type())
	}
	if v.IsNil() {
		e.buf = append(e.buf, 0xc0)
		return nil
	}
	o := make(Object, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		o = append(o, Field{it.Key().String(), it.Value()})
	}
	slices.SortStableFunc(o, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return e.encodeObject(o, depth)
}

func (e *valueEncoder) encodeObject(o Object, depth int) error {
	if depth >= MaxValueDepth {
		return errValueDepth
	}
	if err := e.encodeHeader(0x80, 0xde, len(o)); err != nil {
		return err
	}
	e.values += len(o)
	for _, f := range o {
		v, ok := f.Value.(reflect.Value)
		if !ok {
			v = reflect.ValueOf(f.Value)
		}
		err := e.encodeText(f.Name)
		if err == nil {
			err = e.encodeValue(v, depth+1)
		}
		if err != nil {
			return newPathError(f.Name, err)
		}
	}
	return nil
}

// structFields appends the fields of a struct, according to its JSON tags.
func structFields(v reflect.Value, o Object) Object {
	for i := range v.NumField() {
		t, field := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(t.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
		case t.Anonymous && name == "" && t.Type.Kind() == reflect.Struct && t.Type != reflect.TypeFor[time.Time]():
			o = structFields(field, o)
		case !t.IsExported():
		case strings.Contains(options, "omitempty") && isEmpty(field), strings.Contains(options, "omitzero") && field.IsZero():
		default:
			if name == "" {
				name = t.Name
			}
			o = append(o, Field{name, field})
		}
	}
	return o
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// encodeHeader writes the header of an array or a map. Its size is in the first byte, or in two
// or four bytes that follow.
func (e *valueEncoder) encodeHeader(small, large byte, n int) error {
	switch {
	case n > MaxValueElements:
		return errValueElements
	case n < 16:
		e.buf = append(e.buf, small|byte(n))
	case n < 1<<16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, large), uint16(n))
	default:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, large+1), uint32(n))
	}
	return nil
}

func (e *valueEncoder) encodeText(s string) error {
	n := len(s)
	switch {
	case !utf8.ValidString(s):
		return errors.New("the string is not UTF-8; send bytes")
	case n > MaxValueBytes:
		return errValueBytes
	case n < 32:
		e.buf = append(e.buf, 0xa0|byte(n))
	case n < 1<<8:
		e.buf = append(e.buf, 0xd9, byte(n))
	case n < 1<<16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, 0xda), uint16(n))
	default:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, 0xdb), uint32(n))
	}
	e.buf = append(e.buf, s...)
	return e.checkBytes()
}

func (e *valueEncoder) encodeInt(n int64) {
	switch {
	case n >= 0:
		e.encodeUint(uint64(n))
	case n >= -32:
		e.buf = append(e.buf, byte(n))
	case n >= math.MinInt8:
		e.buf = append(e.buf, 0xd0, byte(n))
	case n >= math.MinInt16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, 0xd1), uint16(n))
	case n >= math.MinInt32:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, 0xd2), uint32(n))
	default:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, 0xd3), uint64(n))
	}
}

func (e *valueEncoder) encodeUint(n uint64) {
	switch {
	case n < 1<<7:
		e.buf = append(e.buf, byte(n))
	case n < 1<<8:
		e.buf = append(e.buf, 0xcc, byte(n))
	case n < 1<<16:
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, 0xcd), uint16(n))
	case n < 1<<32:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, 0xce), uint32(n))
	default:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, 0xcf), n)
	}
}

// encodeTime writes a MessagePack timestamp, in the shortest of its three forms.
func (e *valueEncoder) encodeTime(t time.Time) {
	seconds, nanos := t.Unix(), uint64(t.Nanosecond())
	switch {
	case seconds < 0 || seconds >= 1<<34:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, 0xc7, 12, 0xff), uint32(nanos))
		e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(seconds))
	case nanos > 0 || seconds >= 1<<32:
		e.buf = binary.BigEndian.AppendUint64(append(e.buf, 0xd7, 0xff), nanos<<34|uint64(seconds))
	default:
		e.buf = binary.BigEndian.AppendUint32(append(e.buf, 0xd6, 0xff), uint32(seconds))
	}
}
