package mcpwire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fill opens a stream of a session and appends messages to it.
func fill(t *testing.T, r *replay, session, stream string, c *Call, messages ...string) {
	t.Helper()
	ctx := context.WithValue(t.Context(), exchangeKey{}, &exchange{call: c, answered: func() {}})
	if err := r.Open(ctx, session, stream); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := r.Append(t.Context(), session, stream, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
}

// rest returns what comes after an index, in one line.
func rest(r *replay, session, stream string, index int) (string, error) {
	var all []string
	for m, err := range r.After(context.Background(), session, stream, index) {
		if err != nil {
			return "", err
		}
		all = append(all, string(m))
	}
	return strings.Join(all, " "), nil
}

const anAnswer = `{"jsonrpc":"2.0","id":1,"result":{}}`

func TestReplay_KeepsTheOrderAndNothingOfOthers(t *testing.T) {
	r := newReplay()
	fill(t, r, "a", "1", &Call{}, "", `{"method":"x"}`, anAnswer)
	fill(t, r, "b", "1", &Call{}, `{"error":1}`)
	for index, want := range map[int]string{-1: " {\"method\":\"x\"} " + anAnswer, 0: `{"method":"x"} ` + anAnswer, 1: anAnswer, 2: ""} {
		if got, err := rest(r, "a", "1", index); err != nil || got != want {
			t.Errorf("after %d: got %q, %v, want %q", index, got, err, want)
		}
	}
	if err := r.SessionClosed(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := rest(r, "a", "1", 0); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("got %v for a session that is closed", err)
	}
	if got, err := rest(r, "b", "1", -1); err != nil || got != `{"error":1}` {
		t.Errorf("got %q, %v for the other session", got, err)
	}
	if r.bytes != len(`{"error":1}`) || len(r.order) != 1 || len(r.streams) != 1 {
		t.Errorf("%d bytes and %d of %d streams are kept", r.bytes, len(r.order), len(r.streams))
	}
}

func TestReplay_IsBounded(t *testing.T) {
	r := newReplay()
	for i := range 4 * maxReplayStreams {
		fill(t, r, "s", fmt.Sprint(i), &Call{}, anAnswer)
	}
	if len(r.streams) > maxReplayStreams || len(r.order) > maxReplayStreams {
		t.Errorf("%d streams are kept", len(r.streams))
	}
	large := `{"result":"` + strings.Repeat("x", maxReplayBytes/4) + `"}`
	for i := range 10 {
		fill(t, r, "s", fmt.Sprint("large ", i), &Call{}, large)
	}
	if r.bytes > maxReplayBytes {
		t.Errorf("%d bytes are kept", r.bytes)
	}
	if got, err := rest(r, "s", "large 9", -1); err != nil || got != large {
		t.Errorf("the last is not kept: %v", err)
	}
	if _, err := rest(r, "s", "large 0", -1); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("got %v for what is gone, want ErrEventsPurged", err)
	}
}

// A call whose messages had to go is still told whether it is answered.
func TestReplay_TellsOfDeliveryWhenTheMessagesAreGone(t *testing.T) {
	r := newReplay()
	delivery := make(chan bool, 1)
	c := &Call{}
	c.OnDelivery(func(delivered bool) { delivery <- delivered })
	fill(t, r, "s", "old", c)
	for i := range maxReplayStreams + 1 {
		fill(t, r, "s", fmt.Sprint(i), &Call{}, anAnswer)
	}
	if err := r.Append(t.Context(), "s", "old", []byte(anAnswer)); err != nil {
		t.Fatal(err)
	}
	if !<-delivery {
		t.Error("the answer counts as not given, though its reader is there")
	}
	if _, there := r.streams[streamKey{"s", "old"}]; there {
		t.Error("a stream that is gone and answered is kept")
	}
}

func TestIsAnswer_TellsAnswersFromTheRest(t *testing.T) {
	for text, want := range map[string]bool{
		anAnswer:                           true,
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
