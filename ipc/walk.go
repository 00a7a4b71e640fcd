package ipc

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
)

// A walk visits the fields of a message, once for each purpose, so that a message lists
// its fields in one place for all of them. After the first error it does nothing more.
type walk struct {
	purpose purpose
	enc     *msgpack.Encoder // for writing
	in      *input           // for reading
	err     error            // the first; it names the field
	told    *[]slog.Attr     // where fields are described
	list                     // the current map
}

// A list is the state of a walk in the fields of one map.
type list struct {
	path  string // names the map within the message: "worker."; "" for the message itself
	depth int    // maps around the fields
	index int    // of the next field to visit
	count int    // counting: fields to write
	key   []byte // reading: the next name
	known bool   // reading: the list has that name
	seen  uint32 // reading: bit i is set when field i was read
}

type purpose uint8

const (
	counting   purpose = iota // how many fields are there to write?
	writing                   // append each of them
	reading                   // take the one called key
	completing                // all were read: are they the right ones?
	describing                // tell what a log may have of each
)

// A need says when a field is present.
type need uint8

const (
	required  need = iota
	optional       // not written when zero; may be read as zero
	forbidden      // because of the value of another field
)

// fielded is a message, or an object in one.
type fielded interface{ fields(*walk) }

var (
	errMissing   = errors.New("missing")
	errTwice     = errors.New("given twice")
	errForbidden = errors.New("must be absent here")
	errNotUTF8   = errors.New("text is not UTF-8")
	errNotFinite = errors.New("not a finite number")
	errFields    = fmt.Errorf("more than %d fields", MaxFields)
)

// write writes m as a map, or describes it.
func (w *walk) write(m fielded) {
	if w.purpose == describing {
		m.fields(w)
		return
	}
	w.purpose = counting
	m.fields(w)
	w.enc.EncodeMapLen(w.count)
	w.purpose, w.index = writing, 0
	m.fields(w)
}

// read reads m from a map.
func (w *walk) read(m fielded) {
	n, err := w.in.mapLen()
	if err == nil && n > MaxFields {
		err = errFields
	}
	w.check("", err)
	for range n {
		if w.err != nil {
			return
		}
		w.key, err = w.in.key()
		w.check("", err)
		w.purpose, w.index, w.known = reading, 0, false
		m.fields(w)
		if w.err == nil && !w.known {
			w.check(printable(w.key), w.in.skip(w.depth))
		}
	}
	w.purpose, w.index = completing, 0
	m.fields(w)
}

// check records err, if any, as an error of the field called name; "" is the map itself.
func (w *walk) check(name string, err error) {
	if err == nil || w.err != nil {
		return
	}
	w.err = err
	if at := strings.TrimSuffix(w.path+name, "."); at != "" {
		w.err = fmt.Errorf("field %s: %w", at, err)
	}
}

// visit moves on to the field called name and reports whether its value must be written
// or read now. present says whether an optional field would be written.
func (w *walk) visit(name string, need need, present bool) bool {
	if w.err != nil {
		return false
	}
	bit := uint32(1) << w.index
	w.index++
	switch w.purpose {
	case counting, writing:
		switch {
		case need == forbidden && present:
			w.check(name, errForbidden)
			return false
		case need != required && !present:
			return false
		case w.purpose == counting:
			w.count++
			return false
		}
		w.enc.EncodeString(name)
		return true
	case describing:
		return need == required || present
	case reading:
		if string(w.key) != name {
			return false
		}
		w.known = true
		if w.seen&bit != 0 {
			w.check(name, errTwice)
			return false
		}
		w.seen |= bit
		return true
	case completing:
		switch seen := w.seen&bit != 0; {
		case need == required && !seen:
			w.check(name, errMissing)
		case need == forbidden && seen:
			w.check(name, errForbidden)
		}
		return false
	}
	panic("unreachable")
}

// transfer reads, writes or describes the value of the field that was just visited.
func transfer[T any](w *walk, name string, p *T, check func(T) error,
	read func(*input) (T, error), write func(*msgpack.Encoder, T) error,
) {
	switch w.purpose {
	case describing:
		w.describe(name, *p)
		return
	case reading:
		v, err := read(w.in)
		if err == nil {
			err = check(v)
		}
		if err == nil {
			*p = v
		}
		w.check(name, err)
		return
	}
	err := check(*p)
	if err == nil {
		err = write(w.enc, *p)
	}
	w.check(name, err)
}

// tag visits the field with this known value.
func (w *walk) tag(name, value string) {
	switch {
	case !w.visit(name, required, true):
	case w.purpose == writing:
		w.enc.EncodeString(value)
	case w.purpose == reading:
		_, err := w.in.textBytes()
		w.check(name, err)
	}
}

func (w *walk) uint(name string, p *uint64, need need, least uint64) {
	if !w.visit(name, need, *p != 0) {
		return
	}
	check := func(v uint64) error {
		if v < least {
			return fmt.Errorf("%d is less than %d", v, least)
		}
		return nil
	}
	transfer(w, name, p, check, (*input).uint, (*msgpack.Encoder).EncodeUint)
}

// level visits an unsigned integer from 1 to 2.
func (w *walk) level(name string, p *uint8) {
	if !w.visit(name, required, true) {
		return
	}
	check := func(v uint64) error {
		if v < 1 || v > 2 {
			return fmt.Errorf("%d is neither 1 nor 2", v)
		}
		return nil
	}
	v := uint64(*p)
	transfer(w, name, &v, check, (*input).uint, (*msgpack.Encoder).EncodeUint)
	*p = uint8(v)
}

func (w *walk) bool(name string, p *bool, need need) {
	if w.visit(name, need, *p) {
		transfer(w, name, p, unchecked, (*input).bool, (*msgpack.Encoder).EncodeBool)
	}
}

func (w *walk) intOrNil(name string, p **int64) {
	if !w.visit(name, optional, *p != nil) {
		return
	}
	if *p == nil {
		*p = new(int64)
	}
	transfer(w, name, *p, unchecked, (*input).int, (*msgpack.Encoder).EncodeInt)
}

func (w *walk) number(name string, p *float64) {
	if w.visit(name, required, true) {
		transfer(w, name, p, finite, (*input).number, (*msgpack.Encoder).EncodeFloat64)
	}
}

func (w *walk) numberOrNil(name string, p **float64) {
	if !w.visit(name, optional, *p != nil) {
		return
	}
	if *p == nil {
		*p = new(float64)
	}
	transfer(w, name, *p, finite, (*input).number, (*msgpack.Encoder).EncodeFloat64)
}

// text visits UTF-8 of at most limit bytes.
func (w *walk) text(name string, p *string, need need, limit int) {
	if w.visit(name, need, *p != "") {
		transfer(w, name, p, textCheck(limit), (*input).text, (*msgpack.Encoder).EncodeString)
	}
}

// bytes visits at most limit bytes of any value.
func (w *walk) bytes(name string, p *[]byte, need need, limit int) {
	if !w.visit(name, need, len(*p) > 0) {
		return
	}
	check := func(b []byte) error { return checkSize(len(b), limit, "bytes") }
	transfer(w, name, p, check, (*input).bytes, encodeBytes)
}

// bundle visits bytes by MIME type: at most MaxTypes of them, MaxBundleBytes together.
func (w *walk) bundle(name string, p *map[string][]byte, need need) {
	if w.visit(name, need, len(*p) > 0) {
		transfer(w, name, p, checkBundle, (*input).bundle, encodeBundle)
	}
}

// texts visits at most most texts of at most limit bytes each.
func (w *walk) texts(name string, p *[]string, most, limit int) {
	if !w.visit(name, optional, len(*p) > 0) {
		return
	}
	checkText := textCheck(limit)
	check := func(list []string) error {
		if err := checkSize(len(list), most, "entries"); err != nil {
			return err
		}
		for _, s := range list {
			if err := checkText(s); err != nil {
				return err
			}
		}
		return nil
	}
	read := func(in *input) ([]string, error) { return in.texts(most) }
	transfer(w, name, p, check, read, encodeTexts)
}

// optionalEnum visits a text that is one of allowed, if it is there.
func optionalEnum[T ~string](w *walk, name string, p *T, allowed ...T) {
	if w.visit(name, optional, *p != "") {
		oneOf(w, name, p, allowed)
	}
}

// enum visits a text that is one of allowed.
func enum[T ~string](w *walk, name string, p *T, allowed ...T) {
	if w.visit(name, required, true) {
		oneOf(w, name, p, allowed)
	}
}

// oneOf reads, writes or describes the enumeration that was just visited.
func oneOf[T ~string](w *walk, name string, p *T, allowed []T) {
	var b []byte
	if w.purpose == reading {
		var err error
		if b, err = w.in.textBytes(); err != nil {
			w.check(name, err)
			return
		}
	}
	for _, v := range allowed {
		if w.purpose == reading && string(b) == string(v) {
			*p = v
			return
		}
		if w.purpose == describing && *p == v {
			*w.told = append(*w.told, slog.String(w.path+name, string(v)))
			return
		}
		if w.purpose == writing && *p == v {
			w.enc.EncodeString(string(v))
			return
		}
	}
	switch w.purpose {
	case describing:
		return
	case writing:
		b = []byte(*p)
	}
	w.check(name, fmt.Errorf("unknown value %q", printable(b)))
}

func (w *walk) object(name string, m fielded) {
	if w.visit(name, required, true) {
		w.nested(name, m, 1)
	}
}

// nested reads or writes an object in the field that was just visited. The object is
// deeper by this many maps and arrays.
func (w *walk) nested(name string, m fielded, deeper int) {
	purpose, outer := w.purpose, w.list
	w.list = list{path: w.path + name + ".", depth: w.depth + deeper}
	if purpose == reading {
		w.read(m)
	} else {
		w.write(m)
	}
	w.purpose, w.list = purpose, outer
}

func objectOrNil[T any, P interface {
	*T
	fielded
}](w *walk, name string, p *P, need need) {
	if !w.visit(name, need, *p != nil) {
		return
	}
	if *p == nil {
		*p = new(T)
	}
	w.nested(name, *p, 1)
}

// objects visits at most most maps, each with the fields of T.
func objects[T any, P interface {
	*T
	fielded
}](w *walk, name string, p *[]T, most int) {
	if !w.visit(name, optional, len(*p) > 0) {
		return
	}
	if w.purpose == describing {
		w.describe(name, len(*p))
		return
	}
	n, err := len(*p), error(nil)
	if w.purpose == reading {
		n, err = w.in.arrayLen(most)
	} else if err = checkSize(n, most, "entries"); err == nil {
		err = w.enc.EncodeArrayLen(n)
	}
	w.check(name, err)
	if w.err == nil && w.purpose == reading && n > 0 {
		*p = make([]T, n)
	}
	for i := 0; i < n && w.err == nil; i++ {
		w.nested(name, P(&(*p)[i]), 2)
	}
}

func unchecked[T any](T) error { return nil }

func finite(v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return errNotFinite
	}
	return nil
}

func textCheck(limit int) func(string) error {
	return func(s string) error {
		if !utf8.ValidString(s) {
			return errNotUTF8
		}
		return checkSize(len(s), limit, "bytes")
	}
}

func checkBundle(data map[string][]byte) error {
	if err := checkSize(len(data), MaxTypes, "entries"); err != nil {
		return err
	}
	total, checkName := 0, textCheck(MaxBriefBytes)
	for mime, b := range data {
		if err := checkName(mime); err != nil {
			return err
		}
		total += len(b)
	}
	return checkSize(total, MaxBundleBytes, "bytes")
}

func checkSize(size, limit int, unit string) error {
	if size > limit {
		return sizeError{size, limit, unit}
	}
	return nil
}

// A sizeError is ErrTooLarge with its numbers.
type sizeError struct {
	size, limit int
	unit        string
}

func (e sizeError) Error() string {
	return fmt.Sprintf("%d %s, at most %d are allowed", e.size, e.unit, e.limit)
}

func (e sizeError) Is(target error) bool { return target == ErrTooLarge }

// encodeBytes exists because EncodeBytes writes nil for a nil slice.
func encodeBytes(enc *msgpack.Encoder, b []byte) error {
	if err := enc.EncodeBytesLen(len(b)); err != nil {
		return err
	}
	_, err := enc.Writer().Write(b)
	return err
}

// encodeBundle writes the types in order, so that equal bundles are equal bytes.
func encodeBundle(enc *msgpack.Encoder, data map[string][]byte) error {
	if err := enc.EncodeMapLen(len(data)); err != nil {
		return err
	}
	for _, mime := range slices.Sorted(maps.Keys(data)) {
		if err := enc.EncodeString(mime); err != nil {
			return err
		}
		if err := encodeBytes(enc, data[mime]); err != nil {
			return err
		}
	}
	return nil
}

func encodeTexts(enc *msgpack.Encoder, list []string) error {
	if err := enc.EncodeArrayLen(len(list)); err != nil {
		return err
	}
	for _, s := range list {
		if err := enc.EncodeString(s); err != nil {
			return err
		}
	}
	return nil
}
