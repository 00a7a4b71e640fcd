package sessionkit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// A TestHost provides host functions for code in tests, and counts their calls.
type TestHost struct {
	Started, Ended, Cancelled atomic.Int64
	BlockStarted              chan string // of capacity 1024: receives a name when a call of block has started
}

// NewTestHost returns a TestHost.
func NewTestHost() *TestHost { return &TestHost{BlockStarted: make(chan string, 1024)} }

// A Point is a parameter with fields, for the tests.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y,omitempty"`
}

// HostFunctions returns the functions: echo, add, raise_error, panics, leaves, block, sleep, make.
func (h *TestHost) HostFunctions() []supervisor.Function {
	type number struct {
		N int `json:"n"`
	}
	type named struct {
		Name    string `json:"name"`
		Message string `json:"message,omitempty"`
	}
	list := []supervisor.Function{
		{
			Name: "echo", Doc: "Returns its argument.",
			Params: []byte(`{"type": "object", "properties": {"value": {}}, "required": ["value"]}`),
			Call:   func(_ context.Context, args map[string]any) (any, error) { return args["value"], nil },
		},
		supervisor.FunctionOf("add", "Adds numbers.\n\nThe way of all numbers.", func(_ context.Context, in struct {
			A  int    `json:"a" doc:"the first"`
			B  int    `json:"b,omitempty" doc:"the second"`
			At *Point `json:"at,omitempty"`
		}) (int, error) {
			if in.At != nil {
				return in.A + in.B + int(in.At.X+in.At.Y), nil
			}
			return in.A + in.B, nil
		}),
		supervisor.FunctionOf("raise_error", "Fails.", func(_ context.Context, in named) (any, error) {
			if in.Name == "" {
				return nil, errors.New(in.Message)
			}
			return nil, fmt.Errorf("wrapped: %w", &supervisor.CallError{Name: in.Name, Message: in.Message})
		}),
		supervisor.FunctionOf("panics", "Panics.", func(context.Context, struct{}) (any, error) { panic("oh no") }),
		supervisor.FunctionOf("leaves", "Ends its goroutine.", func(context.Context, struct{}) (any, error) {
			runtime.Goexit()
			return nil, nil
		}),
		supervisor.FunctionOf("block", "Waits until it is cancelled.", func(ctx context.Context, in named) (any, error) {
			h.BlockStarted <- in.Name
			<-ctx.Done()
			h.Cancelled.Add(1)
			return nil, ctx.Err()
		}),
		supervisor.FunctionOf("sleep", "Sleeps n milliseconds.", func(ctx context.Context, in number) (int, error) {
			select {
			case <-time.After(time.Duration(in.N) * time.Millisecond):
				return in.N, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}),
		supervisor.FunctionOf("make", "Makes n bytes.", func(_ context.Context, in number) ([]byte, error) { return make([]byte, in.N), nil }),
	}
	for i, f := range list {
		list[i].Call = func(ctx context.Context, args map[string]any) (any, error) {
			h.Started.Add(1)
			defer h.Ended.Add(1)
			return f.Call(ctx, args)
		}
	}
	return list
}

// OpenWithHost opens a session whose code can call the functions of the host.
func OpenWithHost(t *testing.T, h *TestHost, spec workers.Spec) *TestSession {
	t.Helper()
	r := LaunchSessionWith(t, &supervisor.Options{Dir: t.TempDir(), Functions: h.HostFunctions()}, spec)
	r.WaitUntilReady(t)
	return r
}

// WaitAllEnded waits until every call has ended.
func (h *TestHost) WaitAllEnded(t *testing.T) {
	t.Helper()
	wait.Until(t, "every call has ended", func() bool { return h.Started.Load() == h.Ended.Load() })
}
