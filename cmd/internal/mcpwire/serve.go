package mcpwire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastWrites is how long Serve and ServeHTTP wait, once the tools are closed, for
// clients to read what is being written to them.
const lastWrites = 500 * time.Millisecond

// Serve serves one client, a message a line, until its input ends, which is no error, or
// ctx does. Then it closes the tools. Nothing but protocol is written to out. A client
// that does not read makes the end half a second longer, and leaves a write to out that
// is still blocked.
func Serve(ctx context.Context, in io.Reader, out io.Writer, logger *slog.Logger, newTools func(Client) Tools) error {
	w := newWire(in, out, logger)
	tools := newTools(Client{Calls: w})

	// Ending ctx ends the connection, and that the calls: the SDK alone would wait
	// for them.
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

// lastWritten waits until the closed connection is done with its calls and
// everything is written, for lastWrites at most, and returns what broke it.
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
