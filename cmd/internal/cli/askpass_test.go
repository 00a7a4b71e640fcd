package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// asks makes an asker whose browser is a function.
func asks(t *testing.T, open func(context.Context, string) (func(), error)) *asker {
	t.Helper()
	a := &asker{place: "gpu", program: "ssh", log: slog.New(slog.DiscardHandler), open: open}
	a.ctx, a.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		a.stop()
		a.pages.Close()
	})
	return a
}

func TestAsker_APersonWhoDoesNotAnswerIsLeftInPeace(t *testing.T) {
	t.Parallel()
	a := asks(t, nil)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if a.asked = begun; !a.begin() {
			t.Fatal("the first question is refused")
		}
		time.Sleep(askTime)
		if got := a.lastAsked(); !got.Equal(time.Now()) {
			t.Errorf("while a question is open it is asked at %s", got)
		}
		a.end(false)
		if a.begin() {
			t.Error("it is asked again at once")
		}
		time.Sleep(restTime)
		if !a.begin() {
			t.Error("it is never asked again")
		}
		a.end(true)
		for range maxAsking {
			if !a.begin() {
				t.Error("after an answer the next question is refused")
			}
		}
		if a.begin() {
			t.Error("there is no bound")
		}
	})
}

func TestAsker_WithoutABrowserThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	a := asks(t, func(context.Context, string) (func(), error) { return func() {}, errors.New("no xdg-open") })
	if got := a.ask(question{Prompt: "Password:"}, nil); got.Given {
		t.Errorf("got %+v", got)
	}
	if !a.begin() {
		t.Error("this counts as declined")
	}
}

func TestAsker_ACommandThatHasGivenUpNeedsNoAnswer(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	a := asks(t, func(context.Context, string) (func(), error) {
		close(gone)
		return func() {}, nil
	})
	if got := a.ask(question{Prompt: "Password:"}, gone); got.Given {
		t.Errorf("got %+v", got)
	}
}

func TestAsker_OnlyYesIsAnAnswerAboutAKey(t *testing.T) {
	t.Parallel()
	a := asks(t, nil)
	for prompt, wantChoices := range map[string]bool{
		"The authenticity of host 'x' can't be established.\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ": true,
		"ada@gpu1's password: ": false,
	} {
		answers := make(chan answer, 1)
		p := a.pageOf(question{Prompt: prompt}, answers)
		if p.Prompt != prompt || (len(p.Choices) > 0) != wantChoices || (p.Decline == nil) != wantChoices {
			t.Errorf("%q: got %+v", prompt, p)
		}
		if wantChoices {
			for text, given := range map[string]bool{hostYes: true, hostNo: false} {
				_ = p.Answer(t.Context(), text)
				if got := <-answers; got.Given != given {
					t.Errorf("%s: got %+v", text, got)
				}
			}
		}
	}
}

func TestAsker_NewsOfSSHWantNoAnswerAndHoldUpNoQuestion(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	a := asks(t, func(context.Context, string) (func(), error) {
		close(gone) // the key was touched
		return func() {}, nil
	})
	news := question{Prompt: "Confirm user presence for key ED25519-SK", Kind: kindNone}
	if p := a.pageOf(news, make(chan answer, 1)); !slices.Equal(p.Choices, []string{seen}) || p.Decline != nil {
		t.Errorf("got %+v", p)
	}
	a.ask(news, gone)
	if !a.begin() {
		t.Error("the next question is refused")
	}
}

func TestIsQuestion_IsWhatSSHGives(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"ada@gpu1's password: ": true, "list": false, "--help": false, "": true} {
		if got := isQuestion([]string{args}); got != want {
			t.Errorf("%q: got %v", args, got)
		}
	}
	if isQuestion(nil) || isQuestion(strings.Fields("exec main")) {
		t.Error("words of the command line are taken for a question")
	}
}
