package render_test

import (
	"fmt"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// A model reads repeated lines once, and the beginning and the end of output that is too long.
func ExampleEvents() {
	long := strings.Repeat("reading the next file\nwriting its index\n", 500)
	events := []timeline.Event{
		{Seq: 1, Turn: 1, Body: timeline.Text{Data: []byte("begin\n" + long + "end\n")}},
		{Seq: 2, Turn: 1, Body: timeline.TurnEnded{Outcome: timeline.OutcomeOK}},
	}
	fmt.Print(render.Events(events, &render.Options{MaxChars: 300, OutputPath: "output.txt"}).Text())
	// Output:
	// begin
	// reading the next file
	// writing its index
	// … these 2 lines 500 times in all
	// end
}
