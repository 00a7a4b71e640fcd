package otelturnstone_test

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/turnstone-repl/turnstone/otelturnstone"
	"github.com/turnstone-repl/turnstone/session"
)

// A program that already exports its traces wraps each session once. The turns then appear below
// the span of the request in which they were submitted.
func ExampleSession() {
	run := func(ctx context.Context, s session.Session, code string) (session.Reply, error) {
		s = otelturnstone.Session(s, otel.Tracer("my-program"))
		ctx, span := otel.Tracer("my-program").Start(ctx, "answer a question")
		defer span.End()
		return session.StartTurn(s, code, nil).Wait(ctx, session.WaitAtMost(time.Minute))
	}
	_ = run
}
