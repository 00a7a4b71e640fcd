package sessions

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestEventPrinter_Keys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := newEventPrinter()
	for _, body := range []timeline.Body{
		timeline.InputLine{Prompt: "name? ", Text: "Ada", Author: "ada"},
		timeline.InputLine{Text: "yes<Enter>", Author: "ada\x1b[8m", Keys: true},
		timeline.InputLine{Text: "\x1b[8m<Down>", Keys: true},
		timeline.InputLine{Secret: true, Author: "ada", Keys: true},
	} {
		if err := show(&b, timeline.Event{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "name? Ada\n[ada typed yes<Enter>]\n[typed <Down>]\n[ada typed secret keys]\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
