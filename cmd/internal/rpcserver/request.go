package rpcserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"
)

// minProgressInterval is the least time between two progress notifications of a call.
const minProgressInterval = 50 * time.Millisecond

// A Request carries one call of a client to its handler.
type Request struct {
	Method string
	Params json.RawMessage // an object or an array; nil without params
	Conn   *Conn
	First  bool // it is the first request of its connection

	id     json.RawMessage
	token  json.RawMessage // the progress token; nil if the caller wants no progress
	ctx    context.Context
	cancel context.CancelCauseFunc

	afterAnswer []func() // only for the goroutine of the handler

	committed bool // guarded by Conn.mu; a cancel comes too late

	mu         sync.Mutex
	answered   bool      // guarded by mu
	reported   float64   // guarded by mu; the last progress
	reportedAt time.Time // guarded by mu; the time of that
}

// Decode reads params, which must be an object, into p. A field that p does not have is an error,
// so that a misspelt field is not mistaken for a default.
func (r *Request) Decode(p any) error {
	params := r.Params
	if params == nil {
		params = json.RawMessage("{}")
	}
	if params[0] != '{' {
		return InvalidParams("params must be an object")
	}
	if bytes.Contains(params, []byte(`"_meta"`)) { // belongs to the call, and not to its method
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(params, &fields); err != nil {
			return InvalidParams("%s: %v", r.Method, err)
		}
		delete(fields, "_meta")
		params = mustMarshal(fields)
	}
	if err := checkKeys(params, p); err != nil {
		return InvalidParams("%s: %v", r.Method, err)
	}
	d := json.NewDecoder(bytes.NewReader(params))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return InvalidParams("%s: %v", r.Method, err)
	}
	return nil
}

// checkKeys rejects two mistakes that encoding/json accepts: a field name in other letter case, and
// a repeated field, of which the last would count. params is an object, and p points to a struct.
func checkKeys(params []byte, p any) error {
	if reflect.TypeOf(p).Elem().Kind() != reflect.Struct {
		return nil
	}
	known := make(map[string]bool)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(p).Elem()) { // including embedded ones
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = !f.Anonymous
	}
	d := json.NewDecoder(bytes.NewReader(params))
	if _, err := d.Token(); err != nil { // {
		return err
	}
	seen := make(map[string]bool)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if !known[name] {
			return fmt.Errorf("json: unknown field %q", name)
		}
		if seen[name] {
			return fmt.Errorf("duplicate field %q", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

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
