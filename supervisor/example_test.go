package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// openExampleSession does what all examples have in common. A program's main must call
// supervisor.MonitorMain() first.
func openExampleSession() (*supervisor.Supervisor, *supervisor.Session) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	s, err := sup.Open(context.Background(), "main", python.Spec(python.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	return sup, s
}

func Example() {
	sup, s := openExampleSession()
	defer sup.Close()
	ctx := context.Background()

	turn, err := s.Submit(ctx, "x = 6\nx * 7")
	if err != nil {
		log.Fatal(err)
	}
	reply, err := s.Wait(ctx, turn, session.WaitAtMost(45*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text())
	// Output: 42
}

// A turn that asks for input is not over: Wait returns at once with the input request, and Answer
// lets the turn continue.
func ExampleSession_Answer() {
	sup, s := openExampleSession()
	defer sup.Close()
	ctx := context.Background()

	turn, err := s.Submit(ctx, `print("Hello,", input("Name? "))`)
	if err != nil {
		log.Fatal(err)
	}
	reply, err := s.Wait(ctx, turn, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("it asks %q\n", reply.InputRequest.Prompt)
	if _, err := s.Answer(ctx, reply.InputRequest.ID, session.Input{Data: []byte("Ann\n")}); err != nil {
		log.Fatal(err)
	}
	reply, err = s.Wait(ctx, turn, &session.WaitOptions{After: reply.Next})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text())
	// Output:
	// it asks "Name? "
	// Hello, Ann
}

// A second input is refused while a turn is active. An interrupt names the turn that it should end.
func ExampleSession_Interrupt() {
	sup, s := openExampleSession()
	defer sup.Close()
	ctx := context.Background()

	turn, err := s.Submit(ctx, "print('working')\nwhile True: pass")
	if err != nil {
		log.Fatal(err)
	}
	for e := range s.Events(ctx, 0) { // until the loop is known to run
		if _, ok := e.Body.(timeline.Text); ok {
			break
		}
	}
	if _, err := s.Submit(ctx, "1+1"); errors.Is(err, session.ErrBusy) {
		fmt.Println("busy")
	}
	result, err := s.Interrupt(ctx, turn)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
	// Output:
	// busy
	// idle
}

// Events yields every event after a cursor: first past events, then new ones as they arrive.
func ExampleSession_Events() {
	sup, s := openExampleSession()
	defer sup.Close()
	ctx := context.Background()

	if _, err := s.Submit(ctx, "print('a'); print('b')"); err != nil {
		log.Fatal(err)
	}
	for e := range s.Events(ctx, 0) {
		switch body := e.Body.(type) {
		case timeline.Text:
			fmt.Printf("%s", body.Data)
		case timeline.TurnEnded:
			fmt.Println("turn", e.Turn, "ended:", body.Outcome)
			return
		}
	}
	// Output:
	// a
	// b
	// turn 1 ended: ok
}
