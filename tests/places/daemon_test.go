//go:build linux

package places

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
)

// socket is where the engine's daemon listens. Its path has to be short.
func (e *engine) socket() string { return filepath.Join(e.dir, "s") }

// daemon starts the engine's daemon as a process of the tests, and waits for it.
func (e *engine) daemon(words ...string) error {
	if err := e.serves(words...); err != nil {
		return err
	}
	return e.answers()
}

// detached starts the engine's daemon through the engine itself, by a line that ends at once.
func (e *engine) detached(line string) error {
	if _, err := e.says(append(append([]string(nil), e.words...), line)...); err != nil {
		return err
	}
	e.ends = append(e.ends, func() {
		_, _ = e.says(append(append([]string{"env"}, e.env()...), binary, "ctl", "--socket", e.socket(), "stop")...)
	})
	return e.answers()
}

// A direct is the way around an engine. It asks for no proof, which a daemon in a container could not
// give: it does not see the processes here.
type direct string

func (d direct) String() string { return "the socket " + string(d) }

func (d direct) Dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", string(d))
}

// answers waits until the engine's daemon does.
func (e *engine) answers() error {
	err := until("the daemon behind "+e.name+" answers", func() bool {
		c, err := client.Dial(context.Background(), direct(e.socket()))
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(e.dir, "daemon.log"))
		return &brokenEngine{err, string(text)}
	}
	return nil
}

// A brokenEngine is a daemon that did not come, with its log.
type brokenEngine struct {
	error
	log string
}

func (b *brokenEngine) Error() string { return b.error.Error() + "\n" + b.log }

// direct is a connection to the engine's daemon that goes around the engine.
func (e *engine) direct(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), direct(e.socket()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// variable is one of the environment of the far account, in which the socket is the engine's.
func (e *engine) variable(name string) string {
	return map[string]string{"REPL_SOCKET": e.socket(), "HOME": e.home}[name]
}
