package cmdkit

import (
	"testing"
	"time"
)

func TestBarLine(t *testing.T) {
	for _, test := range []struct {
		done, total int64
		message     string
		width       int
		want        string
	}{
		{0, 0, "", 80, "preparing x 3 s"},
		{0, 0, "preparing x", 80, "preparing x 3 s"},
		{5, 10, "tiny", 80, "preparing x [##########----------] 3 s: tiny"},
		{20, 10, "", 80, "preparing x [####################] 3 s"},
		{-1, 10, "", 80, "preparing x [--------------------] 3 s"},
		{0, 0, "many words", 20, "preparing x 3 s: ma…"},
		{0, 0, "ümläute", 20, "preparing x 3 s: üm…"},
	} {
		if got := barLine("preparing x", test.done, test.total, test.message, 3*time.Second, test.width); got != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
}
