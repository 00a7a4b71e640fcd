package mcptransport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fillStream opens a stream of a session and appends messages to it.
func fillStream(t *testing.T, r *replayStore, session, stream string, c *Call, messages ...string) {
	t.Helper()
	ctx := context.WithValue(t.Context(), exchangeKey{}, &exchange{call: c, onAnswered: func() {}})
	if err := r.Open(ctx, session, stream); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := r.Append(t.Context(), session, stream, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
}

// readStream returns what comes after an index, in one line.
func readStream(r *replayStore, session, stream string, index int) (string, error) {
	var all []string
	for m, err := range r.After(context.Background(), session, stream, index) {
		if err != nil {
			return "", err
		}
		all = append(all, string(m))
	}
	return strings.Join(all, " "), nil
}

const answerMessage = `{"jsonrpc":"2.0","id":1,"result":{}}`

func TestReplayStore(t *testing.T) {
	t.Run("keeps the order, and each session apart", func(t *testing.T) {
		r := newReplayStore()
		fillStream(t, r, "a", "1", &Call{}, "", `{"method":"x"}`, answerMessage)
		fillStream(t, r, "b", "1", &Call{}, `{"error":1}`)
		for index, want := range map[int]string{-1: " {\"method\":\"x\"} " + answerMessage, 0: `{"method":"x"} ` + answerMessage, 1: answerMessage, 2: ""} {
			if got, err := readStream(r, "a", "1", index); err != nil || got != want {
				t.Errorf("after %d: got %q, %v, want %q", index, got, err, want)
			}
		}
		if err := r.SessionClosed(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := readStream(r, "a", "1", 0); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("got %v for a session that is closed", err)
		}
		if got, err := readStream(r, "b", "1", -1); err != nil || got != `{"error":1}` {
			t.Errorf("got %q, %v for the other session", got, err)
		}
		if r.bytes != len(`{"error":1}`) || len(r.order) != 1 || len(r.streams) != 1 {
			t.Errorf("%d bytes and %d of %d streams are kept", r.bytes, len(r.order), len(r.streams))
		}
	})

	t.Run("drops the oldest messages beyond the limit", func(t *testing.T) {
		r := newReplayStore()
		for i := range 4 * maxReplayStreams {
			fillStream(t, r, "s", fmt.Sprint(i), &Call{}, answerMessage)
		}
		if len(r.streams) > maxReplayStreams || len(r.order) > maxReplayStreams {
			t.Errorf("%d streams are kept", len(r.streams))
		}
		large := `{"result":"` + strings.Repeat("x", maxReplayBytes/4) + `"}`
		for i := range 10 {
			fillStream(t, r, "s", fmt.Sprint("large ", i), &Call{}, large)
		}
		if r.bytes > maxReplayBytes {
			t.Errorf("%d bytes are kept", r.bytes)
		}
		if got, err := readStream(r, "s", "large 9", -1); err != nil || got != large {
			t.Errorf("the last is not kept: %v", err)
		}
		if _, err := readStream(r, "s", "large 0", -1); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("got %v for what is gone, want ErrEventsPurged", err)
		}
	})

	// A call whose messages had to go is still told whether it is answered.
	t.Run("reports a delivery after its messages are dropped", func(t *testing.T) {
		r := newReplayStore()
		delivery := make(chan bool, 1)
		c := &Call{}
		c.OnDelivery(func(delivered bool) { delivery <- delivered })
		fillStream(t, r, "s", "old", c)
		for i := range maxReplayStreams + 1 {
			fillStream(t, r, "s", fmt.Sprint(i), &Call{}, answerMessage)
		}
		if err := r.Append(t.Context(), "s", "old", []byte(answerMessage)); err != nil {
			t.Fatal(err)
		}
		if !<-delivery {
			t.Error("the answer counts as not given, though its reader is there")
		}
		if _, there := r.streams[streamKey{"s", "old"}]; there {
			t.Error("a stream that is gone and answered is kept")
		}
	})
}

func TestIsAnswer(t *testing.T) {
	for text, want := range map[string]bool{
		answerMessage:                      true,
		`{"id":"x","error":{"code":1}}`:    true,
		`{"result":{"method":"x"},"id":1}`: true,
		`{"id":1,"method":"elicitation/create","params":{"result":1}}`: false,
		`{"method":"notifications/progress"}`:                          false,
		``:                                                             false, `[]`: false, `{"id":`: false, `{}`: false,
	} {
		if got := isAnswer([]byte(text)); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}
