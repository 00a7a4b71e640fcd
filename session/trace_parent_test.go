package session_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestTraceParent(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for text, want := range map[string]bool{
		good: true,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00": true, // a later version
		"": false,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": false,
		good + "-x": false,
		good + "\n": false,
		good[:54]:   false,
		"print(1)":  false,
	} {
		if got := session.IsTraceParent(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
		got := session.TraceParent(session.WithTraceParent(t.Context(), text))
		if want && got != text || !want && got != "" {
			t.Errorf("%q: the context has %q", text, got)
		}
	}
}
