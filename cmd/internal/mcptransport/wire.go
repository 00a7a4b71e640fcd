package mcptransport

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
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// maxLineBytes bounds one message of the client.
const maxLineBytes = jsonrpc2.MaxRequestBytes

// maxOpenRequests bounds the open requests, and maxOpenBytes their size. Further requests are
// refused, but reading continues, because cancels, answers and the end of the input must be seen.
// So these constants bound the cost of a client that writes and never reads.
const (
	maxOpenRequests = 1024
	maxOpenBytes    = 2 * maxLineBytes
)

// maxQueuedLines and maxQueuedBytes bound the lines, other than answers to calls, that are queued
// for a client that does not read. Further lines are dropped.
const (
	maxQueuedLines = 1024
	maxQueuedBytes = 16 << 20
)

// byteOrderMark precedes the first message of some clients.
var byteOrderMark = []byte("\ufeff")

const (
	methodInitialize = "initialize"
	methodCallTool   = "tools/call"
)

// A stdioConn is the connection to a client on a pair of streams, with one JSON-RPC message per
// line. It numbers the client's calls for the SDK. Ids of any type and size therefore stay
// distinct, and come back as the client sent them.
type stdioConn struct {
	in    io.Reader
	out   io.Writer
	lines chan inputLine // unbuffered; never closed

	logger *slog.Logger

	// writeToken holds one token. A goroutine takes it to write a line.
	writeToken chan struct{}

	arrivals Queue // the queue of calls of tools

	decodedMessages []jsonrpc.Message // decoded, not yet returned by Read; used only by the reader

	closing    sync.Once
	closed     chan struct{} // closed by Close
	inputEnded chan struct{} // closed at the end of the input; Read then waits for Close

	allAnswered chan struct{} // holds a token when every request is answered

	queueWriters sync.WaitGroup // counts running writeQueuedLines

	mu               sync.Mutex
	initializeResult json.RawMessage        // guarded by mu; nil before initialize
	lastNumber       int64                  // guarded by mu; the number of the last request
	openRequests     map[int64]*openRequest // guarded by mu; open requests by number
	unwrittenAnswers int                    // guarded by mu; requests without a written answer
	lastRequestTime  time.Time              // guarded by mu; when the last request came
	openBytes        int                    // guarded by mu; the bytes of the ids and parameters of openRequests
	requestNumbers   map[string]int64       // guarded by mu; numbers of open requests by the keys of their ids
	queuedLines      [][]byte               // guarded by mu; at most maxQueuedLines; writeQueuedLines runs while any are left
	queuedBytes      int                    // guarded by mu; the bytes of queuedLines
}

// An openRequest is a request of the client that is not answered yet, for a tool or not.
type openRequest struct {
	ToolCall
	number int64
	id     json.RawMessage
	method string
	size   int    // of its id and parameters
	batch  *batch // the batch that contained it, or nil
}

// A batch holds the state of several messages on one line, which protocol version 2025-03-26
// allows. Their answers also share one line.
type batch struct {
	open    int      // guarded by stdioConn.mu; messages without an answer
	answers [][]byte // guarded by stdioConn.mu
}

type inputLine struct {
	text []byte
	err  error
}

func newStdioConn(in io.Reader, out io.Writer, logger *slog.Logger) *stdioConn {
	return &stdioConn{
		in:             in,
		out:            out,
		lines:          make(chan inputLine),
		logger:         logger,
		writeToken:     make(chan struct{}, 1),
		closed:         make(chan struct{}),
		inputEnded:     make(chan struct{}),
		allAnswered:    make(chan struct{}, 1),
		openRequests:   make(map[int64]*openRequest),
		requestNumbers: make(map[string]int64),
	}
}

// Connect implements mcp.Transport.
func (w *stdioConn) Connect(context.Context) (mcp.Connection, error) {
	go w.readLines() // ends with the input: see the package comment
	return w, nil
}

// SessionID implements mcp.Connection. A pair of streams has no MCP session.
func (w *stdioConn) SessionID() string { return "" }

// Close ends Read. It is idempotent and does not wait.
func (w *stdioConn) Close() error {
	w.closing.Do(func() { close(w.closed) })
	return nil
}

func (w *stdioConn) readLines() {
	r := jsonrpc2.NewReader(w.in, maxLineBytes)
	for {
		text, err := r.Next()
		text = bytes.TrimSpace(bytes.TrimPrefix(text, byteOrderMark))
		if errors.Is(err, io.EOF) && len(text) > 0 {
			err = nil // the next read returns the error again
		}
		_, isLong := errors.AsType[*jsonrpc2.TooLongError](err)
		if isLong {
			debug.FreeOSMemory() // the line may have taken hundreds of megabytes
		}
		if len(text) > 0 || err != nil {
			select {
			case w.lines <- inputLine{text, err}:
			case <-w.closed:
				return
			}
		}
		if err != nil && !isLong {
			return
		}
	}
}

// Read implements mcp.Connection. It answers lines that are not for the SDK itself, and does not
// wait for the client to read these answers, because it must see the end of the input. After that
// end it waits for Close, because the SDK would end the calls.
func (w *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(w.decodedMessages) == 0 {
		select {
		case l := <-w.lines:
			long, isLong := errors.AsType[*jsonrpc2.TooLongError](l.err)
			switch {
			case isLong:
				w.refuseCall(long.ID, nil, jsonrpc2.CodeInvalidRequest, fmt.Sprintf("a message is limited to %d MiB", maxLineBytes>>20))
			case errors.Is(l.err, io.EOF):
				close(w.inputEnded)
			case l.err != nil:
				_ = w.Close() // never fails
				return nil, l.err
			default:
				w.acceptLine(l.text)
			}
		case <-w.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m := w.decodedMessages[0]
	w.decodedMessages = w.decodedMessages[1:]
	return m, nil
}

// acceptLine handles one line: a message or a batch.
func (w *stdioConn) acceptLine(text []byte) {
	if text[0] != '[' {
		w.acceptMessage(text, nil)
		return
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 0 {
		w.refuseLine(nil, jsonrpc2.CodeInvalidRequest, "a batch must be an array of at least one message")
		return
	}
	b := &batch{open: 1} // 1 more than its messages, until all are accepted
	for _, part := range parts {
		w.acceptMessage(part, b)
	}
	if text := w.finishPart(b, nil); text != nil {
		w.queueLine(text)
	}
}

func (w *stdioConn) acceptMessage(text []byte, b *batch) {
	m, err := jsonrpc2.Decode(text)
	if problem, ok := errors.AsType[*jsonrpc2.Problem](err); ok {
		w.refuseLine(b, problem.Code, problem.Text)
		return
	}
	if m.Method != "" { // an answer may be a secret, and its length would be a hint
		jsonrpc2.LogLine(w.logger, "line received", text)
	}
	m.Params = fixEmptyLists(m.Params)
	wrong := paramTypeError(m)
	switch {
	case m.Method == "":
		w.acceptAnswer(text)
	case m.ID == nil && m.Method == jsonrpc2.MethodCancelled:
		w.cancelRequest(m.Params)
	case m.ID == nil:
		w.decodedMessages = append(w.decodedMessages, &jsonrpc.Request{Method: m.Method, Params: m.Params})
	case wrong != "":
		w.refuseCall(m.ID, b, jsonrpc2.CodeInvalidParams, wrong)
	case m.Method == methodInitialize && w.savedInitializeResult() != nil: // a gateway forwards one from each of its clients
		w.queueAnswer(b, jsonrpc2.ResultLine(m.ID, w.savedInitializeResult()))
	default:
		w.startRequest(m, b)
	}
}

// savedInitializeResult returns the result of initialize, or nil before there is one.
func (w *stdioConn) savedInitializeResult() json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.initializeResult
}

// acceptAnswer passes on the answer to a request of the server. It ignores malformed and
// unexpected answers.
func (w *stdioConn) acceptAnswer(text []byte) {
	if m, err := jsonrpc.DecodeMessage(text); err == nil {
		if answer, ok := m.(*jsonrpc.Response); ok {
			w.decodedMessages = append(w.decodedMessages, answer)
		}
	}
}

// startRequest hands a request to the SDK.
func (w *stdioConn) startRequest(m *jsonrpc2.Message, b *batch) {
	r := &openRequest{
		ToolCall: ToolCall{token: jsonrpc2.ProgressToken(m.Params), notify: w.writeProgress},
		id:       m.ID,
		method:   m.Method,
		size:     len(m.ID) + len(m.Params),
		batch:    b,
	}
	w.mu.Lock()
	if _, taken := w.requestNumbers[jsonrpc2.IDKey(r.id)]; taken {
		w.mu.Unlock()
		w.refuseLine(b, jsonrpc2.CodeInvalidRequest, fmt.Sprintf("id %s is in use by a call that is not answered yet", r.id))
		return
	}
	if open := len(w.openRequests); open >= maxOpenRequests || open > 0 && w.openBytes+r.size > maxOpenBytes {
		w.mu.Unlock()
		w.refuseCall(r.id, b, jsonrpc2.CodeInternal, fmt.Sprintf("too many open requests (%d): read the answers first", open))
		return
	}
	w.openBytes += r.size
	w.unwrittenAnswers++
	w.lastRequestTime = time.Now()
	w.lastNumber++
	r.number = w.lastNumber
	if m.Method == methodCallTool {
		r.Arrival = w.arrivals.Join()
	}
	w.openRequests[r.number] = r
	w.requestNumbers[jsonrpc2.IDKey(r.id)] = r.number
	if b != nil {
		b.open++
	}
	w.mu.Unlock()
	w.decodedMessages = append(w.decodedMessages, &jsonrpc.Request{
		ID:     idFromNumber(r.number),
		Method: r.method,
		Params: m.Params,
		Extra:  &mcp.RequestExtra{Header: map[string][]string{callNumberHeader: {strconv.FormatInt(r.number, 10)}}},
	})
}

// idFromNumber converts a number to an id. It cannot fail.
func idFromNumber(n int64) jsonrpc.ID {
	id, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		panic(err)
	}
	return id
}

// cancelRequest cancels an open call of the client, which gets nothing more for it. It ignores
// unknown ids.
func (w *stdioConn) cancelRequest(params json.RawMessage) {
	w.mu.Lock()
	r := w.openRequests[w.requestNumbers[jsonrpc2.CancelledKey(params)]]
	w.mu.Unlock()
	if r != nil && r.method != methodInitialize {
		r.Cancel()
		number := strconv.AppendInt([]byte(`{"requestId":`), r.number, 10)
		w.decodedMessages = append(w.decodedMessages, &jsonrpc.Request{Method: jsonrpc2.MethodCancelled, Params: append(number, '}')})
	}
}

// Write implements mcp.Connection.
func (w *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		if ctx.Err() != nil {
			return ctx.Err() // a server request for a call that the client gave up
		}
		text, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return fmt.Errorf("mcptransport: %w", err)
		}
		return w.writeLine(text)
	}
	number, _ := answer.ID.Raw().(int64)
	w.mu.Lock()
	r := w.openRequests[number]
	if r == nil {
		w.mu.Unlock()
		return w.writeLine(encodeResponse(nil, answer))
	}
	defer w.countAnswer()
	w.openBytes -= r.size
	delete(w.openRequests, number)
	delete(w.requestNumbers, jsonrpc2.IDKey(r.id))
	if r.method == methodInitialize && answer.Error == nil {
		w.initializeResult = answer.Result
	}
	w.mu.Unlock()

	// A client that gets the answer may call again at once. So everything that goes with the
	// answer must happen before it is written.
	var text []byte
	if r.Deliver(true) {
		text = encodeResponse(r.id, answer)
	}
	if r.batch != nil {
		text = w.finishPart(r.batch, text)
	}
	if text == nil {
		return nil
	}
	return w.writeLine(text)
}

// countAnswer counts an answer as written or dropped.
func (w *stdioConn) countAnswer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unwrittenAnswers--; w.unwrittenAnswers > 0 {
		return
	}
	select {
	case w.allAnswered <- struct{}{}:
	default:
	}
}

// lastRequestAt returns the arrival time of the last request.
func (w *stdioConn) lastRequestAt() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastRequestTime
}

// awaitAnswers waits until every request is answered, ctx ends, or the connection is closed.
func (w *stdioConn) awaitAnswers(ctx context.Context) {
	for {
		w.mu.Lock()
		unsent := w.unwrittenAnswers
		w.mu.Unlock()
		if unsent == 0 {
			return
		}
		select {
		case <-w.allAnswered:
		case <-w.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// finishPart counts one message of a batch as done, with its answer, if any. After the last
// message, it returns the line with all answers, if any.
func (w *stdioConn) finishPart(b *batch, answer []byte) []byte {
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

// refuseLine answers a malformed line.
func (w *stdioConn) refuseLine(b *batch, code int, text string) { w.refuseCall(nil, b, code, text) }

// refuseCall answers a request with an error instead of passing it to the SDK.
func (w *stdioConn) refuseCall(id json.RawMessage, b *batch, code int, text string) {
	w.logger.Info("request refused", "code", code)
	w.queueAnswer(b, errorLine(id, &jsonrpc2.Error{Code: code, Message: text}))
}

// queueAnswer answers a request that does not reach the SDK.
func (w *stdioConn) queueAnswer(b *batch, answer []byte) {
	if b != nil {
		w.mu.Lock()
		b.answers = append(b.answers, answer)
		w.mu.Unlock()
		return
	}
	w.queueLine(answer)
}

// encodeResponse encodes a response as a line. An error without a code is one of ours.
func encodeResponse(id json.RawMessage, r *jsonrpc.Response) []byte {
	if r.Error == nil {
		return jsonrpc2.ResultLine(id, r.Result)
	}
	e := &jsonrpc2.Error{Code: jsonrpc2.CodeInternal, Message: r.Error.Error()}
	if known := (*jsonrpc.Error)(nil); errors.As(r.Error, &known) {
		e.Code, e.Data = int(known.Code), known.Data
	}
	return errorLine(id, e)
}

// errorLine encodes an error answer as a line. A nil id stands for an id that could not be read.
func errorLine(id json.RawMessage, e *jsonrpc2.Error) []byte {
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte(`{"code":-32603,"message":"the error cannot be encoded"}`)
	}
	return jsonrpc2.ErrorLine(id, body)
}

// queueLine queues a message for writing, and does not wait. It reports no error, because the
// next read fails if the client has gone.
func (w *stdioConn) queueLine(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.queuedLines); n == maxQueuedLines || n > 0 && w.queuedBytes+len(text) > maxQueuedBytes {
		return
	}
	w.queuedBytes += len(text)
	w.queuedLines = append(w.queuedLines, text)
	if len(w.queuedLines) == 1 {
		w.queueWriters.Go(w.writeQueuedLines)
	}
}

func (w *stdioConn) writeQueuedLines() {
	for {
		w.mu.Lock()
		text := w.queuedLines[0]
		w.mu.Unlock()
		_ = w.writeLine(text)
		w.mu.Lock()
		w.queuedBytes -= len(text)
		w.queuedLines = w.queuedLines[1:]
		done := len(w.queuedLines) == 0
		w.mu.Unlock()
		if done {
			return
		}
	}
}

// writeLine writes one message. It blocks while the client does not read.
func (w *stdioConn) writeLine(text []byte) error {
	w.writeToken <- struct{}{}
	defer func() { <-w.writeToken }()
	jsonrpc2.LogLine(w.logger, "line sent", text)
	if _, err := w.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("cannot write to the client: %w", err)
	}
	return nil
}

// FindCall implements CallFinder.
func (w *stdioConn) FindCall(_ context.Context, req *mcp.CallToolRequest) (c *ToolCall, ok bool) {
	number, _ := strconv.ParseInt(req.Extra.Header.Get(callNumberHeader), 10, 64)
	w.mu.Lock()
	r := w.openRequests[number]
	w.mu.Unlock()
	if r == nil {
		return nil, false
	}
	return &r.ToolCall, !r.IsCancelled()
}

// writeProgress sends a progress notification.
func (w *stdioConn) writeProgress(p progressParams) {
	if line, err := jsonrpc2.NotificationLine("notifications/progress", p); err == nil {
		_ = w.writeLine(line) // writing the answer will fail with the same error
	}
}
