package conn

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// maxRequests bounds the requests of the daemon that run at the same time, including cancelled ones
// whose goroutine still runs. The daemon itself sends at most 1024 at a time.
const maxRequests = 2048

// codeFailed is the code of an error in the answer to a request.
const codeFailed = -32001

// requests holds the running requests of the daemon.
type requests struct {
	mu      sync.Mutex
	running int                           // including cancelled ones
	cancels map[string]context.CancelFunc // by jsonrpc2.IDKey
}

// cancel ends the context of a request.
func (r *requests) cancel(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.cancels[key]; cancel != nil {
		cancel()
	}
}

// start registers a request. It returns false if too many are running.
func (r *requests) start(key string, cancel context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running >= maxRequests {
		return false
	}
	r.running++
	if r.cancels == nil {
		r.cancels = make(map[string]context.CancelFunc)
	}
	r.cancels[key] = cancel
	return true
}

func (r *requests) end(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	delete(r.cancels, key)
}

// startRequest runs a request of the daemon, and answers it.
func (c *Conn) startRequest(m *jsonrpc2.Message) {
	if c.options.OnRequest == nil {
		_ = c.rpc.SendError(m.ID, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "method not found: " + strconv.Quote(m.Method)})
		return
	}
	ctx, cancel := context.WithCancel(c.rpc.Context())
	key := jsonrpc2.IDKey(m.ID)
	if !c.requests.start(key, cancel) {
		cancel()
		_ = c.rpc.SendError(m.ID, &jsonrpc2.Error{Code: codeFailed, Message: fmt.Sprintf("%d requests are running already; wait for some to end", maxRequests)})
		return
	}
	go func() {
		var result any
		err := error(&jsonrpc2.Error{Code: codeFailed, Message: "the function ended its goroutine"})
		defer func() {
			cancel()
			c.requests.end(key)
			c.answerRequest(m, result, err)
		}()
		defer func() {
			if p := recover(); p != nil {
				if l := c.log.Load(); l != nil {
					l.Error("request of the daemon panicked", "method", m.Method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				}
				err = &jsonrpc2.Error{Code: codeFailed, Message: fmt.Sprintf("the function panicked: %v", p)}
			}
		}()
		result, err = c.options.OnRequest(ctx, c, m)
	}()
}

// answerRequest answers a request. A large result waits for room.
func (c *Conn) answerRequest(m *jsonrpc2.Message, result any, err error) {
	if err == nil {
		err = c.rpc.SendResultWhenRoom(c.rpc.Context(), m.ID, result)
	}
	if err == nil {
		return
	}
	failure, ok := errors.AsType[*jsonrpc2.Error](err)
	if !ok {
		failure = &jsonrpc2.Error{Code: codeFailed, Message: err.Error()}
	}
	_ = c.rpc.SendError(m.ID, failure)
}

// SendCall sends a call without waiting. onAnswer gets its error, or nil, when the answer comes.
// Calls of the daemon that follow arrive later there.
func (c *Conn) SendCall(method string, params any, onAnswer func(error)) error {
	pending, err := c.rpc.StartCall(method, params)
	if err != nil {
		return err
	}
	go func() {
		_, err := c.rpc.AwaitAnswer(context.Background(), pending) // the end of the connection ends it
		onAnswer(callError(err))
	}()
	return nil
}
