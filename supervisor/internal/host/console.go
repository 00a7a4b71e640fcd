package host

import (
	"bytes"
	"regexp"
	"strconv"
)

// prelude is what a pseudo console says before anything is shown: it empties its
// screen, names its program in the title, and asks for keys and focus to be
// reported in its way.
var prelude = regexp.MustCompile(`^(\x1b\[(\?(9001|1004|25)[hl]|2J|m|H)|\x1b\]0;[^\x07\x1b]*(\x07|\x1b\\))*$`)

// toggles are what it says later without showing anything: that the cursor is
// hidden while it draws, and shown again.
var toggles = regexp.MustCompile(`^(\x1b\[\?(9001|1004|25)[hl])*$`)

// A quieter takes off what a pseudo console says of its own accord, which tells
// nobody anything. It does so only where that stands alone in what was written at
// once: among other text it may be a program's own.
type quieter struct{ begun bool }

// text is b, or nothing.
func (q *quieter) text(b []byte) []byte {
	if toggles.Match(b) || !q.begun && prelude.Match(b) {
		return nil
	}
	q.begun = true
	return b
}

// keys is text as a person would type it: Enter is a carriage return there.
func keys(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r"))
}

// A pseudo console draws what is written to it when it likes. It passes on its
// title, too, and that behind everything that was written before the title was
// set: so the stage sets one to mark a place.

// titlePrefix is what the titles of one worker's stage begin with.
func titlePrefix(tag string) string { return "turnstone " + tag + " " }

// maxMark bounds a title of ours with what ends it, in bytes.
const maxMark = 24

// marks takes the marks off what a pseudo console shows.
type marks struct {
	prefix []byte
	held   []byte // the beginning of one, perhaps
	last   uint64 // the highest that was met
}

func newMarks(tag string) *marks { return &marks{prefix: []byte("\x1b]0;" + titlePrefix(tag))} }

// cut returns what is shown, as far as it is certain.
func (m *marks) cut(b []byte) []byte {
	rest := append(m.held, b...)
	m.held = nil
	var text []byte
	for {
		i := bytes.Index(rest, m.prefix)
		if i < 0 {
			keep := 0
			for n := min(len(rest), len(m.prefix)-1); n > 0 && keep == 0; n-- {
				if bytes.HasSuffix(rest, m.prefix[:n]) {
					keep = n
				}
			}
			m.held = bytes.Clone(rest[len(rest)-keep:])
			return append(text, rest[:len(rest)-keep]...)
		}
		text = append(text, rest[:i]...)
		body := rest[i+len(m.prefix):]
		end := bytes.IndexAny(body[:min(len(body), maxMark)], "\a\x1b")
		switch {
		case end < 0 && len(body) < maxMark, end == len(body)-1 && body[end] == '\x1b':
			m.held = bytes.Clone(rest[i:])
			return text
		case end < 0: // somebody else's title
			text = append(text, m.prefix...)
			rest = body
			continue
		}
		if n, err := strconv.ParseUint(string(body[:end]), 10, 64); err == nil {
			m.last = max(m.last, n)
		}
		rest = bytes.TrimPrefix(body[end+1:], []byte("\\"))
		if body[end] == '\a' {
			rest = body[end+1:]
		}
	}
}
