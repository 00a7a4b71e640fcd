package console

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// decisionSession is a session that records the user's decisions.
type decisionSession struct {
	session.Session
	got []any
	err error
}

func (s *decisionSession) Allow(_ context.Context, g session.Grant) error {
	s.got = append(s.got, g)
	return s.err
}

func (s *decisionSession) AnswerPermission(_ context.Context, id uint64, ok bool) error {
	s.got = append(s.got, id, ok)
	return s.err
}

func TestPermissionChoice(t *testing.T) {
	t.Run("accepts only a whole word as an answer", func(t *testing.T) {
		plain, wider := session.PermissionRequest{}, session.PermissionRequest{Wider: &session.Grant{Call: "github.*"}}
		if got, ok := ParsePermissionChoice(wider, "s\n"); !ok || got != AllowWider {
			t.Errorf("s: got %v, %t", got, ok)
		}
		for op, want := range map[string]bool{"write": true, "create": false, "rename": false} {
			file := session.PermissionRequest{AccessDenied: session.AccessDenied{Op: op, Path: "/data/x"}, Grant: session.Grant{Write: "/data"}}
			if got, ok := ParsePermissionChoice(file, "f\n"); ok != want || ok && got != AllowFile || strings.Contains(PermissionPrompt(file), "only this file") != want {
				t.Errorf("f for %s: got %v, %t, %q", op, got, ok, PermissionPrompt(file))
			}
		}
		for line, want := range map[string]PermissionChoice{"y": AllowHere, " Yes\n": AllowHere, "a": AllowAlways, "ALWAYS": AllowAlways, "n": Refuse, "no\r\n": Refuse} {
			if got, ok := ParsePermissionChoice(plain, line); !ok || got != want {
				t.Errorf("%q: got %v, %t", line, got, ok)
			}
		}
		for _, line := range []string{"", "\n", "yy", "s", "f", "y n", "ya", "1", "y\nn", "да"} {
			if got, ok := ParsePermissionChoice(plain, line); ok || got != Refuse {
				t.Errorf("%q: got %v, %t", line, got, ok)
			}
		}
	})

	t.Run("applies what the user chose", func(t *testing.T) {
		p := session.PermissionRequest{ID: 7, AccessDenied: session.AccessDenied{Op: "write", Path: "/data/x"}, Grant: session.Grant{Write: "/data"}}
		for choice, want := range map[PermissionChoice][]any{
			Refuse:      {uint64(7), false},
			AllowHere:   {uint64(7), true},
			AllowFile:   {session.Grant{Write: "/data/x"}},
			AllowAlways: {session.Grant{Write: "/data", Always: true}},
		} {
			s := &decisionSession{err: errors.New("store failed")}
			if err := ApplyPermissionChoice(t.Context(), s, p, choice); !errors.Is(err, s.err) || !slices.Equal(s.got, want) {
				t.Errorf("%v: got %v, %v", choice, s.got, err)
			}
		}
	})

	t.Run("ignores what was typed before the question", func(t *testing.T) {
		k := newKeyReader(func() {}, func() {}, nil)
		k.decodeInput([]byte("y\r"))
		k.discardTyped()
		k.decodeInput([]byte("n\r"))
		k.failReads(io.EOF)
		if got := readRest(k); got != "n\r" {
			t.Errorf("got %q", got)
		}
	})
}
