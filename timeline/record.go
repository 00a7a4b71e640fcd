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
//	u8  flags: 1 if BetweenTurns, 2 if Silent
//	seq, generation, turn: uvarint
//	line: varint; at: varint, nanoseconds since 1970
//	previous: varint, offset of the previous structural record, -1 if none; not in
//	          records of text and displays
//	the fields of the body in the order of bodyFields: numbers as varints,
//	texts with their length before them; data of a display with minBlobBytes or more
//	has its digest before it, and the second time only its offset in the file
//
// The file has no version. Only the process that wrote it reads it, and ReadFile, whose caller
// knows the writer.
const (
	kindText byte = iota + 1
	kindTurnStarted
	kindTurnEnded
	kindInputRequested
	kindInputRequestEnded
	kindInputLine
	kindInterrupt
	kindProgress
	kindNotice
	kindWorkerStarted
	kindWorkerExited
	kindPreparation
	kindAccessDenied
	kindAccessGranted
	kindLimit
	kindCall
	kindDisplay
	kindOutputCleared
	kindFullScreenChanged
)

func recordKind(b Body) byte {
	switch b.(type) {
	case Text:
		return kindText
	case Display:
		return kindDisplay
	case OutputCleared:
		return kindOutputCleared
	case FullScreenChanged:
		return kindFullScreenChanged
	case TurnStarted:
		return kindTurnStarted
	case TurnEnded:
		return kindTurnEnded
	case InputRequested:
		return kindInputRequested
	case InputRequestEnded:
		return kindInputRequestEnded
	case InputLine:
		return kindInputLine
	case Interrupt:
		return kindInterrupt
	case Progress:
		return kindProgress
	case Notice:
		return kindNotice
	case WorkerStarted:
		return kindWorkerStarted
	case WorkerExited:
		return kindWorkerExited
	case Preparation:
		return kindPreparation
	case Limit:
		return kindLimit
	case AccessDenied:
		return kindAccessDenied
	case AccessGranted:
		return kindAccessGranted
	case Call:
		return kindCall
	}
	return 0
}

// isStructural reports whether an event is kept when the output around it is left out.
func isStructural(b Body) bool {
	switch b.(type) {
	case Text, Display:
		return false
	}
	return true
}

// A blobLocation says where data is in the events file.
type blobLocation struct {
	sum    digest
	ranges fileRange
}

// markInline replaces an offset when the data itself follows.
const markInline = -1

// appendRecord appends the record of an event at a position to buf. It does not repeat data
// that is already in the file, and returns where the event's data is.
func appendRecord(buf []byte, e Event, at eventPosition, blobs map[digest]fileRange) ([]byte, []blobLocation) {
	start := len(buf)
	c := codec{buf: append(buf, 0, 0, 0, 0), writing: true, blobs: blobs, base: at.offset - int64(start)}
	c.eventFields(&e, &at.lastStructural)
	binary.BigEndian.PutUint32(c.buf[start:], uint32(len(c.buf)-start-4))
	return c.buf, c.locations
}

var errMalformedRecord = errors.New("timeline: malformed record in the events file")

// readRecord reads one record of at most left bytes. It also returns its size in the file. Data
// that the record does not repeat stays unread.
func readRecord(r *bufio.Reader, left int64) (e Event, previous, size int64, err error) {
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

// A codec encodes or decodes fields, so that one description serves both directions.
type codec struct {
	buf       []byte // for writing: bytes written; for reading: bytes left
	writing   bool
	malformed bool // reading: a field was missing or wrong

	blobs     map[digest]fileRange // writing: data already in the file
	newBlobs  map[digest]fileRange // writing: data new in the file
	locations []blobLocation       // writing: locations of the event's data, in order
	base      int64                // writing: the offset of buf[0] in the file
}

func (c *codec) eventFields(e *Event, previous *int64) {
	kind, at := recordKind(e.Body), e.At.UnixNano()
	c.byteField(&kind)
	c.flagFields(&e.BetweenTurns, &e.Silent)
	c.uintField((*uint64)(&e.Seq))
	c.uintField(&e.Generation)
	c.uintField(&e.Turn)
	c.intField(&e.Line)
	c.int64Field(&at)
	if kind != kindText && kind != kindDisplay {
		c.int64Field(previous)
	}
	body := c.bodyFields(kind, e.Body)
	if !c.writing {
		e.At, e.Body = time.Unix(0, at), body
	}
}

// bodyFields encodes or decodes the fields of a body and returns the result.
func (c *codec) bodyFields(kind byte, body Body) Body {
	switch kind {
	case kindText, kindDisplay, kindOutputCleared, kindFullScreenChanged:
		return c.outputFields(kind, body)
	case kindTurnStarted, kindTurnEnded, kindInputRequested, kindInputRequestEnded, kindInputLine, kindInterrupt, kindProgress:
		return c.turnFields(kind, body)
	case kindNotice, kindWorkerStarted, kindWorkerExited, kindLimit, kindPreparation:
		return c.workerFields(kind, body)
	case kindAccessDenied, kindAccessGranted, kindCall:
		return c.accessFields(kind, body)
	}
	c.malformed = true
	return nil
}

// outputFields encodes or decodes the fields of output.
func (c *codec) outputFields(kind byte, body Body) Body {
	switch kind {
	case kindText:
		b, _ := body.(Text)
		c.textKindField(&b)
		c.bytesField(&b.Data)
		return b
	case kindDisplay:
		b, _ := body.(Display)
		c.bundleField(&b)
		c.bytesField(&b.Meta)
		c.stringField(&b.ID)
		c.flagFields(&b.Update, &b.Result)
		c.stringField(&b.Title)
		return b
	case kindOutputCleared:
		b, _ := body.(OutputCleared)
		c.boolField(&b.Wait)
		return b
	default: // kindFullScreenChanged
		b, _ := body.(FullScreenChanged)
		c.boolField(&b.On)
		return b
	}
}

// turnFields encodes or decodes the fields of an event in the course of a turn.
func (c *codec) turnFields(kind byte, body Body) Body {
	switch kind {
	case kindTurnStarted:
		b, _ := body.(TurnStarted)
		c.bytesField(&b.Input)
		c.intField(&b.InputBytes)
		c.stringField(&b.Author)
		return b
	case kindTurnEnded:
		b, _ := body.(TurnEnded)
		c.stringField((*string)(&b.Outcome))
		c.stringField(&b.Name)
		c.stringField(&b.Message)
		c.stringField(&b.Prompt)
		c.int64Field((*int64)(&b.Elapsed))
		code := int64(b.Code)
		c.int64Field(&code)
		c.stringField(&b.Signal)
		b.Code = int(code)
		return b
	case kindInputRequested:
		b, _ := body.(InputRequested)
		c.stringField(&b.Prompt)
		c.stringField((*string)(&b.Kind))
		c.boolField(&b.Terminal)
		c.stringField(&b.Reader)
		c.uintField(&b.PermissionID)
		c.deniedFields(&b.Denied)
		return b
	case kindInputRequestEnded:
		b, _ := body.(InputRequestEnded)
		c.uintField((*uint64)(&b.Request))
		return b
	case kindInputLine:
		b, _ := body.(InputLine)
		c.stringField(&b.Prompt)
		c.stringField(&b.Text)
		c.boolField(&b.Secret)
		c.stringField(&b.Author)
		return b
	case kindInterrupt:
		b, _ := body.(Interrupt)
		c.intField(&b.Level)
		c.stringField(&b.Author)
		return b
	default: // kindProgress
		b, _ := body.(Progress)
		c.floatField(&b.Progress)
		c.floatField(&b.Total)
		c.stringField(&b.Message)
		return b
	}
}

// workerFields encodes or decodes the fields of an event about the worker and its limits.
func (c *codec) workerFields(kind byte, body Body) Body {
	switch kind {
	case kindNotice:
		b, _ := body.(Notice)
		c.stringField(&b.Message)
		return b
	case kindWorkerStarted:
		b, _ := body.(WorkerStarted)
		c.stringField(&b.Worker)
		return b
	case kindWorkerExited:
		b, _ := body.(WorkerExited)
		code := int64(b.ExitCode)
		c.stringField(&b.Reason)
		c.int64Field(&code)
		c.stringField(&b.Signal)
		c.stringField(&b.Message)
		c.boolField(&b.Clean)
		c.boolField(&b.NeverReady)
		c.stringField(&b.LastLine)
		c.int64Field(&b.PeakRSSBytes)
		b.ExitCode = int(code)
		return b
	case kindLimit:
		b, _ := body.(Limit)
		c.stringField((*string)(&b.Kind))
		c.int64Field(&b.Used)
		c.int64Field(&b.Max)
		c.boolField(&b.AllSessions)
		c.stringField((*string)(&b.Step))
		c.stringField(&b.Program)
		return b
	default: // kindPreparation
		b, _ := body.(Preparation)
		c.stringField(&b.Name)
		c.stringField(&b.Message)
		c.int64Field(&b.Done)
		c.int64Field(&b.Total)
		return b
	}
}

// accessFields encodes or decodes the fields of an event about what code accesses and calls.
func (c *codec) accessFields(kind byte, body Body) Body {
	switch kind {
	case kindAccessDenied:
		b, _ := body.(AccessDenied)
		c.deniedFields(&b)
		return b
	case kindAccessGranted:
		b, _ := body.(AccessGranted)
		c.stringField(&b.Write)
		c.stringField(&b.Host)
		c.stringField(&b.Call)
		c.boolField(&b.Always)
		c.stringField(&b.Author)
		c.stringField(&b.Read)
		return b
	default: // kindCall
		b, _ := body.(Call)
		c.stringField(&b.Name)
		c.intField(&b.Count)
		c.intField(&b.Failed)
		c.intField(&b.Cancelled)
		c.int64Field(&b.Sent)
		c.int64Field(&b.Received)
		c.int64Field((*int64)(&b.Elapsed))
		return b
	}
}

func (c *codec) deniedFields(v *AccessDenied) {
	c.stringField(&v.Op)
	c.stringField(&v.Path)
	c.stringField(&v.Host)
	c.stringField(&v.ChildProgram)
	c.stringField(&v.Hint)
	c.stringField(&v.Call)
	c.stringField(&v.Detail)
	c.boolField(&v.Destructive)
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

func (c *codec) boolField(v *bool) {
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

// textKindField encodes or decodes the stream and kind of a text in one byte.
func (c *codec) textKindField(t *Text) {
	b := byte(t.Stream) | byte(max(0, slices.Index(textKinds, t.Kind)))<<1
	c.byteField(&b)
	kind := int(b >> 1)
	if kind >= len(textKinds) {
		c.malformed, kind = true, 0
	}
	t.Stream, t.Kind = Stream(b&1), textKinds[kind]
}

// bundleField encodes or decodes bytes by MIME type.
func (c *codec) bundleField(d *Display) {
	n := uint64(len(d.Data))
	c.uintField(&n)
	if c.writing {
		for _, mime := range slices.Sorted(maps.Keys(d.Data)) {
			data := d.Data[mime]
			c.stringField(&mime)
			if len(data) < minBlobBytes {
				c.bytesField(&data)
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
		c.stringField(&mime)
		c.readData(d, mime)
	}
}

// writeBlob writes the size of data, its digest, and either its offset in the file or the data.
func (c *codec) writeBlob(sum digest, data []byte) {
	size := uint64(len(data))
	c.uintField(&size)
	c.buf = append(c.buf, sum[:]...)
	at, ok := c.findBlob(sum, size)
	if ok {
		c.int64Field(&at.offset)
	} else {
		at = c.writeInline(data)
	}
	c.addBlob(blobLocation{sum: sum, ranges: at})
}

func (c *codec) writeInline(data []byte) fileRange {
	mark := int64(markInline)
	c.int64Field(&mark)
	r := fileRange{c.base + int64(len(c.buf)), uint64(len(data))}
	c.buf = append(c.buf, data...)
	return r
}

// findBlob returns where data is in the file, if it is already there.
func (c *codec) findBlob(sum digest, size uint64) (fileRange, bool) {
	at, ok := c.newBlobs[sum]
	if !ok {
		at, ok = c.blobs[sum]
	}
	return at, ok && at.size == size // a record that was read may name a different digest
}

func (c *codec) addBlob(b blobLocation) {
	if c.newBlobs == nil {
		c.newBlobs = make(map[digest]fileRange)
	}
	c.newBlobs[b.sum] = b.ranges
	c.locations = append(c.locations, b)
}

// readData reads the data of one display type.
func (c *codec) readData(d *Display, mime string) {
	var size uint64
	if c.uintField(&size); size < minBlobBytes {
		d.Data[mime] = c.takeBytes(size)
		return
	}
	var sum digest
	var offset int64
	copy(sum[:], c.takeBytes(uint64(len(sum))))
	c.int64Field(&offset)
	if offset == markInline {
		d.Data[mime] = c.takeBytes(size)
	} else {
		if d.unread == nil {
			d.unread = make(map[string]fileRange)
		}
		c.malformed = c.malformed || offset < 0
		d.unread[mime] = fileRange{offset, size}
	}
	if d.digests == nil {
		d.digests = make(map[string]digest)
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

func (c *codec) uintField(v *uint64) {
	if c.writing {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	n := 0
	*v, n = binary.Uvarint(c.buf)
	c.skipBytes(n)
}

func (c *codec) int64Field(v *int64) {
	if c.writing {
		c.buf = binary.AppendVarint(c.buf, *v)
		return
	}
	n := 0
	*v, n = binary.Varint(c.buf)
	c.skipBytes(n)
}

func (c *codec) intField(v *int) {
	n := int64(*v)
	c.int64Field(&n)
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

func (c *codec) floatField(v *float64) {
	n := math.Float64bits(*v)
	c.uintField(&n)
	*v = math.Float64frombits(n)
}

func (c *codec) bytesField(v *[]byte) {
	n := uint64(len(*v))
	c.uintField(&n)
	switch {
	case c.writing:
		c.buf = append(c.buf, *v...)
	case n > uint64(len(c.buf)):
		c.malformed, c.buf = true, nil
	default:
		*v, c.buf = c.buf[:n:n], c.buf[n:]
	}
}

func (c *codec) stringField(v *string) {
	if c.writing { // without a copy
		c.buf = binary.AppendUvarint(c.buf, uint64(len(*v)))
		c.buf = append(c.buf, *v...)
		return
	}
	var b []byte
	c.bytesField(&b)
	*v = string(b)
}
