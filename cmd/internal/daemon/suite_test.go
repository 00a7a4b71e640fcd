package daemon_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestClientSession_Suite(t *testing.T) {
	t.Parallel()
	var needs []workers.Preparation // of the session that is being created
	r := startDaemon(t, func(o *daemon.Options) {
		plain := o.FindSpec
		o.FindSpec = func(p protocol.CreateParams) (workers.Spec, error) {
			s, err := plain(p)
			s.Preparations, s.Dir = needs, p.Dir
			return s, err
		}
	})
	made := 0
	sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session {
		made++ // sessions are created one after the other, before their tests run
		needs = prepare
		c, err := client.Dial(t.Context(), client.Socket(r.socket))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		name := fmt.Sprintf("s%d", made)
		if _, err := c.CreateSession(t.Context(), protocol.CreateParams{Name: name, Dir: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Session(name).Close(context.Background()) }) // Windows does not remove the directory of a process
		return c.Session(name)
	})
}
