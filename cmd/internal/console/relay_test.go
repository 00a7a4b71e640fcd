package console

import "testing"

func TestDropDrawing(t *testing.T) {
	t.Parallel()
	e := &lineEditor{}
	e.relay.end = func() {}
	for _, test := range []struct {
		output     string
		fullScreen bool
		want       string
	}{
		{"before\n\x1b[?1049h\x1b[Hdrawn\x1b[2;1H", true, ""},
		{"the result\n", true, "the result\n"}, // the program has ended without leaving the full screen
		{"more\n", true, "the result\nmore\n"},
		{"\x1b[?1049l", false, "the result\nmore\n\x1b[?1049l"},
	} {
		e.relay.addOutput([]byte(test.output))
		e.dropDrawing(test.fullScreen)
		if got := string(e.relay.output); got != test.want {
			t.Errorf("after %q: got %q, want %q", test.output, got, test.want)
		}
	}
}
