//go:build unix

package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/backoff"
	"github.com/turnstone-repl/turnstone/session"
)

// Each of these dialers accepts a call and hangs up, again and again.
func TestRetryLimit(t *testing.T) {
	t.Parallel()
	hello := func(n int, in *bufio.Scanner, out io.Writer) {
		id, _ := readCall(in)
		_, _ = io.WriteString(out, helloAnswer(id, n > 1))
	}
	subscribed := func(n int, in *bufio.Scanner, out io.Writer, more string) {
		hello(n, in, out)
		id, _ := readCall(in)
		_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"subscription":"watch-%d","seq":0}}`+"\n%s", id, n, more)
	}
	for _, test := range []struct {
		name  string
		serve func(n int, in *bufio.Scanner, out io.Writer)
		use   func(context.Context, *Client) error
	}{
		{
			"a turn",
			func(n int, in *bufio.Scanner, out io.Writer) {
				hello(n, in, out)
				readCall(in)
			},
			func(ctx context.Context, l *Client) error {
				_, err := l.StartTurn(ctx, protocol.StartParams{Session: "main", Input: "1", WaitMS: 24 * 60 * 60 * 1000})
				return err
			},
		},
		{
			"a subscription",
			func(n int, in *bufio.Scanner, out io.Writer) { subscribed(n, in, out, "") },
			func(ctx context.Context, l *Client) error {
				w, err := l.Subscribe(ctx, protocol.SubscribeParams{Session: "main"})
				if err == nil {
					_, err = w.Next(ctx)
				}
				return err
			},
		},
		{
			"ticks",
			func(n int, in *bufio.Scanner, out io.Writer) {
				subscribed(n, in, out, fmt.Sprintf(`{"jsonrpc":"2.0","method":"stream/change","params":{"subscription":"watch-%d","change":{"session":"main"}}}`+"\n", n))
			},
			func(ctx context.Context, l *Client) error {
				ticks, err := l.SubscribeChanges(ctx, "main")
				for err == nil {
					_, err = ticks.Next(ctx)
				}
				return err
			},
		},
	} {
		for _, remote := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, remote %t", test.name, remote), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dialer := &greetingDialer{serve: test.serve}
					l := New(dialer, nil)
					l.reconnecting.remote = remote
					defer l.Close()
					err := test.use(t.Context(), l)
					if session.KindOf(err) != session.KindUnreachable || !strings.Contains(err.Error(), "in a row ended during") {
						t.Errorf("got %v", err)
					}
					if n := dialer.dialCount(); n > 4*backoff.MaxLosses {
						t.Errorf("it was dialled %d times", n)
					}
				})
			})
		}
	}
}

// An oversized input is refused without dialling.
func TestMaxInput_FailsWithoutDial(t *testing.T) {
	t.Parallel()
	dialer := &greetingDialer{}
	l := New(dialer, nil)
	defer l.Close()
	text := strings.Repeat("x", session.MaxInputBytes+1)
	_, start := l.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: text})
	_, input := l.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: 1, Input: text})
	for _, err := range []error{start, input} {
		if session.KindOf(err) != session.KindTooLarge {
			t.Errorf("got %v", err)
		}
	}
	if n := dialer.dialCount(); n > 0 {
		t.Errorf("it was dialled %d times", n)
	}
}
