package reply

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

func TestAlternateScreen(t *testing.T) {
	t.Run("text that is drawn on it is not output", func(t *testing.T) {
		const on, off = "\x1b[?1049h", "\x1b[?1049l"
		for _, test := range []struct {
			name   string
			before bool
			pieces []string
			want   string
			now    bool
		}{
			{"none", false, []string{"a\n", "b\x1b[1m\n"}, "a\nb\n", false},
			{"entered", false, []string{"a\n", on + "\x1b[39;1H~ ~", "~"}, "a\n", true},
			{"left", true, []string{"~ ~", "~" + off + "b\n"}, "b\n", false},
			{"both", false, []string{"a\n" + on + "~\n" + off + "b\n"}, "a\nb\n", false},
			{"an older mode", false, []string{"a\n\x1b[?47h~\x1b[?47lb\n"}, "a\nb\n", false},
		} {
			var events []timeline.Event
			for _, piece := range test.pieces {
				events = append(events, timeline.Event{Turn: 1, Body: timeline.Text{Data: []byte(piece)}})
			}
			rest, now := withoutAlternateScreen(events, test.before)
			if got := render.Events(rest, nil).Text(); got != test.want || now != test.now {
				t.Errorf("%s: got %q, %v", test.name, got, now)
			}
			if _, now := withoutAlternateScreen(append(events, timeline.Event{Turn: 1, Body: timeline.TurnEnded{}}), test.before); now {
				t.Errorf("%s: the alternate screen outlives its turn", test.name)
			}
		}
	})

	t.Run("an input request on it has no prompt", func(t *testing.T) {
		w := &session.InputRequest{Terminal: true, Reader: "vi", Kind: "line", Prompt: "~  ~  1,1 All"}
		if got := inputRequestText(w, true); got != "waiting for input (full-screen program vi): answer with keys, or repl_interrupt" {
			t.Errorf("got %q", got)
		}
		if got := inputRequestText(w, false); !strings.Contains(got, "(vi)") || !strings.Contains(got, "1,1 All") {
			t.Errorf("got %q", got)
		}
	})
}
