package host

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
)

// A noiseFilter removes the sequences that a pseudo console writes by itself: what it begins with,
// up to the first text, and later only writes that have no text. Next to text they may be a
// program's own.
type noiseFilter struct {
	started bool

	// prelude matches the beginning of the first output of a pseudo console: it clears the screen, sets
	// the title to the name of its program, and asks for reports of keys and focus. Some ask which
	// terminal this is, and where its cursor is, see answers. toggles matches its later output that
	// shows nothing: the cursor is hidden while it draws, and shown again. Which sequences they are, and
	// that text may follow in the same write, was seen under Wine and is in the source of Windows'
	// console. Both are nil until they are needed: a stage needs neither.
	prelude, toggles *regexp.Regexp
}

// consoleQueries has what a pseudo console asks a terminal when it begins, with the answers of a simple one.
// Some versions let no program write before they are answered, or before 3 s are over (pull
// requests 18681 and 20536 in microsoft/terminal).
var consoleQueries = []struct{ question, answer string }{
	{"\x1b[c", "\x1b[?61;22c"}, {"\x1b[0c", "\x1b[?61;22c"},
	{"\x1b[6n", "\x1b[1;1R"},
}

// stripNoise returns b without what the pseudo console writes by itself, and the answer to what it asks.
func (q *noiseFilter) stripNoise(b []byte) (text, answer []byte) {
	if q.toggles == nil {
		q.prelude = regexp.MustCompile(`^(\x1b\[(\?(9001|1004|25)[hl]|2J|m|H|0?c|6n)|\x1b\]0;[^\x07\x1b]*(\x07|\x1b\\))*`)
		q.toggles = regexp.MustCompile(`^(\x1b\[\?(9001|1004|25)[hl])*$`)
	}
	if q.toggles.Match(b) {
		return nil, nil
	}
	if !q.started {
		prelude := q.prelude.Find(b)
		for _, a := range consoleQueries {
			if bytes.Contains(prelude, []byte(a.question)) {
				answer = append(answer, a.answer...)
			}
		}
		b = b[len(prelude):]
		q.started = len(b) > 0
	}
	return b, answer
}

// wideColumns is the width of a pseudo console that nobody looks at. Text that a program writes
// through the console's functions gets a line break at the edge, and nothing tells that from a break
// of the program's own (a maintainer in microsoft/terminal, issue 20626; seen under Wine).
const wideColumns = 1000

// consoleSize returns the size of a command's pseudo console, and variables that tell programs how
// wide their text should be, if that is less. Entries of the command count more. A bar of tqdm would
// fill the console: it does not heed COLUMNS on Windows.
func consoleSize(c *Command) (Size, []string) {
	if c.Size != (Size{}) || c.Interactive {
		return c.Size.orDefault(), nil
	}
	s := c.Size.orDefault()
	told := []string{fmt.Sprintf("COLUMNS=%d", s.Cols), fmt.Sprintf("LINES=%d", s.Rows), fmt.Sprintf("TQDM_NCOLS=%d", s.Cols)}
	return Size{Rows: s.Rows, Cols: wideColumns}, told
}

// toKeystrokes returns text as a person would type it: Enter is a carriage return.
func toKeystrokes(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r"))
}

// A pseudo console draws its text with a delay. It also passes on its title, after all
// text that was written before the title was set. So the stage sets a title to mark a
// place in the output.

// markerTitlePrefix begins the titles that one worker's stage sets.
func markerTitlePrefix(tag string) string { return "turnstone " + tag + " " }

// maxMarkerBytes bounds, in bytes, the number in such a title with the terminator.
const maxMarkerBytes = 24

// markerFilter removes the marks from the output of a pseudo console.
type markerFilter struct {
	prefix     []byte
	pending    []byte // may be the beginning of a mark
	lastMarker uint64 // the highest mark so far
}

func newMarkerFilter(tag string) *markerFilter {
	return &markerFilter{prefix: []byte("\x1b]0;" + markerTitlePrefix(tag))}
}

// stripMarkers returns the text without marks. It holds back an end that may begin a mark.
func (m *markerFilter) stripMarkers(b []byte) []byte {
	rest := append(m.pending, b...)
	m.pending = nil
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
			m.pending = bytes.Clone(rest[len(rest)-keep:])
			return append(text, rest[:len(rest)-keep]...)
		}
		text = append(text, rest[:i]...)
		body := rest[i+len(m.prefix):]
		end := bytes.IndexAny(body[:min(len(body), maxMarkerBytes)], "\a\x1b")
		switch {
		case end < 0 && len(body) < maxMarkerBytes, end == len(body)-1 && body[end] == '\x1b':
			m.pending = bytes.Clone(rest[i:])
			return text
		case end < 0: // not a mark
			text = append(text, m.prefix...)
			rest = body
			continue
		}
		if n, err := strconv.ParseUint(string(body[:end]), 10, 64); err == nil {
			m.lastMarker = max(m.lastMarker, n)
		}
		rest = bytes.TrimPrefix(body[end+1:], []byte("\\"))
		if body[end] == '\a' {
			rest = body[end+1:]
		}
	}
}
