package console

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
	"github.com/turnstone-repl/turnstone/session"
)

// A fakeListener is a session in which bash listens or does not.
type fakeListener struct {
	session.Session
	listens atomic.Bool
	known   bool  // the session still names it after its last read
	fails   error // in place of ErrStale
	asked   int
	got     []string
}

func (f *fakeListener) Type(_ context.Context, k session.Keys) (uint64, error) {
	f.asked++
	switch {
	case !k.Live:
		return 0, errors.New("keys of a user are live")
	case !f.listens.Load() && f.fails != nil:
		return 0, f.fails
	case !f.listens.Load():
		return 0, session.ErrStale
	case k.Text != "":
		f.got = append(f.got, k.Text)
	}
	return 1, nil
}

func (f *fakeListener) Info(context.Context) (session.Info, error) {
	i := session.Info{State: session.StateRunning}
	if f.listens.Load() || f.known {
		i.Listener = &session.Listener{Program: "bash"}
	}
	return i, nil
}

// A typingUser types while a turn runs.
type typingUser struct {
	fakeListener
	keys   *keyReader
	editor *lineEditor
	screen strings.Builder
	end    func() // of the turn
}

// newTypingUser starts a turn. It is for a synctest bubble.
func newTypingUser(t *testing.T) *typingUser {
	u := &typingUser{keys: newKeyReader(func() {}, func() {}, nil)}
	u.editor = newTestEditor(u.keys, &u.screen)
	a := typeAhead{session: &u.fakeListener, keys: u.keys, echo: &lineEcho{}, giveBack: u.editor.returnLine}
	over, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.handleLines(t.Context(), over)
	}()
	u.end = func() {
		end()
		<-ended
	}
	return u
}

// newTestEditor returns an editor that draws into screen.
func newTestEditor(k *keyReader, screen io.Writer) *lineEditor {
	return &lineEditor{
		keys:            k,
		isPlain:         true,
		output:          &outputTracker{out: screen},
		painter:         &lineedit.Painter{Out: io.Discard, Dumb: true, Size: func() (int, int) { return 80, 24 }},
		history:         lineedit.NewHistory(10),
		debuggerHistory: lineedit.NewHistory(10),
		outputArrived:   make(chan struct{}, 1),
	}
}

func (u *typingUser) typeKeys(typed string) {
	u.keys.decodeInput([]byte(typed))
	synctest.Wait()
}

// pause lets time pass, which a synctest bubble does at once.
func (u *typingUser) pause(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// nextCode returns what the next prompt would run.
func (u *typingUser) nextCode(t *testing.T, typed string) string {
	t.Helper()
	u.keys.decodeInput([]byte(typed))
	text, err := u.editor.editCode(lineedit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTypeAhead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *typingUser){
		"a line that ends while a program listens is the program's": func(t *testing.T, u *typingUser) {
			u.typeKeys("ye")
			u.listens.Store(true)
			u.typeKeys("a\x7fs <\r")
			u.end()
			if want := []string{"yes <lt><Enter>"}; !slices.Equal(u.got, want) {
				t.Errorf("the program got %q, want %q", u.got, want)
			}
			if got := u.nextCode(t, "code\r"); got != "code" {
				t.Errorf("the next code is %q", got)
			}
		},
		"a line begun for a program never runs as code": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("ye")
			u.listens.Store(false)
			u.typeKeys("s\r")
			u.pause(2 * listenTimeout)
			u.end()
			if len(u.got) > 0 || !strings.Contains(u.screen.String(), "[your line was for bash, which no longer reads it; Ctrl-Y brings it back]") {
				t.Errorf("the program got %q, the user sees %q", u.got, u.screen.String())
			}
			if got := u.nextCode(t, "\x19 = 1\r"); got != "yes = 1" {
				t.Errorf("after Ctrl-Y the next code is %q", got)
			}
		},
		"a line begun for a program does not run if the turn ends before Enter": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("ye")
			u.listens.Store(false)
			u.end()
			if got := u.nextCode(t, "s\r"); got != "" || !strings.Contains(u.screen.String(), "Ctrl-Y") {
				t.Errorf("the next code is %q, the user sees %q", got, u.screen.String())
			}
			if got := u.nextCode(t, "\x19\r"); got != "yes" {
				t.Errorf("after Ctrl-Y the next code is %q", got)
			}
		},
		"a line begun for a program does not run if the turn ends at Enter": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("ye")
			u.listens.Store(false)
			u.typeKeys("s\rnext\r")
			u.end()
			if got := u.nextCode(t, ""); got != "" {
				t.Errorf("the next code is %q", got)
			}
			if got := u.nextCode(t, ""); got != "next" {
				t.Errorf("then the next code is %q", got)
			}
		},
		"a user who empties the line writes code": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("ye")
			u.end()
			if got := u.nextCode(t, "\x15code\r"); got != "code" {
				t.Errorf("the next code is %q", got)
			}
		},
		"a line waits until its program listens again": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("ye")
			u.listens.Store(false)
			u.typeKeys("s\r")
			u.pause(listenTimeout / 2)
			u.listens.Store(true)
			u.pause(listenTimeout)
			u.end()
			if want := []string{"yes<Enter>"}; !slices.Equal(u.got, want) {
				t.Errorf("the program got %q, want %q", u.got, want)
			}
		},
		"a line waits for a program that does other things at the moment": func(t *testing.T, u *typingUser) {
			u.known = true
			u.typeKeys("yes\r")
			u.listens.Store(true)
			u.pause(listenTimeout)
			u.end()
			if want := []string{"yes<Enter>"}; !slices.Equal(u.got, want) {
				t.Errorf("the program got %q, want %q", u.got, want)
			}
		},
		"lines while nothing listens are code, as before": func(t *testing.T, u *typingUser) {
			u.typeKeys("a = 1\rb")
			u.typeKeys(" = 2\r\x1b[200~c\nd\x1b[201~")
			u.end()
			for _, want := range []string{"a = 1", "b = 2", "c\nd"} {
				if got := u.nextCode(t, map[string]string{"c\nd": "\r"}[want]); got != want {
					t.Errorf("the next code is %q, want %q", got, want)
				}
			}
		},
		"earlier lines stay code when a program listens": func(t *testing.T, u *typingUser) {
			u.typeKeys("a = 1\r")
			u.listens.Store(true)
			u.typeKeys("yes\r")
			u.end()
			if want := []string{"yes<Enter>"}; !slices.Equal(u.got, want) {
				t.Errorf("the program got %q, want %q", u.got, want)
			}
			if got := u.nextCode(t, ""); got != "a = 1" {
				t.Errorf("the next code is %q", got)
			}
		},
		"Ctrl-D at the start of a line is the program's": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("\x04")
			u.end()
			if want := []string{"<C-d>"}; !slices.Equal(u.got, want) || u.keys.hasUnreadKeys() {
				t.Errorf("the program got %q, want %q", u.got, want)
			}
		},
		"a line stays for the runtime that asks": func(t *testing.T, u *typingUser) {
			u.listens.Store(true)
			u.typeKeys("ye")
			u.fails = session.ErrWaiting
			u.listens.Store(false)
			u.typeKeys("s\r")
			u.end()
			u.keys.failReads(io.EOF)
			if got := readRest(u.keys); got != "yes\r" {
				t.Errorf("unread is %q", got)
			}
		},
		"a system without sight of programs changes nothing": func(t *testing.T, u *typingUser) {
			u.fails = session.ErrUnsupported
			u.typeKeys("yes\r")
			u.end()
			if got := u.nextCode(t, ""); got != "yes" {
				t.Errorf("the next code is %q", got)
			}
		},
		"a line of thousands asks once": func(t *testing.T, u *typingUser) {
			u.typeKeys(strings.Repeat("x = 1\r", 1000))
			u.end()
			if u.asked > 1 {
				t.Errorf("the session was asked %d times", u.asked)
			}
		},
		"an unfinished line asks ever less often": func(t *testing.T, u *typingUser) {
			u.typeKeys("x")
			u.pause(time.Hour)
			u.end()
			if u.asked < 1000 || u.asked > 4000 {
				t.Errorf("the session was asked %d times in an hour", u.asked)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newTypingUser(t)) })
		})
	}
}

func TestEditAnswer(t *testing.T) {
	t.Parallel()
	// edit types the beginning of an answer and ends its request.
	edit := func(t *testing.T, u *typingUser, r session.InputRequest, typed string) {
		t.Helper()
		var err error
		go func() { _, err = u.editor.editAnswer(r, "") }()
		u.typeKeys(typed)
		u.editor.cancelRequest(r.ID)
		synctest.Wait()
		if !errors.Is(err, errCancelled) {
			t.Fatalf("got %v", err)
		}
	}
	for name, test := range map[string]func(*testing.T, *typingUser){
		"an answer whose request ends never runs as code": func(t *testing.T, u *typingUser) {
			edit(t, u, session.InputRequest{ID: 7, Terminal: true, Polls: true, Reader: "bash"}, "ye")
			if got := u.nextCode(t, "s\r"); got != "" || !strings.Contains(u.screen.String(), "for bash") {
				t.Errorf("the next code is %q, the user sees %q", got, u.screen.String())
			}
			if got := u.nextCode(t, "\x19\r"); got != "yes" {
				t.Errorf("after Ctrl-Y the next code is %q", got)
			}
		},
		"an answer whose request ends goes on at the next request": func(t *testing.T, u *typingUser) {
			edit(t, u, session.InputRequest{ID: 7, Terminal: true, Polls: true, Reader: "bash"}, "ye")
			u.keys.decodeInput([]byte("s\r"))
			if got, err := u.editor.editAnswer(session.InputRequest{ID: 8, Terminal: true, Polls: true}, ""); got != "yes" || err != nil {
				t.Errorf("the answer is %q, %v", got, err)
			}
		},
		"a secret whose request ends is dropped": func(t *testing.T, u *typingUser) {
			edit(t, u, session.InputRequest{ID: 7, Secret: true, Terminal: true}, "pass")
			u.typeKeys("word\rcode\r")
			if got := u.nextCode(t, ""); got != "code" {
				t.Errorf("the next code is %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := newTypingUser(t)
				u.end()
				test(t, u)
			})
		})
	}
}
