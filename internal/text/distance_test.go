package text_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/text"
)

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"query", "query"}: 0, {"qurey", "query"}: 2, {"querie", "query"}: 2,
		{"", "abc"}: 3, {"abc", ""}: 3, {"pythn", "python"}: 1, {"r", "python"}: 6,
	} {
		if got := text.Distance(pair[0], pair[1]); got != want {
			t.Errorf("%q: got %d, want %d", pair, got, want)
		}
	}
}
