package timeline

import (
	"slices"
	"strings"
	"testing"
)

func TestTerminalText(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[39;1H\x1b[1mname?\x1b[0m ": "name? ",
		"a\nb\rc":                        "a\nc",
		"half \xc3":                      "half \\xc3",
	} {
		if got := TerminalText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestLineSplitter(t *testing.T) {
	var l LineSplitter
	var got []string
	for _, piece := range []string{"a\nb", "c\n\n", "1%\r2", "%", strings.Repeat("x", 200_000), "\nend"} {
		got = append(got, l.Add(Text{Data: []byte(piece)})...)
		if piece == "%" && l.OpenLine() != "2%" {
			t.Errorf("got %q, want the unfinished line", l.OpenLine())
		}
	}
	if len(got) != 4 || got[0] != "a" || got[1] != "bc" || got[2] != "" || !strings.HasSuffix(got[3], "xxx") || l.OpenLine() != "end" {
		t.Errorf("got %d lines: %.30q, then %q", len(got), got, l.OpenLine())
	}
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	text := "a\rb\nlong " + strings.Repeat("x", 200<<10) + "\ntail \xff é open"
	for _, size := range []int{1, 7, 4096, len(text)} {
		var transcript Transcript
		var got []byte
		for chunk := range slices.Chunk([]byte(text), size) {
			got = append(got, transcript.Add(Event{Body: Text{Data: chunk}})...)
		}
		got = append(got, transcript.Flush()...)
		if want := TerminalText(text); string(got) != want {
			t.Errorf("pieces of %d bytes: got %.80q… of %d bytes, want %d", size, got, len(got), len(want))
		}
	}
	var transcript Transcript
	transcript.Add(Event{Body: Text{Data: []byte("who? ")}})
	if got := transcript.Flush(); string(got) != "who? " {
		t.Errorf("got %q", got)
	}
	if got := transcript.Add(Event{Body: Notice{Message: "next"}}); string(got) != "\n[next]\n" {
		t.Errorf("got %q", got)
	}
}
