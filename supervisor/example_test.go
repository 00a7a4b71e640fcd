package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
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

// Run returns everything that became of some code. An error of the code is a part of that.
func ExampleSession_run() {
	sup, s := openExampleSession()
	defer sup.Close()
	ctx := context.Background()

	r, err := session.Run(ctx, s, "print('hi')\n6 * 7", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q %s\n", r.Text, r.Value)

	r, err = session.Run(ctx, s, "1 / 0", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Err())
	// Output:
	// "hi\n" 42
	// ZeroDivisionError: division by zero
}

// Options bound the time, pass text on as it arrives, and answer the code's questions.
func ExampleSession_runWithOptions() {
	sup, s := openExampleSession()
	defer sup.Close()

	_, err := session.Run(context.Background(), s, `print("hello", input())`, &session.RunOptions{
		Stdout: os.Stdout,
		Answer: func(context.Context, session.InputRequest) (session.Input, error) {
			return session.Input{Data: []byte("Ada\n")}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	r, err := session.Run(context.Background(), s, "while True: pass", &session.RunOptions{Timeout: 300 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.TimedOut, r.Outcome)
	// Output:
	// hello Ada
	// true interrupted
}

// With Queue, a run waits for its turn, and runs start in the order in which they came.
func ExampleSession_runInQueue() {
	sup, s := openExampleSession()
	defer sup.Close()

	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r, err := session.Run(context.Background(), s, "n = globals().get('n', 0) + 1; n", &session.RunOptions{Queue: true})
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(r.Value)
		})
	}
	all.Wait()
	// Unordered output:
	// 1
	// 2
	// 3
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
