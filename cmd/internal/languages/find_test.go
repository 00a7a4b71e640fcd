package languages

import "testing"

func TestFindLanguage(t *testing.T) {
	for name, want := range map[string]string{"": "python", "python": "python", "Python": "python", "py": "python", "PY": "python", "r": "r", "R": "r"} {
		if l, err := Find(name); err != nil || l.Name != want {
			t.Errorf("%q: got %q and %v, want %q", name, l.Name, err, want)
		}
	}
}
