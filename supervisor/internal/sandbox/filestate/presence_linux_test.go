package filestate

import (
	"os"
	"strings"
	"testing"
)

// A filesystem error that a session can cause does not mean that a file is missing.
func TestPresence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTestFile(t, dir+"/file", "")
	for link, to := range map[string]string{"link": "nowhere", "circle": "circle"} {
		if err := os.Symlink(to, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]Presence{
		"file": Present, "link": Present, "nothing": Missing, "file/x": Missing, "link/x": Missing, "circle/x": Unknown, strings.Repeat("a", 256): Unknown,
		strings.Repeat("a/", 2048): Unknown,
	} {
		if got := PresenceOf(dir + "/" + name); got != want {
			t.Errorf("%.20s: got %d, want %d", name, got, want)
		}
	}
}
