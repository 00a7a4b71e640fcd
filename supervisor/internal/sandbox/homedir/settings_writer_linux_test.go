package homedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// The writer does not follow a link that the session has created in place of its settings.
func TestSettingsWriter_FollowsNoLink(t *testing.T) {
	t.Parallel()
	home := paths.RealOrEmpty(t.TempDir())
	writeText := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	writeText(home+"/.condarc", "one")
	victim := home + "/victim"
	writeText(victim, "untouched")
	s := &SettingsWriter{Rules: &Rules{Home: home}, Dir: filepath.Join(t.TempDir(), "settings")}
	for _, text := range []string{"one", "two", "untouched"} {
		writeText(home+"/.condarc", text)
		if err := s.WriteFiles(); err != nil {
			t.Fatal(err)
		}
		file := s.Files[".condarc"]
		if got, _ := os.ReadFile(file); string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, file); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(victim); string(got) != "untouched" {
		t.Errorf("the target of the link is %q", got)
	}
}
