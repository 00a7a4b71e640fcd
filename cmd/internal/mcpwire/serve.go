package mcpwire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastWrites bounds how long Serve and ServeHTTP wait for clients to read their last messages,
// after the tools are closed.
const lastWrites = 500 * time.Millisecond

// Serve serves one client, with one message on each line. It returns when the input ends,
// which is no error, or when ctx ends. Then it closes the tools. It writes nothing but
// protocol to out. If the client does not read, Serve takes half a second longer, and a write
// to out may stay blocked.
func Serve(ctx context.Context, in io.Reader, out io.Writer, logger *slog.Logger, newTools func(Client) Tools) error {
	w := newWire(in, out, logger)
	tools := newTools(Client{Calls: w})

	// The end of ctx must end the connection, and so the calls. The SDK alone would wait for
	// the calls.
	connected, err := tools.SDK(nil).Connect(context.WithoutCancel(ctx), w, nil)
	if err != nil {
		return fmt.Errorf("mcpwire: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	tools.OpenAhead()
	<-w.closed
	tools.Close()
	if err := w.lastWritten(connected); err != nil && ctx.Err() == nil {
		return fmt.Errorf("mcpwire: %w", err)
	}
	return ctx.Err()
}

// lastWritten waits, for lastWrites at most, until the closed connection has ended its calls
// and written everything. It returns the error that broke the connection, if any.
func (w *wire) lastWritten(connected *mcp.ServerSession) error {
	done := make(chan error, 1)
	go func() {
		err := connected.Wait()
		w.asides.Wait()
		done <- err
	}()
	timeout := time.NewTimer(lastWrites)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		return nil
	}
}
