package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain})
}

// openPython opens the session of an example: one of this process. A session of a daemon would do as well.
func openPython() (s *supervisor.Session, closeAll func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	s, err = sup.Open(context.Background(), "main", python.Spec(python.Options{Dir: dir}))
	if err != nil {
		log.Fatal(err)
	}
	return s, func() {
		_ = sup.Close()
		_ = os.RemoveAll(dir)
	}
}

// A function that uses a session works with one of this process and with one of a daemon. It
// runs code in the name of an author, and answers what the code asks.
func ExampleSession() {
	run := func(ctx context.Context, s session.Session, code, answer string) (string, error) {
		ada := s.As("ada")
		turn, err := ada.Submit(ctx, code)
		if refused, ok := errors.AsType[*session.Error](err); ok && refused.Kind == session.KindBusy {
			return "", fmt.Errorf("turn %d is in the way", refused.Turn)
		}
		if err != nil {
			return "", err
		}
		var text string
		var read timeline.Seq
		for {
			reply, err := ada.Wait(ctx, turn, &session.WaitOptions{Timeout: time.Minute, After: read})
			if err != nil {
				return "", err
			}
			text, read = text+reply.Text(), reply.Next
			if reply.InputRequest == nil {
				return text, nil
			}
			if _, err := ada.Answer(ctx, reply.InputRequest.ID, session.Input{Data: []byte(answer + "\n")}); err != nil {
				return "", err
			}
		}
	}

	s, closeAll := openPython()
	defer closeAll()
	text, err := run(context.Background(), s, "print('hello', input())", "Grace")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
	// Output:
	// [turn 1 by ada: print('hello', input())]
	// [typed by ada: Grace]
	// hello Grace
}

// A function that hands code of a model to any session needs one call. The result is text for the
// model: also if the code failed, took too long or printed too much.
func ExampleRun() {
	tool := func(ctx context.Context, s session.Session, code string) (string, error) {
		r, err := session.Run(ctx, s, code, &session.RunOptions{Timeout: time.Minute})
		if err != nil {
			return "", err
		}
		return r.String(), nil
	}

	s, closeAll := openPython()
	defer closeAll()
	for _, code := range []string{"x = 6; x * 7", "raise ValueError('too small')"} {
		text, err := tool(context.Background(), s, code)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(text)
	}
	// Output:
	// 42
	// Traceback (most recent call last):
	//   File "<cell 2>", line 1, in <module>
	//     raise ValueError('too small')
	// ValueError: too small
}

// Code that reports through print passes its output on line by line, and its images as they are shown.
func ExampleRunOptions() {
	s, closeAll := openPython()
	defer closeAll()
	r, err := session.Run(context.Background(), s, `
class Image:
    def _repr_png_(self): return b"\x89PNG\r\n\x1a\n"
print("working")
Image()`, &session.RunOptions{
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Queue:  true, // behind the turns of others
		OnDisplay: func(d timeline.Display) {
			if mime, data, ok := d.ImageData(); ok {
				fmt.Println(mime, len(data), "bytes")
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Err()) // an error of the code, if that is one for the caller
	// Output:
	// working
	// image/png 8 bytes
	// <nil>
}

// CopyOutput shows what code prints while it runs, and returns how it ended.
func ExampleCopyOutput() {
	s, closeAll := openPython()
	defer closeAll()
	ctx := context.Background()
	turn, err := s.Submit(ctx, "print('dividing')\n1 / 0")
	if err != nil {
		log.Fatal(err)
	}
	end, err := session.CopyOutput(ctx, s, turn, os.Stdout, nil)
	if err != nil {
		log.Fatal(err)
	}
	switch end.Outcome {
	case timeline.OutcomeOK:
	case timeline.OutcomeError:
		fmt.Println("failed:", end.Name, end.Message)
	default:
		fmt.Println("not finished:", end.Outcome)
	}
	// Output:
	// dividing
	// failed: ZeroDivisionError division by zero
}

// TurnEvents yields everything about a turn as it happens.
func ExampleTurnEvents() {
	s, closeAll := openPython()
	defer closeAll()
	ctx := context.Background()
	turn, err := s.Submit(ctx, "import sys\nprint('ready', file=sys.stderr)")
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range session.TurnEvents(ctx, s, turn) {
		if err != nil {
			log.Fatal(err)
		}
		switch b := e.Body.(type) {
		case timeline.Text:
			fmt.Printf("on standard error %t: %s", b.Stream == timeline.Stderr, b.Data)
		case timeline.TurnEnded:
			fmt.Println("ended:", b.Outcome)
		}
	}
	// Output:
	// on standard error true: ready
	// ended: ok
}

// A context with a deadline ends the waiting. To stop the turn as well, interrupt it.
func ExampleSession_deadline() {
	s, closeAll := openPython()
	defer closeAll()
	ctx := context.Background()
	turn, err := s.Submit(ctx, "while True: pass")
	if err != nil {
		log.Fatal(err)
	}
	reply, err := s.Wait(ctx, turn, session.WaitAtMost(100*time.Millisecond))
	if err == nil && reply.Outcome == "" {
		if _, err := s.Interrupt(ctx, turn); err != nil {
			log.Fatal(err)
		}
		reply, err = s.Wait(ctx, turn, session.WaitAtMost(time.Minute))
	}
	fmt.Println(reply.Outcome, err)
	// Output: interrupted <nil>
}

// Put and Get move files of a program into a session and out of it.
func ExamplePut() {
	s, closeAll := openPython()
	defer closeAll()
	ctx := context.Background()
	if err := session.Put(ctx, s, "birds.txt", strings.NewReader("knot\nturnstone\n"), nil); err != nil {
		log.Fatal(err)
	}
	if _, err := session.Run(ctx, s, "names = open('birds.txt').read().upper()\nwith open('upper.txt', 'w') as f: f.write(names)", nil); err != nil {
		log.Fatal(err)
	}
	if err := session.Get(ctx, s, "upper.txt", os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// KNOT
	// TURNSTONE
}

// FunctionOf makes a function of a program callable by code. Its struct describes the parameters.
func ExampleFunctionOf() {
	type place struct {
		Place string `json:"place"`
	}
	count := session.FunctionOf("count_birds", "Counts the birds at a place.", func(_ context.Context, p place) (map[string]int, error) {
		if p.Place != "harbour" {
			return nil, fmt.Errorf("nobody has counted at %q", p.Place)
		}
		return map[string]int{"turnstone": 12, "knot": 30}, nil
	})

	s, closeAll := openPython()
	defer closeAll()
	ctx := context.Background()
	if err := s.SetFunctions(count); err != nil {
		log.Fatal(err)
	}
	r, err := session.Run(ctx, s, "from turnstone import count_birds\nsum(count_birds('harbour').values())", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Value)
	// Output: 42
}
