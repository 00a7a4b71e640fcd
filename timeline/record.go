package timeline

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
//	u8  flags: 1 if Between, 2 if Silent
//	seq, generation, turn: uvarint
//	line: varint; at: varint, nanoseconds since 1970
//	previous: varint, offset of the structural record before, -1 if none; not in
//	          records of text and pictures
//	the fields of the body in the order of bodyFields: numbers as varints,
//	texts with their length before them; data of a display with blobBytes or more
//	has its digest before it, and the second time only its offset in the file
//
// The file has no version. Only the process that wrote it reads it, and ReadFile, whose caller
// knows the writer.
const (
	kindText byte = iota + 1
	kindTurnStarted
	kindTurnEnded
	kindWait
	kindWaitEnded
	kindInputLine
	kindInterrupt
	kindProgress
	kindNotice
	kindGenerationStarted
	kindGenerationEnded
	kindPreparation
	kindDenied
	kindGranted
	kindLimit
	kindCall
	kindDisplay
	kindClear
	kindScreen
)

func kindOf(b Body) byte {
	switch b.(type) {
	case Text:
		return kindText
	case Display:
		return kindDisplay
	case Clear:
		return kindClear
	case Screen:
		return kindScreen
	case TurnStarted:
		return kindTurnStarted
	case TurnEnded:
		return kindTurnEnded
	case Wait:
		return kindWait
	case WaitEnded:
		return kindWaitEnded
	case InputLine:
		return kindInputLine
	case Interrupt:
		return kindInterrupt
	case Progress:
		return kindProgress
	case Notice:
		return kindNotice
	case GenerationStarted:
		return kindGenerationStarted
	case GenerationEnded:
		return kindGenerationEnded
	case Preparation:
		return kindPreparation
	case Limit:
		return kindLimit
	case Denied:
		return kindDenied
	case Granted:
		return kindGranted
	case Call:
		return kindCall
	}
	return 0
}

// structural reports whether an event is kept when output around it is left out.
func structural(b Body) bool {
	switch b.(type) {
	case Text, Display:
		return false
	}
	return true
}

// A placedBlob is data in the events file.
type placedBlob struct {
	sum digest
	at  region
}

// hereWhole stands in place of an offset when the data follows.
const hereWhole = -1

// appendRecord adds the record of an event that stands at a place to buf. It does not repeat
// data that is in the file already, and returns where its data is.
func appendRecord(buf []byte, e Event, at place, blobs map[digest]region) ([]byte, []placedBlob) {
	start := len(buf)
	c := codec{buf: append(buf, 0, 0, 0, 0), writing: true, blobs: blobs, base: at.offset - int64(start)}
	c.event(&e, &at.structural)
	binary.BigEndian.PutUint32(c.buf[start:], uint32(len(c.buf)-start-4))
	return c.buf, c.placed
}

var errRecord = errors.New("timeline: malformed record in the events file")

// readRecord reads one record of at most left bytes. It also returns its size in the
// file. Data that the record does not repeat is still apart.
func readRecord(r *bufio.Reader, left int64) (e Event, previous, size int64, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Event{}, 0, 0, err
	}
	size = 4 + int64(binary.BigEndian.Uint32(head[:]))
	if size > left {
		return Event{}, 0, 0, fmt.Errorf("%w: %d bytes where %d are left", errRecord, size, left)
	}
	c := codec{buf: make([]byte, size-4)}
	if _, err := io.ReadFull(r, c.buf); err != nil {
		return Event{}, 0, 0, err
	}
	c.event(&e, &previous)
	if c.bad || len(c.buf) > 0 {
		return Event{}, 0, 0, errRecord
	}
	return e, previous, size, nil
}

// A codec writes or reads fields: one description serves both directions.
type codec struct {
	buf     []byte // for writing: bytes written; for reading: bytes left
	writing bool
	bad     bool // reading: a field was missing or wrong

	blobs  map[digest]region // writing: data that is in the file
	fresh  map[digest]region // writing: data that is new in the file
	placed []placedBlob      // writing: where the data of the event is, in order
	base   int64             // writing: the offset of buf[0] in the file
}

func (c *codec) event(e *Event, previous *int64) {
	kind, at := kindOf(e.Body), e.At.UnixNano()
	c.byte(&kind)
	c.flags(&e.Between, &e.Silent)
	c.uint((*uint64)(&e.Seq))
	c.uint(&e.Generation)
	c.uint(&e.Turn)
	c.int(&e.Line)
	c.int64(&at)
	if kind != kindText && kind != kindDisplay {
		c.int64(previous)
	}
	body := c.body(kind, e.Body)
	if !c.writing {
		e.At, e.Body = time.Unix(0, at), body
	}
}

// body writes or reads the fields of a body and returns the result.
func (c *codec) body(kind byte, body Body) Body {
	switch kind {
	case kindText:
		b, _ := body.(Text)
		c.textKind(&b)
		c.bytes(&b.Data)
		return b
	case kindDisplay:
		b, _ := body.(Display)
		c.bundle(&b)
		c.bytes(&b.Meta)
		c.string(&b.ID)
		c.flags(&b.Update, &b.Result)
		c.string(&b.Title)
		return b
	case kindClear:
		b, _ := body.(Clear)
		c.bool(&b.Wait)
		return b
	case kindScreen:
		b, _ := body.(Screen)
		c.bool(&b.On)
		return b
	case kindTurnStarted:
		b, _ := body.(TurnStarted)
		c.bytes(&b.Input)
		c.int(&b.Bytes)
		c.string(&b.Author)
		return b
	case kindTurnEnded:
		b, _ := body.(TurnEnded)
		c.string((*string)(&b.Outcome))
		c.string(&b.Name)
		c.string(&b.Message)
		c.string(&b.Prompt)
		c.int64((*int64)(&b.Elapsed))
		code := int64(b.Code)
		c.int64(&code)
		c.string(&b.Signal)
		b.Code = int(code)
		return b
	case kindWait:
		b, _ := body.(Wait)
		c.string(&b.Prompt)
		c.string((*string)(&b.Kind))
		c.bool(&b.Terminal)
		c.string(&b.Reader)
		c.uint(&b.Permission)
		c.denied(&b.Asks)
		return b
	case kindWaitEnded:
		b, _ := body.(WaitEnded)
		c.uint((*uint64)(&b.Wait))
		return b
	case kindInputLine:
		b, _ := body.(InputLine)
		c.string(&b.Prompt)
		c.string(&b.Text)
		c.bool(&b.Secret)
		c.string(&b.Author)
		return b
	case kindInterrupt:
		b, _ := body.(Interrupt)
		c.int(&b.Level)
		c.string(&b.Author)
		return b
	case kindProgress:
		b, _ := body.(Progress)
		c.float(&b.Progress)
		c.float(&b.Total)
		c.string(&b.Message)
		return b
	case kindNotice:
		b, _ := body.(Notice)
		c.string(&b.Message)
		return b
	case kindGenerationStarted:
		b, _ := body.(GenerationStarted)
		c.string(&b.Worker)
		return b
	case kindGenerationEnded:
		b, _ := body.(GenerationEnded)
		code := int64(b.Code)
		c.string(&b.Reason)
		c.int64(&code)
		c.string(&b.Signal)
		c.string(&b.Message)
		c.bool(&b.Clean)
		c.bool(&b.Unready)
		c.string(&b.LastLine)
		c.int64(&b.PeakRSS)
		b.Code = int(code)
		return b
	case kindLimit:
		b, _ := body.(Limit)
		c.string((*string)(&b.What))
		c.int64(&b.Used)
		c.int64(&b.Max)
		c.bool(&b.All)
		c.string((*string)(&b.Did))
		c.string(&b.Program)
		return b
	case kindPreparation:
		b, _ := body.(Preparation)
		c.string(&b.What)
		c.string(&b.Message)
		c.int64(&b.Done)
		c.int64(&b.Total)
		return b
	case kindDenied:
		b, _ := body.(Denied)
		c.denied(&b)
		return b
	case kindGranted:
		b, _ := body.(Granted)
		c.string(&b.Write)
		c.string(&b.Host)
		c.string(&b.Call)
		c.bool(&b.Always)
		c.string(&b.Author)
		c.string(&b.Read)
		return b
	case kindCall:
		b, _ := body.(Call)
		c.string(&b.Name)
		c.int(&b.Count)
		c.int(&b.Failed)
		c.int(&b.Cancelled)
		c.int64(&b.Sent)
		c.int64(&b.Received)
		c.int64((*int64)(&b.Elapsed))
		return b
	}
	c.bad = true
	return nil
}

func (c *codec) denied(v *Denied) {
	c.string(&v.Op)
	c.string(&v.Path)
	c.string(&v.Host)
	c.string(&v.By)
	c.string(&v.Remedy)
	c.string(&v.Call)
	c.string(&v.With)
	c.bool(&v.Destructive)
}

func (c *codec) byte(v *byte) {
	switch {
	case c.writing:
		c.buf = append(c.buf, *v)
	case len(c.buf) == 0:
		c.bad = true
	default:
		*v, c.buf = c.buf[0], c.buf[1:]
	}
}

func (c *codec) bool(v *bool) {
	var b byte
	if *v {
		b = 1
	}
	c.byte(&b)
	c.bad = c.bad || b > 1
	*v = b == 1
}

// flags writes or reads two truths in one byte.
func (c *codec) flags(one, two *bool) {
	var b byte
	if *one {
		b |= 1
	}
	if *two {
		b |= 2
	}
	c.byte(&b)
	c.bad = c.bad || b > 3
	*one, *two = b&1 != 0, b&2 != 0
}

// textKinds are the kinds of text by their number in a record.
var textKinds = []TextKind{"", TextResult, TextTraceback}

// textKind writes or reads stream and kind of a text in one byte.
func (c *codec) textKind(t *Text) {
	b := byte(t.Stream) | byte(max(0, slices.Index(textKinds, t.Kind)))<<1
	c.byte(&b)
	kind := int(b >> 1)
	if kind >= len(textKinds) {
		c.bad, kind = true, 0
	}
	t.Stream, t.Kind = Stream(b&1), textKinds[kind]
}

// bundle writes or reads bytes by MIME type.
func (c *codec) bundle(d *Display) {
	n := uint64(len(d.Data))
	c.uint(&n)
	if c.writing {
		for _, mime := range slices.Sorted(maps.Keys(d.Data)) {
			data := d.Data[mime]
			c.string(&mime)
			if len(data) < blobBytes {
				c.bytes(&data)
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
		c.bad, c.buf = true, nil
		return
	}
	d.Data = make(map[string][]byte)
	for ; n > 0 && !c.bad; n-- {
		var mime string
		c.string(&mime)
		c.readPart(d, mime)
	}
}

// writeBlob writes the size of data, its digest, and where it is, or the data.
func (c *codec) writeBlob(sum digest, data []byte) {
	size := uint64(len(data))
	c.uint(&size)
	c.buf = append(c.buf, sum[:]...)
	at, ok := c.find(sum, size)
	if ok {
		c.int64(&at.offset)
	} else {
		at = c.writeHere(data)
	}
	c.place(placedBlob{sum: sum, at: at})
}

func (c *codec) writeHere(data []byte) region {
	mark := int64(hereWhole)
	c.int64(&mark)
	r := region{c.base + int64(len(c.buf)), uint64(len(data))}
	c.buf = append(c.buf, data...)
	return r
}

// find returns where data is in the file, if it is there.
func (c *codec) find(sum digest, size uint64) (region, bool) {
	at, ok := c.fresh[sum]
	if !ok {
		at, ok = c.blobs[sum]
	}
	return at, ok && at.size == size // a record that was read may have named another digest
}

func (c *codec) place(b placedBlob) {
	if c.fresh == nil {
		c.fresh = make(map[digest]region)
	}
	c.fresh[b.sum] = b.at
	c.placed = append(c.placed, b)
}

// readPart reads data of a display.
func (c *codec) readPart(d *Display, mime string) {
	var size uint64
	if c.uint(&size); size < blobBytes {
		d.Data[mime] = c.next(size)
		return
	}
	var sum digest
	var offset int64
	copy(sum[:], c.next(uint64(len(sum))))
	c.int64(&offset)
	if offset == hereWhole {
		d.Data[mime] = c.next(size)
	} else {
		if d.apart == nil {
			d.apart = make(map[string]region)
		}
		c.bad = c.bad || offset < 0
		d.apart[mime] = region{offset, size}
	}
	if d.digests == nil {
		d.digests = make(map[string]digest)
	}
	d.digests[mime] = sum
}

// next takes n bytes.
func (c *codec) next(n uint64) []byte {
	if n > uint64(len(c.buf)) {
		c.bad, c.buf = true, nil
		return nil
	}
	data := c.buf[:n:n]
	c.buf = c.buf[n:]
	return data
}

func (c *codec) uint(v *uint64) {
	if c.writing {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	n := 0
	*v, n = binary.Uvarint(c.buf)
	c.skip(n)
}

func (c *codec) int64(v *int64) {
	if c.writing {
		c.buf = binary.AppendVarint(c.buf, *v)
		return
	}
	n := 0
	*v, n = binary.Varint(c.buf)
	c.skip(n)
}

func (c *codec) int(v *int) {
	n := int64(*v)
	c.int64(&n)
	*v = int(n)
}

// skip drops the n bytes of a number; n <= 0 means that there was none.
func (c *codec) skip(n int) {
	if n <= 0 {
		c.bad, c.buf = true, nil
		return
	}
	c.buf = c.buf[n:]
}

func (c *codec) float(v *float64) {
	n := math.Float64bits(*v)
	c.uint(&n)
	*v = math.Float64frombits(n)
}

func (c *codec) bytes(v *[]byte) {
	n := uint64(len(*v))
	c.uint(&n)
	switch {
	case c.writing:
		c.buf = append(c.buf, *v...)
	case n > uint64(len(c.buf)):
		c.bad, c.buf = true, nil
	default:
		*v, c.buf = c.buf[:n:n], c.buf[n:]
	}
}

func (c *codec) string(v *string) {
	if c.writing { // without a copy
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	var b []byte
	c.bytes(&b)
	*v = string(b)
}
