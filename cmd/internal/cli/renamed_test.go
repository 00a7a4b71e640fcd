package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

func TestRenamed(t *testing.T) {
	t.Run("an old flag names the new one", func(t *testing.T) {
		suggested := map[string]bool{}
		for _, c := range allCommands() {
			f, _ := c.FlagSet()
			for old, now := range cmdkit.RenamedFlags() {
				if f.Lookup(now) == nil || f.Lookup(old) != nil {
					continue
				}
				suggested[old] = true
				_, _, err := runLine(t, append(strings.Fields(c.Name), "--"+old)...)
				if want := "unknown option --" + old + "; did you mean --" + now + "?"; !strings.Contains(err, want) {
					t.Errorf("%s --%s: got %q, want %q", c.FullName(), old, err, want)
				}
			}
		}
		for old := range cmdkit.RenamedFlags() {
			if !suggested[old] {
				t.Errorf("no command suggests anything for --%s", old)
			}
		}
	})

	t.Run("an old command names the new one", func(t *testing.T) {
		for old, now := range renamedCommands {
			if slices.ContainsFunc(allCommands(), func(c cmdkit.CommandInfo) bool { return c.Name == old }) {
				t.Errorf("repl %s exists", old)
			}
			if _, _, err := runLine(t, old); !strings.Contains(err, "did you mean repl "+now+"?") {
				t.Errorf("repl %s: got %q, want repl %s", old, err, now)
			}
		}
	})
}
