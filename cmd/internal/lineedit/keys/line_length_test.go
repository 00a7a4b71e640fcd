package keys

import "testing"

func TestLineLength(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]int{
		"": 0, "a": 1, "a\rb": 2, "\n": 1, "\x04a": 1, "a\x04\r": 3,
		PasteStart + "a\nb" + PasteEnd + "\rc":    len(PasteStart+PasteEnd) + 4,
		PasteStart + "a\nb" + PasteEndCut + "\rc": len(PasteStart+PasteEnd) + 4,
		PasteStart + "a\nb":                       len(PasteStart) + 3,
	} {
		if got, _ := LineLength([]byte(typed)); got != want {
			t.Errorf("of %q: got %d, want %d", typed, got, want)
		}
	}
}
