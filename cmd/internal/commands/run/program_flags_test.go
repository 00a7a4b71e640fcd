package run

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
)

func TestSplitProgramArgs(t *testing.T) {
	for _, test := range []struct{ args, own, rest string }{
		{"-c code", "-c code", ""},
		{"--dir d -c code -x --lang r", "--dir d -c code", "-x --lang r"},
		{"-i -m mod a -c b", "-i -m mod", "a -c b"},
		{"file -c x", "file -c x", ""},
		{"-e 1 -e 2", "-e 1 -e 2", ""},
		{"--dir -c", "--dir -c", ""},
		{"-c", "-c", ""},
	} {
		f := cmdkit.NewFlags("")
		NewReplCommand(f, func(string) string { return "" })
		own, rest := splitProgramArgs(f, strings.Fields(test.args))
		if strings.Join(own, " ") != test.own || strings.Join(rest, " ") != test.rest {
			t.Errorf("%q: got %q and %q, want %q and %q", test.args, own, rest, test.own, test.rest)
		}
	}
}
