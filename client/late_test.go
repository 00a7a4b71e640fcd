package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

// A lateDialer leads to a daemon that answers the first turn/start after longer than a client waits.
type lateDialer struct{ got chan string } // the method and the request of each message, except the hello

func (lateDialer) String() string { return "late" }

func (d lateDialer) Dial(context.Context) (net.Conn, error) {
	local, remote := net.Pipe()
	go func() {
		starts := 0
		for in := bufio.NewScanner(remote); in.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Request string }
			}
			_ = json.Unmarshal(in.Bytes(), &m)
			result := fmt.Sprintf(`{"version":"x","protocol":%d,"pid":1,"started":"2026-01-01T00:00:00Z"}`, protocol.Version)
			if m.Method != protocol.MethodHello {
				d.got <- m.Method + " " + m.Params.Request
				result = `{"session":"s","turn":7,"outcome":"ok"}`
			}
			if m.Method == protocol.MethodStart {
				if starts++; starts == 1 {
					continue
				}
			}
			fmt.Fprintf(remote, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		}
	}()
	return local, nil
}

// A cancel would drop a start that is still on its way, and its repetition would get the error of that.
func TestLateAnswer_StartContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 10)
		l := client.New(lateDialer{got}, nil)
		defer l.Close()
		turn := session.StartTurn(l.Session("s"), "6 * 7", nil)
		if _, err := turn.Wait(t.Context(), session.WaitAtMost(50*time.Millisecond)); session.KindOf(err) != session.KindUnreachable {
			t.Errorf("got %v", err)
		}
		if r, err := turn.Wait(t.Context(), &session.WaitOptions{Poll: true}); err != nil || r.Turn != 7 {
			t.Errorf("got %+v, %v", r, err)
		}
		first, second := <-got, <-got
		if first != second || !strings.HasPrefix(first, protocol.MethodStart+" ") || len(got) > 0 {
			t.Errorf("got %q, %q and %d more", first, second, len(got))
		}
	})
}

// A slowDialer leads to a daemon whose answer to turn/wait comes in parts, one a second. It
// stops after this number of parts.
type slowDialer struct{ parts int }

func (slowDialer) String() string { return "slow" }

func (d slowDialer) Dial(context.Context) (net.Conn, error) {
	local, remote := net.Pipe()
	go d.serveSlowly(remote)
	return local, nil
}

func (d slowDialer) serveSlowly(remote net.Conn) {
	for in := bufio.NewScanner(remote); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(in.Bytes(), &m)
		switch m.Method {
		case protocol.MethodHello:
			fmt.Fprintf(remote, `{"jsonrpc":"2.0","id":%s,"result":{"version":"x","protocol":%d,"pid":1,"started":"2026-01-01T00:00:00Z"}}`+"\n", m.ID, protocol.Version)
		case protocol.MethodWait:
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"session":"s","turn":1,"outcome":"ok","prompt":%q}}`+"\n", m.ID, strings.Repeat("x", 90))
			go func() {
				second := time.NewTicker(time.Second)
				defer second.Stop()
				for range d.parts {
					<-second.C
					n := min(10, len(answer))
					if _, err := io.WriteString(remote, answer[:n]); err != nil || n == len(answer) {
						return
					}
					answer = answer[n:]
				}
			}()
		}
	}
}

func TestLateAnswer_StillArriving(t *testing.T) {
	t.Parallel()
	for parts, want := range map[int]session.Kind{100: "", 10: session.KindUnreachable} {
		synctest.Test(t, func(t *testing.T) {
			l := client.New(slowDialer{parts}, nil)
			defer l.Close()
			if err := l.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := l.WaitTurn(t.Context(), protocol.WaitParams{Session: "s", WaitMS: 1000})
			if session.KindOf(err) != want || want == "" && r.Outcome != "ok" {
				t.Errorf("of %d parts: %q, %v", parts, r.Outcome, err)
			}
		})
	}
}
