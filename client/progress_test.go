package client

import (
	"bufio"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/turnstone-repl/turnstone/client/protocol"
)

const progressLine = `{"jsonrpc":"2.0","method":"preparation/progress","params":{"progressToken":1,"progress":1}}` + "\n"

func TestOnProgress(t *testing.T) {
	// An OnProgress callback may use the client, as long as it does not wait for an answer.
	t.Run("the callback may use the client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			c := FromConn(ours)
			reported := make(chan protocol.PreparationProgress, 1)
			c.OnProgress(func(h protocol.PreparationProgress) {
				c.OnProgress(nil)
				go func() { _, _ = c.DaemonInfo(t.Context()) }()
				reported <- h
			})
			if _, err := io.WriteString(theirs, progressLine); err != nil {
				t.Fatal(err)
			}
			if h := <-reported; h.Progress != 1 {
				t.Errorf("got %+v", h)
			}
			if line, err := bufio.NewReader(theirs).ReadString('\n'); err != nil || line == "" {
				t.Errorf("the call of the function was not sent: %v", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("reaches a connection that exists already", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			l := newReconnectingConn(Socket(""), nil)
			l.conn = l.newConnection(ours)
			defer l.Close()
			reported := make(chan protocol.PreparationProgress, 1)
			l.OnProgress(func(h protocol.PreparationProgress) { reported <- h })
			if _, err := io.WriteString(theirs, progressLine); err != nil {
				t.Fatal(err)
			}
			if h := <-reported; h.Progress != 1 {
				t.Errorf("got %+v", h)
			}
		})
	})
}
