package screen

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	// maxLineBytes bounds the part of an unfinished line that can still be rewritten. A longer
	// line continues, as on a terminal of that width, but a carriage return no longer reaches
	// its beginning.
	maxLineBytes = 64 << 10

	// Longer escape sequences are abandoned and shown as text, so that a stray introducer cannot
	// hide what follows. Strings may carry images and clipboard contents, hence their larger
	// bound. A newline ends either.
	maxControlBytes = 256
	maxStringBytes  = 1 << 20

	MaxColumn = 1000 // rightmost column that a cursor movement may reach
)

// A LineScreen turns the bytes of both streams into lines, like a terminal that can rewrite
// only its last line. It decodes UTF-8, applies \r, \b, erase-in-line and horizontal
// cursor movements, drops other escape sequences, and shows meaningless bytes as \xNN.
//
// The result does not depend on how the bytes are split into chunks. Every newline byte ends
// exactly one line, so lines can be counted in the raw bytes. Memory is bounded by maxLineBytes
// as long as the caller takes Out.
type LineScreen struct {
	Out           []byte // final text, which the caller takes
	Line          []byte // the rest of the unfinished line, in cells; see byteCell
	cursor        int    // byte offset of the cursor in Line
	FinishedLines int    // number of finished lines

	lineContinued bool // Out holds the beginning of the unfinished line
	LineRewritten bool // part of Line was overwritten or erased

	streams [2]decoder // standard output and standard error
}

// A decoder holds the unfinished character and escape sequence of one stream.
type decoder struct {
	state     escapeState
	params    []byte // of a control sequence
	length    int    // of the sequence so far, in bytes
	rune      [utf8.UTFMax]byte
	runeBytes int // bytes of rune, always the beginning of a character
}

type escapeState uint8

const (
	stateText         escapeState = iota // text
	stateEscape                          // after ESC
	stateCharset                         // after ESC and an intermediate byte
	stateControl                         // after ESC [
	stateString                          // after ESC ], P, X, ^ or _
	stateStringEscape                    // ESC within such a string
)

// A byte without a meaning is one cell of the line, like every character: the cursor moves over
// all of it, and writing replaces all of it. Such a cell is one of these bytes, which never
// occur in UTF-8, and two hexadecimal digits.
const (
	byteCell    = 0xff // becomes \xNN
	controlCell = 0xfe // becomes \u00NN
	cellBytes   = 3
)

// appendVisible appends a line as readers see it, with cells spelled out.
func appendVisible(out, line []byte) []byte {
	if bytes.IndexByte(line, byteCell) < 0 && bytes.IndexByte(line, controlCell) < 0 {
		return append(out, line...)
	}
	for _, c := range line { // the digits of a cell are copied unchanged
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

// HasOpenLine reports whether the last line has text and is unfinished.
func (l *LineScreen) HasOpenLine() bool { return len(l.Line) > 0 || l.lineContinued }

// Write prints bytes of one stream: 0 is standard output and 1 is standard error.
func (l *LineScreen) Write(stream int, data []byte) {
	d := &l.streams[stream&1]
	for len(data) > 0 {
		switch {
		case d.state != stateText:
			data = l.consumeEscape(d, data)
		case d.runeBytes > 0:
			data = l.resumeRune(d, data)
		default:
			data = l.printText(d, data)
		}
	}
}

// Flush shows incomplete characters and drops unfinished escape sequences.
func (l *LineScreen) Flush() {
	for i := range l.streams {
		d := &l.streams[i]
		d.state = stateText
		l.showBytes(d.rune[:d.runeBytes])
		d.runeBytes = 0
	}
}

// IsUnfinished reports whether text has not been taken yet. It also returns true if the written
// bytes end within a line, a character or an escape sequence.
func (l *LineScreen) IsUnfinished() bool {
	for _, d := range l.streams {
		if d.state != stateText || d.runeBytes > 0 {
			return true
		}
	}
	return l.HasOpenLine() || len(l.Out) > 0
}

// CommitLine makes the unfinished line final: it goes to Out, and later bytes continue it.
func (l *LineScreen) CommitLine() {
	l.Flush()
	l.Out = appendVisible(l.Out, l.Line)
	l.lineContinued = l.HasOpenLine()
	l.Line, l.cursor, l.LineRewritten = l.Line[:0], 0, false
}

// endLine ends the last line.
func (l *LineScreen) endLine() {
	line := l.Line
	if l.LineRewritten {
		line = bytes.TrimRight(line, " ") // padding left by text that was longer
	}
	l.Out = append(appendVisible(l.Out, line), '\n')
	l.Line, l.cursor = l.Line[:0], 0
	l.lineContinued, l.LineRewritten = false, false
	l.FinishedLines++
}

// BreakLine ends the last line if it has text.
func (l *LineScreen) BreakLine() {
	if l.HasOpenLine() {
		l.endLine()
	}
}

// printText prints the beginning of data, up to something that changes d's state.
func (l *LineScreen) printText(d *decoder, data []byte) []byte {
	if n := plainPrefix(data); n > 0 {
		l.copyPlain(data[:n])
		return data[n:]
	}
	switch c := data[0]; {
	case c == '\r':
		l.cursor = 0
	case c == '\b':
		l.moveLeft(1)
	case c == 0x1b:
		d.state, d.length = stateEscape, 0
	case c >= utf8.RuneSelf:
		return l.printRunes(d, data)
	default:
		l.showBytes(data[:1])
	}
	return data[1:]
}

// copyPlain prints text that plainPrefix accepted. Whole lines need no editing.
func (l *LineScreen) copyPlain(data []byte) {
	last := bytes.LastIndexByte(data, '\n')
	if last < 0 {
		l.putText(data)
		return
	}
	rest := data[last+1:]
	data = data[:last+1]
	if l.HasOpenLine() || l.LineRewritten {
		first := bytes.IndexByte(data, '\n')
		l.putText(data[:first])
		l.endLine()
		data = data[first+1:]
	}
	l.Out = append(l.Out, data...)
	l.FinishedLines += bytes.Count(data, newline)
	l.putText(rest)
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

// printRunes prints the non-ASCII characters at the beginning. It holds back an incomplete one.
func (l *LineScreen) printRunes(d *decoder, data []byte) []byte {
	n := 0
	for n < len(data) && data[n] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(data[n:])
		if isControl(r) || (r == utf8.RuneError && size == 1) {
			break
		}
		n += size
	}
	if n > 0 {
		l.putText(data[:n])
		return data[n:]
	}
	if !utf8.FullRune(data) {
		d.runeBytes = copy(d.rune[:], data)
		return nil
	}
	return data[l.showFirst(data):]
}

// resumeRune completes the character that d holds.
func (l *LineScreen) resumeRune(d *decoder, data []byte) []byte {
	held := d.runeBytes
	n := held + copy(d.rune[held:], data)
	char := d.rune[:n]
	if !utf8.FullRune(char) {
		d.runeBytes = n
		return nil
	}
	d.runeBytes = 0
	if r, size := utf8.DecodeRune(char); r == utf8.RuneError && size == 1 {
		l.showBytes(char[:held]) // the remaining bytes may begin another character
		return data
	}
	return data[l.showFirst(char)-held:]
}

// showFirst prints the first character, visibly if it is a control character or
// invalid, and returns its length.
func (l *LineScreen) showFirst(data []byte) int {
	r, size := utf8.DecodeRune(data)
	switch {
	case r == utf8.RuneError && size == 1:
		l.showBytes(data[:1])
	case isControl(r):
		l.putCell(controlCell, byte(r))
	default:
		l.putText(data[:size])
	}
	return size
}

// isControl reports whether r is one of the C1 control characters.
func isControl(r rune) bool { return r >= 0x80 && r < 0xa0 }

// showBytes prints bytes as \xNN.
func (l *LineScreen) showBytes(data []byte) {
	for _, c := range data {
		l.putCell(byteCell, c)
	}
}

func (l *LineScreen) putCell(kind, c byte) {
	const hex = "0123456789abcdef"
	l.putText([]byte{kind, hex[c>>4], hex[c&15]})
}

// putText writes characters at the cursor, over those already there.
func (l *LineScreen) putText(text []byte) {
	for len(text) > 0 {
		if l.cursor < len(l.Line) {
			text = l.overwriteCells(text)
			continue
		}
		n := min(len(text), max(0, maxLineBytes-len(l.Line)))
		for n > 0 && n < len(text) && (!utf8.RuneStart(text[n]) || text[0] >= controlCell) {
			n--
		}
		if n == 0 { // the line has reached its maximum length
			l.Out = appendVisible(l.Out, l.Line)
			l.Line, l.cursor, l.lineContinued = l.Line[:0], 0, true
			continue
		}
		l.Line = append(l.Line, text[:n]...)
		l.cursor = len(l.Line)
		text = text[n:]
	}
}

// overwriteCells overwrites existing characters one for one, and returns the characters that do
// not fit into the existing line.
func (l *LineScreen) overwriteCells(text []byte) []byte {
	l.LineRewritten = true
	old := l.Line[l.cursor:]
	i, j := 0, 0
	for i < len(text) && j < len(old) {
		i, j = i+firstCell(text[i:]), j+firstCell(old[j:])
	}
	if i == j {
		copy(old, text[:i])
	} else {
		l.Line = slices.Replace(l.Line, l.cursor, l.cursor+j, text[:i]...)
	}
	l.cursor += i
	return text[i:]
}

// moveLeft moves the cursor to the left.
func (l *LineScreen) moveLeft(columns int) {
	for ; columns > 0 && l.cursor > 0; columns-- {
		l.cursor -= lastCell(l.Line[:l.cursor])
	}
}

// moveRight moves the cursor to the right, if necessary beyond the end of the line.
func (l *LineScreen) moveRight(columns int) {
	for ; columns > 0 && l.cursor < len(l.Line); columns-- {
		l.cursor += firstCell(l.Line[l.cursor:])
	}
	if columns > 0 {
		l.putText(bytes.Repeat([]byte{' '}, columns))
	}
}

// consumeEscape consumes bytes of an escape sequence until it ends.
func (l *LineScreen) consumeEscape(d *decoder, data []byte) []byte {
	for i, c := range data {
		d.length++
		if c == '\n' || c == 0x18 || c == 0x1a { // CAN and SUB cancel
			d.state = stateText
			return data[i:]
		}
		switch d.state {
		case stateEscape:
			switch {
			case c == '[':
				d.state, d.params = stateControl, d.params[:0]
			case c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_':
				d.state = stateString
			case c >= 0x20 && c <= 0x2f:
				d.state = stateCharset
			default:
				return d.endSequence(data, i, c >= ' ' && c <= '~')
			}
		case stateCharset:
			if c < 0x20 || c > 0x2f || d.length > maxControlBytes {
				return d.endSequence(data, i, c >= ' ' && c <= '~')
			}
		case stateControl:
			switch {
			case c >= 0x20 && c <= 0x3f && d.length <= maxControlBytes:
				d.params = append(d.params, c)
			case c >= 0x40 && c <= 0x7e:
				l.applyControl(c, d.params)
				return d.endSequence(data, i, true)
			default:
				return d.endSequence(data, i, false)
			}
		case stateString:
			switch {
			case c == 0x07:
				return d.endSequence(data, i, true)
			case c == 0x1b:
				d.state = stateStringEscape
			case d.length > maxStringBytes:
				return d.endSequence(data, i, false)
			}
		case stateStringEscape:
			if c != '\\' {
				d.state, d.length = stateEscape, 0
				return data[i:]
			}
			return d.endSequence(data, i, true)
		case stateText:
			panic("timeline: escape outside of a sequence")
		}
	}
	return nil
}

// endSequence ends a sequence at data[i], which belongs to it or is text again.
func (d *decoder) endSequence(data []byte, i int, belongs bool) []byte {
	d.state = stateText
	if belongs {
		i++
	}
	return data[i:]
}

// applyControl applies the control sequences that only affect the last line.
func (l *LineScreen) applyControl(final byte, params []byte) {
	first, _, _ := bytes.Cut(params, []byte{';'})
	n, err := strconv.Atoi(string(first))
	if err != nil && len(params) > 0 {
		return // a private sequence, or not a number
	}
	n = min(n, MaxColumn)
	switch final {
	case 'C':
		l.moveRight(max(n, 1))
	case 'D':
		l.moveLeft(max(n, 1))
	case 'G':
		l.cursor = 0
		l.moveRight(n - 1)
	case 'K':
		l.eraseCells(n)
	}
}

// eraseCells blanks part of the line: mode 0 from the cursor on, 1 up to the cursor, 2
// everything.
func (l *LineScreen) eraseCells(mode int) {
	if mode == 0 || mode == 2 {
		l.Line = l.Line[:l.cursor]
	}
	if mode == 1 || mode == 2 {
		cells := 0
		for i := 0; i < l.cursor; i += firstCell(l.Line[i:]) {
			cells++
		}
		blank := bytes.Repeat([]byte{' '}, cells)
		l.Line = slices.Replace(l.Line, 0, l.cursor, blank...)
		l.cursor = len(blank)
	}
	l.LineRewritten = true
}
