package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/argschema"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	maxFunctions         = 5000      // in one session
	maxFunctionBytes     = 8 << 20   // for the encoded names, docs and schemas of all functions
	maxOpenCalls         = 1024      // concurrent calls of one worker; further calls are refused
	maxArgumentBytes     = 256 << 20 // of the arguments of all open calls; further calls are refused
	maxConcurrentResults = 4         // results of one worker that are encoded concurrently; others wait
	resultPartBytes      = 256 << 10 // bytes of a result in one frame
	maxListedNames       = 20        // functions that the error for an unknown function lists
)

// A Function is a function of the host program that code in a session can call. See
// [session.Function].
type Function = session.Function

// A CallError is an error that the calling code sees as an exception or condition of this name. See
// [session.CallError].
type CallError = session.CallError

// FunctionOf is [session.FunctionOf].
func FunctionOf[In, Out any](name, doc string, f func(ctx context.Context, in In) (Out, error)) Function {
	return session.FunctionOf(name, doc, f)
}

// functionRegistry holds the functions of a session and counts their calls until the counts are
// recorded. Its lock is only held briefly and with no other work, so a call does not block the
// session.
type functionRegistry struct {
	setting sync.Mutex            // held while functions are replaced, also while Session.mu is taken
	sets    map[string][]Function // guarded by setting; by owner

	mu          sync.Mutex
	revision    uint64
	byName      map[string]*checkedFunction // by full name
	encodedList []byte                      // encoded for the worker
	totals      []*callTotals
}

// A checkedFunction is a Function that passed Check, with its parsed parameter schema.
type checkedFunction struct {
	Function
	params *argschema.Schema
}

// callTotals counts the calls of one function that have not been recorded yet.
type callTotals struct {
	timeline.Call
	openCalls    int
	openSince    time.Time // when the first of the open calls started
	countedSince time.Time // openSince, or the time of the last record
}

// SetFunctions replaces the functions that code in the session may call. Running calls continue. It
// fails and changes nothing if a function is invalid. If the worker cannot call functions, the
// session gets a notice.
func (s *Session) SetFunctions(list ...Function) error { return s.SetFunctionsOf("", list...) }

// SetFunctionsOf is SetFunctions for a program in which several owners give functions to one
// session, such as the clients of a daemon. It replaces only the functions of this owner. It fails
// if another owner has given a function of the same name. The owner "" is that of SetFunctions.
func (s *Session) SetFunctionsOf(owner string, list ...Function) error {
	f := &s.functions
	f.setting.Lock() // encoding takes milliseconds for thousands of functions, so mu is not held meanwhile
	defer f.setting.Unlock()
	sets := maps.Clone(f.sets)
	if sets == nil {
		sets = make(map[string][]Function)
	}
	if sets[owner] = slices.Clone(list); len(list) == 0 {
		delete(sets, owner)
	}
	var all []Function
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		all = append(all, sets[name]...)
	}
	byName, encoded, err := checkFunctions(all)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.unlock()
	f.mu.Lock()
	f.revision++
	f.sets, f.byName, f.encodedList = sets, byName, encoded
	f.mu.Unlock()
	if s.worker != nil && s.m.ready != nil {
		s.worker.sendFunctionsLocked()
	}
	return nil
}

// checkFunctions checks functions and encodes them for the worker.
func checkFunctions(list []Function) (map[string]*checkedFunction, []byte, error) {
	if len(list) > maxFunctions {
		return nil, nil, fmt.Errorf("supervisor: too many functions: %d; a session can have at most %d", len(list), maxFunctions)
	}
	byName := make(map[string]*checkedFunction, len(list))
	entries := make([]any, 0, len(list))
	for _, f := range list {
		entry, params, err := checkFunction(f)
		if err == nil && byName[f.FullName()] != nil {
			err = errors.New("the name is used twice")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("supervisor: function %q: %w", f.FullName(), err)
		}
		byName[f.FullName()] = &checkedFunction{f, params}
		entries = append(entries, entry)
	}
	encoded, err := ipc.EncodeValue(entries)
	if err == nil && len(encoded) > maxFunctionBytes {
		err = fmt.Errorf("names, docs and schemas have %d bytes; at most %d are allowed", len(encoded), maxFunctionBytes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("supervisor: functions: %w", err)
	}
	return byName, encoded, nil
}

// CheckFunction returns why a session cannot have a function; nil if it can. It also checks that the
// schemas can be sent to a worker.
func CheckFunction(f Function) error {
	_, _, err := checkFunction(f)
	return err
}

// checkFunction returns the entry for the worker's list and the schema of the arguments.
func checkFunction(f Function) (ipc.Object, *argschema.Schema, error) {
	if err := f.Check(); err != nil {
		return nil, nil, err
	}
	entry := ipc.Object{{Name: "name", Value: f.Name}, {Name: "doc", Value: f.Doc}}
	if f.Group != "" {
		entry = append(entry, ipc.Field{Name: "group", Value: f.Group})
	}
	var params *argschema.Schema
	for _, part := range []struct {
		name string
		text json.RawMessage
	}{{"params", f.Params}, {"returns", f.Returns}} {
		if part.text == nil {
			continue
		}
		v, err := ipc.ValueFromJSON(part.text)
		if _, isObject := v.(ipc.Object); err == nil && !isObject {
			err = errors.New("it is not a JSON object")
		}
		if err == nil && part.name == "params" {
			params, err = argschema.Parse(part.text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("schema of its %s: %w", part.name, err)
		}
		entry = append(entry, ipc.Field{Name: part.name, Value: v})
	}
	return entry, params, nil
}

// findFunction returns the function of this name, or an error that lists the closest names.
func (f *functionRegistry) findFunction(name string) (*checkedFunction, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byName[name]; found != nil {
		return found, nil
	}
	if len(f.byName) == 0 {
		return nil, &CallError{Name: "NameError", Message: fmt.Sprintf("unknown function %s: the host offers none", name)}
	}
	names := slices.Sorted(maps.Keys(f.byName))
	distance := func(other string) int { return text.Distance(comparableName(name), comparableName(other)) }
	sort.SliceStable(names, func(i, j int) bool { return distance(names[i]) < distance(names[j]) })
	more := ""
	if len(names) > maxListedNames {
		more = fmt.Sprintf(" and %d more", len(names)-maxListedNames)
		names = names[:maxListedNames]
	}
	return nil, &CallError{Name: "NameError", Message: fmt.Sprintf("unknown function %s: the host offers %s%s", name, strings.Join(names, ", "), more)}
}

// comparableName returns a name in the form used for comparison: lower case and cut to the maximum
// length.
func comparableName(name string) string {
	name = strings.ToLower(name)
	return name[:min(len(name), session.MaxFunctionName)]
}

// openGroupFunction is the function that the worker calls when code first uses a group. User code
// does not call it, so it is not recorded.
const openGroupFunction = "_open"

// unknownFunction is the name under which calls of unknown functions are counted.
const unknownFunction = "(unknown)"

// countStart counts a call that starts.
func (f *functionRegistry) countStart(name string, now time.Time) *callTotals {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName[name] == nil {
		name = unknownFunction
	}
	var t *callTotals
	for _, known := range f.totals {
		if known.Name == name {
			t = known
		}
	}
	if t == nil {
		t = &callTotals{Call: timeline.Call{Name: name}}
		f.totals = append(f.totals, t)
	}
	if t.openCalls++; t.openCalls == 1 {
		t.openSince, t.countedSince = now, now
	}
	return t
}

// countEnd counts the end of a call.
func (f *functionRegistry) countEnd(t *callTotals, c *openCall, failed bool, received int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.openCalls--; t.openCalls == 0 {
		t.Elapsed += time.Since(t.countedSince)
	}
	if c.cancelled {
		return // countCancelled has counted it
	}
	t.Count++
	t.Sent += int64(c.argumentBytes)
	t.Received += int64(received)
	if failed {
		t.Failed++
	}
}

// countCancelled counts a call as cancelled while its turn is still active. Its caller no longer
// waits for it.
func (f *functionRegistry) countCancelled(c *openCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.cancelled {
		c.cancelled = true
		c.totals.Count++
		c.totals.Cancelled++
		c.totals.Sent += int64(c.argumentBytes)
	}
}

// takeTotals returns the calls since the last takeTotals, in the order of the first calls.
func (f *functionRegistry) takeTotals() []timeline.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.totals) == 0 {
		return nil
	}
	var called []timeline.Call
	open := f.totals[:0]
	for _, t := range f.totals {
		if t.openCalls > 0 {
			now := time.Now()
			t.Elapsed += now.Sub(t.countedSince)
			t.countedSince = now
		}
		if t.Count > 0 && t.Name != openGroupFunction {
			called = append(called, t.Call)
			t.Call = timeline.Call{Name: t.Name}
		}
		if t.openCalls > 0 {
			open = append(open, t)
		}
	}
	clear(f.totals[len(open):])
	f.totals = open
	return called
}

// maxListedCalls bounds the running functions that a reply lists.
const maxListedCalls = 20

// runningCalls returns the running functions in the order of their first calls.
func (f *functionRegistry) runningCalls() []session.PendingCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []session.PendingCall
	for _, t := range f.totals {
		if t.openCalls > 0 && len(list) < maxListedCalls {
			list = append(list, session.PendingCall{Name: t.Name, Running: t.openCalls, Since: t.openSince})
		}
	}
	return list
}

// workerCalls tracks the calls that one worker has made to functions of the host.
type workerCalls struct {
	ctx         context.Context // parent of the contexts of all calls
	cancelAll   context.CancelFunc
	resultSlots chan struct{} // holds one token for each result being encoded

	mu            sync.Mutex
	functionsSent bool // the worker has received a list of functions
	openCalls     map[uint64]*openCall
	argumentBytes int // of the arguments of all open calls
	refusedCalls  int // open calls that were refused and run nothing
}

// An openCall is a call of the worker that has no result yet.
type openCall struct {
	ipc.Call
	cancel        context.CancelFunc
	cancelled     bool // guarded by functions.mu, like totals
	argumentBytes int
	totals        *callTotals
}

func newWorkerCalls() *workerCalls {
	c := &workerCalls{resultSlots: make(chan struct{}, maxConcurrentResults), openCalls: map[uint64]*openCall{}}
	c.ctx, c.cancelAll = context.WithCancel(context.Background())
	return c
}

// sendFunctionsLocked sends the list of functions to the worker if there are any; s.mu is held.
func (w *worker) sendFunctionsLocked() {
	f := &w.s.functions
	f.mu.Lock()
	revision, list, some := f.revision, f.encodedList, len(f.byName) > 0
	f.mu.Unlock()
	switch {
	case revision == 0:
		return
	case !w.s.m.ready.Capabilities.Functions:
		if some {
			w.s.m.recordNotice("code in this session cannot call functions: the worker %s does not support it", w.s.m.ready.Worker.Name)
		}
		return
	}
	w.calls.mu.Lock()
	w.calls.functionsSent = true
	w.calls.mu.Unlock()
	if err := w.conn.Send(ipc.Functions{Revision: revision, List: list}); err != nil {
		w.s.m.recordNotice("cannot send the list of functions to the worker: %v", err)
	}
}

// startCall starts a call of the worker. Calls start in the order in which their frames arrive.
func (w *worker) startCall(m ipc.Call) {
	c, now := w.calls, time.Now()
	c.mu.Lock()
	var fault error
	switch {
	case !c.functionsSent:
		fault = errors.New("it called a function before it received a list of functions")
	case c.openCalls[m.ID] != nil:
		fault = fmt.Errorf("it used call ID %d twice", m.ID)
	case len(c.openCalls) >= 2*maxOpenCalls:
		fault = fmt.Errorf("it has %d open calls", len(c.openCalls))
	}
	if fault != nil {
		c.mu.Unlock()
		w.failWith(fault)
		return
	}
	f, refusal := w.s.functions.findFunction(m.Name)
	switch {
	case refusal != nil:
	case len(c.openCalls)-c.refusedCalls >= maxOpenCalls:
		refusal = &CallError{Name: "CallError", Message: fmt.Sprintf("%d calls are open already; wait for some to end", maxOpenCalls)}
	case c.argumentBytes+len(m.Args) > maxArgumentBytes:
		refusal = &CallError{Name: "CallError", Message: fmt.Sprintf("the arguments of all open calls exceed %d bytes; wait for some calls to end", maxArgumentBytes)}
	}
	call := &openCall{Call: m, argumentBytes: len(m.Args)}
	call.totals = w.s.functions.countStart(m.Name, now)
	c.openCalls[m.ID] = call
	c.argumentBytes += call.argumentBytes
	if refusal != nil {
		c.refusedCalls++
	}
	ctx, cancel := context.WithCancel(c.ctx)
	call.cancel = cancel
	c.mu.Unlock()
	go w.runCall(ctx, f, call, refusal)
}

// runCall runs one call. It always sends a result, even if the function panics or ends its
// goroutine.
func (w *worker) runCall(ctx context.Context, f *checkedFunction, call *openCall, refusal error) {
	var value any
	err := refusal
	defer func() {
		call.cancel()
		w.finishCall(call, value, err, refusal != nil)
	}()
	if err != nil {
		return
	}
	err = &CallError{Name: "CallError", Message: "the function ended its goroutine"}
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("function panicked", "function", f.FullName(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &CallError{Name: "CallError", Message: fmt.Sprintf("the function panicked: %v", p)}
		}
	}()
	caller := Caller{Session: w.s, Generation: w.generation, Turn: call.Turn, Function: call.Name}
	value, err = f.invokeEncoded(context.WithValue(ctx, callerKey{}, caller), call.Args)
}

// invokeEncoded calls the function with encoded arguments.
func (f *checkedFunction) invokeEncoded(ctx context.Context, encoded []byte) (any, error) {
	decoded, err := ipc.DecodeValue(encoded)
	args, ok := decoded.(map[string]any)
	switch {
	case err != nil:
		return nil, &CallError{Name: "TypeError", Message: "the arguments cannot be read: " + err.Error()}
	case !ok:
		return nil, &CallError{Name: "TypeError", Message: "the arguments are not a map"}
	}
	if faults := f.params.Faults(f.FullName(), args); faults != "" {
		return nil, &CallError{Name: "TypeError", Message: faults}
	}
	return f.Call(ctx, args)
}

// finishCall ends a call and sends its result, in parts, so that an interrupt never waits long for
// it.
func (w *worker) finishCall(call *openCall, value any, err error, refused bool) {
	c := w.calls
	c.resultSlots <- struct{}{}
	defer func() { <-c.resultSlots }()
	encoded, failed := encodeResult(value, err)
	size := 0
	for _, piece := range encoded {
		size += len(piece)
	}
	w.s.functions.countEnd(call.totals, call, failed, size)
	c.mu.Lock()
	delete(c.openCalls, call.ID)
	c.argumentBytes -= call.argumentBytes
	if refused {
		c.refusedCalls--
	}
	c.mu.Unlock()
	for more := true; more; {
		part := encoded[0][:min(len(encoded[0]), resultPartBytes)]
		if encoded[0] = encoded[0][len(part):]; len(encoded[0]) == 0 {
			encoded = encoded[1:]
		}
		more = len(encoded) > 0
		if w.conn.SendWithRoom(ipc.CallResult{ID: call.ID, Value: part, More: more, Failed: failed}) != nil {
			return // the worker is gone
		}
	}
}

// encodeResult returns the encoded result or error for the caller, in pieces. failed reports an
// error.
func encodeResult(value any, err error) (pieces [][]byte, failed bool) {
	if err == nil {
		if b, ok := value.([]byte); ok && len(b) > resultPartBytes && len(b) < ipc.MaxValueBytes-16 {
			return [][]byte{ipc.BytesHeader(len(b)), b}, false // not copied
		}
		var encoded []byte
		encoded, err = ipc.EncodeValue(value)
		if err == nil && len(encoded) > ipc.MaxValueBytes {
			err = fmt.Errorf("it has %d bytes; at most %d are allowed", len(encoded), ipc.MaxValueBytes)
		}
		if err == nil {
			return [][]byte{encoded}, false
		}
		err = fmt.Errorf("the result cannot be sent: %w", err)
	}
	name, message := "CallError", err.Error()
	if named, ok := errors.AsType[*CallError](err); ok && named.Name != "" {
		name = named.Name
	} else if errors.Is(err, context.Canceled) {
		name = "Cancelled"
	} else if errors.Is(err, context.DeadlineExceeded) {
		name = "TimeoutError"
	}
	encoded, _ := ipc.EncodeValue(ipc.Object{{Name: "name", Value: fitValidText(name, ipc.MaxBriefBytes)}, {Name: "message", Value: fitValidText(message, ipc.MaxTextBytes)}})
	return [][]byte{encoded}, true
}

// cancelCallByID cancels a call whose caller no longer waits.
func (w *worker) cancelCallByID(id uint64) {
	w.calls.mu.Lock()
	call := w.calls.openCalls[id]
	w.calls.mu.Unlock()
	if call != nil {
		w.cancelCall(call)
	}
}

func (w *worker) cancelCall(call *openCall) {
	w.s.functions.countCancelled(call)
	call.cancel()
}

// cancelTurnCalls cancels all calls of a turn.
func (w *worker) cancelTurnCalls(turn uint64) {
	w.calls.mu.Lock()
	open := slices.Collect(maps.Values(w.calls.openCalls))
	w.calls.mu.Unlock()
	for _, call := range open {
		if call.Turn == turn {
			w.cancelCall(call)
		}
	}
}

// recordCalls records the calls since the last record.
func (m *sessionMachine) recordCalls() {
	if m.takeCalls == nil {
		return
	}
	for _, c := range m.takeCalls() {
		m.recordEvent(c)
	}
}
