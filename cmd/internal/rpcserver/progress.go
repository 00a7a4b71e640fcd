package rpcserver

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// minProgressInterval is the least time between two progress notifications of a call.
const minProgressInterval = 50 * time.Millisecond

// ProgressToken returns the progress token as the caller wrote it, or nil.
func (r *Request) ProgressToken() json.RawMessage { return r.token }

// ReportProgress reports the progress of the call to the caller, if the caller gave a token.
// progress must grow with each call; total is 0 if unknown. It drops progress that does not grow,
// or comes within 50 ms of the last report, or after the answer.
func (r *Request) ReportProgress(progress, total float64, message string) error {
	for _, v := range []float64{progress, total} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("rpcserver: invalid progress %v", v)
		}
	}
	if r.token == nil {
		return nil
	}
	p := struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{r.token, progress, total, message}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.answered || r.ctx.Err() != nil || !r.reportedAt.IsZero() && (progress <= r.reported || now.Sub(r.reportedAt) < minProgressInterval) {
		return nil
	}
	r.reported, r.reportedAt = progress, now
	return r.Conn.Notify("notifications/progress", p)
}
