package timeline_test

import (
	"fmt"
	"log"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// A program reads a log from a cursor, and renders it as text.
func ExampleLog() {
	l, err := timeline.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	l.Append(timeline.Event{Turn: 1, Body: timeline.TurnStarted{Input: []byte("print('a')")}})
	known := l.Append(timeline.Event{Turn: 1, Body: timeline.Text{Data: []byte("a\n")}}).Seq
	l.Append(timeline.Event{Turn: 1, Body: timeline.TurnEnded{Outcome: timeline.OutcomeOK}})

	for _, e := range l.EventsSince(known) {
		fmt.Println(e.Seq, e.Type())
	}
	fmt.Print(render.Events(l.EventsSince(0), nil).Text())
	// Output:
	// 3 turn_ended
	// a
}
