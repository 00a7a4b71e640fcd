//go:build linux

package remote

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
)

// socketPath is the socket of the engine's daemon. The path must be short.
func (e *testEngine) socketPath() string { return filepath.Join(e.dir, "s") }

// startDaemon starts the engine's daemon as a process of the tests, and waits for it.
func (e *testEngine) startDaemon(words ...string) error {
	if err := e.startServer(words...); err != nil {
		return err
	}
	return e.awaitDaemon()
}

// startDetached starts the engine's daemon through the engine itself, by a command that exits at
// once.
func (e *testEngine) startDetached(line string) error {
	if _, err := e.runOutput(append(append([]string(nil), e.prefix...), line)...); err != nil {
		return err
	}
	e.cleanups = append(e.cleanups, func() {
		_, _ = e.runOutput(append(append([]string{"env"}, e.environment()...), binary, "daemon", "--socket", e.socketPath(), "stop")...)
	})
	return e.awaitDaemon()
}

// A directDialer bypasses an engine. It requires no proof. A daemon in a container could not give
// one, because it does not see the processes here.
type directDialer string

func (d directDialer) String() string { return "the socket " + string(d) }

func (d directDialer) Dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", string(d))
}

// awaitDaemon waits until the engine's daemon answers.
func (e *testEngine) awaitDaemon() error {
	err := waitUntil("the daemon behind "+e.name+" answers", func() bool {
		c, err := client.Dial(context.Background(), directDialer(e.socketPath()))
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(e.dir, "daemon.log"))
		return &engineError{err, string(text)}
	}
	return nil
}

// An engineError is the failed start of a daemon, with its log.
type engineError struct {
	error
	log string
}

func (e *engineError) Error() string { return e.error.Error() + "\n" + e.log }

// directClient connects to the engine's daemon, bypassing the engine.
func (e *testEngine) directClient(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), directDialer(e.socketPath()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// envValue returns a variable of the remote account's environment, with the engine's socket.
func (e *testEngine) envValue(name string) string {
	return map[string]string{"TURNSTONE_SOCKET": e.socketPath(), "HOME": e.home}[name]
}
