package paths_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

func TestContains_Windows(t *testing.T) {
	for _, test := range []struct {
		dir, path string
		want      bool
	}{
		{`C:\a`, `c:\A\b`, true},
		{`C:\a`, `C:/a/b`, true},
		{`C:\a\`, `C:\a`, true},
		{`C:\a`, `C:\ab`, false},
		{`C:\a`, `D:\a\b`, false},
		{`C:\`, `C:\a`, true},
		{`C:\`, `D:\a`, false},
		{`\`, `C:\a`, true},
		{`/`, `C:\a`, true},
		{`\`, `a`, false},
		{`C:\a`, `C:\a\..\b`, false},
	} {
		if got := paths.Contains(test.dir, test.path); got != test.want {
			t.Errorf("%q, %q: got %v, want %v", test.dir, test.path, got, test.want)
		}
	}
}
