package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
)

// A Caller identifies the code in a session that is calling a [session.Function] of this program.
type Caller struct {
	Session    string
	Generation uint64
	Turn       uint64 // the active turn; 0 between turns
	Function   string
}

type callerKey struct{}

// CallerOf returns the caller of the function that received ctx. Without one, it returns the zero
// Caller.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// SetFunctions replaces the functions of this Client that code in the session may call. They run in
// this program, in goroutines of their own. Running calls continue. An empty list removes them.
//
// A call fails while this Client has no connection, and fails at once when it loses the connection.
// A Client of [New] connects again by itself, and gives its functions again. If the daemon was
// restarted, it does not: the session is gone. An error is of [session.KindExists] if another
// connected client gives a function of the same name.
func (s *Session) SetFunctions(ctx context.Context, list ...session.Function) error {
	docs := make([]protocol.FunctionDoc, 0, len(list))
	byName := make(map[string]session.Function, len(list))
	for _, f := range list {
		if err := f.Check(); err != nil {
			return session.Errorf(session.KindInvalid, "function %q: %v", f.FullName(), err)
		}
		byName[f.FullName()] = f
		docs = append(docs, protocol.FunctionDoc{Name: f.Name, Group: f.Group, Description: f.Doc, Parameters: f.Params, Returns: f.Returns})
	}
	p := protocol.FunctionsParams{Session: s.name, Functions: docs, Author: s.author}
	h := s.calls.functionHost()
	h.setting.Lock()
	defer h.setting.Unlock()
	finish := h.replace(s.name, &functionSet{params: p, byName: byName})
	err := s.callWithoutResult(ctx, protocol.MethodSetFunctions, p)
	finish(err == nil)
	return err
}

// Functions lists the functions that all clients give to the code of the session, by name.
func (s *Session) Functions(ctx context.Context) ([]protocol.GivenFunction, error) {
	r, err := callSession[protocol.FunctionList](ctx, s, protocol.MethodListFunctions, protocol.NameParams{Session: s.name})
	return r.Functions, err
}

// A functionHost holds the functions that a Client gives to sessions, and calls them.
type functionHost struct {
	setting sync.Mutex // held while the functions of a session are replaced, which takes a call
	onSet   func()     // called when the Client gives functions; nil for a Client with one connection

	mu     sync.Mutex
	sets   map[string]*functionSet // guarded by mu; by session
	daemon conn.DaemonInstance     // guarded by mu; the daemon of the last connection
}

// A functionSet holds the functions of one session.
type functionSet struct {
	params protocol.FunctionsParams
	byName map[string]session.Function
	before *functionSet // guarded by functionHost.mu; the set that it replaces, until the daemon has answered
}

// replace replaces the functions of a session. The functions before can be called until finish.
func (h *functionHost) replace(name string, set *functionSet) (finish func(given bool)) {
	h.mu.Lock()
	if h.sets == nil {
		h.sets = make(map[string]*functionSet)
	}
	set.before = h.sets[name]
	h.sets[name] = set
	h.mu.Unlock()
	return func(given bool) {
		h.mu.Lock()
		if !given {
			set = set.before
		} else {
			set.before = nil
		}
		if h.sets[name] = set; set == nil || len(set.byName) == 0 {
			delete(h.sets, name)
		}
		h.mu.Unlock()
		if given && h.onSet != nil {
			h.onSet()
		}
	}
}

// hasAny reports whether the Client gives functions.
func (h *functionHost) hasAny() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sets) > 0
}

// restore gives the functions again over a new connection, before any other call. A session that is
// gone loses them. Another daemon may have a session of the same name, which gets none.
func (h *functionHost) restore(c *conn.Conn, onError func(session string, err error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.daemon != (conn.DaemonInstance{}) && !h.daemon.IsSame(c.Daemon()) {
		clear(h.sets)
	}
	h.daemon = c.Daemon()
	for name, set := range h.sets {
		for set.before != nil { // the daemon has not answered to a later one, whose call is repeated
			set = set.before
		}
		_ = c.SendCall(protocol.MethodSetFunctions, set.params, func(err error) { // a lost connection is noticed elsewhere
			if err == nil || session.KindOf(err) == session.KindUnreachable {
				return
			}
			onError(name, err)
			h.mu.Lock()
			defer h.mu.Unlock()
			if session.KindOf(err) == session.KindClosed && h.sets[name] == set {
				delete(h.sets, name)
			}
		})
	}
}

// find returns the function that a call names.
func (h *functionHost) find(name, function string) (session.Function, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for set := h.sets[name]; set != nil; set = set.before {
		if f, ok := set.byName[function]; ok {
			return f, true
		}
	}
	return session.Function{}, false
}

// handleRequest answers a request of the daemon.
func (h *functionHost) handleRequest(ctx context.Context, c *conn.Conn, m *jsonrpc2.Message) (any, error) {
	if m.Method != protocol.MethodCall {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", m.Method)}
	}
	var p protocol.FunctionCall
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
	}
	value, err := h.call(ctx, c, &p)
	var text json.RawMessage
	if err == nil {
		if text, err = protocol.EncodeValue(value); err != nil {
			err = fmt.Errorf("the result cannot be sent: %w", err)
		}
	}
	if err != nil {
		return nil, functionError(err)
	}
	return protocol.FunctionResult{Value: text}, nil
}

// call calls the function that a request names.
func (h *functionHost) call(ctx context.Context, c *conn.Conn, p *protocol.FunctionCall) (any, error) {
	f, ok := h.find(p.Session, p.Function)
	if !ok {
		return nil, &session.CallError{Name: "NameError", Message: fmt.Sprintf("%s: the client no longer gives this function", p.Function)}
	}
	text := []byte(p.Arguments)
	for more := p.Arguments == nil; more; {
		var part protocol.ArgumentsPart
		if err := c.Call(ctx, protocol.MethodArguments, protocol.ArgumentsParams{Call: p.Call, Offset: len(text)}, &part); err != nil {
			return nil, fmt.Errorf("the arguments cannot be read: %w", err)
		}
		text, more = append(text, part.Text...), part.More
	}
	args, err := protocol.DecodeArguments(text)
	if err != nil {
		return nil, fmt.Errorf("the arguments cannot be read: %w", err)
	}
	return f.Call(context.WithValue(ctx, callerKey{}, Caller{p.Session, p.Generation, p.Turn, p.Function}), args)
}

// functionError returns the error object for the error of a function.
func functionError(err error) error {
	name := ""
	if named, ok := errors.AsType[*session.CallError](err); ok {
		name = named.Name
	} else if errors.Is(err, context.Canceled) {
		name = "Cancelled"
	} else if errors.Is(err, context.DeadlineExceeded) {
		name = "TimeoutError"
	}
	data, _ := json.Marshal(protocol.FunctionError{Name: name})
	return &jsonrpc2.Error{Code: codeFunctionFailed, Message: err.Error(), Data: data}
}

// codeFunctionFailed is the code of the error with which a function fails.
const codeFunctionFailed = -32001
