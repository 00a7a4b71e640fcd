package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// An onlyClient is a listener with one client.
type onlyClient struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newOnlyClient(conn net.Conn) *onlyClient {
	l := &onlyClient{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- conn
	return l
}

func (l *onlyClient) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *onlyClient) Addr() net.Addr { return &net.UnixAddr{} }

func (l *onlyClient) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// A debugger may stop the client of a private daemon for hours. Its sessions would end with the
// connection.
func TestPrivate_StoppedClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		sup, err := supervisor.New(&supervisor.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer sup.Close()
		d, err := daemon.New(&daemon.Options{
			Supervisor: sup, Private: true,
			Languages:   func() []string { return nil },
			HasLanguage: func(string) bool { return false },
			FindSpec:    func(protocol.CreateParams) (workers.Spec, error) { return workers.Spec{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		mine, its := net.Pipe()
		defer mine.Close()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- d.Serve(ctx, newOnlyClient(its)) }()
		for id := range 2 {
			if _, err := fmt.Fprintf(mine, `{"jsonrpc":"2.0","id":%d,"method":"server/ping"}`+"\n", id); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Hour) // a pipe without a buffer: the first answer is not written yet
		lines := bufio.NewReader(mine)
		for range 2 {
			if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, `"result"`) {
				t.Errorf("got %q, %v", line, err)
			}
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
