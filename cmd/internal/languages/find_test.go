package languages

import "testing"

func TestFindLanguage(t *testing.T) {
	for name, want := range map[string]string{"": "python", "python": "python", "Python": "python", "py": "python", "PY": "python", "r": "r", "R": "r"} {
		if l, err := Find(name); err != nil || l.Name != want {
			t.Errorf("%q: got %q and %v, want %q", name, l.Name, err, want)
		}
	}
}

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
