package daemon

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

// An error may quote a name that is as long as a line.
func TestRunRecovered_LongError(t *testing.T) {
	t.Parallel()
	d := &Daemon{log: slog.New(slog.DiscardHandler)}
	_, err := runRecovered(d, "session/close", func() (any, error) {
		return nil, session.Errorf(session.KindClosed, "no session %s", strings.Repeat("x", 1<<20))
	})
	e, ok := errors.AsType[*rpcserver.Error](err)
	if !ok || e.Kind != string(session.KindClosed) || !strings.HasPrefix(e.Message, "no session x") || len(e.Message) > 2*maxErrorBytes {
		t.Errorf("got %.100v", err)
	}
}
