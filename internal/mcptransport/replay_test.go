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
func fillStream(t *testing.T, r *replayStore, session, stream string, c *ToolCall, messages ...string) {
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

// readStream returns the messages after an index, joined with spaces.
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
	t.Run("keeps the order within each session", func(t *testing.T) {
		r := newReplayStore()
		fillStream(t, r, "a", "1", &ToolCall{}, "", `{"method":"x"}`, answerMessage)
		fillStream(t, r, "b", "1", &ToolCall{}, `{"error":1}`)
		for index, want := range map[int]string{-1: " {\"method\":\"x\"} " + answerMessage, 0: `{"method":"x"} ` + answerMessage, 1: answerMessage, 2: ""} {
			if got, err := readStream(r, "a", "1", index); err != nil || got != want {
				t.Errorf("after %d: got %q, %v, want %q", index, got, err, want)
			}
		}
		if err := r.SessionClosed(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := readStream(r, "a", "1", 0); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("got %v for a closed session", err)
		}
		if got, err := readStream(r, "b", "1", -1); err != nil || got != `{"error":1}` {
			t.Errorf("got %q, %v for the other session", got, err)
		}
		if r.bytes != len(`{"error":1}`) || len(r.order) != 1 || len(r.streams) != 1 {
			t.Errorf("%d bytes and %d of %d streams are stored", r.bytes, len(r.order), len(r.streams))
		}
	})

	t.Run("drops the oldest messages beyond the limit", func(t *testing.T) {
		r := newReplayStore()
		for i := range 4 * maxReplayStreams {
			fillStream(t, r, "s", fmt.Sprint(i), &ToolCall{}, answerMessage)
		}
		if len(r.streams) > maxReplayStreams || len(r.order) > maxReplayStreams {
			t.Errorf("%d streams are stored", len(r.streams))
		}
		large := `{"result":"` + strings.Repeat("x", maxReplayBytes/4) + `"}`
		for i := range 10 {
			fillStream(t, r, "s", fmt.Sprint("large ", i), &ToolCall{}, large)
		}
		if r.bytes > maxReplayBytes {
			t.Errorf("%d bytes are stored", r.bytes)
		}
		if got, err := readStream(r, "s", "large 9", -1); err != nil || got != large {
			t.Errorf("the last message is not stored: %v", err)
		}
		if _, err := readStream(r, "s", "large 0", -1); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("got %v for a dropped message, want ErrEventsPurged", err)
		}
	})

	// A call learns whether its answer is delivered even after its messages were dropped.
	t.Run("reports a delivery after its messages are dropped", func(t *testing.T) {
		r := newReplayStore()
		delivery := make(chan bool, 1)
		c := &ToolCall{}
		c.OnDelivery(func(delivered bool) { delivery <- delivered })
		fillStream(t, r, "s", "old", c)
		for i := range maxReplayStreams + 1 {
			fillStream(t, r, "s", fmt.Sprint(i), &ToolCall{}, answerMessage)
		}
		if err := r.Append(t.Context(), "s", "old", []byte(answerMessage)); err != nil {
			t.Fatal(err)
		}
		if !<-delivery {
			t.Error("the answer counts as undelivered, though its reader is connected")
		}
		if _, there := r.streams[streamKey{"s", "old"}]; there {
			t.Error("a dropped and answered stream is still stored")
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
