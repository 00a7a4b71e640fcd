package event

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// A record is an event in the events file:
//
//	u32 length of the rest, big-endian
//	u8  kind
//	u8  flags: 1 if BetweenTurns, 2 if Silent
//	seq, generation, turn: uvarint
//	line: varint; at: varint, nanoseconds since 1970
//	previous: varint, offset of the previous structural record, -1 if none; not in
//	          records of text and displays
//	the fields of the body in the order of its eventKind: numbers as varints,
//	texts with their length before them; data of a display with minBlobBytes or more
//	has its digest before it, and the second time only its offset in the file
//
// The file has no version. Only its writer and ReadFile read it, and the caller of ReadFile knows
// the writer.

// A BlobLocation says where data is in the events file.
type BlobLocation struct {
	Sum    Digest
	Ranges FileRange
}

// markInline replaces an offset when the data itself follows.
const markInline = -1

// AppendRecord appends the record of an event to buf. It does not repeat data that is already in the
// file, and returns where the event's data is. offset is the position of the record in the file.
// lastStructural is the position of the newest structural record before it.
func AppendRecord(buf []byte, e Event, offset, lastStructural int64, blobs map[Digest]FileRange) ([]byte, []BlobLocation) {
	start := len(buf)
	c := codec{buf: append(buf, 0, 0, 0, 0), writing: true, blobs: blobs, base: offset - int64(start)}
	c.eventFields(&e, &lastStructural)
	binary.BigEndian.PutUint32(c.buf[start:], uint32(len(c.buf)-start-4))
	return c.buf, c.locations
}

var errMalformedRecord = errors.New("timeline: malformed record in the events file")

// ReadRecord reads one record of at most left bytes. It also returns its size in the file. Data
// that the record does not repeat stays unread.
func ReadRecord(r *bufio.Reader, left int64) (e Event, previous, size int64, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Event{}, 0, 0, err
	}
	size = 4 + int64(binary.BigEndian.Uint32(head[:]))
	if size > left {
		return Event{}, 0, 0, fmt.Errorf("%w: %d bytes where %d are left", errMalformedRecord, size, left)
	}
	c := codec{buf: make([]byte, size-4)}
	if _, err := io.ReadFull(r, c.buf); err != nil {
		return Event{}, 0, 0, err
	}
	c.eventFields(&e, &previous)
	if c.malformed || len(c.buf) > 0 {
		return Event{}, 0, 0, errMalformedRecord
	}
	return e, previous, size, nil
}

// A codec encodes or decodes the fields of a record, so that one description serves both
// directions. It is the fieldVisitor of the events file, and ignores the names of fields.
type codec struct {
	buf       []byte // for writing: bytes written; for reading: bytes left
	writing   bool
	malformed bool // reading: a field was missing or wrong

	blobs     map[Digest]FileRange // writing: data already in the file
	newBlobs  map[Digest]FileRange // writing: data new in the file
	locations []BlobLocation       // writing: locations of the event's data, in order
	base      int64                // writing: the offset of buf[0] in the file
}

func (c *codec) eventFields(e *Event, previous *int64) {
	var kind byte
	if e.Body != nil {
		kind = e.Body.kind().number
	}
	at := e.At.UnixNano()
	c.byteField(&kind)
	c.flagFields(&e.BetweenTurns, &e.Silent)
	c.visitUint("", (*uint64)(&e.Seq))
	c.visitUint("", &e.Generation)
	c.visitUint("", &e.Turn)
	c.visitInt("", &e.Line)
	c.visitInt64("", &at)
	if kind != kindText.number && kind != kindDisplay.number {
		c.visitInt64("", previous)
	}
	body := c.bodyFields(kind, e.Body)
	if !c.writing {
		e.At, e.Body = time.Unix(0, at), body
	}
}

// bodyFields encodes or decodes the fields of a body and returns the result.
func (c *codec) bodyFields(kind byte, body Body) Body {
	switch kind {
	case kindText.number:
		b, _ := body.(Text)
		c.textKindField(&b)
		c.visitBytes("", &b.Data)
		return b
	case kindDisplay.number:
		b, _ := body.(Display)
		c.bundleField(&b)
		c.visitBytes("", &b.Meta)
		c.visitText("", &b.ID)
		c.flagFields(&b.Update, &b.Result)
		c.visitText("", &b.Title)
		return b
	}
	for _, k := range eventKinds {
		if k.number == kind && kind != 0 {
			v := *c // as a visitor it is allocated; a Text, of which there are many, needs none
			body = k.visit(body, &v)
			*c = v
			return body
		}
	}
	c.malformed = true
	return nil
}

func (c *codec) byteField(v *byte) {
	switch {
	case c.writing:
		c.buf = append(c.buf, *v)
	case len(c.buf) == 0:
		c.malformed = true
	default:
		*v, c.buf = c.buf[0], c.buf[1:]
	}
}

func (c *codec) visitBool(_ string, v *bool) {
	var b byte
	if *v {
		b = 1
	}
	c.byteField(&b)
	c.malformed = c.malformed || b > 1
	*v = b == 1
}

// flagFields encodes or decodes two booleans in one byte.
func (c *codec) flagFields(one, two *bool) {
	var b byte
	if *one {
		b |= 1
	}
	if *two {
		b |= 2
	}
	c.byteField(&b)
	c.malformed = c.malformed || b > 3
	*one, *two = b&1 != 0, b&2 != 0
}

// textKinds lists the kinds of text by their number in a record.
var textKinds = []TextKind{"", TextResult, TextTraceback}

// textBegins is the bit of Text.Begins in the byte of textKindField.
const textBegins = 8

// textKindField encodes or decodes the stream and kind of a text in one byte, and whether it begins
// an echo.
func (c *codec) textKindField(t *Text) {
	b := byte(t.Stream) | byte(max(0, slices.Index(textKinds, t.Kind)))<<1
	if t.Begins {
		b |= textBegins
	}
	c.byteField(&b)
	kind := int(b &^ textBegins >> 1)
	if kind >= len(textKinds) {
		c.malformed, kind = true, 0
	}
	t.Stream, t.Kind, t.Begins = Stream(b&1), textKinds[kind], b&textBegins != 0
}

// bundleField encodes or decodes bytes by MIME type.
func (c *codec) bundleField(d *Display) {
	n := uint64(len(d.Data))
	c.visitUint("", &n)
	if c.writing {
		for _, mime := range slices.Sorted(maps.Keys(d.Data)) {
			data := d.Data[mime]
			c.visitText("", &mime)
			if len(data) < minBlobBytes {
				c.visitBytes("", &data)
			} else {
				sum, ok := d.digests[mime]
				if !ok {
					sum = sha256.Sum256(data)
				}
				c.writeBlob(sum, data)
			}
		}
		return
	}
	if n > uint64(len(c.buf)) {
		c.malformed, c.buf = true, nil
		return
	}
	d.Data = make(map[string][]byte)
	for ; n > 0 && !c.malformed; n-- {
		var mime string
		c.visitText("", &mime)
		c.readData(d, mime)
	}
}

// writeBlob writes the size of data, its digest, and either its offset in the file or the data.
func (c *codec) writeBlob(sum Digest, data []byte) {
	size := uint64(len(data))
	c.visitUint("", &size)
	c.buf = append(c.buf, sum[:]...)
	at, ok := c.findBlob(sum, size)
	if ok {
		c.visitInt64("", &at.Offset)
	} else {
		at = c.writeInline(data)
	}
	c.addBlob(BlobLocation{Sum: sum, Ranges: at})
}

func (c *codec) writeInline(data []byte) FileRange {
	mark := int64(markInline)
	c.visitInt64("", &mark)
	r := FileRange{c.base + int64(len(c.buf)), uint64(len(data))}
	c.buf = append(c.buf, data...)
	return r
}

// findBlob returns where data is in the file, if it is already there.
func (c *codec) findBlob(sum Digest, size uint64) (FileRange, bool) {
	at, ok := c.newBlobs[sum]
	if !ok {
		at, ok = c.blobs[sum]
	}
	return at, ok && at.Size == size // a record that was read may name a different digest
}

func (c *codec) addBlob(b BlobLocation) {
	if c.newBlobs == nil {
		c.newBlobs = make(map[Digest]FileRange)
	}
	c.newBlobs[b.Sum] = b.Ranges
	c.locations = append(c.locations, b)
}

// readData reads the data of one display type.
func (c *codec) readData(d *Display, mime string) {
	var size uint64
	if c.visitUint("", &size); size < minBlobBytes {
		d.Data[mime] = c.takeBytes(size)
		return
	}
	var sum Digest
	var offset int64
	copy(sum[:], c.takeBytes(uint64(len(sum))))
	c.visitInt64("", &offset)
	if offset == markInline {
		d.Data[mime] = c.takeBytes(size)
	} else {
		if d.unread == nil {
			d.unread = make(map[string]FileRange)
		}
		c.malformed = c.malformed || offset < 0
		d.unread[mime] = FileRange{offset, size}
	}
	if d.digests == nil {
		d.digests = make(map[string]Digest)
	}
	d.digests[mime] = sum
}

// takeBytes consumes n bytes.
func (c *codec) takeBytes(n uint64) []byte {
	if n > uint64(len(c.buf)) {
		c.malformed, c.buf = true, nil
		return nil
	}
	data := c.buf[:n:n]
	c.buf = c.buf[n:]
	return data
}

func (c *codec) visitUint(_ string, v *uint64) {
	if c.writing {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	n := 0
	*v, n = binary.Uvarint(c.buf)
	c.skipBytes(n)
}

func (c *codec) visitInt64(_ string, v *int64) {
	if c.writing {
		c.buf = binary.AppendVarint(c.buf, *v)
		return
	}
	n := 0
	*v, n = binary.Varint(c.buf)
	c.skipBytes(n)
}

func (c *codec) visitInt(_ string, v *int) {
	n := int64(*v)
	c.visitInt64("", &n)
	*v = int(n)
}

// skipBytes drops the n bytes of a number; n <= 0 means that decoding it failed.
func (c *codec) skipBytes(n int) {
	if n <= 0 {
		c.malformed, c.buf = true, nil
		return
	}
	c.buf = c.buf[n:]
}

func (c *codec) visitFloat(_ string, v *float64) {
	n := math.Float64bits(*v)
	c.visitUint("", &n)
	*v = math.Float64frombits(n)
}

func (c *codec) visitDuration(_ string, v *time.Duration) { c.visitInt64("", (*int64)(v)) }

func (c *codec) visitBytes(_ string, v *[]byte) {
	n := uint64(len(*v))
	c.visitUint("", &n)
	switch {
	case c.writing:
		c.buf = append(c.buf, *v...)
	case n > uint64(len(c.buf)):
		c.malformed, c.buf = true, nil
	default:
		*v, c.buf = c.buf[:n:n], c.buf[n:]
	}
}

func (c *codec) visitText(_ string, v *string) {
	if c.writing { // without a copy
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	var b []byte
	c.visitBytes("", &b)
	*v = string(b)
}
