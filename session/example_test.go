package session_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A function that uses a session works with one of this process and with one of a
// daemon. It runs code in somebody's name, and answers what the code asks.
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
			reply, err := ada.Wait(ctx, turn, &session.WaitOptions{Until: time.Minute, After: read})
			if err != nil {
				return "", err
			}
			text, read = text+reply.Text(), reply.Next
			if reply.Wait == nil {
				return text, nil
			}
			if _, err := ada.Answer(ctx, reply.Wait.ID, session.Input{Data: []byte(answer + "\n")}); err != nil {
				return "", err
			}
		}
	}
	_ = run
}
