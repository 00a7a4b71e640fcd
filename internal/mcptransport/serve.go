package mcptransport

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastCallsTimeout bounds how long Serve continues after the last request once its input has
// ended. It lets programs that make some calls and close the stream get their answers. It starts
// at the last request, so a client that leaves a long call behind delays nothing.
const lastCallsTimeout = 5 * time.Second

// lastWritesTimeout bounds how long Serve and ServeHTTP wait, after closing the tools, for
// clients to read their last messages.
const lastWritesTimeout = 500 * time.Millisecond

// Serve serves one client, with one message per line. It returns when ctx ends or the input ends;
// the end of the input is not an error. Calls that arrived before the end of the input may be
// answered until lastCallsTimeout after the last one. Then Serve closes the tools, answers the
// calls that this ends, and returns. It writes only protocol messages to out. If the client does
// not read, Serve takes half a second longer, and a write to out may stay blocked.
func Serve(ctx context.Context, in io.Reader, out io.Writer, logger *slog.Logger, newTools func(ServedClient) Tools) error {
	w := newStdioConn(in, out, logger)
	tools := newTools(ServedClient{Calls: w})

	// The SDK must not see the end of ctx, which would end the calls without an answer.
	connected, err := tools.NewSDKServer(nil).Connect(context.WithoutCancel(ctx), w, nil)
	if err != nil {
		return fmt.Errorf("mcptransport: %w", err)
	}
	tools.OpenAhead()
	select {
	case <-w.inputEnded:
		calls, cancel := context.WithDeadline(ctx, w.lastRequestAt().Add(lastCallsTimeout))
		w.awaitAnswers(calls)
		cancel()
	case <-w.closed:
	case <-ctx.Done():
	}
	tools.Close()
	if err := w.closeAfterAnswers(connected); err != nil && ctx.Err() == nil {
		return fmt.Errorf("mcptransport: %w", err)
	}
	return ctx.Err()
}

// closeAfterAnswers waits for the answers to the calls that closing the tools has ended, for
// lastWritesTimeout at most. It then closes the connection, and returns the error that broke it,
// if any.
func (s *stdioConn) closeAfterAnswers(connected *mcp.ServerSession) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastWritesTimeout)
	defer cancel()
	s.awaitAnswers(ctx)
	_ = s.Close() // never fails
	done := make(chan error, 1)
	go func() {
		err := connected.Wait()
		s.queueWriters.Wait()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}
