package mcpserver

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// logRequests has each request of a client noted: its method, the tool, how long it
// took and how it ended. Arguments and results are not: they are the user's.
func logRequests(log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
			if !log.Enabled(ctx, slog.LevelInfo) {
				return next(ctx, method, req)
			}
			begun, tool := time.Now(), ""
			if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
				tool = p.Name[:min(len(p.Name), maxLogged)]
			}
			defer func() {
				if v := recover(); v != nil {
					log.Error("panic", "method", method, "tool", tool, "stack", string(debug.Stack()))
					panic(v)
				}
				call, ok := result.(*mcp.CallToolResult)
				log.Info("request", "method", method, "tool", tool, "ms", time.Since(begun).Milliseconds(),
					"failed", err != nil || ok && call != nil && call.IsError)
			}()
			return next(ctx, method, req)
		}
	}
}

// maxLogged bounds what the log has of a client's own words, in bytes.
const maxLogged = 64

// logRefusals has requests noted that a handler does not let pass.
func logRefusals(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&judged{ResponseWriter: w, log: log, from: r.RemoteAddr}, r)
	})
}

// A judged response is one whose refusal is noted.
type judged struct {
	http.ResponseWriter
	log  *slog.Logger
	from string
}

// WriteHeader implements http.ResponseWriter.
func (w *judged) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.log.Info("refused", "status", status, "from", w.from)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap implements what http.ResponseController looks for.
func (w *judged) Unwrap() http.ResponseWriter { return w.ResponseWriter }
