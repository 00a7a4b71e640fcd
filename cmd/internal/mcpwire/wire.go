package mcpwire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/jsonline"
)

// maxLine bounds one message of the client, in bytes.
const maxLine = jsonline.MaxRequestBytes

// maxOpen bounds the open requests, and maxOpenBytes bounds their size. The wire refuses any
// more, but goes on reading: it must see cancels, answers and the end of the input. So these
// constants bound the cost of a client that writes and never reads.
const (
	maxOpen      = 1024
	maxOpenBytes = 2 * maxLine
)

// maxAside and maxAsideBytes bound the lines, other than answers to calls, that wait for a
// client that does not read. More lines are dropped.
const (
	maxAside      = 1024
	maxAsideBytes = 16 << 20
)

// byteOrderMark is what some clients begin with.
var byteOrderMark = []byte("\ufeff")

const (
	methodInitialize = "initialize"
	methodCallTool   = "tools/call"
)

// A wire is the connection to the client, with one JSON-RPC message on each line. It numbers
// the client's calls for the SDK. So ids of any type and size stay distinct, and the client
// gets them back as it sent them.
type wire struct {
	in    io.Reader
	out   io.Writer
	lines chan line // unbuffered; never closed

	logger *slog.Logger

	// writing holds one token. A goroutine takes it to write a line.
	writing chan struct{}

	arrivals Queue // the queue of calls of tools

	pending []jsonrpc.Message // decoded but not read yet; only the reader uses it

	closing sync.Once
	closed  chan struct{} // closed by Close
	ended   chan struct{} // closed when the input has ended; Read waits for Close then

	answered chan struct{} // holds one token when no request waits for its answer any more

	asides sync.WaitGroup // counts writeAsides while it runs

	mu      sync.Mutex
	hello   json.RawMessage     // guarded by mu; the result of initialize; nil before
	last    int64               // guarded by mu; the number of the last request
	open    map[int64]*wireCall // guarded by mu; open requests by number
	unsent  int                 // guarded by mu; requests whose answers are not written
	begun   time.Time           // guarded by mu; when the last request came
	size    int                 // guarded by mu; the bytes of their ids and parameters
	numbers map[string]int64    // guarded by mu; numbers of open requests by the keys of their ids
	aside   [][]byte            // guarded by mu; at most maxAside; writeAsides runs while there are lines
	waiting int                 // guarded by mu; the bytes of aside
}

// A wireCall is an open request of the client, for a tool or not.
type wireCall struct {
	Call
	number int64
	id     json.RawMessage
	method string
	size   int    // of its id and parameters
	batch  *batch // the batch that it came in; nil without one
}

// A batch is several messages on one line, which protocol version 2025-03-26 allows. Its
// answers share one line, too.
type batch struct {
	open    int      // guarded by wire.mu; calls without an answer
	answers [][]byte // guarded by wire.mu
}

type line struct {
	text []byte
	err  error
}

func newWire(in io.Reader, out io.Writer, logger *slog.Logger) *wire {
	return &wire{
		in:       in,
		out:      out,
		lines:    make(chan line),
		logger:   logger,
		writing:  make(chan struct{}, 1),
		closed:   make(chan struct{}),
		ended:    make(chan struct{}),
		answered: make(chan struct{}, 1),
		open:     make(map[int64]*wireCall),
		numbers:  make(map[string]int64),
	}
}

// Connect implements mcp.Transport.
func (w *wire) Connect(context.Context) (mcp.Connection, error) {
	go w.readLines() // it ends with the input: see the package comment
	return w, nil
}

// SessionID implements mcp.Connection. A pair of streams has no session.
func (w *wire) SessionID() string { return "" }

// Close ends Read. It is idempotent and does not wait.
func (w *wire) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) readLines() {
	r := jsonline.NewReader(w.in, maxLine)
	for {
		text, err := r.Next()
		text = bytes.TrimSpace(bytes.TrimPrefix(text, byteOrderMark))
		if errors.Is(err, io.EOF) && len(text) > 0 {
			err = nil // the next read returns the error again
		}
		_, isLong := errors.AsType[*jsonline.TooLongError](err)
		if isLong {
			debug.FreeOSMemory() // hundreds of megabytes that are not needed any more
		}
		if len(text) > 0 || err != nil {
			select {
			case w.lines <- line{text, err}:
			case <-w.closed:
				return
			}
		}
		if err != nil && !isLong {
			return
		}
	}
}

// Read implements mcp.Connection. The wire answers lines that are not for the SDK itself. It
// does not wait for the client to read these answers, because it must see the end of the
// input. After that end Read waits for Close, because the SDK would end the calls.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(w.pending) == 0 {
		select {
		case l := <-w.lines:
			long, isLong := errors.AsType[*jsonline.TooLongError](l.err)
			switch {
			case isLong:
				w.refuseCall(long.ID, nil, jsonline.CodeInvalidRequest, fmt.Sprintf("a message may have %d MiB", maxLine>>20))
			case errors.Is(l.err, io.EOF):
				close(w.ended)
			case l.err != nil:
				_ = w.Close() // it never fails
				return nil, l.err
			default:
				w.accept(l.text)
			}
		case <-w.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m := w.pending[0]
	w.pending = w.pending[1:]
	return m, nil
}

// accept handles one line: a message or a batch.
func (w *wire) accept(text []byte) {
	if text[0] != '[' {
		w.acceptOne(text, nil)
		return
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 0 {
		w.refuse(nil, jsonline.CodeInvalidRequest, "a batch is an array of messages, one at least")
		return
	}
	b := &batch{open: 1} // kept open until all its messages are in
	for _, part := range parts {
		w.acceptOne(part, b)
	}
	if text := w.partDone(b, nil); text != nil {
		w.writeAside(text)
	}
}

func (w *wire) acceptOne(text []byte, b *batch) {
	m, err := jsonline.Decode(text)
	if problem, ok := errors.AsType[*jsonline.Problem](err); ok {
		w.refuse(b, problem.Code, problem.Text)
		return
	}
	if m.Method != "" { // an answer may be a secret, and even its length stays secret
		jsonline.LogLine(w.logger, "line received", text)
	}
	m.Params = withObjects(m.Params)
	wrong := wrongParams(m)
	switch {
	case m.Method == "":
		w.acceptAnswer(text)
	case m.ID == nil && m.Method == jsonline.MethodCancelled:
		w.cancel(m.Params)
	case m.ID == nil:
		w.pending = append(w.pending, &jsonrpc.Request{Method: m.Method, Params: m.Params})
	case wrong != "":
		w.refuseCall(m.ID, b, jsonline.CodeInvalidParams, wrong)
	case m.Method == methodInitialize && w.greeted() != nil: // a gateway passes on that of each of its clients
		w.answerAside(b, jsonline.ResultLine(m.ID, w.greeted()))
	default:
		w.begin(m, b)
	}
}

// greeted returns the result of initialize; nil before there is one.
func (w *wire) greeted() json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hello
}

// acceptAnswer passes on the answer to a question of the server. It ignores a malformed
// answer, and one that no question waits for.
func (w *wire) acceptAnswer(text []byte) {
	if m, err := jsonrpc.DecodeMessage(text); err == nil {
		if answer, ok := m.(*jsonrpc.Response); ok {
			w.pending = append(w.pending, answer)
		}
	}
}

// begin hands a call to the SDK.
func (w *wire) begin(m *jsonline.Message, b *batch) {
	r := &wireCall{
		Call:   Call{token: jsonline.ProgressToken(m.Params), notify: w.notify},
		id:     m.ID,
		method: m.Method,
		size:   len(m.ID) + len(m.Params),
		batch:  b,
	}
	w.mu.Lock()
	if _, taken := w.numbers[jsonline.IDKey(r.id)]; taken {
		w.mu.Unlock()
		w.refuse(b, jsonline.CodeInvalidRequest, fmt.Sprintf("id %s is in use by a call that is not answered yet", r.id))
		return
	}
	if open := len(w.open); open >= maxOpen || open > 0 && w.size+r.size > maxOpenBytes {
		w.mu.Unlock()
		w.refuseCall(r.id, b, jsonline.CodeInternal, fmt.Sprintf("%d requests are not answered yet: read the answers first", open))
		return
	}
	w.size += r.size
	w.unsent++
	w.begun = time.Now()
	w.last++
	r.number = w.last
	if m.Method == methodCallTool {
		r.Arrival = w.arrivals.Join()
	}
	w.open[r.number] = r
	w.numbers[jsonline.IDKey(r.id)] = r.number
	if b != nil {
		b.open++
	}
	w.mu.Unlock()
	w.pending = append(w.pending, &jsonrpc.Request{
		ID:     numberID(r.number),
		Method: r.method,
		Params: m.Params,
		Extra:  &mcp.RequestExtra{Header: map[string][]string{callHeader: {strconv.FormatInt(r.number, 10)}}},
	})
}

// numberID makes an id from a number. It cannot fail.
func numberID(n int64) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		panic(err)
	}
	return id
}

// cancel marks a call that the client has given up. From now on the client gets nothing for
// it. It ignores a cancel that names no open call.
func (w *wire) cancel(params json.RawMessage) {
	w.mu.Lock()
	r := w.open[w.numbers[jsonline.CancelledKey(params)]]
	w.mu.Unlock()
	if r != nil && r.method != methodInitialize {
		r.Cancel()
		number := strconv.AppendInt([]byte(`{"requestId":`), r.number, 10)
		w.pending = append(w.pending, &jsonrpc.Request{Method: jsonline.MethodCancelled, Params: append(number, '}')})
	}
}

// Write implements mcp.Connection.
func (w *wire) Write(ctx context.Context, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		if ctx.Err() != nil {
			return ctx.Err() // a question of a call that the client gave up
		}
		text, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return fmt.Errorf("mcpwire: %w", err)
		}
		return w.writeLine(text)
	}
	number, _ := answer.ID.Raw().(int64)
	w.mu.Lock()
	r := w.open[number]
	if r == nil {
		w.mu.Unlock()
		return w.writeLine(encode(nil, answer))
	}
	defer w.sent()
	w.size -= r.size
	delete(w.open, number)
	delete(w.numbers, jsonline.IDKey(r.id))
	if r.method == methodInitialize && answer.Error == nil {
		w.hello = answer.Result
	}
	w.mu.Unlock()

	// A client that gets the answer may call again at once. So everything that goes with the
	// answer must be done before it is written.
	var text []byte
	if r.Deliver(true) {
		text = encode(r.id, answer)
	}
	if r.batch != nil {
		text = w.partDone(r.batch, text)
	}
	if text == nil {
		return nil
	}
	return w.writeLine(text)
}

// sent counts an answer that is written, or dropped.
func (w *wire) sent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unsent--; w.unsent > 0 {
		return
	}
	select {
	case w.answered <- struct{}{}:
	default:
	}
}

// lastBegun returns when the last request came.
func (w *wire) lastBegun() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.begun
}

// awaitAnswers waits until every request is answered, ctx ends, or the wire is closed.
func (w *wire) awaitAnswers(ctx context.Context) {
	for {
		w.mu.Lock()
		unsent := w.unsent
		w.mu.Unlock()
		if unsent == 0 {
			return
		}
		select {
		case <-w.answered:
		case <-w.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// partDone counts one part of a batch as done, with its answer, if any. After the last part,
// it returns the line with all answers, if any.
func (w *wire) partDone(b *batch, answer []byte) []byte {
	w.mu.Lock()
	if answer != nil {
		b.answers = append(b.answers, answer)
	}
	b.open--
	complete, answers := b.open == 0, b.answers
	w.mu.Unlock()
	if !complete || len(answers) == 0 {
		return nil
	}
	text := append([]byte{'['}, bytes.Join(answers, []byte{','})...)
	return append(text, ']')
}

// refuse answers a malformed line.
func (w *wire) refuse(b *batch, code int, text string) { w.refuseCall(nil, b, code, text) }

// refuseCall answers a request that is not for the SDK.
func (w *wire) refuseCall(id json.RawMessage, b *batch, code int, text string) {
	w.logger.Info("refused", "code", code)
	w.answerAside(b, failure(id, &jsonline.Error{Code: code, Message: text}))
}

// answerAside answers a request that the SDK does not get.
func (w *wire) answerAside(b *batch, answer []byte) {
	if b != nil {
		w.mu.Lock()
		b.answers = append(b.answers, answer)
		w.mu.Unlock()
		return
	}
	w.writeAside(answer)
}

// encode returns the line of a response. An error without a code is one of ours.
func encode(id json.RawMessage, r *jsonrpc.Response) []byte {
	if r.Error == nil {
		return jsonline.ResultLine(id, r.Result)
	}
	e := &jsonline.Error{Code: jsonline.CodeInternal, Message: r.Error.Error()}
	if known := (*jsonrpc.Error)(nil); errors.As(r.Error, &known) {
		e.Code, e.Data = int(known.Code), known.Data
	}
	return failure(id, e)
}

// failure returns the line of an error answer. A nil id stands for an id that could not be
// read.
func failure(id json.RawMessage, e *jsonline.Error) []byte {
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte(`{"code":-32603,"message":"the error cannot be shown"}`)
	}
	return jsonline.ErrorLine(id, body)
}

// writeAside queues one message to be written, and does not wait. It reports no error: if the
// client has gone, the next read says so.
func (w *wire) writeAside(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.aside); n == maxAside || n > 0 && w.waiting+len(text) > maxAsideBytes {
		return
	}
	w.waiting += len(text)
	w.aside = append(w.aside, text)
	if len(w.aside) == 1 {
		w.asides.Go(w.writeAsides)
	}
}

func (w *wire) writeAsides() {
	for {
		w.mu.Lock()
		text := w.aside[0]
		w.mu.Unlock()
		_ = w.writeLine(text)
		w.mu.Lock()
		w.waiting -= len(text)
		w.aside = w.aside[1:]
		done := len(w.aside) == 0
		w.mu.Unlock()
		if done {
			return
		}
	}
}

// writeLine writes one message. It blocks while the client does not read.
func (w *wire) writeLine(text []byte) error {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	jsonline.LogLine(w.logger, "line sent", text)
	if _, err := w.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("cannot write to the client: %w", err)
	}
	return nil
}

// Call implements Calls.
func (w *wire) Call(_ context.Context, req *mcp.CallToolRequest) (c *Call, ok bool) {
	number, _ := strconv.ParseInt(req.Extra.Header.Get(callHeader), 10, 64)
	w.mu.Lock()
	r := w.open[number]
	w.mu.Unlock()
	if r == nil {
		return nil, false
	}
	return &r.Call, !r.IsCancelled()
}

// notify writes a message about progress.
func (w *wire) notify(p progressParams) {
	if line, err := jsonline.NotificationLine("notifications/progress", p); err == nil {
		_ = w.writeLine(line) // the answer will meet the same error
	}
}
