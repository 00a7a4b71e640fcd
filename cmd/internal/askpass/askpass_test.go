package askpass

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newTestAskpassServer returns a server whose browser is a function.
func newTestAskpassServer(t *testing.T, open func(context.Context, string) (func(), error)) *askpassServer {
	t.Helper()
	a := &askpassServer{remote: "gpu", program: "ssh", log: slog.New(slog.DiscardHandler), open: open}
	a.ctx, a.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		a.stop()
		a.pages.Close()
	})
	return a
}

func TestAskpassServer(t *testing.T) {
	t.Parallel()

	t.Run("asks again only some time after a question without an answer", func(t *testing.T) {
		t.Parallel()
		a := newTestAskpassServer(t, nil)
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			if a.lastEnded = begun; !a.startQuestion() {
				t.Fatal("the first question is refused")
			}
			time.Sleep(questionTimeout)
			if got := a.lastAsked(); !got.Equal(time.Now()) {
				t.Errorf("while a question is open it is asked at %s", got)
			}
			a.finishQuestion(false)
			if a.startQuestion() {
				t.Error("it is asked again at once")
			}
			time.Sleep(declineCooldown)
			if !a.startQuestion() {
				t.Error("it is never asked again")
			}
			a.finishQuestion(true)
			for range maxOpenQuestions {
				if !a.startQuestion() {
					t.Error("after an answer the next question is refused")
				}
			}
			if a.startQuestion() {
				t.Error("there is no bound")
			}
		})
	})

	t.Run("gives no answer without a browser", func(t *testing.T) {
		t.Parallel()
		a := newTestAskpassServer(t, func(context.Context, string) (func(), error) { return func() {}, errors.New("no xdg-open") })
		if got := a.askUser(askpassRequest{Prompt: "Password:"}, nil); got.Answered {
			t.Errorf("got %+v", got)
		}
		if !a.startQuestion() {
			t.Error("this counts as declined")
		}
	})

	t.Run("stops waiting when the command has given up", func(t *testing.T) {
		t.Parallel()
		gone := make(chan struct{})
		a := newTestAskpassServer(t, func(context.Context, string) (func(), error) {
			close(gone)
			return func() {}, nil
		})
		if got := a.askUser(askpassRequest{Prompt: "Password:"}, gone); got.Answered {
			t.Errorf("got %+v", got)
		}
	})

	t.Run("accepts a host key only by yes", func(t *testing.T) {
		t.Parallel()
		a := newTestAskpassServer(t, nil)
		for prompt, wantChoices := range map[string]bool{
			"The authenticity of host 'x' can't be established.\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ": true,
			"ada@gpu1's password: ": false,
		} {
			answers := make(chan askpassResponse, 1)
			p := a.questionPage(askpassRequest{Prompt: prompt}, answers)
			if p.Prompt != prompt || (len(p.Choices) > 0) != wantChoices || (p.Decline == nil) != wantChoices {
				t.Errorf("%q: got %+v", prompt, p)
			}
			if wantChoices {
				for text, given := range map[string]bool{hostKeyAccept: true, hostKeyReject: false} {
					_ = p.Answer(t.Context(), text)
					if got := <-answers; got.Answered != given {
						t.Errorf("%s: got %+v", text, got)
					}
				}
			}
		}
	})

	t.Run("a notice needs no answer and blocks no question", func(t *testing.T) {
		t.Parallel()
		gone := make(chan struct{})
		a := newTestAskpassServer(t, func(context.Context, string) (func(), error) {
			close(gone) // the key was touched
			return func() {}, nil
		})
		news := askpassRequest{Prompt: "Confirm user presence for key ED25519-SK", Kind: promptKindNone}
		if p := a.questionPage(news, make(chan askpassResponse, 1)); !slices.Equal(p.Choices, []string{closeLabel}) || p.Decline != nil {
			t.Errorf("got %+v", p)
		}
		a.askUser(news, gone)
		if !a.startQuestion() {
			t.Error("the next question is refused")
		}
	})
}
