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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/jsonline"
)

// maxLine bounds one message of the client, in bytes: an input of the largest
// size, escaped.
const maxLine = 160 << 20

// maxOpen bounds the requests that are not answered, and maxOpenBytes what they hold:
// a further one is refused. Reading goes on, or nobody would see a cancel, an answer
// or the end. So a client that writes and never reads costs no more than this.
const (
	maxOpen      = 1024
	maxOpenBytes = 2 * maxLine
)

// maxAside bounds the lines that wait for a client that does not read, beside the
// answers to its calls. Further ones are dropped.
const maxAside = 1024

const (
	methodInitialize = "initialize"
	methodCallTool   = "tools/call"
)

// A wire is the connection to the client, one JSON-RPC message a line. It numbers
// the client's calls for the SDK, so that ids of any type and size stay apart and
// come back as they were sent.
type wire struct {
	in    io.Reader
	out   io.Writer
	lines chan line // unbuffered; never closed

	logger *slog.Logger

	// writing holds one token, taken by whoever writes a line.
	writing chan struct{}

	arrivals Queue // of calls of tools

	pending []jsonrpc.Message // decoded and not read yet; of the reader alone

	closing sync.Once
	closed  chan struct{} // closed by Close

	asides sync.WaitGroup // writeAsides, when it runs

	mu      sync.Mutex
	last    int64               // guarded by mu; the number of the last request
	open    map[int64]*wireCall // guarded by mu; those that are not answered
	size    int                 // guarded by mu; the bytes of their parameters
	numbers map[string]int64    // guarded by mu; their numbers by the keys of their ids
	aside   [][]byte            // guarded by mu; at most maxAside; writeAsides runs while there are any
}

// A wireCall is a request of the client that is not answered yet, for a tool or not.
type wireCall struct {
	Call
	number int64
	id     json.RawMessage
	method string
	size   int    // of its parameters
	batch  *batch // the one it came in; nil when it came alone
}

// A batch is several messages in one line, which protocol version 2025-03-26 has.
// It is answered in one line too.
type batch struct {
	open    int      // guarded by wire.mu; calls that are not answered
	answers [][]byte // guarded by wire.mu
}

type line struct {
	text []byte
	err  error
}

func newWire(in io.Reader, out io.Writer, logger *slog.Logger) *wire {
	return &wire{
		in:      in,
		out:     out,
		lines:   make(chan line),
		logger:  logger,
		writing: make(chan struct{}, 1),
		closed:  make(chan struct{}),
		open:    make(map[int64]*wireCall),
		numbers: make(map[string]int64),
	}
}

// Connect implements mcp.Transport.
func (w *wire) Connect(context.Context) (mcp.Connection, error) {
	go w.readLines() // ends with the input: see the package comment
	return w, nil
}

// SessionID implements mcp.Connection: a pair of streams has none.
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
		text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff"))) // some begin with a mark
		if errors.Is(err, io.EOF) && len(text) > 0 {
			err = nil // the next read says it again
		}
		_, isLong := errors.AsType[*jsonline.TooLongError](err)
		if isLong {
			debug.FreeOSMemory() // hundreds of megabytes that are not needed again
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

// Read implements mcp.Connection. Lines that are not for the SDK are answered here,
// without waiting for the client to read: the end of its input must be seen. That end
// closes the wire.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(w.pending) == 0 {
		select {
		case l := <-w.lines:
			long, isLong := errors.AsType[*jsonline.TooLongError](l.err)
			switch {
			case isLong:
				w.refuseCall(long.ID, nil, jsonline.CodeInvalidRequest, fmt.Sprintf("a message may have %d MiB", maxLine>>20))
			case l.err != nil:
				_ = w.Close() // which never fails
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
	b := &batch{open: 1} // until all of it is in
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
	if m.Method != "" { // else it may be the answer to a secret, whose length is nobody's business
		jsonline.Log(w.logger, "line received", text)
	}
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
	default:
		w.begin(m, b)
	}
}

// acceptAnswer passes on the answer to a question of the server. One that is malformed
// or answers no question is ignored: nobody waits for it.
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
		size:   len(m.Params),
		batch:  b,
	}
	w.mu.Lock()
	if _, taken := w.numbers[jsonline.Key(r.id)]; taken {
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
	w.last++
	r.number = w.last
	if m.Method == methodCallTool {
		r.Arrival = w.arrivals.Join()
	}
	w.open[r.number] = r
	w.numbers[jsonline.Key(r.id)] = r.number
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

// numberID cannot fail: it has its number from a counter.
func numberID(n int64) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		panic(err)
	}
	return id
}

// cancel marks the call that the client gave up. From here on nothing is sent for it. A
// cancel that names no open call leaves no trace.
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
			return ctx.Err() // a question of a call that was given up
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
	w.size -= r.size
	delete(w.open, number)
	delete(w.numbers, jsonline.Key(r.id))
	w.mu.Unlock()

	// A client that has the answer may call again at once. Everything that the answer
	// changes must have changed before.
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

// partDone counts one part of a batch as done, with its answer, if there is one.
// When that was the last, it returns the line with the answers, if there are any.
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

// refuse answers a line that is not even a call.
func (w *wire) refuse(b *batch, code int, text string) { w.refuseCall(nil, b, code, text) }

// refuseCall answers a request that is not for the SDK.
func (w *wire) refuseCall(id json.RawMessage, b *batch, code int, text string) {
	w.logger.Info("refused", "code", code)
	answer := failure(id, &jsonline.Error{Code: code, Message: text})
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

// failure returns the line of an answer that is an error; a nil id is one that could not be
// read.
func failure(id json.RawMessage, e *jsonline.Error) []byte {
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte(`{"code":-32603,"message":"the error cannot be shown"}`)
	}
	return jsonline.ErrorLine(id, body)
}

// writeAside has one message written without waiting for that. An error is not
// reported: when the client is gone, the next read says so.
func (w *wire) writeAside(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.aside) == maxAside {
		return
	}
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
		w.aside = w.aside[1:]
		done := len(w.aside) == 0
		w.mu.Unlock()
		if done {
			return
		}
	}
}

// writeLine writes one message. It blocks for as long as the client does not read.
func (w *wire) writeLine(text []byte) error {
	w.writing <- struct{}{}
	defer func() { <-w.writing }()
	jsonline.Log(w.logger, "line sent", text)
	if _, err := w.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("mcpwire: cannot write to the client: %w", err)
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
