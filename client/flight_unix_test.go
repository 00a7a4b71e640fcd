//go:build unix

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

// A greetingDialer is a dialer whose remote end identifies its daemon, as repl bridge does.
// serve is the daemon: it is called with the number of the connection.
type greetingDialer struct {
	serve func(n int, in *bufio.Scanner, out io.Writer)

	mu    sync.Mutex
	count int // guarded by mu
}

type greetingConn struct{ net.Conn }

// daemonStarted is the start time of the daemon in these tests.
var daemonStarted = time.Unix(1, 0).UTC()

func (greetingConn) Greeting() remote.Greeting {
	return remote.Greeting{Version: "1", Protocol: protocol.Version, PID: 7, Started: daemonStarted}
}

func (g *greetingDialer) String() string { return "gpu" }

func (g *greetingDialer) Dial(context.Context) (net.Conn, error) {
	local, remote := net.Pipe()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count++
	n := g.count
	go func() {
		defer remote.Close()
		g.serve(n, bufio.NewScanner(remote), remote)
	}()
	return greetingConn{local}, nil
}

func (g *greetingDialer) dialCount() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// readCall reads the next call.
func readCall(in *bufio.Scanner) (id, method string) {
	var call struct {
		ID     json.RawMessage
		Method string
	}
	if in.Scan() {
		_ = json.Unmarshal(in.Bytes(), &call)
	}
	return string(call.ID), call.Method
}

// helloAnswer returns the answer to the hello with an id.
func helloAnswer(id string, known bool) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"version":"1","protocol":%d,"pid":7,"started":%q,"known":%t}}`+"\n",
		id, protocol.Version, daemonStarted.Format(time.RFC3339), known)
}

func TestHello(t *testing.T) {
	t.Parallel()

	// The daemon here answers only after both calls have arrived, so a client that waits for the
	// first answer would hang.
	t.Run("the first call is sent without waiting for the answer", func(t *testing.T) {
		t.Parallel()
		came := make(chan []string, 1)
		dialer := &greetingDialer{serve: func(_ int, in *bufio.Scanner, out io.Writer) {
			hello, first := readCall(in)
			list, second := readCall(in)
			came <- []string{first, second}
			_, _ = io.WriteString(out, helloAnswer(hello, false))
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"sessions":[{"name":"main","state":"idle"}]}}`+"\n", list)
			in.Scan()
		}}
		l := New(dialer, nil)
		defer l.Close()
		all, err := l.ListSessions(t.Context())
		if err != nil || len(all) != 1 || all[0].Name != "main" {
			t.Fatalf("got %v, %v", all, err)
		}
		if got := <-came; !slices.Equal(got, []string{protocol.MethodHello, protocol.MethodList}) {
			t.Errorf("it sent %q", got)
		}
	})

	t.Run("a rejected hello fails calls with its message", func(t *testing.T) {
		t.Parallel()
		dialer := &greetingDialer{serve: func(_ int, in *bufio.Scanner, out io.Writer) {
			for {
				id, method := readCall(in)
				if method == "" {
					return
				}
				_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"too many clients","data":{"kind":"invalid"}}}`+"\n", id)
			}
		}}
		l := New(dialer, nil)
		defer l.Close()
		_, err := l.CreateSession(t.Context(), protocol.CreateParams{Name: "main", Language: "python"})
		if err == nil || !strings.Contains(err.Error(), "too many clients") {
			t.Errorf("got %v", err)
		}
		_, err = l.ListSessions(t.Context())
		if session.KindOf(err) != session.KindUnreachable || !strings.Contains(err.Error(), "too many clients") {
			t.Errorf("got %v", err)
		}
		if n := dialer.dialCount(); n > 4 {
			t.Errorf("it was dialled %d times", n)
		}
	})

	// A call with an effect that was interrupted is repeated only after the daemon has said that
	// it knows the client.
	t.Run("an interrupted call is retried only after the answer", func(t *testing.T) {
		t.Parallel()
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("known %t", known), func(t *testing.T) {
				t.Parallel()
				early := make(chan string, 1)
				dialer := &greetingDialer{serve: func(n int, in *bufio.Scanner, out io.Writer) {
					hello, _ := readCall(in)
					if n == 1 {
						readCall(in) // then the connection is cut
						return
					}
					sooner := make(chan string, 1)
					go func() {
						id, _ := readCall(in)
						sooner <- id
					}()
					select {
					case id := <-sooner:
						early <- id
						return
					case <-time.After(300 * time.Millisecond): // nothing may arrive in this time
					}
					_, _ = io.WriteString(out, helloAnswer(hello, known))
					id := <-sooner
					_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"name":"main","state":"idle"}}`+"\n", id)
					in.Scan()
				}}
				l := New(dialer, nil)
				defer l.Close()
				_, err := l.CreateSession(t.Context(), protocol.CreateParams{Name: "main", Language: "python"})
				if known && err != nil || !known && session.KindOf(err) != session.KindOutcomeUnknown {
					t.Errorf("got %v", err)
				}
				select {
				case id := <-early:
					t.Errorf("the call %s came before the daemon had said whether it knows the client", id)
				default:
				}
			})
		}
	})
}

func TestResubscribe(t *testing.T) {
	t.Parallel()

	// A subscription that is cancelled while it is resubscribed is also ended at the daemon.
	t.Run("a subscription cancelled while reconnecting is unsubscribed", func(t *testing.T) {
		t.Parallel()
		again, cancelled, left := make(chan bool), make(chan bool), make(chan string, 1)
		dialer := &greetingDialer{serve: func(n int, in *bufio.Scanner, out io.Writer) {
			hello, _ := readCall(in)
			subscribe, _ := readCall(in)
			if n > 1 {
				again <- true
				<-cancelled
			}
			_, _ = io.WriteString(out, helloAnswer(hello, n > 1))
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"subscription":"watch-%d","seq":0}}`+"\n", subscribe, n)
			if n > 1 {
				id, method := readCall(in)
				left <- method
				_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
			}
		}}
		l := New(dialer, nil)
		defer l.Close()
		w, err := l.Subscribe(t.Context(), protocol.SubscribeParams{Session: "main"})
		if err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() {
			_, err := w.Next(t.Context())
			next <- err
		}()
		<-again
		_ = w.Cancel(t.Context()) // its connection has ended
		close(cancelled)
		if err := <-next; !errors.Is(err, session.ErrClosed) {
			t.Errorf("Next returned %v", err)
		}
		l.Close()
		if method := <-left; method != protocol.MethodUnsubscribe {
			t.Errorf("the daemon was sent %q", method)
		}
	})

	// A Next that is cancelled while it lists the sessions leaves that to the next call.
	t.Run("missed closes are reported after a cancelled Next", func(t *testing.T) {
		t.Parallel()
		ctx, giveUp := context.WithCancel(t.Context())
		dialer := &greetingDialer{serve: func(n int, in *bufio.Scanner, out io.Writer) {
			hello, _ := readCall(in)
			subscribe, _ := readCall(in)
			_, _ = io.WriteString(out, helloAnswer(hello, n > 1))
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"subscription":"watch-%d","seq":0}}`+"\n", subscribe, n)
			if n == 1 {
				_, _ = io.WriteString(out, `{"jsonrpc":"2.0","method":"stream/change","params":{"subscription":"watch-1","change":{"session":"main"}}}`+"\n")
				return
			}
			readCall(in) // session/list
			giveUp()
			for id, method := readCall(in); method != ""; id, method = readCall(in) {
				if method == protocol.MethodList {
					_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"sessions":[]}}`+"\n", id)
				}
			}
		}}
		l := New(dialer, nil)
		defer l.Close()
		ticks, err := l.SubscribeChanges(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if k, err := ticks.Next(t.Context()); err != nil || k.Session != "main" || k.Closed {
			t.Fatalf("got %+v, %v", k, err)
		}
		if k, err := ticks.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %+v, %v", k, err)
		}
		late, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if k, err := ticks.Next(late); err != nil || k.Session != "main" || !k.Closed {
			t.Errorf("got %+v, %v", k, err)
		}
	})
}
