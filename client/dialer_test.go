package client

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

func TestSocket_NoDaemon(t *testing.T) {
	l, socket := listenAsDaemon(t)
	_ = l.Close()
	_, err := Socket(socket).Dial(t.Context())
	if session.KindOf(err) != session.KindUnreachable || !strings.Contains(err.Error(), "no daemon answers at "+socket) || !strings.Contains(err.Error(), "repl serve") {
		t.Errorf("got %v", err)
	}
	if _, dialled := Dial(t.Context(), Socket(socket)); dialled == nil || dialled.Error() != err.Error() {
		t.Errorf("got %v, want %v", dialled, err)
	}
}

func TestIsRemote(t *testing.T) {
	t.Parallel()
	nothing := func(string) string { return "" }
	for _, c := range []struct {
		dialer Dialer
		want   bool
	}{{Socket("/x"), false}, {DefaultDialer(nothing), false}, {&remote.CommandDialer{Prefix: []string{"ssh", "gpu1"}}, true}} {
		l := New(c.dialer, nil)
		if got := l.IsRemote(); got != c.want {
			t.Errorf("%T: got %v", c.dialer, got)
		}
		l.Close()
	}
}

func TestNilArguments(t *testing.T) {
	t.Parallel()
	t.Run("stands for the user's own daemon and environment", func(t *testing.T) {
		t.Parallel()
		if got, want := DefaultDialer(nil).String(), DefaultDialer(os.Getenv).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := DefaultSocket(nil), DefaultSocket(os.Getenv); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		ended, stop := context.WithCancel(t.Context())
		stop()
		if c, err := Dial(ended, nil); err == nil {
			_ = c.Close()
		}
	})
	t.Run("ends what a link tells", func(t *testing.T) {
		t.Parallel()
		_, socket := listenAsDaemon(t)
		l := New(Socket(socket+"none"), nil)
		defer l.Close()
		l.LogTo(nil)
		l.OnProgress(nil)
		l.OnOutage(nil)
		if err := l.Connect(t.Context()); session.KindOf(err) != session.KindUnreachable {
			t.Errorf("got %v", err)
		}
		New(nil, nil).Close()
	})
}
