package client

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestConnect_WhereNobodyListensSaysSoAndWhatToDo(t *testing.T) {
	l, socket := listen(t)
	_ = l.Close()
	_, err := Connect(t.Context(), socket)
	if session.KindOf(err) != KindUnreachable || !strings.Contains(err.Error(), "no daemon answers at "+socket) || !strings.Contains(err.Error(), "repl serve") {
		t.Errorf("got %v", err)
	}
	if _, dialled := Dial(t.Context(), socket); dialled == nil || dialled.Error() != err.Error() {
		t.Errorf("got %v, want %v", dialled, err)
	}
}
