package agents

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/faultdial"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// testTimeout bounds every wait for a process.
const testTimeout = 60 * time.Second

// A testDaemon is a daemon of fake workers.
type testDaemon struct {
	t      *testing.T
	socket string
}

func startTestDaemon(t *testing.T) *testDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	d, err := daemon.New(&daemon.Options{
		Supervisor: sup, Version: "test",
		Languages:   func() []string { return []string{"fake"} },
		HasLanguage: func(name string) bool { return name == "fake" },
		FindSpec: func(protocol.CreateParams) (workers.Spec, error) {
			return fakeworker.NewSpec(testexec.OwnPath(), nil), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &testDaemon{t, testSocket(dir)}
	l, err := daemon.Listen(r.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return r
}

// onlySession returns the only session of the daemon.
func (d *testDaemon) onlySession(c *client.Client) session.Info {
	d.t.Helper()
	all, err := c.ListSessions(d.t.Context())
	if err != nil || len(all) != 1 {
		d.t.Fatalf("there are %d sessions, %v", len(all), err)
	}
	return all[0]
}

// waitUntil waits until holds returns true.
func (d *testDaemon) waitUntil(what string, holds func() bool) {
	d.t.Helper()
	wait.Until(d.t, what, holds)
}

func newTestLink(t *testing.T, w *faultdial.FaultyDialer) *client.Client {
	l := client.New(w, nil)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
