package rpcserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// A Request carries one call of a client to its handler.
type Request struct {
	Method string
	Params json.RawMessage // an object or an array; nil without params
	Buffer []byte          // the bytes that followed the line; nil without
	Conn   *Conn
	First  bool // this is the first request of its connection

	id     json.RawMessage
	token  json.RawMessage // the progress token; nil if the caller wants no progress
	ctx    context.Context
	cancel context.CancelCauseFunc

	afterAnswer []func() // only for the goroutine of the handler

	committed bool // guarded by Conn.mu; the call can no longer be cancelled

	mu         sync.Mutex
	answered   bool      // guarded by mu
	reported   float64   // guarded by mu; the last progress
	reportedAt time.Time // guarded by mu; when it was reported
}

// Commit makes later cancels of the request ineffective, and reports whether one came before. A
// handler calls it before an action that a cancel would have to undo.
func (r *Request) Commit() (cancelled bool) {
	r.Conn.mu.Lock()
	defer r.Conn.mu.Unlock()
	r.committed = true
	return errors.Is(context.Cause(r.ctx), ErrCancelled)
}

// AfterAnswer makes f run once the answer of the call is queued, so that lines sent by f follow the
// answer. The handler calls it before it returns. f must not block.
func (r *Request) AfterAnswer(f func()) { r.afterAnswer = append(r.afterAnswer, f) }

// sendAnswer sends the answer, ends progress, and runs the functions of AfterAnswer.
func (r *Request) sendAnswer(result any, err error) {
	r.mu.Lock()
	r.answered = true
	r.Conn.sendResult(r.id, result, err)
	r.mu.Unlock()
	for _, f := range r.afterAnswer {
		f()
	}
}
