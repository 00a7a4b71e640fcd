package session

import (
	"context"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// traceParent matches a traceparent of the W3C, of version 00 or a later one with the same fields.
var traceParent = text.Pattern(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// IsTraceParent reports whether a text names a span of a trace, as the header traceparent of the W3C
// does: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". It always has 55 bytes.
func IsTraceParent(text string) bool {
	return traceParent().MatchString(text) && !strings.HasPrefix(text, "ff-") &&
		text[3:35] != strings.Repeat("0", 32) && text[36:52] != strings.Repeat("0", 16)
}

// traceParentKey is the key of a traceparent in a context.
type traceParentKey struct{}

// WithTraceParent returns a context for Submit and its variants: the timeline.TurnStarted of the turn
// records this traceparent, also in a daemon. A text that is no traceparent is left out.
func WithTraceParent(ctx context.Context, text string) context.Context {
	if !IsTraceParent(text) {
		return ctx
	}
	return context.WithValue(ctx, traceParentKey{}, text)
}

// TraceParent returns the traceparent of WithTraceParent, or "".
func TraceParent(ctx context.Context) string {
	text, _ := ctx.Value(traceParentKey{}).(string)
	return text
}
