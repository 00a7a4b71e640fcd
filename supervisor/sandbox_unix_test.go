//go:build unix

package supervisor

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCanHide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	needed := []string{"", "/h/me"}
	for path, want := range map[string]bool{
		dir: true, "/h/me/x": true, "/h/meow": true,
		"/h/me": false, "/h": false, "/h/": false, "/": false, link: false,
		"home": false, "": false,
	} {
		if got := canHide(path, needed); got != want {
			t.Errorf("%q: got %v, want %v", path, got, want)
		}
	}
}
