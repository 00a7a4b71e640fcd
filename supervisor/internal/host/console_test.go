package host

import "testing"

func TestWithoutToggles_OnlyWhenTheyStandAlone(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "",
		"\x1b[?9001h\x1b[?1004h":            "",
		"\x1b[?1004h":                       "",
		"\x1b[?9001l\x1b[?1004l":            "",
		"\x1b[?9001h\x1b[?1004hhello":       "\x1b[?9001h\x1b[?1004hhello",
		"hello\x1b[?1004h":                  "hello\x1b[?1004h",
		"\x1b[?9001h\x1b[?25h":              "\x1b[?9001h\x1b[?25h",
		"\x1b[?9001h\x1b[?1004h\x1b[?1004h": "",
		"\x1b[?9001h\x1b[?100":              "\x1b[?9001h\x1b[?100",
	} {
		if got := string(withoutToggles([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestKeys_NewlineIsEnter(t *testing.T) {
	for in, want := range map[string]string{"a\nb\n": "a\rb\r", "a\r\n": "a\r", "ä": "ä", "": ""} {
		if got := string(keys([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
