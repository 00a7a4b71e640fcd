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

	"github.com/turnstone-repl/turnstone/internal/spelling"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	maxFunctions     = 5000      // of a session
	maxFunctionBytes = 8 << 20   // of all their names, docs and schemas, encoded
	maxCalls         = 1024      // functions of a worker that run at a time; more are refused
	maxCallBytes     = 256 << 20 // of the arguments of those calls; more are refused
	maxResults       = 4         // results of a worker that are encoded at a time; others wait
	resultPart       = 256 << 10 // bytes of a result in one frame
	maxListedNames   = 20        // functions that the error for an unknown one names
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

var functionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// functions are those of a session, and what was called since it was last told. Its lock is
// never held while anything else is done, so that a call costs the session nothing.
type functions struct {
	mu       sync.Mutex
	revision uint64
	byName   map[string]*function
	list     []byte // as the worker gets it
	tallies  []*tally
}

// A function is a Function that was checked.
type function struct {
	Function
	params *schema
}

// A tally is what one function was called for, and how it went.
type tally struct {
	timeline.Call
	open  int
	begun time.Time // since when at least one is open
	since time.Time // the same, or when it was last recorded
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
	f.byName, f.list = byName, document
	f.mu.Unlock()
	if s.worker != nil && s.m.ready != nil {
		s.worker.tellLocked()
	}
	return nil
}

// checkFunctions checks functions, and encodes them for the worker.
func checkFunctions(list []Function) (map[string]*function, []byte, error) {
	if len(list) > maxFunctions {
		return nil, nil, fmt.Errorf("supervisor: %d functions: a session can have %d", len(list), maxFunctions)
	}
	byName := make(map[string]*function, len(list))
	told := make([]any, 0, len(list))
	for _, f := range list {
		entry, params, err := checkFunction(f)
		if err == nil && byName[f.fullName()] != nil {
			err = errors.New("there are two of that name")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("supervisor: function %q: %w", f.fullName(), err)
		}
		byName[f.fullName()] = &function{f, params}
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
	if len(name) > maxFunctionName || !functionName.MatchString(name) {
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

// find returns the function of this name, or an error that names some of those that exist.
func (f *functions) find(name string) (*function, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byName[name]; found != nil {
		return found, nil
	}
	if len(f.byName) == 0 {
		return nil, &CallError{"NameError", fmt.Sprintf("there is no function %s: the host offers none", name)}
	}
	names := slices.Sorted(maps.Keys(f.byName))
	apart := func(other string) int { return spelling.Distance(spelled(name), spelled(other)) }
	slices.SortStableFunc(names, func(a, b string) int { return apart(a) - apart(b) })
	more := ""
	if len(names) > maxListedNames {
		more = fmt.Sprintf(" and %d more", len(names)-maxListedNames)
		names = names[:maxListedNames]
	}
	return nil, &CallError{"NameError", fmt.Sprintf("there is no function %s: the host offers %s%s", name, strings.Join(names, ", "), more)}
}

// spelled is a name for comparing: capitals do not count, nor what is longer than a name may be.
func spelled(name string) string {
	name = strings.ToLower(name)
	return name[:min(len(name), maxFunctionName)]
}

// opener is the function that opens a group when code looks for it. Code does not call it, so it is
// not recorded.
const opener = "_open"

// unknownName counts the calls of functions that do not exist.
const unknownName = "(unknown)"

// began counts a call that begins.
func (f *functions) began(name string, now time.Time) *tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName[name] == nil {
		name = unknownName
	}
	var t *tally
	for _, known := range f.tallies {
		if known.Name == name {
			t = known
		}
	}
	if t == nil {
		t = &tally{Call: timeline.Call{Name: name}}
		f.tallies = append(f.tallies, t)
	}
	if t.open++; t.open == 1 {
		t.begun, t.since = now, now
	}
	return t
}

// ended counts the end of a call.
func (f *functions) ended(t *tally, c *call, failed bool, received int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.open--; t.open == 0 {
		t.Elapsed += time.Since(t.since)
	}
	if c.cancelled {
		return // counted already
	}
	t.Count++
	t.Sent += int64(c.bytes)
	t.Received += int64(received)
	if failed {
		t.Failed++
	}
}

// cancelled counts a call that nobody waits for, while its turn is still the active one.
func (f *functions) cancelled(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.cancelled {
		c.cancelled = true
		c.tally.Count++
		c.tally.Cancelled++
		c.tally.Sent += int64(c.bytes)
	}
}

// take returns what was called since the last take, in the order of the first calls.
func (f *functions) take() []timeline.Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tallies) == 0 {
		return nil
	}
	var called []timeline.Call
	open := f.tallies[:0]
	for _, t := range f.tallies {
		if t.open > 0 {
			now := time.Now()
			t.Elapsed += now.Sub(t.since)
			t.since = now
		}
		if t.Count > 0 && t.Name != opener {
			called = append(called, t.Call)
			t.Call = timeline.Call{Name: t.Name}
		}
		if t.open > 0 {
			open = append(open, t)
		}
	}
	clear(f.tallies[len(open):])
	f.tallies = open
	return called
}

// maxCalling bounds the functions that a reply names as under way.
const maxCalling = 20

// calling returns which functions run, in the order of their first calls.
func (f *functions) calling() []session.PendingCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []session.PendingCall
	for _, t := range f.tallies {
		if t.open > 0 && len(list) < maxCalling {
			list = append(list, session.PendingCall{Name: t.Name, Running: t.open, Since: t.begun})
		}
	}
	return list
}

// calls are those of one worker.
type calls struct {
	ctx     context.Context // of all
	end     context.CancelFunc
	results chan struct{} // holds a token for each result that is encoded

	mu      sync.Mutex
	told    bool // the worker knows of functions
	open    map[uint64]*call
	bytes   int // of the arguments of all that are open
	refused int // of the open ones: they run nothing
}

// A call is one that has no result yet.
type call struct {
	ipc.Call
	cancel    context.CancelFunc
	cancelled bool // guarded by functions.mu, like the tally
	bytes     int
	tally     *tally
}

func newCalls() *calls {
	c := &calls{results: make(chan struct{}, maxResults), open: map[uint64]*call{}}
	c.ctx, c.end = context.WithCancel(context.Background())
	return c
}

// tellLocked tells the worker of the functions, if there are any; s.mu is held.
func (w *worker) tellLocked() {
	f := &w.s.functions
	f.mu.Lock()
	revision, list, some := f.revision, f.list, len(f.byName) > 0
	f.mu.Unlock()
	switch {
	case revision == 0:
		return
	case !w.s.m.ready.Capabilities.Functions:
		if some {
			w.s.m.notice("code in this session cannot call functions: the worker %s does not offer it", w.s.m.ready.Worker.Name)
		}
		return
	}
	w.calls.mu.Lock()
	w.calls.told = true
	w.calls.mu.Unlock()
	if err := w.conn.Send(ipc.Functions{Revision: revision, List: list}); err != nil {
		w.s.m.notice("the worker was not told of the functions: %v", err)
	}
}

// take takes a call of the worker. Its order among the other frames is that of its arrival.
func (w *worker) take(m ipc.Call) {
	c, now := w.calls, time.Now()
	c.mu.Lock()
	var fault error
	switch {
	case !c.told:
		fault = errors.New("it calls a function, and was told of none")
	case c.open[m.ID] != nil:
		fault = fmt.Errorf("call %d twice", m.ID)
	case len(c.open) >= 2*maxCalls:
		fault = fmt.Errorf("it has %d calls open", len(c.open))
	}
	if fault != nil {
		c.mu.Unlock()
		w.fail(fault)
		return
	}
	f, refusal := w.s.functions.find(m.Name)
	switch {
	case refusal != nil:
	case len(c.open)-c.refused >= maxCalls:
		refusal = &CallError{"CallError", fmt.Sprintf("%d calls are open already: wait for some to end", maxCalls)}
	case c.bytes+len(m.Args) > maxCallBytes:
		refusal = &CallError{"CallError", fmt.Sprintf("the arguments of all open calls have more than %d bytes: wait for some to end", maxCallBytes)}
	}
	one := &call{Call: m, bytes: len(m.Args)}
	one.tally = w.s.functions.began(m.Name, now)
	c.open[m.ID] = one
	c.bytes += one.bytes
	if refusal != nil {
		c.refused++
	}
	ctx, cancel := context.WithCancel(c.ctx)
	one.cancel = cancel
	c.mu.Unlock()
	go w.run(ctx, f, one, refusal)
}

// run makes one call. Its result is sent whatever the function does, also when it ends this
// goroutine.
func (w *worker) run(ctx context.Context, f *function, one *call, refusal error) {
	var value any
	err := refusal
	defer func() {
		one.cancel()
		w.finish(one, value, err, refusal != nil)
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
	value, err = f.call(context.WithValue(ctx, callerKey{}, caller), one.Args)
}

// call calls the function with the arguments of a document.
func (f *function) call(ctx context.Context, document []byte) (any, error) {
	decoded, err := ipc.DecodeValue(document)
	args, ok := decoded.(map[string]any)
	switch {
	case err != nil:
		return nil, &CallError{"TypeError", "the arguments cannot be read: " + err.Error()}
	case !ok:
		return nil, &CallError{"TypeError", "the arguments are not a map"}
	}
	if err := f.params.check(f.fullName(), args); err != nil {
		return nil, err
	}
	return f.Call(ctx, args)
}

// finish ends a call and sends its result, in parts so that an interrupt is never far behind.
func (w *worker) finish(one *call, value any, err error, refused bool) {
	c := w.calls
	c.results <- struct{}{}
	defer func() { <-c.results }()
	document, failed := encodeResult(value, err)
	size := 0
	for _, piece := range document {
		size += len(piece)
	}
	w.s.functions.ended(one.tally, one, failed, size)
	c.mu.Lock()
	delete(c.open, one.ID)
	c.bytes -= one.bytes
	if refused {
		c.refused--
	}
	c.mu.Unlock()
	for more := true; more; {
		part := document[0][:min(len(document[0]), resultPart)]
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
		if b, ok := value.([]byte); ok && len(b) > resultPart && len(b) < ipc.MaxValueBytes-16 {
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

// cancel ends the context of a call whose caller is gone.
func (w *worker) cancel(id uint64) {
	w.calls.mu.Lock()
	one := w.calls.open[id]
	w.calls.mu.Unlock()
	if one != nil {
		w.cancelCall(one)
	}
}

func (w *worker) cancelCall(one *call) {
	w.s.functions.cancelled(one)
	one.cancel()
}

// cancelTurn ends the contexts of all calls of a turn.
func (w *worker) cancelTurn(turn uint64) {
	w.calls.mu.Lock()
	open := slices.Collect(maps.Values(w.calls.open))
	w.calls.mu.Unlock()
	for _, one := range open {
		if one.Turn == turn {
			w.cancelCall(one)
		}
	}
}

// recordCalls records what was called since it was last recorded.
func (m *machine) recordCalls() {
	if m.called == nil {
		return
	}
	for _, c := range m.called() {
		m.record(c)
	}
}
