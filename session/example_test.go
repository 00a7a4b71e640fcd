package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

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
	_ = run
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
	_ = tool
}

// Code that reports through print passes its output on line by line, and its images as they are shown.
func ExampleRunOptions() {
	run := func(ctx context.Context, s session.Session, code string, show func(mime string, data []byte)) error {
		r, err := session.Run(ctx, s, code, &session.RunOptions{
			Stdout: os.Stdout,
			Stderr: os.Stderr,
			Queue:  true, // behind the turns of others
			OnDisplay: func(d timeline.Display) {
				if mime, data, ok := d.ImageData(); ok {
					show(mime, data)
				}
			},
		})
		if err != nil {
			return err
		}
		return r.Err() // an error of the code, if that is one for the caller
	}
	_ = run
}

// Copy shows what code prints while it runs, and returns how it ended.
func ExampleCopy() {
	run := func(ctx context.Context, s session.Session, code string) error {
		turn, err := s.Submit(ctx, code)
		if err != nil {
			return err
		}
		end, err := session.CopyOutput(ctx, s, turn, os.Stdout, os.Stderr)
		if err != nil {
			return err
		}
		switch end.Outcome {
		case timeline.OutcomeError:
			return fmt.Errorf("%s: %s", end.Name, end.Message) // "ZeroDivisionError: division by zero"
		case timeline.OutcomeInterrupted, timeline.OutcomeEnded:
			return fmt.Errorf("the turn was not finished: %s", end.Outcome)
		}
		return nil
	}
	_ = run
}

// TurnEvents yields everything about a turn as it happens, here its images.
func ExampleTurnEvents() {
	pictures := func(ctx context.Context, s session.Session, turn uint64, show func(mime string, data []byte)) error {
		for e, err := range session.TurnEvents(ctx, s, turn) {
			if err != nil {
				return err
			}
			if d, ok := e.Body.(timeline.Display); ok {
				if mime, data, ok := d.ImageData(); ok {
					show(mime, data)
				}
			}
		}
		return nil
	}
	_ = pictures
}

// A context with a deadline ends the waiting. To stop the turn as well, interrupt it.
func ExampleSession_deadline() {
	run := func(ctx context.Context, s session.Session, code string, most time.Duration) (session.Reply, error) {
		turn, err := s.Submit(ctx, code)
		if err != nil {
			return session.Reply{}, err
		}
		reply, err := s.Wait(ctx, turn, session.WaitAtMost(most))
		if err != nil || reply.Outcome != "" {
			return reply, err
		}
		if _, err := s.Interrupt(ctx, turn); err != nil { // too late
			return reply, err
		}
		return s.Wait(ctx, turn, session.WaitAtMost(most))
	}
	_ = run
}
