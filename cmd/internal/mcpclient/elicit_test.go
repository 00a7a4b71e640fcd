//go:build linux

package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// waitForm waits until a server asks the user.
func waitForm(t *testing.T, r *sessionkit.TestSession, turn uint64) session.InputRequest {
	t.Helper()
	reply, err := r.Wait(t.Context(), turn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if reply.InputRequest == nil || reply.InputRequest.Form == nil {
		t.Fatalf("no user is asked: %s, %+v", reply.Text(), reply.InputRequest)
	}
	return *reply.InputRequest
}

func sendFormAnswer(t *testing.T, r *sessionkit.TestSession, w session.InputRequest, a session.FormAnswer) {
	t.Helper()
	if _, err := r.As("user").Answer(t.Context(), w.ID, a.Input()); err != nil {
		t.Fatal(err)
	}
}

// runEachProtocolVersion runs a test with a server of each protocol style for elicitation.
func runEachProtocolVersion(t *testing.T, test func(t *testing.T, r *sessionkit.TestSession)) {
	t.Helper()
	t.Parallel()
	for _, style := range []string{"polite", "older"} {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, style))
			wantOutput(t, r, "from turnstone.tools import "+style+" as bird", "")
			test(t, r)
		})
	}
}

func TestElicitVersions(t *testing.T) {
	t.Run("the user's answer reaches the server", func(t *testing.T) {
		runEachProtocolVersion(t, func(t *testing.T, r *sessionkit.TestSession) {
			for _, one := range []struct {
				answer session.FormAnswer
				want   string
			}{
				{session.FormAnswer{Action: session.FormAccept, Content: map[string]any{"name": "Ada", "kind": "owl", "eggs": 7, "tame": true}}, `{"action":"accept","content":{"eggs":7,"kind":"owl","name":"Ada","tame":true}}`},
				{session.FormAnswer{Action: session.FormAccept, Content: map[string]any{"name": "Ada"}}, `{"action":"accept","content":{"eggs":3,"name":"Ada"}}`},
				{session.FormAnswer{Action: session.FormDecline}, `{"action":"decline","content":null}`},
				{session.FormAnswer{Action: session.FormCancel}, `{"action":"cancel","content":null}`},
			} {
				turn := submitCode(t, r, "print(bird.ask())")
				w := waitForm(t, r, turn)
				if w.Kind != timeline.InputKindForm || !strings.Contains(w.Form.Question(), "asks: Which bird?") || len(w.Form.Schema) == 0 {
					t.Errorf("got %+v, %+v", w, w.Form)
				}
				if at := strings.Index(string(w.Form.Schema), `"tame"`); at < 0 || at > strings.Index(string(w.Form.Schema), `"eggs"`) {
					t.Errorf("the order of the fields is lost: %s", w.Form.Schema)
				}
				sendFormAnswer(t, r, w, one.answer)
				if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), one.want) {
					t.Errorf("%+v: got %s, want %s", one.answer, res.OutputText(), one.want)
				}
			}
		})
	})

	t.Run("the user is asked to open an address", func(t *testing.T) {
		runEachProtocolVersion(t, func(t *testing.T, r *sessionkit.TestSession) {
			for _, one := range []struct {
				code, want string
				action     session.FormAction
			}{
				{"print(bird.visit())", `{"action":"accept"`, session.FormAccept},
				{"print(bird.visit())", `{"action":"decline"`, session.FormDecline},
				{"bird.first()", "the user was asked to do this; call again when they have", session.FormAccept},
				{"bird.first()", "the user declined", session.FormDecline},
			} {
				turn := submitCode(t, r, one.code)
				w := waitForm(t, r, turn)
				if !strings.HasPrefix(w.Form.URL, "https://example.org/") || !strings.Contains(w.Form.Question(), w.Form.URL) {
					t.Errorf("got %+v", w.Form)
				}
				sendFormAnswer(t, r, w, session.FormAnswer{Action: one.action})
				if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), one.want) {
					t.Errorf("%s, %s: got %s", one.code, one.action, res.OutputText())
				}
			}
			wantOutput(t, r, "bird.lure()", "Error", "is not a web address")
		})
	})
}

func TestElicit(t *testing.T) {
	t.Parallel()

	t.Run("rejects an answer that does not fit", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "polite"))
		turn := submitCode(t, r, "from turnstone.tools import polite; print(polite.ask())")
		w := waitForm(t, r, turn)
		for _, in := range []string{"owl\n", `{"action":"accept","content":{"name":"x"}}`, `{"action":"accept"}`} {
			if _, err := r.Answer(t.Context(), w.ID, session.Input{Data: []byte(in)}); session.KindOf(err) != session.KindInvalid {
				t.Errorf("%s: got %v", in, err)
			}
		}
		if _, err := r.Submit(t.Context(), "1"); !errors.Is(err, session.ErrWaiting) || !strings.Contains(err.Error(), "the server polite") {
			t.Errorf("another input: %v", err)
		}
		if _, err := r.Answer(t.Context(), w.ID, session.Input{EOF: true}); err != nil {
			t.Fatal(err)
		}
		if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), `"cancel"`) {
			t.Errorf("got %s", res.OutputText())
		}
		if _, err := r.Answer(t.Context(), w.ID, session.FormAnswer{Action: session.FormDecline}.Input()); !errors.Is(err, session.ErrStale) {
			t.Errorf("a second answer: %v", err)
		}
	})

	// The request is withdrawn by an interrupt, by the server itself, and by a reset.
	t.Run("withdraws obsolete questions", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "older"))
		wantOutput(t, r, "from turnstone.tools import older", "")
		turn := submitCode(t, r, "older.ask()")
		w := waitForm(t, r, turn)
		r.InterruptTurn(t, turn)
		if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), "KeyboardInterrupt") {
			t.Errorf("after an interrupt: %s", res.OutputText())
		}
		wantWithdrawn := func(w session.InputRequest) {
			t.Helper()
			if _, err := r.Answer(t.Context(), w.ID, session.FormAnswer{Action: session.FormDecline}.Input()); err == nil {
				t.Error("a withdrawn request accepts an answer")
			}
		}
		wantWithdrawn(w)
		turn = submitCode(t, r, "print(older.patient())")
		if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), "gave up: ") || strings.Contains(res.OutputText(), "gave up: <nil>") {
			t.Errorf("a server with a timeout: %s", res.OutputText())
		}
		turn = submitCode(t, r, "older.ask()")
		w = waitForm(t, r, turn)
		if err := r.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantWithdrawn(w)
		r.WaitUntilReady(t)
		wantOutput(t, r, "from turnstone.tools import older; print(older.hello())", "hello")
	})

	t.Run("declines with a notice when no user can be asked", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "polite"))
		file := strconv.Quote(filepath.Join(t.TempDir(), "answer"))
		wantOutput(t, r, "from turnstone.tools import polite", "")
		submitCode(t, r, "import threading, time\nt = threading.Thread(target=lambda: (time.sleep(.3), open("+file+", 'w').write(polite.ask()), print('wrote')))\nt.start()")
		e := r.WaitEvent(t, "the decline", func(e timeline.Event) bool {
			n, ok := e.Body.(timeline.Notice)
			return ok && strings.Contains(n.Message, "a form of the server polite was declined because no user can answer it now: Which bird?")
		})
		if e.Turn == 0 && !e.BetweenTurns {
			t.Errorf("got %+v", e)
		}
		wantOutput(t, r, "t.join(); print(open("+file+").read())", `"decline"`)
		turn := submitCode(t, r, "print([polite.ask() for _ in range(22)][-1])")
		for range 20 {
			sendFormAnswer(t, r, waitForm(t, r, turn), session.FormAnswer{Action: session.FormCancel})
		}
		if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), `"decline"`) {
			t.Errorf("beyond the limit: %s", res.OutputText())
		}
	})

	// The questions of concurrent threads are put one after the other, and each thread gets its
	// own answer.
	t.Run("asks concurrent questions one after the other", func(t *testing.T) {
		t.Parallel()
		r := newSessionWith(t, newRudeSet(t, Options{Allow: []string{"*"}}, "polite"))
		turn := submitCode(t, r, "from turnstone.tools import polite\nfrom concurrent.futures import ThreadPoolExecutor\nprint(sorted(ThreadPoolExecutor(10).map(lambda _: polite.ask(), range(10))))")
		var want []string
		for i := range 10 {
			name := fmt.Sprintf("bird %d", i)
			sendFormAnswer(t, r, waitForm(t, r, turn), session.FormAnswer{Action: session.FormAccept, Content: map[string]any{"name": name}})
			text, _ := json.Marshal(map[string]any{"action": "accept", "content": map[string]any{"name": name, "eggs": 3}})
			want = append(want, string(text))
		}
		res := r.WaitTurnEnd(t, turn)
		for _, one := range want {
			if strings.Count(res.OutputText(), one) != 1 {
				t.Errorf("want %s once in %s", one, res.OutputText())
			}
		}
	})
}
