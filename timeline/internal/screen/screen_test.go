package screen

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// screenText returns what a LineScreen makes of chunks.
func screenText(chunks ...string) string {
	var p LineScreen
	for _, c := range chunks {
		p.Write(0, []byte(c))
	}
	p.Flush()
	return string(appendVisible(p.Out, p.Line))
}

func TestLineScreen(t *testing.T) {
	t.Run("shows bytes as a terminal would", func(t *testing.T) {
		for _, c := range []struct{ name, in, want string }{
			{"plain text", "a\tb\nc", "a\tb\nc"},
			{"carriage return before newline", "a\r\nb\r\r\n", "a\nb\n"},
			{"carriage return overwrites", "abc\rX", "Xbc"},
			{"shorter text over characters of more bytes", "äöü\rx", "xöü"},
			{"longer text over characters of fewer bytes", "ab\räöü", "äöü"},
			{"backspace", "abc\b\bX", "aXc"},
			{"backspace over a character of several bytes", "a€\bx", "ax"},
			{"backspace at the beginning", "\b\ba", "a"},
			{"what a bar was erased with", "100%|###|\r         \rdone\n", "done\n"},
			{"spaces at the end of a line that was never rewritten", "a  \nb  \r\n", "a  \nb  \n"},
			{"colours", "\x1b[1;31mred\x1b[0m", "red"},
			{"title", "a\x1b]0;title\x07b\x1b]0;title\x1b\\c", "abc"},
			{"character set", "\x1b(Ba\x1b=b", "ab"},
			{"device control string", "a\x1bP1;2|data\x1b\\b", "ab"},
			{"unfinished title ends with its line", "\x1b]0;title\nb", "\nb"},
			{"unfinished colour ends with its line", "a\x1b[1;3\nb", "a\nb"},
			{"control byte within a sequence", "\x1b[1\x00m", "\\x00m"},
			{"erase to the end", "abcdef\rXY\x1b[K", "XY"},
			{"erase the line", "abcdef\x1b[2K\rXY", "XY    "},
			{"erase to the cursor", "abcdef\rXY\x1b[1KZ", "  Zdef"},
			{"cursor to column", "abc\x1b[2GX", "aXc"},
			{"cursor left and right", "abc\x1b[2DX\x1b[2CY", "aXc Y"},
			{"private mode", "\x1b[?25la\x1b[?25h", "a"},
			{"invalid bytes", "a\xffb\xc3(\xe2\x82", "a\\xffb\\xc3(\\xe2\\x82"},
			{"replacement character of the program itself", "\uFFFD", "\uFFFD"},
			{"control bytes", "\x00\x07\x0c\x7f\u0085", "\\x00\\x07\\x0c\\x7f\\u0085"},
			{"backspace over a control byte takes all of it", "a\x07\bX", "aX"},
			{"backspace behind a control byte", "\x07\b\x0b\x0c", "\\x0b\\x0c"},
			{"backspace over an invalid byte", "a\xff\xfe\b\bé\b\bX", "Xé\\xfe"},
			{"text over control bytes", "\x07\u0085\x7f\rab", "ab\\x7f"},
			{"control bytes over text", "abc\r\x07", "\\x07bc"},
			{"cursor right over control bytes", "\x07\x07\x07\r\x1b[2CX", "\\x07\\x07X"},
			{"erase to the cursor behind control bytes", "\x07\u0085b\bX\x1b[1KY", "   Y"},
			{"an escape that is text", "\\x07\bX", "\\x0X"},
			{"invalid bytes behind a replacement character", "\uFFFD\xff", "\uFFFD\\xff"},
			{"surrogates", "\xed\xa0\x80", "\\xed\\xa0\\x80"},
		} {
			if got := screenText(c.in); got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
			var single []string
			for i := range len(c.in) {
				single = append(single, c.in[i:i+1])
			}
			if got := screenText(single...); got != c.want {
				t.Errorf("%s, byte by byte: got %q, want %q", c.name, got, c.want)
			}
		}
	})

	t.Run("one stream does not break characters of the other", func(t *testing.T) {
		var p LineScreen
		p.Write(0, []byte("\xe2\x82"))
		p.Write(1, []byte("\x1b[3"))
		p.Write(0, []byte("\xac"))
		p.Write(1, []byte("1mä"))
		if got := string(p.Line); got != "€ä" {
			t.Errorf("got %q, want €ä", got)
		}
	})

	t.Run("an endless line takes bounded memory", func(t *testing.T) {
		var p LineScreen
		var got []byte
		for range 1000 {
			p.Write(0, bytes.Repeat([]byte("€"), 1000))
			got = append(got, p.Out...)
			p.Out = p.Out[:0]
			if len(p.Line) > maxLineBytes {
				t.Fatalf("got %d bytes of unfinished line", len(p.Line))
			}
		}
		p.Write(0, []byte("\rX\n"))
		got = append(got, p.Out...)
		if n := bytes.Count(got, []byte("€")); n != 999_999 || p.FinishedLines != 1 || bytes.Count(got, newline) != 1 {
			t.Errorf("got %d characters in %d lines, want all but one in 1", n, p.FinishedLines)
		}
	})

	t.Run("a stray escape introducer hides a bounded amount", func(t *testing.T) {
		got := screenText("\x1b]" + strings.Repeat("x", 2*maxStringBytes))
		if n := len(got); n < maxStringBytes/2 {
			t.Errorf("got %d bytes shown of %d", n, 2*maxStringBytes)
		}
	})
}

// FuzzPrinter splits the bytes of two streams in many ways: the result must be the same, every
// newline must end one line, and nothing unprintable may remain.
func FuzzPrinter(f *testing.F) {
	f.Add([]byte("a\r\x1b[2K€\b\xff\n\x1b]0;t\x07"), []byte("\x1b[31m\xc3\xa4\r\n"), uint8(3))
	f.Add([]byte("abc\rä\r\x1b[5Cx\x1b[1K\n"), []byte("\x1b\x1b[\x1bP\x1b\\"), uint8(1))
	f.Fuzz(func(t *testing.T, out, err []byte, size uint8) {
		var whole, cut LineScreen
		whole.Write(0, out)
		whole.Write(1, err)
		for s, data := range [][]byte{out, err} {
			for chunk := range slices.Chunk(data, int(size)+1) {
				cut.Write(s, chunk)
			}
		}
		whole.Flush()
		cut.Flush()
		if !bytes.Equal(whole.Out, cut.Out) || !bytes.Equal(whole.Line, cut.Line) {
			t.Errorf("got %q + %q in chunks, %q + %q at once", cut.Out, cut.Line, whole.Out, whole.Line)
		}
		if n := bytes.Count(out, newline) + bytes.Count(err, newline); whole.FinishedLines != n || bytes.Count(whole.Out, newline) != n {
			t.Errorf("got %d lines, want %d", whole.FinishedLines, n)
		}
		if !utf8.Valid(whole.Out) {
			t.Errorf("got invalid UTF-8: %q", whole.Out)
		}
		for _, r := range string(whole.Out) {
			if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
				t.Errorf("got %q in %q", r, whole.Out)
			}
		}
	})
}

func BenchmarkPrinter(b *testing.B) {
	kinds := map[string]string{
		"plain":    strings.Repeat("0123456789abcdef", 5)[:79] + "\n",
		"crlf":     strings.Repeat("0123456789abcdef", 5)[:78] + "\r\n",
		"colour":   "\x1b[32m" + strings.Repeat("0123456789abcdef", 5)[:70] + "\x1b[0m\n",
		"utf8":     strings.Repeat("äöü€ abc ", 8) + "\n",
		"progress": "\r 10%|███████             | 10/100 [00:01<00:09, 9.9it/s]",
	}
	for name, line := range kinds {
		b.Run(name, func(b *testing.B) {
			data := []byte(strings.Repeat(line, 65536/len(line)))
			var p LineScreen
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p.Out = p.Out[:0]
				p.Write(0, data)
			}
		})
	}
}
