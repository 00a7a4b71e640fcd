package mcptransport

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastCallsTimeout bounds how long a server goes on behind the last request if its input has ended. Programs
// that make some calls and close the stream behind them get the answers. A client that leaves a call
// which has run for long waits for nothing.
const lastCallsTimeout = 5 * time.Second

// lastWritesTimeout bounds how long Serve and ServeHTTP wait for clients to read their last messages,
// after the tools are closed.
const lastWritesTimeout = 500 * time.Millisecond

// Serve serves one client, with one message on each line. It returns when the input ends,
// which is no error, or when ctx ends. The calls that came before the end of the input may be
// answered until lastCallsTimeout after the last of them. Then it closes the tools, answers the calls that this ends, and
// returns. It writes nothing but protocol to out. If the client does not read, Serve takes half a
// second longer, and a write to out may stay blocked.
func Serve(ctx context.Context, in io.Reader, out io.Writer, logger *slog.Logger, newTools func(Client) Tools) error {
	w := newStdioConn(in, out, logger)
	tools := newTools(Client{Calls: w})

	// The NewSDKServer must not see the end of ctx: it would end the calls without an answer.
	connected, err := tools.NewSDKServer(nil).Connect(context.WithoutCancel(ctx), w, nil)
	if err != nil {
		return fmt.Errorf("mcpwire: %w", err)
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
		return fmt.Errorf("mcpwire: %w", err)
	}
	return ctx.Err()
}

// closeAfterAnswers waits, for lastWritesTimeout at most, until the calls that the end of the tools has ended are
// answered, and closes the connection. It returns the error that broke the connection, if any.
func (w *stdioConn) closeAfterAnswers(connected *mcp.ServerSession) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastWritesTimeout)
	defer cancel()
	w.awaitAnswers(ctx)
	_ = w.Close() // it never fails
	done := make(chan error, 1)
	go func() {
		err := connected.Wait()
		w.queueWriters.Wait()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}
