package text_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A quoted name shows which characters it has, and stays on one line.
func TestQuoteName(t *testing.T) {
	for _, r := range "\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u180b\u180e\u2003\u200b\u200d\u2028\u202e\u2060\u2066\u2800\u3000\u3164\ufe0f\ufeff\uffa0\ufffc\U00013441\U0001d159\U0001d173\U000e0041\U000e0100" {
		name := "/x" + string(r) + "y"
		got := text.QuoteName(name)
		if unquoted, err := strconv.Unquote(got); err != nil || unquoted != name || strings.ContainsRune(got, r) {
			t.Errorf("%U: got %s, %v", r, got, err)
		}
	}
	for _, name := range []string{"/data/x", "/caf\u00e9", "/cafe\u0301", "\u05d0\u05d1", "\u6587\u4ef6", "\U0001f600"} {
		if got := text.QuoteName(name); got != name {
			t.Errorf("got %s, want it unchanged", got)
		}
	}
}
