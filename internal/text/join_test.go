package text_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/text"
)

func TestJoinNames(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{"none": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := text.JoinNames(names, "or", "none"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
