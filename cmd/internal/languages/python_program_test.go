package languages

import "testing"

func TestPythonString(t *testing.T) {
	for s, want := range map[string]string{
		"plain":           `"plain"`,
		`q"uo'te\` + "\n": `"q\"uo'te\\\n"`,
		"ü中":              `"\u00fc\u4e2d"`,
		"🐍":               `"\U0001f40d"`,
		"\xff":            `"\udcff"`,
		"\ufffd":          `"\ufffd"`,
	} {
		if got := pythonString(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}
