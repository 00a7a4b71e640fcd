package client

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestSocket_WhereNobodyListensSaysSoAndWhatToDo(t *testing.T) {
	l, socket := listen(t)
	_ = l.Close()
	_, err := Socket(socket).Dial(t.Context())
	if session.KindOf(err) != KindUnreachable || !strings.Contains(err.Error(), "no daemon answers at "+socket) || !strings.Contains(err.Error(), "repl serve") {
		t.Errorf("got %v", err)
	}
	if _, dialled := Dial(t.Context(), Socket(socket)); dialled == nil || dialled.Error() != err.Error() {
		t.Errorf("got %v, want %v", dialled, err)
	}
}

func TestLink_IsFarOnlyWhereTheWayLeavesThisMachine(t *testing.T) {
	t.Parallel()
	nothing := func(string) string { return "" }
	for _, c := range []struct {
		way  Dialer
		want bool
	}{{Socket("/x"), false}, {Usual(nothing), false}, {&Command{Prefix: []string{"ssh", "gpu1"}}, true}} {
		l := NewLink(c.way, nil)
		if got := l.IsFar(); got != c.want {
			t.Errorf("%T: got %v", c.way, got)
		}
		l.Close()
	}
}
