package timeline

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxLineBytes bounds the part of an unfinished line that can still be rewritten.
	// A longer line goes on, as on a terminal of that width, but a carriage return no
	// longer reaches its beginning.
	maxLineBytes = 64 << 10

	// Escape sequences longer than these are given up and shown as text, so that
	// a stray introducer cannot hide what follows. Strings carry pictures and
	// clipboards, hence the size. A newline ends either.
	maxControlBytes = 256
	maxStringBytes  = 1 << 20

	maxColumn = 1000 // how far a cursor movement may go to the right
)

// A printer turns the bytes of both streams into lines, like a terminal that can rewrite
// only its last line. It decodes UTF-8, applies \r, \b, erase-in-line and horizontal
// cursor movements, drops other escape sequences, and shows meaningless bytes as \xNN.
//
// The result does not depend on how the bytes are cut into chunks. Every newline byte
// finishes exactly one line, so lines can be counted in the raw bytes. Memory is bounded
// by maxLineBytes as long as the caller takes out.
type printer struct {
	out   []byte // final text, which the caller takes
	line  []byte // the rest of the unfinished line, in cells: see shown
	at    int    // byte offset of the cursor in line
	lines int    // number of finished lines

	continued bool // out holds the beginning of the unfinished line
	rewritten bool // something in it was overwritten or erased

	streams [2]decoder // by Stream
}

// A decoder holds the unfinished characters and sequences of one stream.
type decoder struct {
	state  escapeState
	params []byte // of a control sequence
	length int    // of the sequence so far, in bytes
	rune   [utf8.UTFMax]byte
	held   int // bytes of rune, always the beginning of a character
}

type escapeState uint8

const (
	ground         escapeState = iota // text
	escaped                           // after ESC
	escapedCharset                    // after ESC and an intermediate byte
	control                           // after ESC [
	str                               // after ESC ], P, X, ^ or _
	strEscaped                        // ESC within such a string
)

// Plain returns text as a terminal would show it in the end, as Render has it.
func Plain(text string) string {
	var p printer
	p.write(Stdout, []byte(text))
	p.flush()
	return string(p.out) + string(shown(nil, p.line))
}

// A meaningless byte is one cell of the line, like every character: the cursor moves
// over all of it, and writing replaces all of it. Such a cell is one of these bytes,
// which never occur in UTF-8, and two hexadecimal digits.
const (
	byteCell    = 0xff // becomes \xNN
	controlCell = 0xfe // becomes \u00NN
	cellBytes   = 3
)

// shown appends a line in the form for readers.
func shown(out, line []byte) []byte {
	if bytes.IndexByte(line, byteCell) < 0 && bytes.IndexByte(line, controlCell) < 0 {
		return append(out, line...)
	}
	for _, c := range line { // the digits of a cell follow as they are
		switch c {
		case byteCell:
			out = append(out, `\x`...)
		case controlCell:
			out = append(out, `\u00`...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// firstCell returns the length of the first cell of a line.
func firstCell(line []byte) int {
	if line[0] >= controlCell {
		return cellBytes
	}
	_, n := utf8.DecodeRune(line)
	return n
}

// lastCell returns the length of the last cell of a line.
func lastCell(line []byte) int {
	if i := len(line) - cellBytes; i >= 0 && line[i] >= controlCell {
		return cellBytes
	}
	_, n := utf8.DecodeLastRune(line)
	return n
}

// Lines splits a session's text into lines, as Render and the output file show them. The
// zero value is ready. It holds at most 64 KiB of the unfinished line.
type Lines struct{ p printer }

// Add adds text and returns the lines that it finishes.
func (l *Lines) Add(t Text) []string {
	before := l.p.lines
	l.p.write(t.Stream, t.Data)
	if l.p.lines == before {
		l.p.out = l.p.out[:0] // the beginning of a line that is too long
		return nil
	}
	lines := strings.Split(string(l.p.out), "\n")
	l.p.out = l.p.out[:0]
	return lines[:l.p.lines-before]
}

// Open returns the unfinished line.
func (l *Lines) Open() string { return string(l.p.line) }

// open reports whether the last line has text and is unfinished.
func (p *printer) open() bool { return len(p.line) > 0 || p.continued }

// write prints bytes of one stream.
func (p *printer) write(s Stream, data []byte) {
	d := &p.streams[s&1]
	for len(data) > 0 {
		switch {
		case d.state != ground:
			data = p.escape(d, data)
		case d.held > 0:
			data = p.resume(d, data)
		default:
			data = p.text(d, data)
		}
	}
}

// flush shows incomplete characters and drops unfinished escape sequences.
func (p *printer) flush() {
	for i := range p.streams {
		d := &p.streams[i]
		d.state = ground
		p.showBytes(d.rune[:d.held])
		d.held = 0
	}
}

// endLine finishes the last line.
func (p *printer) endLine() {
	line := p.line
	if p.rewritten {
		line = bytes.TrimRight(line, " ") // the padding after a shorter text
	}
	p.out = append(shown(p.out, line), '\n')
	p.line, p.at = p.line[:0], 0
	p.continued, p.rewritten = false, false
	p.lines++
}

// breakLine finishes the last line if it has text.
func (p *printer) breakLine() {
	if p.open() {
		p.endLine()
	}
}

// text prints the beginning of data, up to something that changes d's state.
func (p *printer) text(d *decoder, data []byte) []byte {
	if n := plainPrefix(data); n > 0 {
		p.plain(data[:n])
		return data[n:]
	}
	switch c := data[0]; {
	case c == '\r':
		p.at = 0
	case c == '\b':
		p.back(1)
	case c == 0x1b:
		d.state, d.length = escaped, 0
	case c >= utf8.RuneSelf:
		return p.characters(d, data)
	default:
		p.showBytes(data[:1])
	}
	return data[1:]
}

// plain prints text that plainPrefix has approved. Whole lines need no editing.
func (p *printer) plain(data []byte) {
	last := bytes.LastIndexByte(data, '\n')
	if last < 0 {
		p.put(data)
		return
	}
	rest := data[last+1:]
	data = data[:last+1]
	if p.open() || p.rewritten {
		first := bytes.IndexByte(data, '\n')
		p.put(data[:first])
		p.endLine()
		data = data[first+1:]
	}
	p.out = append(p.out, data...)
	p.lines += bytes.Count(data, newline)
	p.put(rest)
}

var newline = []byte{'\n'}

// plainPrefix returns how many bytes at the beginning are printable ASCII, tab or
// newline.
func plainPrefix(data []byte) int {
	const (
		ones = 0x0101010101010101
		high = 0x8080808080808080
	)
	n := 0
	for {
		// Eight bytes at a time: none below space, none above tilde.
		for ; n+8 <= len(data); n += 8 {
			w := binary.LittleEndian.Uint64(data[n:])
			if (w|(w-ones*0x20)|(w+ones))&high != 0 {
				break
			}
		}
		end := min(n+8, len(data))
		for ; n < end; n++ {
			if c := data[n]; (c < ' ' && c != '\n' && c != '\t') || c > '~' {
				return n
			}
		}
		if n == len(data) {
			return n
		}
	}
}

// characters prints the characters beyond ASCII at the beginning. It holds back an
// incomplete one.
func (p *printer) characters(d *decoder, data []byte) []byte {
	n := 0
	for n < len(data) && data[n] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(data[n:])
		if isControl(r) || (r == utf8.RuneError && size == 1) {
			break
		}
		n += size
	}
	if n > 0 {
		p.put(data[:n])
		return data[n:]
	}
	if !utf8.FullRune(data) {
		d.held = copy(d.rune[:], data)
		return nil
	}
	return data[p.showFirst(data):]
}

// resume completes the character that d holds.
func (p *printer) resume(d *decoder, data []byte) []byte {
	held := d.held
	n := held + copy(d.rune[held:], data)
	char := d.rune[:n]
	if !utf8.FullRune(char) {
		d.held = n
		return nil
	}
	d.held = 0
	if r, size := utf8.DecodeRune(char); r == utf8.RuneError && size == 1 {
		p.showBytes(char[:held]) // the rest may begin something else
		return data
	}
	return data[p.showFirst(char)-held:]
}

// showFirst prints the first character, visibly if it is a control character or
// invalid, and returns its length.
func (p *printer) showFirst(data []byte) int {
	r, size := utf8.DecodeRune(data)
	switch {
	case r == utf8.RuneError && size == 1:
		p.showBytes(data[:1])
	case isControl(r):
		p.putCell(controlCell, byte(r))
	default:
		p.put(data[:size])
	}
	return size
}

// isControl reports whether r is one of the C1 control characters.
func isControl(r rune) bool { return r >= 0x80 && r < 0xa0 }

// showBytes prints bytes as \xNN.
func (p *printer) showBytes(data []byte) {
	for _, c := range data {
		p.putCell(byteCell, c)
	}
}

func (p *printer) putCell(kind, c byte) {
	const hex = "0123456789abcdef"
	p.put([]byte{kind, hex[c>>4], hex[c&15]})
}

// put writes characters at the cursor, over those already there.
func (p *printer) put(text []byte) {
	for len(text) > 0 {
		if p.at < len(p.line) {
			text = p.overwrite(text)
			continue
		}
		n := min(len(text), max(0, maxLineBytes-len(p.line)))
		for n > 0 && n < len(text) && (!utf8.RuneStart(text[n]) || text[0] >= controlCell) {
			n--
		}
		if n == 0 { // the line is full
			p.out = shown(p.out, p.line)
			p.line, p.at, p.continued = p.line[:0], 0, true
			continue
		}
		p.line = append(p.line, text[:n]...)
		p.at = len(p.line)
		text = text[n:]
	}
}

// overwrite replaces as many characters as it writes and returns those that go
// beyond the end of the line.
func (p *printer) overwrite(text []byte) []byte {
	p.rewritten = true
	old := p.line[p.at:]
	i, j := 0, 0
	for i < len(text) && j < len(old) {
		i, j = i+firstCell(text[i:]), j+firstCell(old[j:])
	}
	if i == j {
		copy(old, text[:i])
	} else {
		p.line = slices.Replace(p.line, p.at, p.at+j, text[:i]...)
	}
	p.at += i
	return text[i:]
}

// back moves the cursor to the left.
func (p *printer) back(columns int) {
	for ; columns > 0 && p.at > 0; columns-- {
		p.at -= lastCell(p.line[:p.at])
	}
}

// forward moves the cursor to the right, beyond the end of the line too.
func (p *printer) forward(columns int) {
	for ; columns > 0 && p.at < len(p.line); columns-- {
		p.at += firstCell(p.line[p.at:])
	}
	if columns > 0 {
		p.put(bytes.Repeat([]byte{' '}, columns))
	}
}

// escape consumes bytes of an escape sequence until it ends.
func (p *printer) escape(d *decoder, data []byte) []byte {
	for i, c := range data {
		d.length++
		if c == '\n' || c == 0x18 || c == 0x1a { // CAN and SUB cancel
			d.state = ground
			return data[i:]
		}
		switch d.state {
		case escaped:
			switch {
			case c == '[':
				d.state, d.params = control, d.params[:0]
			case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
				d.state = str
			case c >= 0x20 && c <= 0x2f:
				d.state = escapedCharset
			default:
				return d.end(data, i, c >= ' ' && c <= '~')
			}
		case escapedCharset:
			if c < 0x20 || c > 0x2f || d.length > maxControlBytes {
				return d.end(data, i, c >= ' ' && c <= '~')
			}
		case control:
			switch {
			case c >= 0x20 && c <= 0x3f && d.length <= maxControlBytes:
				d.params = append(d.params, c)
			case c >= 0x40 && c <= 0x7e:
				p.control(c, d.params)
				return d.end(data, i, true)
			default:
				return d.end(data, i, false)
			}
		case str:
			switch {
			case c == 0x07:
				return d.end(data, i, true)
			case c == 0x1b:
				d.state = strEscaped
			case d.length > maxStringBytes:
				return d.end(data, i, false)
			}
		case strEscaped:
			if c != '\\' {
				d.state, d.length = escaped, 0
				return data[i:]
			}
			return d.end(data, i, true)
		case ground:
			panic("timeline: escape outside of a sequence")
		}
	}
	return nil
}

// end ends a sequence at data[i], which belongs to it or is text again.
func (d *decoder) end(data []byte, i int, belongs bool) []byte {
	d.state = ground
	if belongs {
		i++
	}
	return data[i:]
}

// control applies the control sequences that change the last line only.
func (p *printer) control(final byte, params []byte) {
	first, _, _ := bytes.Cut(params, []byte{';'})
	n, err := strconv.Atoi(string(first))
	if err != nil && len(params) > 0 {
		return // private, or not a number
	}
	n = min(n, maxColumn)
	switch final {
	case 'C':
		p.forward(max(n, 1))
	case 'D':
		p.back(max(n, 1))
	case 'G':
		p.at = 0
		p.forward(n - 1)
	case 'K':
		p.erase(n)
	}
}

// erase blanks the line: 0 from the cursor on, 1 up to the cursor, 2 everything.
func (p *printer) erase(mode int) {
	if mode == 0 || mode == 2 {
		p.line = p.line[:p.at]
	}
	if mode == 1 || mode == 2 {
		cells := 0
		for i := 0; i < p.at; i += firstCell(p.line[i:]) {
			cells++
		}
		blank := bytes.Repeat([]byte{' '}, cells)
		p.line = slices.Replace(p.line, 0, p.at, blank...)
		p.at = len(blank)
	}
	p.rewritten = true
}
