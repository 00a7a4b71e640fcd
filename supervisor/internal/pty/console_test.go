package pty

import (
	"slices"
	"strings"
	"testing"
)

const (
	keyAndFocusModes = "\x1b[?9001h\x1b[?1004h"
	clearScreen      = "\x1b[?25l\x1b[2J\x1b[m\x1b[H\x1b]0;C:\\repl.exe\x07\x1b[?25h"
	toggleCursor     = "\x1b[?25l\x1b[?25h"
)

func TestNoiseFilter(t *testing.T) {
	t.Run("drops the start-up sequences and writes without text", func(t *testing.T) {
		for name, c := range map[string]struct{ writes, want []string }{
			"start-up":                       {[]string{keyAndFocusModes, clearScreen, "a"}, []string{"", "", "a"}},
			"start-up in one write":          {[]string{keyAndFocusModes + clearScreen, "a"}, []string{"", "a"}},
			"start-up with text":             {[]string{keyAndFocusModes, clearScreen + "a\x1b[m"}, []string{"", "a\x1b[m"}},
			"the cursor":                     {[]string{"a", toggleCursor, "b"}, []string{"a", "", "b"}},
			"the end":                        {[]string{"a", "\x1b[?9001l\x1b[?1004l"}, []string{"a", ""}},
			"with text":                      {[]string{"a", keyAndFocusModes + "b", toggleCursor + "c"}, []string{"a", keyAndFocusModes + "b", toggleCursor + "c"}},
			"a screen that a program clears": {[]string{"a", "\x1b[2J\x1b[H"}, []string{"a", "\x1b[2J\x1b[H"}},
			"half of a sequence":             {[]string{"\x1b[?9001h\x1b[?100"}, []string{"\x1b[?100"}},
			"nothing":                        {[]string{""}, []string{""}},
		} {
			t.Run(name, func(t *testing.T) {
				var q noiseFilter
				for i, write := range c.writes {
					got, answer := q.stripNoise([]byte(write))
					if string(got) != c.want[i] || answer != nil {
						t.Errorf("%q: got %q and the answer %q, want %q", write, got, answer, c.want[i])
					}
				}
			})
		}
	})

	t.Run("answers what the console asks at its start", func(t *testing.T) {
		var q noiseFilter
		for _, c := range []struct{ write, text, answer string }{
			{"\x1b[?1004h\x1b[c", "", "\x1b[?61;22c"},
			{"\x1b[6n\x1b[?9001h", "", "\x1b[1;1R"},
			{"\x1b[0c\x1b[6na", "a", "\x1b[?61;22c\x1b[1;1R"},
			{"\x1b[c", "\x1b[c", ""}, // of a program
		} {
			if text, answer := q.stripNoise([]byte(c.write)); string(text) != c.text || string(answer) != c.answer {
				t.Errorf("%q: got %q and the answer %q, want %q and %q", c.write, text, answer, c.text, c.answer)
			}
		}
	})
}

func TestConsoleSize(t *testing.T) {
	sizeEnv := []string{"COLUMNS=120", "LINES=40", "TQDM_NCOLS=120"}
	for name, c := range map[string]struct {
		given       TerminalSize
		interactive bool
		size        TerminalSize
		sizeEnv     []string
	}{
		"an agent's": {TerminalSize{}, false, TerminalSize{Rows: 40, Cols: 1000}, sizeEnv},
		"a user's":   {TerminalSize{}, true, TerminalSize{Rows: 40, Cols: 120}, nil},
		"a size":     {TerminalSize{Rows: 30, Cols: 90}, false, TerminalSize{Rows: 30, Cols: 90}, nil},
	} {
		if size, sizeEnv := ConsoleSize(c.given, c.interactive); size != c.size || !slices.Equal(sizeEnv, c.sizeEnv) {
			t.Errorf("%s: got %v and %q, want %v and %q", name, size, sizeEnv, c.size, c.sizeEnv)
		}
	}
}

func TestToKeystrokes(t *testing.T) {
	for in, want := range map[string]string{"a\nb\n": "a\rb\r", "a\r\n": "a\r", "ä": "ä", "": ""} {
		if got := string(toKeystrokes([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestMarkerFilter(t *testing.T) {
	t.Run("removes markers that are split across writes", func(t *testing.T) {
		const shown = "a\x1b]0;turnstone 5eed 1\x07b\x1b]0;mine\x07\x1b]0;turnstone 5eed 2\x1b\\c\x1b]0;turnstone other 9\x07\x1b]0;turnstone 5eed 3\x07d\x1b]"
		const want = "ab\x1b]0;mine\x07c\x1b]0;turnstone other 9\x07d\x1b]"
		for size := 1; size <= len(shown); size++ {
			m := newMarkerFilter("5eed")
			var got strings.Builder
			for at := 0; at < len(shown); at += size {
				got.Write(m.stripMarkers([]byte(shown[at:min(len(shown), at+size)])))
			}
			got.Write(m.pending)
			if got.String() != want || m.lastMarker != 3 {
				t.Fatalf("writes of %d bytes: got %q and marker %d, want %q and 3", size, got.String(), m.lastMarker, want)
			}
		}
	})

	t.Run("keeps a title that only starts like a marker", func(t *testing.T) {
		m := newMarkerFilter("5eed")
		long := "\x1b]0;turnstone 5eed " + strings.Repeat("x", 100)
		if got := string(m.stripMarkers([]byte(long))); got != long {
			t.Errorf("got %q, want it all", got)
		}
	})
}
