package rpcserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"
)

// logCall logs how a call ended, at debug.
func (c *Conn) logCall(r *Request, start time.Time, err error) {
	if !c.Logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	kind := ""
	if e, ok := errors.AsType[*Error](err); ok {
		kind = e.Kind
	}
	c.Logger.Debug("call", "method", r.Method, "ms", time.Since(start).Milliseconds(), "failed", err != nil, "kind", kind)
}

// refuseMessage answers a message that is not a valid call.
func (c *Conn) refuseMessage(id json.RawMessage, e *Error) {
	c.Logger.Info("request refused", "kind", e.Kind, "code", e.Code)
	c.sendError(id, e)
}
