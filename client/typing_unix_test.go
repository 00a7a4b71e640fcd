//go:build unix

package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
)

func TestType(t *testing.T) {
	t.Parallel()

	// The daemon here loses the connection during the first call. It types keys once for each
	// request.
	t.Run("is repeated as the same request, and only to a daemon that remembers it", func(t *testing.T) {
		t.Parallel()
		for known, want := range map[bool]session.Kind{true: "", false: session.KindOutcomeUnknown} {
			requests := make(chan protocol.TypeParams, 2)
			dialer := &greetingDialer{serve: func(n int, in *bufio.Scanner, out io.Writer) {
				id, _ := readCall(in)
				_, _ = io.WriteString(out, helloAnswer(id, known && n > 1))
				var call struct {
					ID     json.RawMessage
					Method string
					Params protocol.TypeParams
				}
				if !in.Scan() {
					return
				}
				if err := json.Unmarshal(in.Bytes(), &call); err != nil || call.Method != protocol.MethodType {
					t.Errorf("got %s, %v", in.Bytes(), err)
				}
				requests <- call.Params
				if n > 1 {
					_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"turn":3}}`+"\n", call.ID)
					in.Scan()
				}
			}}
			l := New(dialer, nil)
			turn, err := l.Session("main").WithAuthor("ada").Type(t.Context(), session.Keys{Text: "y<Enter>", Secret: true})
			if session.KindOf(err) != want || (turn == 3) != known {
				t.Errorf("known %t: got turn %d, %v", known, turn, err)
			}
			first := <-requests
			if first.Request == "" || first.Session != "main" || first.Author != "ada" || first.Text != "y<Enter>" || !first.Secret {
				t.Errorf("got %+v", first)
			}
			if known {
				if again := <-requests; again.Request != first.Request {
					t.Errorf("it was repeated as %q, first %q", again.Request, first.Request)
				}
			}
			l.Close()
		}
	})

	t.Run("sends no keys beyond the bound", func(t *testing.T) {
		t.Parallel()
		dialer := &greetingDialer{serve: func(int, *bufio.Scanner, io.Writer) {}}
		l := New(dialer, nil)
		defer l.Close()
		for _, keys := range []session.Keys{{Text: strings.Repeat("x", session.MaxKeysBytes+1)}, {Bytes: make([]byte, session.MaxKeysBytes+1)}} {
			if _, err := l.Session("main").Type(t.Context(), keys); session.KindOf(err) != session.KindTooLarge {
				t.Errorf("got %v", err)
			}
		}
		if n := dialer.dialCount(); n > 0 {
			t.Errorf("it was dialled %d times", n)
		}
	})
}
