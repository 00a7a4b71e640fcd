package host

import "bytes"

// toggles are what a pseudo console says when it starts and ends, and tells
// nobody anything: how it wants keys and focus to be reported.
var toggles = [][]byte{
	[]byte("\x1b[?9001h"), []byte("\x1b[?1004h"), []byte("\x1b[?9001l"), []byte("\x1b[?1004l"),
}

// withoutToggles is what a pseudo console wrote at once; nothing if that is
// toggles alone. Among other text they may be a program's own.
func withoutToggles(b []byte) []byte {
	rest := b
	for len(rest) > 0 {
		n := len(rest)
		for _, t := range toggles {
			rest = bytes.TrimPrefix(rest, t)
		}
		if len(rest) == n {
			return b
		}
	}
	return nil
}

// keys is text as a person would type it: Enter is a carriage return there.
func keys(b []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r"))
}
