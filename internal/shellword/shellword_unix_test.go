//go:build unix

package shellword

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/text"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	words := []string{
		"", "/data/out", "/data/my files", "$(id>x)", "`id`", "it's", `"x"`, `a\b`, `a\n`, "!!", "-n", "--no", "~", "*", "a;b", "#x", "=ls", "x=y", "é", "%s",
		"a\nb", "/data/x\x1b[8m", "/data/\u202egnp.exe", "x\u2800y", "\u0301x", "a\tb", "/\xff", "x\x1b'$(id>x)`id`\\0101!%s\\", "\x1b-n", "/data/caf\u0301",
	}
	for _, name := range []string{"sh", "bash", "dash", "zsh"} {
		path, err := exec.LookPath(name)
		if err != nil && name != "sh" {
			continue // a system has only some of these shells
		}
		for _, word := range words {
			c := exec.Command(path, "-c", "printf '<%s>' "+Quote(word))
			c.Dir = t.TempDir()
			if got, err := c.CombinedOutput(); err != nil || string(got) != "<"+word+">" {
				t.Errorf("%s reads %s as %q, %v, want %q", name, Quote(word), got, err, word)
			}
		}
		const ends = "/data/x\n\n"
		if got, err := exec.Command(path, "-c", "printf %s "+Quote(ends)).Output(); err != nil || filepath.Clean(string(got)) != ends {
			t.Errorf("%s reads %s as the path %q, %v, want %q", name, Quote(ends), got, err, ends)
		}
	}
	for _, word := range words {
		if w := Quote(word); text.EscapeInvisible(w) != w || strings.Contains(w, "\n") {
			t.Errorf("%q has invisible characters", w)
		}
	}
}
