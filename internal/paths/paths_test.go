package paths_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

func TestContains(t *testing.T) {
	for _, test := range []struct {
		dir, path string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b", true},
		{"/a", "/a/b/c", true},
		{"/a/b", "/a", false},
		{"/a", "/ab", false},
		{"/ab", "/a", false},
		{"/a", "/b/a", false},
		{"/a", "/a/..b", true},

		{"/", "/", true},
		{"/", "/a", true},
		{"/a", "/", false},
		{"/", "a", false},
		{"/", "", true},
		{"", "/", true},
		{"", "/a", true},
		{"", "a", false},
		{"", "", true},
		{"/a", "", false},

		{"/a/", "/a", true},
		{"/a/", "/a/", true},
		{"/a/", "/a/b", true},
		{"/a/", "/ab", false},
		{"/a", "/a/", true},
		{"/a", "/a/b/", true},

		{"a", "a", true},
		{"a", "a/b", true},
		{"a", "ab", false},
		{"a", "/a", false},
		{"/a", "a", false},
		{"/a", "a/b", false},
	} {
		if got := paths.Contains(test.dir, test.path); got != test.want {
			t.Errorf("%q, %q: got %v, want %v", test.dir, test.path, got, test.want)
		}
	}
}
