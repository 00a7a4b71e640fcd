package pty

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// A noiseFilter removes control sequences that the pseudo console writes, not a program. At the start
// it removes them up to the first text; later it removes only writes without any text. Next to text,
// the sequences may be a program's own.
type noiseFilter struct {
	started bool

	// prelude matches the start of the first output of a pseudo console. It clears the screen, sets
	// the title to the name of its program, and asks for reports of keys and focus. Some versions ask
	// for the type of the terminal and the position of the cursor, see consoleQueries.
	//
	// toggles matches later output that shows nothing: the cursor is hidden while the console draws,
	// and shown again.
	//
	// The sequences, and that text may follow in the same write, were observed under Wine and are in
	// the source of Windows' console. Both fields are nil until needed: a monitor needs neither.
	prelude, toggles *regexp.Regexp
}

// consoleQueries lists what a pseudo console asks a terminal at the start, with the answers of a simple
// terminal. Some versions let no program write before they are answered, or before 3 s have passed
// (pull requests 18681 and 20536 in microsoft/terminal).
var consoleQueries = []struct{ question, answer string }{
	{"\x1b[c", "\x1b[?61;22c"}, {"\x1b[0c", "\x1b[?61;22c"},
	{"\x1b[6n", "\x1b[1;1R"},
}

// stripNoise returns b without the pseudo console's own sequences, and the answers to its queries.
func (f *noiseFilter) stripNoise(b []byte) (text, answer []byte) {
	if f.toggles == nil {
		f.prelude = regexp.MustCompile(`^(\x1b\[(\?(9001|1004|25)[hl]|2J|m|H|0?c|6n)|\x1b\]0;[^\x07\x1b]*(\x07|\x1b\\))*`)
		f.toggles = regexp.MustCompile(`^(\x1b\[\?(9001|1004|25)[hl])*$`)
	}
	if f.toggles.Match(b) {
		return nil, nil
	}
	if !f.started {
		prelude := f.prelude.Find(b)
		for _, a := range consoleQueries {
			if bytes.Contains(prelude, []byte(a.question)) {
				answer = append(answer, a.answer...)
			}
		}
		b = b[len(prelude):]
		f.started = len(b) > 0
	}
	return b, answer
}

// wideColumns is the width of a pseudo console without a user. Text that a program writes through
// the console's functions gets a line break at the edge. It cannot be distinguished from a line
// break of the program (a maintainer in microsoft/terminal, issue 20626; observed under Wine).
const wideColumns = 1000

// ConsoleSize returns the size of a worker's pseudo console, and environment variables for the width
// that programs should use, if that is less. The worker's own variables take precedence. TQDM_NCOLS is
// needed because tqdm ignores COLUMNS on Windows: its bar would fill the console.
func ConsoleSize(size TerminalSize, interactive bool) (TerminalSize, []string) {
	s := size.OrDefault()
	if size != (TerminalSize{}) || interactive {
		return s, nil
	}
	env := []string{fmt.Sprintf("COLUMNS=%d", s.Cols), fmt.Sprintf("LINES=%d", s.Rows), fmt.Sprintf("TQDM_NCOLS=%d", s.Cols)}
	return TerminalSize{Rows: s.Rows, Cols: wideColumns}, env
}

// toKeystrokes returns text as a user would type it: Enter is a carriage return.
func toKeystrokes(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r"))
}

// A pseudo console draws its text with a delay. It also passes on its title, after all text that
// was written before the title was set. So the monitor sets a title to mark a position in the
// output.

// maxMarkerBytes bounds the number in the title of a marker, in bytes, with the terminator.
const maxMarkerBytes = 24

// A markerFilter removes the monitor's markers from the output of a pseudo console.
type markerFilter struct {
	prefix     []byte
	pending    []byte // may be the start of a marker
	lastMarker uint64 // the highest marker so far
}

func newMarkerFilter(tag string) *markerFilter {
	return &markerFilter{prefix: []byte("\x1b]0;" + monitorproto.MarkerTitlePrefix(tag))}
}

// stripMarkers returns the text without markers. It withholds an end that may be the start of a marker.
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
		case end < 0: // not a marker
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
