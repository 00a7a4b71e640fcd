package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	maxFunctions         = 5000      // of a session
	maxFunctionBytes     = 8 << 20   // of all their names, docs and schemas, encoded
	maxOpenCalls         = 1024      // functions of a worker that run at a time; more are refused
	maxArgumentBytes     = 256 << 20 // of the arguments of those calls; more are refused
	maxConcurrentResults = 4         // results of a worker that are encoded at a time; others wait
	resultPartBytes      = 256 << 10 // bytes of a result in one frame
	maxListedNames       = 20        // functions that the error for an unknown one names
)

// A Function is something of this program that code in a session may call. [FunctionOf] makes
// one of a Go function.
type Function struct {
	// Name is what code calls it: at most 128 letters, digits and underscores. In a Group it
	// may have other characters, too: the language makes a name of its own of them.
	Name string

	// Group is where code finds it: the function search of the group github is
	// turnstone.tools.github.search in Python, and github.search everywhere else. "" is the
	// place of all that have no group.
	Group string

	// Doc says what it does, for the help of the language.
	Doc string

	// Params is a JSON Schema of type object. Its properties are the parameters, in order, and
	// required says which must be given. Arguments are checked against their names and types
	// before Call. nil takes any arguments by name.
	Params json.RawMessage

	// Returns is a JSON Schema of the result, for the help of the language; it may be nil.
	Returns json.RawMessage

	// Call is called in a goroutine of its own, also many times at once. Its arguments are nil,
	// bool, int64, uint64 (for what is too large for int64), float64, string, []byte,
	// time.Time, []any and map[string]any. Its result may be what encoding/json takes; bytes,
	// times, integers and NaN arrive as such. An error or a panic is an error in the code that
	// calls: a [*CallError] chooses its name.
	//
	// ctx ends when the code is interrupted, and when the worker ends. Nobody waits for a
	// Call that goes on then. [CallerOf] tells who calls.
	Call func(ctx context.Context, args map[string]any) (any, error)
}

// A CallError is an error with a name for the code that calls: it is raised there as an
// exception or condition of this name. "CallError" is the name of other errors.
type CallError struct {
	Name, Message string
}

func (e *CallError) Error() string { return e.Message }

// maxFunctionName bounds a name. In the expression, the bound would cost each stage 100 kB.
const maxFunctionName = 128

var functionNamePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// functionRegistry are those of a session, and what was called since it was last told. Its lock is
// never held while anything else is done, so that a call costs the session nothing.
type functionRegistry struct {
	mu          sync.Mutex
	revision    uint64
	byName      map[string]*checkedFunction
	encodedList []byte // as the worker gets it
	totals      []*callTotals
}

// A checkedFunction is a Function that was checked.
type checkedFunction struct {
	Function
	params *schema
}

// A callTotals is what one function was called for, and how it went.
type callTotals struct {
	timeline.Call
	openCalls    int
	openSince    time.Time // since when at least one is open
	countedSince time.Time // the same, or when it was last recorded
}

// SetFunctions replaces the functions that code in the session may call. Calls that run go on. It
// fails, and changes nothing, if a function is not valid. If the worker cannot call functions, the
// session gets a notice.
func (s *Session) SetFunctions(list ...Function) error {
	byName, document, err := checkFunctions(list)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.unlock()
	f := &s.functions
	f.mu.Lock()
	f.revision++
	f.byName, f.encodedList = byName, document
	f.mu.Unlock()
	if s.worker != nil && s.m.ready != nil {
		s.worker.sendFunctionsLocked()
	}
	return nil
}

// checkFunctions checks functions, and encodes them for the worker.
func checkFunctions(list []Function) (map[string]*checkedFunction, []byte, error) {
	if len(list) > maxFunctions {
		return nil, nil, fmt.Errorf("supervisor: %d functions: a session can have %d", len(list), maxFunctions)
	}
	byName := make(map[string]*checkedFunction, len(list))
	told := make([]any, 0, len(list))
	for _, f := range list {
		entry, params, err := checkFunction(f)
		if err == nil && byName[f.fullName()] != nil {
			err = errors.New("there are two of that name")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("supervisor: function %q: %w", f.fullName(), err)
		}
		byName[f.fullName()] = &checkedFunction{f, params}
		told = append(told, entry)
	}
	document, err := ipc.EncodeValue(told)
	if err == nil && len(document) > maxFunctionBytes {
		err = fmt.Errorf("their docs and schemas have %d bytes: at most %d fit", len(document), maxFunctionBytes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("supervisor: functions: %w", err)
	}
	return byName, document, nil
}

// fullName is the name by which the function is called, allowed and recorded.
func (f Function) fullName() string {
	if f.Group == "" {
		return f.Name
	}
	return f.Group + "." + f.Name
}

// Check returns why a session cannot have the function; nil if it can.
func (f Function) Check() error {
	_, _, err := checkFunction(f)
	return err
}

// checkNames refuses names that code could not use, or that could pass for others.
func (f Function) checkNames() error {
	name := f.Name
	if f.Group != "" {
		name = f.Group
		if len(f.Name) == 0 || len(f.Name) > maxFunctionName || !utf8.ValidString(f.Name) || strings.ContainsFunc(f.Name, func(c rune) bool { return !unicode.IsGraphic(c) }) {
			return errors.New("its name must be at most 128 bytes of visible text")
		}
	}
	if len(name) > maxFunctionName || !functionNamePattern.MatchString(name) {
		return errors.New("its name must be at most 128 letters, digits and underscores, and not begin with a digit")
	}
	return nil
}

// checkFunction returns the entry of the worker's list, and what arguments must be like.
func checkFunction(f Function) (ipc.Object, *schema, error) {
	if err := f.checkNames(); err != nil {
		return nil, nil, err
	}
	if f.Call == nil {
		return nil, nil, errors.New("it has no Call")
	}
	entry := ipc.Object{{Name: "name", Value: f.Name}, {Name: "doc", Value: f.Doc}}
	if f.Group != "" {
		entry = append(entry, ipc.Field{Name: "group", Value: f.Group})
	}
	var params *schema
	for _, part := range []struct {
		name string
		text json.RawMessage
	}{{"params", f.Params}, {"returns", f.Returns}} {
		if part.text == nil {
			continue
		}
		v, err := ipc.ValueFromJSON(part.text)
		if _, isObject := v.(ipc.Object); err == nil && !isObject {
			err = errors.New("it is not an object")
		}
		if err == nil && part.name == "params" {
			params, err = readSchema(part.text)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the schema of its %s: %w", part.name, err)
		}
		entry = append(entry, ipc.Field{Name: part.name, Value: v})
	}
	return entry, params, nil
}

// findFunction returns the function of this name, or an error that names some of those that exist.
func (f *functionRegistry) findFunction(name string) (*checkedFunction, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byName[name]; found != nil {
		return found, nil
	}
	if len(f.byName) == 0 {
		return nil, &CallError{"NameError", fmt.Sprintf("there is no function %s: the host offers none", name)}
	}
	names := slices.Sorted(maps.Keys(f.byName))
	apart := func(other string) int { return text.Distance(comparableName(name), comparableName(other)) }
	slices.SortStableFunc(names, func(a, b string) int { return apart(a) - apart(b) })
	more := ""
	if len(names) > maxListedNames {
		more = fmt.Sprintf(" and %d more", len(names)-maxListedNames)
		names = names[:maxListedNames]
	}
	return nil, &CallError{"NameError", fmt.Sprintf("there is no function %s: the host offers %s%s", name, strings.Join(names, ", "), more)}
}

// comparableName is a name for comparing: capitals do not count, nor what is longer than a name may be.
func comparableName(name string) string {
	name = strings.ToLower(name)
	return name[:min(len(name), maxFunctionName)]
}

// openGroupFunction is the function that opens a group when code looks for it. Code does not call it, so it is
// not recorded.
const openGroupFunction = "_open"

// unknownFunction counts the calls of functions that do not exist.
const unknownFunction = "(unknown)"

// countStart counts a call that begins.
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
		return // counted already
	}
	t.Count++
	t.Sent += int64(c.argumentBytes)
	t.Received += int64(received)
	if failed {
		t.Failed++
	}
}

// countCancelled counts a call that nobody waits for, while its turn is still the active one.
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

// takeTotals returns what was called since the last take, in the order of the first calls.
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

// maxListedCalls bounds the functions that a reply names as under way.
const maxListedCalls = 20

// runningCalls returns which functions run, in the order of their first calls.
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

// workerCalls are those of one worker.
type workerCalls struct {
	ctx         context.Context // of all
	cancelAll   context.CancelFunc
	resultSlots chan struct{} // holds a token for each result that is encoded

	mu            sync.Mutex
	functionsSent bool // the worker knows of functions
	openCalls     map[uint64]*openCall
	argumentBytes int // of the arguments of all that are open
	refusedCalls  int // of the open ones: they run nothing
}

// An openCall is one that has no result yet.
type openCall struct {
	ipc.Call
	cancel        context.CancelFunc
	cancelled     bool // guarded by functions.mu, like the tally
	argumentBytes int
	totals        *callTotals
}

func newWorkerCalls() *workerCalls {
	c := &workerCalls{resultSlots: make(chan struct{}, maxConcurrentResults), openCalls: map[uint64]*openCall{}}
	c.ctx, c.cancelAll = context.WithCancel(context.Background())
	return c
}

// sendFunctionsLocked tells the worker of the functions, if there are any; s.mu is held.
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
			w.s.m.recordNotice("code in this session cannot call functions: the worker %s does not offer it", w.s.m.ready.Worker.Name)
		}
		return
	}
	w.calls.mu.Lock()
	w.calls.functionsSent = true
	w.calls.mu.Unlock()
	if err := w.conn.Send(ipc.Functions{Revision: revision, List: list}); err != nil {
		w.s.m.recordNotice("the worker was not told of the functions: %v", err)
	}
}

// startCall takes a call of the worker. Its order among the other frames is that of its arrival.
func (w *worker) startCall(m ipc.Call) {
	c, now := w.calls, time.Now()
	c.mu.Lock()
	var fault error
	switch {
	case !c.functionsSent:
		fault = errors.New("it calls a function, and was told of none")
	case c.openCalls[m.ID] != nil:
		fault = fmt.Errorf("call %d twice", m.ID)
	case len(c.openCalls) >= 2*maxOpenCalls:
		fault = fmt.Errorf("it has %d calls open", len(c.openCalls))
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
		refusal = &CallError{"CallError", fmt.Sprintf("%d calls are open already: wait for some to end", maxOpenCalls)}
	case c.argumentBytes+len(m.Args) > maxArgumentBytes:
		refusal = &CallError{"CallError", fmt.Sprintf("the arguments of all open calls have more than %d bytes: wait for some to end", maxArgumentBytes)}
	}
	one := &openCall{Call: m, argumentBytes: len(m.Args)}
	one.totals = w.s.functions.countStart(m.Name, now)
	c.openCalls[m.ID] = one
	c.argumentBytes += one.argumentBytes
	if refusal != nil {
		c.refusedCalls++
	}
	ctx, cancel := context.WithCancel(c.ctx)
	one.cancel = cancel
	c.mu.Unlock()
	go w.runCall(ctx, f, one, refusal)
}

// runCall makes one call. Its result is sent whatever the function does, also when it ends this
// goroutine.
func (w *worker) runCall(ctx context.Context, f *checkedFunction, one *openCall, refusal error) {
	var value any
	err := refusal
	defer func() {
		one.cancel()
		w.finishCall(one, value, err, refusal != nil)
	}()
	if err != nil {
		return
	}
	err = &CallError{"CallError", "the function ended its goroutine"}
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("a function panicked", "function", f.fullName(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &CallError{"CallError", fmt.Sprintf("the function panicked: %v", p)}
		}
	}()
	caller := Caller{Session: w.s, Generation: w.generation, Turn: one.Turn, Function: one.Name}
	value, err = f.invokeEncoded(context.WithValue(ctx, callerKey{}, caller), one.Args)
}

// invokeEncoded calls the function with the arguments of a document.
func (f *checkedFunction) invokeEncoded(ctx context.Context, document []byte) (any, error) {
	decoded, err := ipc.DecodeValue(document)
	args, ok := decoded.(map[string]any)
	switch {
	case err != nil:
		return nil, &CallError{"TypeError", "the arguments cannot be read: " + err.Error()}
	case !ok:
		return nil, &CallError{"TypeError", "the arguments are not a map"}
	}
	if err := f.params.checkArguments(f.fullName(), args); err != nil {
		return nil, err
	}
	return f.Call(ctx, args)
}

// finishCall ends a call and sends its result, in parts so that an interrupt is never far behind.
func (w *worker) finishCall(one *openCall, value any, err error, refused bool) {
	c := w.calls
	c.resultSlots <- struct{}{}
	defer func() { <-c.resultSlots }()
	document, failed := encodeResult(value, err)
	size := 0
	for _, piece := range document {
		size += len(piece)
	}
	w.s.functions.countEnd(one.totals, one, failed, size)
	c.mu.Lock()
	delete(c.openCalls, one.ID)
	c.argumentBytes -= one.argumentBytes
	if refused {
		c.refusedCalls--
	}
	c.mu.Unlock()
	for more := true; more; {
		part := document[0][:min(len(document[0]), resultPartBytes)]
		if document[0] = document[0][len(part):]; len(document[0]) == 0 {
			document = document[1:]
		}
		more = len(document) > 0
		if w.conn.SendWithRoom(ipc.CallResult{ID: one.ID, Value: part, More: more, Failed: failed}) != nil {
			return // the worker is gone, and nobody waits
		}
	}
}

// encodeResult returns the document for the caller, in pieces; it is an error if failed.
func encodeResult(value any, err error) (pieces [][]byte, failed bool) {
	if err == nil {
		if b, ok := value.([]byte); ok && len(b) > resultPartBytes && len(b) < ipc.MaxValueBytes-16 {
			return [][]byte{ipc.BytesHeader(len(b)), b}, false // not copied
		}
		var document []byte
		document, err = ipc.EncodeValue(value)
		if err == nil && len(document) > ipc.MaxValueBytes {
			err = fmt.Errorf("it has %d bytes, at most %d are allowed", len(document), ipc.MaxValueBytes)
		}
		if err == nil {
			return [][]byte{document}, false
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
	document, _ := ipc.EncodeValue(ipc.Object{{Name: "name", Value: briefly(name, ipc.MaxBriefBytes)}, {Name: "message", Value: briefly(message, ipc.MaxTextBytes)}})
	return [][]byte{document}, true
}

// briefly returns valid text of at most n bytes.
func briefly(s string, n int) string {
	if len(s) > n {
		s = s[:n-len("…")] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// cancelCallByID ends the context of a call whose caller is gone.
func (w *worker) cancelCallByID(id uint64) {
	w.calls.mu.Lock()
	one := w.calls.openCalls[id]
	w.calls.mu.Unlock()
	if one != nil {
		w.cancelCall(one)
	}
}

func (w *worker) cancelCall(one *openCall) {
	w.s.functions.countCancelled(one)
	one.cancel()
}

// cancelTurnCalls ends the contexts of all calls of a turn.
func (w *worker) cancelTurnCalls(turn uint64) {
	w.calls.mu.Lock()
	open := slices.Collect(maps.Values(w.calls.openCalls))
	w.calls.mu.Unlock()
	for _, one := range open {
		if one.Turn == turn {
			w.cancelCall(one)
		}
	}
}

// recordCalls records what was called since it was last recorded.
func (m *sessionMachine) recordCalls() {
	if m.takeCalls == nil {
		return
	}
	for _, c := range m.takeCalls() {
		m.recordEvent(c)
	}
}
