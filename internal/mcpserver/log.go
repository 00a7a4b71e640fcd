package mcpserver

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// logRequests logs the method, tool, duration and success of each request. It does not log
// arguments and results, which are the user's.
func logRequests(log *slog.Logger) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
			if !log.Enabled(ctx, slog.LevelInfo) {
				return next(ctx, method, req)
			}
			start, tool := time.Now(), ""
			if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
				tool = p.Name[:min(len(p.Name), maxLoggedBytes)]
			}
			defer func() {
				if v := recover(); v != nil {
					log.Error("panic", "method", method, "tool", tool, "stack", string(debug.Stack()))
					panic(v)
				}
				call, ok := result.(*mcp.CallToolResult)
				log.Info("request", "method", method, "tool", tool, "ms", time.Since(start).Milliseconds(),
					"failed", err != nil || ok && call != nil && call.IsError)
			}()
			return next(ctx, method, req)
		}
	}
}

// maxLoggedBytes bounds a logged text that a client chose.
const maxLoggedBytes = 64
