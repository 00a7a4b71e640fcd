package session_test

import (
	"context"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// BenchmarkFunctionOf calls a function with the arguments of a typical call.
func BenchmarkFunctionOf(b *testing.B) {
	type query struct {
		SQL   string `json:"sql"`
		Limit int    `json:"limit,omitempty"`
	}
	f := session.FunctionOf("query", "", func(_ context.Context, q query) (int, error) { return q.Limit, nil })
	args := map[string]any{"sql": "SELECT 1", "limit": int64(3)}
	for b.Loop() {
		if _, err := f.Call(b.Context(), args); err != nil {
			b.Fatal(err)
		}
	}
}
