package cmdkit

import "testing"

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\r\n":                        "plain\ttext\r\n",
		"\x1b[1;31mred\x1b[0m":                   "\x1b[1;31mred\x1b[0m",
		"a\x1b]52;c;aGFjaw==\x07b":               "ab",
		"a\x1b]0;title\x1b\\b":                   "ab",
		"a\x1b]0;never ended\nb":                 "a\nb",
		"a\x1bPq#0\x1b\\b\x1b_G\x1b\\c":          "abc",
		"a\x1b[2Jb\x1b[6nc\x1b[?1049hd\x1b[31xe": "abcde",
		"a\x1bcb\x1b(0c":                         "abc",
		"a\u009b31mb\u009d0;x\u009cc":            "a\x1b[31mbc",
		"\u202eleft\u2066\u200b\ufeff":           "left",
		"\U0001f469\u200d\U0001f52c":             "\U0001f469\u200d\U0001f52c",
		"\x00\x07\x7f\xff":                       "\ufffd",
		"\x1b[\x1b[31mx":                         "\x1b[31mx",
	} {
		if got := PlainText(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		var c TerminalSanitizer
		got := ""
		for i := range len(in) {
			got += string(c.Sanitize([]byte{in[i]}))
		}
		if got != want {
			t.Errorf("%q byte by byte: got %q, want %q", in, got, want)
		}
	}
	if got := PlainLine("\x1b[31mada\n\u202e"); got != "ada" {
		t.Errorf("a line: got %q", got)
	}
}
