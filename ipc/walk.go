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

// A fieldVisitor visits the fields of a message, once for each purpose, so that a message lists
// its fields in a single place. After the first error it does nothing more.
type fieldVisitor struct {
	purpose  visitPurpose
	encoder  *msgpack.Encoder // for writing
	reader   *payloadReader   // for reading
	err      error            // the first error; it names the field
	attrs    *[]slog.Attr     // log attributes of the fields
	mapState                  // of the current map
}

// A mapState is the state of visiting the fields of one map.
type mapState struct {
	path       string // names the map within the message: "worker."; "" for the message itself
	depth      int    // number of enclosing maps
	index      int    // index of the next field to visit
	count      int    // counting: number of fields to write
	key        []byte // reading: the next name
	keyKnown   bool   // reading: the message has a field with that name
	seenFields uint32 // reading: bit i is set when field i was read
}

// visitPurpose is what a fieldVisitor does with each field.
type visitPurpose uint8

const (
	purposeCount    visitPurpose = iota // count the fields to write
	purposeWrite                        // append each of them
	purposeRead                         // take the one called key
	purposeComplete                     // after reading: check that the fields are the right ones
	purposeDescribe                     // log the loggable part of each
)

// A presence says when a field is present.
type presence uint8

const (
	required  presence = iota
	optional           // not written when zero; may be read as zero
	forbidden          // because of the value of another field
)

// fieldLister is a message, or an object inside one.
type fieldLister interface{ visitFields(*fieldVisitor) }

var (
	errMissing   = errors.New("missing")
	errTwice     = errors.New("duplicate field")
	errForbidden = errors.New("must be absent here")
	errNotUTF8   = errors.New("text is not UTF-8")
	errNotFinite = errors.New("not a finite number")
	errFields    = fmt.Errorf("more than %d fields", MaxFields)
)

// writeMap writes m as a map, or describes it for the log.
func (f *fieldVisitor) writeMap(m fieldLister) {
	if f.purpose == purposeDescribe {
		m.visitFields(f)
		return
	}
	f.purpose = purposeCount
	m.visitFields(f)
	f.encoder.EncodeMapLen(f.count)
	f.purpose, f.index = purposeWrite, 0
	m.visitFields(f)
}

// readMap reads m from a map.
func (f *fieldVisitor) readMap(m fieldLister) {
	n, err := f.reader.readMapLen()
	if err == nil && n > MaxFields {
		err = errFields
	}
	f.recordError("", err)
	for range n {
		if f.err != nil {
			return
		}
		f.key, err = f.reader.readKey()
		f.recordError("", err)
		f.purpose, f.index, f.keyKnown = purposeRead, 0, false
		m.visitFields(f)
		if f.err == nil && !f.keyKnown {
			f.recordError(printableText(f.key), f.reader.skipValue(f.depth))
		}
	}
	f.purpose, f.index = purposeComplete, 0
	m.visitFields(f)
}

// recordError records err, unless nil, as an error of the field called name; "" is the map
// itself.
func (f *fieldVisitor) recordError(name string, err error) {
	if err == nil || f.err != nil {
		return
	}
	f.err = err
	if at := strings.TrimSuffix(f.path+name, "."); at != "" {
		f.err = fmt.Errorf("field %s: %w", at, err)
	}
}

// visitField advances to the field called name and reports whether its value must be written or
// read now. present tells whether an optional field would be written.
func (f *fieldVisitor) visitField(name string, need presence, present bool) bool {
	if f.err != nil {
		return false
	}
	bit := uint32(1) << f.index
	f.index++
	switch f.purpose {
	case purposeCount, purposeWrite:
		switch {
		case need == forbidden && present:
			f.recordError(name, errForbidden)
			return false
		case need != required && !present:
			return false
		case f.purpose == purposeCount:
			f.count++
			return false
		}
		f.encoder.EncodeString(name)
		return true
	case purposeDescribe:
		return need == required || present
	case purposeRead:
		if string(f.key) != name {
			return false
		}
		f.keyKnown = true
		if f.seenFields&bit != 0 {
			f.recordError(name, errTwice)
			return false
		}
		f.seenFields |= bit
		return true
	case purposeComplete:
		switch seen := f.seenFields&bit != 0; {
		case need == required && !seen:
			f.recordError(name, errMissing)
		case need == forbidden && seen:
			f.recordError(name, errForbidden)
		}
		return false
	}
	panic("unreachable")
}

// transferValue reads, writes or describes the value of the field that was just visited.
func transferValue[T any](w *fieldVisitor, name string, p *T, check func(T) error,
	read func(*payloadReader) (T, error), write func(*msgpack.Encoder, T) error,
) {
	switch w.purpose {
	case purposeDescribe:
		w.describeField(name, *p)
		return
	case purposeRead:
		v, err := read(w.reader)
		if err == nil {
			err = check(v)
		}
		if err == nil {
			*p = v
		}
		w.recordError(name, err)
		return
	}
	err := check(*p)
	if err == nil {
		err = write(w.encoder, *p)
	}
	w.recordError(name, err)
}

// visitTag visits a field that must have this value.
func (f *fieldVisitor) visitTag(name, value string) {
	switch {
	case !f.visitField(name, required, true):
	case f.purpose == purposeWrite:
		f.encoder.EncodeString(value)
	case f.purpose == purposeRead:
		_, err := f.reader.readTextBytes()
		f.recordError(name, err)
	}
}

func (f *fieldVisitor) visitUint(name string, p *uint64, need presence, least uint64) {
	if !f.visitField(name, need, *p != 0) {
		return
	}
	check := func(v uint64) error {
		if v < least {
			return fmt.Errorf("%d is less than %d", v, least)
		}
		return nil
	}
	transferValue(f, name, p, check, (*payloadReader).readUint, (*msgpack.Encoder).EncodeUint)
}

// visitLevel visits an unsigned integer from 1 to 2.
func (f *fieldVisitor) visitLevel(name string, p *uint8) {
	if !f.visitField(name, required, true) {
		return
	}
	check := func(v uint64) error {
		if v < 1 || v > 2 {
			return fmt.Errorf("%d is neither 1 nor 2", v)
		}
		return nil
	}
	v := uint64(*p)
	transferValue(f, name, &v, check, (*payloadReader).readUint, (*msgpack.Encoder).EncodeUint)
	*p = uint8(v)
}

func (f *fieldVisitor) visitBool(name string, p *bool, need presence) {
	if f.visitField(name, need, *p) {
		transferValue(f, name, p, acceptAny, (*payloadReader).readBool, (*msgpack.Encoder).EncodeBool)
	}
}

func (f *fieldVisitor) visitOptionalInt(name string, p **int64) {
	if !f.visitField(name, optional, *p != nil) {
		return
	}
	if *p == nil {
		*p = new(int64)
	}
	transferValue(f, name, *p, acceptAny, (*payloadReader).readInt, (*msgpack.Encoder).EncodeInt)
}

func (f *fieldVisitor) visitNumber(name string, p *float64) {
	if f.visitField(name, required, true) {
		transferValue(f, name, p, checkFinite, (*payloadReader).readNumber, (*msgpack.Encoder).EncodeFloat64)
	}
}

func (f *fieldVisitor) visitOptionalNumber(name string, p **float64) {
	if !f.visitField(name, optional, *p != nil) {
		return
	}
	if *p == nil {
		*p = new(float64)
	}
	transferValue(f, name, *p, checkFinite, (*payloadReader).readNumber, (*msgpack.Encoder).EncodeFloat64)
}

// visitText visits UTF-8 of at most limit bytes.
func (f *fieldVisitor) visitText(name string, p *string, need presence, limit int) {
	if f.visitField(name, need, *p != "") {
		transferValue(f, name, p, textCheck(limit), (*payloadReader).readText, (*msgpack.Encoder).EncodeString)
	}
}

// visitBytes visits at most limit bytes of any value.
func (f *fieldVisitor) visitBytes(name string, p *[]byte, need presence, limit int) {
	if !f.visitField(name, need, len(*p) > 0) {
		return
	}
	check := func(b []byte) error { return checkSize(len(b), limit, "bytes") }
	transferValue(f, name, p, check, (*payloadReader).readBytes, encodeBytes)
}

// visitBundle visits bytes by MIME type: at most MaxTypes of them, MaxBundleBytes together.
func (f *fieldVisitor) visitBundle(name string, p *map[string][]byte, need presence) {
	if f.visitField(name, need, len(*p) > 0) {
		transferValue(f, name, p, checkBundle, (*payloadReader).readBundle, encodeBundle)
	}
}

// visitTexts visits an array of texts: most bounds their number, limit the bytes of each.
func (f *fieldVisitor) visitTexts(name string, p *[]string, most, limit int) {
	if !f.visitField(name, optional, len(*p) > 0) {
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
	read := func(in *payloadReader) ([]string, error) { return in.readTexts(most) }
	transferValue(f, name, p, check, read, encodeTexts)
}

// visitOptionalEnum visits an optional text that must be one of allowed.
func visitOptionalEnum[T ~string](w *fieldVisitor, name string, p *T, allowed ...T) {
	if w.visitField(name, optional, *p != "") {
		transferEnum(w, name, p, allowed)
	}
}

// visitEnum visits a text that must be one of allowed.
func visitEnum[T ~string](w *fieldVisitor, name string, p *T, allowed ...T) {
	if w.visitField(name, required, true) {
		transferEnum(w, name, p, allowed)
	}
}

// transferEnum reads, writes or describes the enumeration that was just visited.
func transferEnum[T ~string](w *fieldVisitor, name string, p *T, allowed []T) {
	var b []byte
	if w.purpose == purposeRead {
		var err error
		if b, err = w.reader.readTextBytes(); err != nil {
			w.recordError(name, err)
			return
		}
	}
	for _, v := range allowed {
		if w.purpose == purposeRead && string(b) == string(v) {
			*p = v
			return
		}
		if w.purpose == purposeDescribe && *p == v {
			*w.attrs = append(*w.attrs, slog.String(w.path+name, string(v)))
			return
		}
		if w.purpose == purposeWrite && *p == v {
			w.encoder.EncodeString(string(v))
			return
		}
	}
	switch w.purpose {
	case purposeDescribe:
		return
	case purposeWrite:
		b = []byte(*p)
	}
	w.recordError(name, fmt.Errorf("unknown value %q", printableText(b)))
}

func (f *fieldVisitor) visitObject(name string, m fieldLister) {
	if f.visitField(name, required, true) {
		f.visitNested(name, m, 1)
	}
}

// visitNested reads or writes an object in the field that was just visited. deeper is the number of
// levels of maps and arrays that the object adds.
func (f *fieldVisitor) visitNested(name string, m fieldLister, deeper int) {
	purpose, outer := f.purpose, f.mapState
	f.mapState = mapState{path: f.path + name + ".", depth: f.depth + deeper}
	if purpose == purposeRead {
		f.readMap(m)
	} else {
		f.writeMap(m)
	}
	f.purpose, f.mapState = purpose, outer
}

func visitOptionalObject[T any, P interface {
	*T
	fieldLister
}](w *fieldVisitor, name string, p *P, need presence) {
	if !w.visitField(name, need, *p != nil) {
		return
	}
	if *p == nil {
		*p = new(T)
	}
	w.visitNested(name, *p, 1)
}

// visitObjects visits an array of maps with the fields of T; most bounds their number.
func visitObjects[T any, P interface {
	*T
	fieldLister
}](w *fieldVisitor, name string, p *[]T, most int) {
	if !w.visitField(name, optional, len(*p) > 0) {
		return
	}
	if w.purpose == purposeDescribe {
		w.describeField(name, len(*p))
		return
	}
	n, err := len(*p), error(nil)
	if w.purpose == purposeRead {
		n, err = w.reader.readArrayLen(most)
	} else if err = checkSize(n, most, "entries"); err == nil {
		err = w.encoder.EncodeArrayLen(n)
	}
	w.recordError(name, err)
	if w.err == nil && w.purpose == purposeRead && n > 0 {
		*p = make([]T, n)
	}
	for i := 0; i < n && w.err == nil; i++ {
		w.visitNested(name, P(&(*p)[i]), 2)
	}
}

func acceptAny[T any](T) error { return nil }

func checkFinite(v float64) error {
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

// A sizeError is an ErrTooLarge with the actual size and the bound.
type sizeError struct {
	size, limit int
	unit        string
}

func (e sizeError) Error() string {
	return fmt.Sprintf("%d %s, at most %d are allowed", e.size, e.unit, e.limit)
}

func (e sizeError) Is(target error) bool { return target == ErrTooLarge }

// encodeBytes encodes bytes; unlike EncodeBytes, it writes a nil slice as empty bytes.
func encodeBytes(enc *msgpack.Encoder, b []byte) error {
	if err := enc.EncodeBytesLen(len(b)); err != nil {
		return err
	}
	_, err := enc.Writer().Write(b)
	return err
}

// encodeBundle writes the types in sorted order, so that equal bundles have equal encodings.
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
