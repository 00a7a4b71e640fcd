package reply

import (
	"bytes"

	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxAlikeChars bounds a reply whose lines are alike, in characters; examples are the rows of
	// a table and the steps of a loop. Its beginning and end say nearly everything.
	maxAlikeChars = 4_000

	// maxAlikeBytes bounds the part of a reply that is examined. Fewer lines than minAlikeLines
	// never count as alike.
	maxAlikeBytes = 64 << 10
	minAlikeLines = 50
)

// areLinesAlike reports whether nine tenths of the text lines in a reply are alike, within the
// first maxAlikeBytes.
func areLinesAlike(events []timeline.Event) bool {
	lines, alike, seen := 0, 0, 0
	var before []byte
	for _, e := range events {
		b, ok := e.Body.(timeline.Text)
		if !ok {
			continue
		}
		for line := range bytes.Lines(b.Data) {
			shape := lineShape(line)
			if lines++; bytes.Equal(shape, before) {
				alike++
			}
			before = shape
			if seen += len(line); seen > maxAlikeBytes {
				return lines >= minAlikeLines && alike*10 >= lines*9
			}
		}
	}
	return lines >= minAlikeLines && alike*10 >= lines*9
}

// lineShape returns a line without the parts that vary between the rows of a table: the length of
// words, numbers and spaces, and signs.
func lineShape(line []byte) []byte {
	shape := make([]byte, 0, 32)
	for _, c := range line {
		switch {
		case '0' <= c && c <= '9':
			c = '0'
		case c == '-' || c == '+' || c == '\r' || c == '\n':
			continue
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c >= 0x80:
			c = 'a'
		case c == '\t':
			c = ' '
		}
		if n := len(shape); n == 0 && c == ' ' || n > 0 && shape[n-1] == c && (c == '0' || c == 'a' || c == ' ') {
			continue
		}
		shape = append(shape, c)
	}
	return shape
}
