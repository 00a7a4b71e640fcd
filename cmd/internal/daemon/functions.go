package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

const (
	// maxClientCalls and maxClientCallBytes bound the open calls of the functions of one connection,
	// and their arguments as JSON. Further calls are errors in the calling code.
	maxClientCalls     = 1024
	maxClientCallBytes = 256 << 20

	// maxGoneSets bounds the sets of functions of disconnected clients that a session keeps, so that
	// their calls say who is gone. The oldest is forgotten.
	maxGoneSets = 16
)

// A functionSet holds the functions that one client gives to one session.
type functionSet struct {
	owner     string // its name in the supervisor
	client    *clientState
	conn      *rpcserver.Conn // with the end of which the calls fail
	calls     *clientCalls
	functions []session.Function
}

// isGone reports whether the client has disconnected since it gave the functions.
func (f *functionSet) isGone() bool { return f.conn.Context().Err() != nil }

// clientCalls holds the open calls of the functions that one connection has given.
type clientCalls struct {
	mu     sync.Mutex
	open   int
	bytes  int
	number uint64
	large  map[string]json.RawMessage // arguments that were not sent with the call
}

// add registers a call and returns its name, or an error if there are too many.
func (c *clientCalls) add(function string, arguments json.RawMessage) (name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open >= maxClientCalls:
		return "", &session.CallError{Name: "CallError", Message: fmt.Sprintf("%s: %d calls to this client are open already; wait for some to end", function, maxClientCalls)}
	case c.bytes+len(arguments) > maxClientCallBytes:
		return "", &session.CallError{Name: "CallError", Message: fmt.Sprintf("%s: the arguments of all open calls to this client exceed %d bytes; wait for some calls to end", function, maxClientCallBytes)}
	}
	c.open++
	c.bytes += len(arguments)
	c.number++
	name = fmt.Sprintf("call-%d", c.number)
	if len(arguments) > protocol.MaxInlineArguments {
		if c.large == nil {
			c.large = make(map[string]json.RawMessage)
		}
		c.large[name] = arguments
	}
	return name, nil
}

func (c *clientCalls) remove(name string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.bytes -= bytes
	delete(c.large, name)
}

// handleSetFunctions gives functions of a client to the code of a session. It runs in the order of
// the requests of its connection. So the functions are there before a turn that the client starts
// next, and a client that has connected again gives them before anything else. It needs no write
// lock, because it runs no code.
func (d *Daemon) handleSetFunctions(_ context.Context, r *rpcserver.Request, p protocol.FunctionsParams) (emptyResult, error) {
	d.noteUse()
	if p.Functions == nil {
		return emptyResult{}, rpcserver.InvalidParams("functions is required: a list, which may be empty")
	}
	if err := checkAuthor(p.Author); err != nil {
		return emptyResult{}, err
	}
	e, err := d.useSession(p.Session)
	if err != nil {
		return emptyResult{}, err
	}
	d.setAuthor(r.Conn, p.Author)
	set := d.newFunctionSet(r.Conn, p.Functions)
	if set == nil {
		return emptyResult{}, rpcserver.Errorf(rpcserver.CodeFailed, rpcserver.KindUnreachable, "the connection has ended")
	}
	for _, f := range set.functions {
		if err := supervisor.CheckFunction(f); err != nil {
			return emptyResult{}, rpcserver.InvalidParams("function %q: %v", f.FullName(), err)
		}
	}
	if err := d.replaceFunctions(e, set); err != nil {
		return emptyResult{}, err
	}
	d.log.Info("functions given", "session", e.name, "by", d.clientLabel(r.Conn), "count", len(set.functions))
	return emptyResult{}, nil
}

// newFunctionSet returns the functions of a client as the supervisor calls them, or nil if the
// connection has ended.
func (d *Daemon) newFunctionSet(conn *rpcserver.Conn, list []protocol.FunctionDoc) *functionSet {
	d.mu.Lock()
	l := d.connections[conn]
	d.counter++
	owner := fmt.Sprintf("client-set-%d", d.counter)
	d.mu.Unlock()
	if l == nil {
		return nil
	}
	set := &functionSet{owner: owner, client: d.clientOf(conn), conn: conn, calls: &l.functionCalls}
	label := d.clientLabel(conn)
	for _, doc := range list {
		f := session.Function{Name: doc.Name, Group: doc.Group, Doc: doc.Description, Params: presentJSON(doc.Parameters), Returns: presentJSON(doc.Returns)}
		name := f.FullName()
		f.Call = func(ctx context.Context, args map[string]any) (any, error) {
			return set.call(ctx, name, label, args)
		}
		set.functions = append(set.functions, f)
	}
	return set
}

// presentJSON returns nil for null.
func presentJSON(text json.RawMessage) json.RawMessage {
	if string(text) == "null" {
		return nil
	}
	return text
}

// replaceFunctions replaces the functions that a client gives to a session. A name that another
// connected client gives is refused. One of a disconnected client is taken over.
func (d *Daemon) replaceFunctions(e *openSession, set *functionSet) error {
	e.functionsMu.Lock()
	defer e.functionsMu.Unlock()
	var before *functionSet
	names := make(map[string]bool, len(set.functions))
	for _, f := range set.functions {
		names[f.FullName()] = true
	}
	var others []*functionSet
	for _, other := range e.functionSets {
		if other.client == set.client {
			before, set.owner = other, other.owner
			continue
		}
		others = append(others, other)
		for _, f := range other.functions {
			if name := f.FullName(); names[name] && !other.isGone() {
				return &session.Error{Kind: session.KindExists, Message: fmt.Sprintf("session %q has a function %q already, which %s gives; choose another name", e.name, name, d.clientLabel(other.conn))}
			}
		}
	}
	for _, other := range others {
		kept := slices.DeleteFunc(slices.Clone(other.functions), func(f session.Function) bool { return names[f.FullName()] })
		if len(kept) < len(other.functions) {
			other.functions = kept
			_ = e.session.SetFunctionsOf(other.owner, kept...) // fewer functions are never refused
		}
	}
	if err := e.session.SetFunctionsOf(set.owner, set.functions...); err != nil {
		return rpcserver.InvalidParams("%s", strings.TrimPrefix(err.Error(), "supervisor: "))
	}
	e.functionSets = slices.DeleteFunc(e.functionSets, func(s *functionSet) bool { return s == before || len(s.functions) == 0 })
	if len(set.functions) > 0 {
		e.functionSets = append(e.functionSets, set)
	}
	e.forgetOldFunctionsLocked()
	return nil
}

// forgetOldFunctionsLocked removes the oldest sets of disconnected clients, if there are too many.
// The caller holds o.functionsMu.
func (o *openSession) forgetOldFunctionsLocked() {
	gone := 0
	for _, s := range slices.Backward(slices.Clone(o.functionSets)) {
		if !s.isGone() {
			continue
		}
		if gone++; gone > maxGoneSets {
			_ = o.session.SetFunctionsOf(s.owner)
			o.functionSets = slices.DeleteFunc(o.functionSets, func(other *functionSet) bool { return other == s })
		}
	}
}

// listFunctions returns copies of the sets of functions that clients give to the session.
func (o *openSession) listFunctions() []functionSet {
	o.functionsMu.Lock()
	defer o.functionsMu.Unlock()
	list := make([]functionSet, 0, len(o.functionSets))
	for _, s := range o.functionSets {
		list = append(list, *s)
	}
	return list
}

// hasFunctions reports whether a connected client gives functions to the session. Its code may call
// them at any time, so the session is in use.
func (o *openSession) hasFunctions() bool {
	return slices.ContainsFunc(o.listFunctions(), func(s functionSet) bool { return !s.isGone() })
}

// handleListFunctions lists the functions that clients give to the code of a session. The call does
// not count as use.
func (d *Daemon) handleListFunctions(_ context.Context, _ *rpcserver.Request, p protocol.NameParams) (protocol.FunctionList, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return protocol.FunctionList{}, err
	}
	all := protocol.FunctionList{Functions: []protocol.GivenFunction{}}
	sets := e.listFunctions()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range sets {
		given := protocol.GivenFunction{Gone: s.isGone()}
		if l := d.connections[s.conn]; l != nil {
			given.Client, given.Author = l.id, l.author
		}
		for _, f := range s.functions {
			given.Name, given.Description = f.FullName(), f.Doc
			all.Functions = append(all.Functions, given)
		}
	}
	sort.SliceStable(all.Functions, func(i, j int) bool { return all.Functions[i].Name < all.Functions[j].Name })
	return all, nil
}

// call calls a function of the client, and waits until the client answers, disconnects, or ctx
// ends. Then the client gets a cancel.
func (f *functionSet) call(ctx context.Context, name, label string, args map[string]any) (any, error) {
	if f.isGone() {
		return nil, &session.CallError{Name: "ConnectionError", Message: fmt.Sprintf("%s: %s, which gave this function, has disconnected", name, label)}
	}
	arguments, err := protocol.EncodeValue(args)
	if err != nil {
		return nil, &session.CallError{Name: "TypeError", Message: fmt.Sprintf("%s: the arguments cannot be sent to the client: %v", name, err)}
	}
	number, err := f.calls.add(name, arguments)
	if err != nil {
		return nil, err
	}
	defer f.calls.remove(number, len(arguments))
	caller := supervisor.CallerOf(ctx)
	p := protocol.FunctionCall{
		Session: caller.Session.Name(), Generation: caller.Generation, Turn: caller.Turn,
		Function: name, Call: number, Arguments: arguments, ArgumentsBytes: len(arguments),
	}
	if len(arguments) > protocol.MaxInlineArguments {
		p.Arguments = nil
	}
	answer, err := f.conn.Call(ctx, protocol.MethodCall, p)
	if err != nil {
		return nil, f.callError(name, label, err)
	}
	var result protocol.FunctionResult
	if err := json.Unmarshal(answer.Result, &result); err != nil || result.Value == nil {
		return nil, &session.CallError{Name: "CallError", Message: fmt.Sprintf("%s: %s has answered without a value", name, label)}
	}
	value, err := protocol.DecodeResult(result.Value)
	if err != nil {
		return nil, &session.CallError{Name: "CallError", Message: fmt.Sprintf("%s: the result cannot be read: %v", name, err)}
	}
	return value, nil
}

// callError returns the error of a call for the calling code.
func (f *functionSet) callError(name, label string, err error) error {
	if refused, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		var data protocol.FunctionError
		_ = json.Unmarshal(refused.Data, &data) // without a name, it is a CallError
		return &session.CallError{Name: cmp.Or(data.Name, "CallError"), Message: refused.Message}
	}
	if ended, ok := errors.AsType[*jsonrpc2.EndedError](err); ok {
		return &session.CallError{Name: "ConnectionError", Message: fmt.Sprintf("%s: %s has disconnected during the call, whose effect is unknown: %v", name, label, ended.Cause)}
	}
	return err
}

// handleArguments returns a part of the arguments of a call that were not sent with it.
func (d *Daemon) handleArguments(_ context.Context, r *rpcserver.Request, p protocol.ArgumentsParams) (protocol.ArgumentsPart, error) {
	d.mu.Lock()
	l := d.connections[r.Conn]
	d.mu.Unlock()
	var text json.RawMessage
	if l != nil {
		l.functionCalls.mu.Lock()
		text = l.functionCalls.large[p.Call]
		l.functionCalls.mu.Unlock()
	}
	if text == nil {
		return protocol.ArgumentsPart{}, rpcserver.Errorf(rpcserver.CodeFailed, string(session.KindStale), "no open call %q with arguments that were left out; it may have been cancelled", p.Call)
	}
	if p.Offset < 0 || p.Offset > len(text) || p.Offset < len(text) && isUTF8Continuation(text[p.Offset]) {
		return protocol.ArgumentsPart{}, rpcserver.InvalidParams("offset is %d: use 0 or the next of the part before", p.Offset)
	}
	end := min(len(text), p.Offset+protocol.MaxArgumentPart)
	for end < len(text) && isUTF8Continuation(text[end]) {
		end--
	}
	return protocol.ArgumentsPart{Text: string(text[p.Offset:end]), Next: end, More: end < len(text)}, nil
}

// isUTF8Continuation reports whether a byte is not the first one of a character.
func isUTF8Continuation(b byte) bool { return b&0xc0 == 0x80 }
