package mcptransport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
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
func (s *stdioConn) Connect(context.Context) (mcp.Connection, error) {
	go s.readLines() // ends with the input: see the package comment
	return s, nil
}

// SessionID implements mcp.Connection. A pair of streams has no MCP session.
func (s *stdioConn) SessionID() string { return "" }

// Close ends Read. It is idempotent and does not wait.
func (s *stdioConn) Close() error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}

func (s *stdioConn) readLines() {
	r := jsonrpc2.NewReader(s.in, maxLineBytes)
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
			case s.lines <- inputLine{text, err}:
			case <-s.closed:
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
func (s *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(s.decodedMessages) == 0 {
		select {
		case l := <-s.lines:
			long, isLong := errors.AsType[*jsonrpc2.TooLongError](l.err)
			switch {
			case isLong:
				s.refuseCall(long.ID, nil, jsonrpc2.CodeInvalidRequest, fmt.Sprintf("a message is limited to %d MiB", maxLineBytes>>20))
			case errors.Is(l.err, io.EOF):
				close(s.inputEnded)
			case l.err != nil:
				_ = s.Close() // never fails
				return nil, l.err
			default:
				s.acceptLine(l.text)
			}
		case <-s.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m := s.decodedMessages[0]
	s.decodedMessages = s.decodedMessages[1:]
	return m, nil
}

// acceptLine handles one line: a message or a batch.
func (s *stdioConn) acceptLine(text []byte) {
	if text[0] != '[' {
		s.acceptMessage(text, nil)
		return
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 0 {
		s.refuseLine(nil, jsonrpc2.CodeInvalidRequest, "a batch must be an array of at least one message")
		return
	}
	b := &batch{open: 1} // 1 more than its messages, until all are accepted
	for _, part := range parts {
		s.acceptMessage(part, b)
	}
	if text := s.finishPart(b, nil); text != nil {
		s.queueLine(text)
	}
}

func (s *stdioConn) acceptMessage(text []byte, b *batch) {
	m, err := jsonrpc2.Decode(text)
	if problem, ok := errors.AsType[*jsonrpc2.Problem](err); ok {
		s.refuseLine(b, problem.Code, problem.Text)
		return
	}
	if m.Method != "" { // an answer may be a secret, and its length would be a hint
		jsonrpc2.LogLine(s.logger, "line received", text)
	}
	m.Params = fixEmptyLists(m.Params)
	wrong := paramTypeError(m)
	switch {
	case m.Method == "":
		s.acceptAnswer(text)
	case m.ID == nil && m.Method == jsonrpc2.MethodCancelled:
		s.cancelRequest(m.Params)
	case m.ID == nil:
		s.decodedMessages = append(s.decodedMessages, &jsonrpc.Request{Method: m.Method, Params: m.Params})
	case wrong != "":
		s.refuseCall(m.ID, b, jsonrpc2.CodeInvalidParams, wrong)
	case m.Method == methodInitialize && s.savedInitializeResult() != nil: // a gateway forwards one from each of its clients
		s.queueAnswer(b, jsonrpc2.ResultLine(m.ID, s.savedInitializeResult()))
	default:
		s.startRequest(m, b)
	}
}

// savedInitializeResult returns the result of initialize, or nil before there is one.
func (s *stdioConn) savedInitializeResult() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.initializeResult
}

// acceptAnswer passes on the answer to a request of the server. It ignores malformed and
// unexpected answers.
func (s *stdioConn) acceptAnswer(text []byte) {
	if m, err := jsonrpc.DecodeMessage(text); err == nil {
		if answer, ok := m.(*jsonrpc.Response); ok {
			s.decodedMessages = append(s.decodedMessages, answer)
		}
	}
}

// startRequest hands a request to the SDK.
func (s *stdioConn) startRequest(m *jsonrpc2.Message, b *batch) {
	r := &openRequest{
		ToolCall: ToolCall{token: jsonrpc2.ProgressToken(m.Params), notify: s.writeProgress},
		id:       m.ID,
		method:   m.Method,
		size:     len(m.ID) + len(m.Params),
		batch:    b,
	}
	s.mu.Lock()
	if _, taken := s.requestNumbers[jsonrpc2.IDKey(r.id)]; taken {
		s.mu.Unlock()
		s.refuseLine(b, jsonrpc2.CodeInvalidRequest, fmt.Sprintf("id %s is in use by a call that is not answered yet", r.id))
		return
	}
	if open := len(s.openRequests); open >= maxOpenRequests || open > 0 && s.openBytes+r.size > maxOpenBytes {
		s.mu.Unlock()
		s.refuseCall(r.id, b, jsonrpc2.CodeInternal, fmt.Sprintf("too many open requests (%d): read the answers first", open))
		return
	}
	s.openBytes += r.size
	s.unwrittenAnswers++
	s.lastRequestTime = time.Now()
	s.lastNumber++
	r.number = s.lastNumber
	if m.Method == methodCallTool {
		r.Arrival = s.arrivals.Join()
	}
	s.openRequests[r.number] = r
	s.requestNumbers[jsonrpc2.IDKey(r.id)] = r.number
	if b != nil {
		b.open++
	}
	s.mu.Unlock()
	s.decodedMessages = append(s.decodedMessages, &jsonrpc.Request{
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
func (s *stdioConn) cancelRequest(params json.RawMessage) {
	s.mu.Lock()
	r := s.openRequests[s.requestNumbers[jsonrpc2.CancelledKey(params)]]
	s.mu.Unlock()
	if r != nil && r.method != methodInitialize {
		r.Cancel()
		number := strconv.AppendInt([]byte(`{"requestId":`), r.number, 10)
		s.decodedMessages = append(s.decodedMessages, &jsonrpc.Request{Method: jsonrpc2.MethodCancelled, Params: append(number, '}')})
	}
}

// Write implements mcp.Connection.
func (s *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		if ctx.Err() != nil {
			return ctx.Err() // a server request for a call that the client gave up
		}
		text, err := jsonrpc.EncodeMessage(m)
		if err != nil {
			return fmt.Errorf("mcptransport: %w", err)
		}
		return s.writeLine(text)
	}
	number, _ := answer.ID.Raw().(int64)
	s.mu.Lock()
	r := s.openRequests[number]
	if r == nil {
		s.mu.Unlock()
		return s.writeLine(encodeResponse(nil, answer))
	}
	defer s.countAnswer()
	s.openBytes -= r.size
	delete(s.openRequests, number)
	delete(s.requestNumbers, jsonrpc2.IDKey(r.id))
	if r.method == methodInitialize && answer.Error == nil {
		s.initializeResult = answer.Result
	}
	s.mu.Unlock()

	// A client that gets the answer may call again at once. So everything that goes with the
	// answer must happen before it is written.
	var text []byte
	if r.Deliver(true) {
		text = encodeResponse(r.id, answer)
	}
	if r.batch != nil {
		text = s.finishPart(r.batch, text)
	}
	if text == nil {
		return nil
	}
	return s.writeLine(text)
}

// countAnswer counts an answer as written or dropped.
func (s *stdioConn) countAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unwrittenAnswers--; s.unwrittenAnswers > 0 {
		return
	}
	select {
	case s.allAnswered <- struct{}{}:
	default:
	}
}

// lastRequestAt returns the arrival time of the last request.
func (s *stdioConn) lastRequestAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastRequestTime
}

// awaitAnswers waits until every request is answered, ctx ends, or the connection is closed.
func (s *stdioConn) awaitAnswers(ctx context.Context) {
	for {
		s.mu.Lock()
		unsent := s.unwrittenAnswers
		s.mu.Unlock()
		if unsent == 0 {
			return
		}
		select {
		case <-s.allAnswered:
		case <-s.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// finishPart counts one message of a batch as done, with its answer, if any. After the last
// message, it returns the line with all answers, if any.
func (s *stdioConn) finishPart(b *batch, answer []byte) []byte {
	s.mu.Lock()
	if answer != nil {
		b.answers = append(b.answers, answer)
	}
	b.open--
	complete, answers := b.open == 0, b.answers
	s.mu.Unlock()
	if !complete || len(answers) == 0 {
		return nil
	}
	text := append([]byte{'['}, bytes.Join(answers, []byte{','})...)
	return append(text, ']')
}

// refuseLine answers a malformed line.
func (s *stdioConn) refuseLine(b *batch, code int, text string) { s.refuseCall(nil, b, code, text) }

// refuseCall answers a request with an error instead of passing it to the SDK.
func (s *stdioConn) refuseCall(id json.RawMessage, b *batch, code int, text string) {
	s.logger.Info("request refused", "code", code)
	s.queueAnswer(b, errorLine(id, &jsonrpc2.Error{Code: code, Message: text}))
}

// queueAnswer answers a request that does not reach the SDK.
func (s *stdioConn) queueAnswer(b *batch, answer []byte) {
	if b != nil {
		s.mu.Lock()
		b.answers = append(b.answers, answer)
		s.mu.Unlock()
		return
	}
	s.queueLine(answer)
}

// encodeResponse encodes a response as a line. An error without a code comes from this server.
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
func (s *stdioConn) queueLine(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.queuedLines); n == maxQueuedLines || n > 0 && s.queuedBytes+len(text) > maxQueuedBytes {
		return
	}
	s.queuedBytes += len(text)
	s.queuedLines = append(s.queuedLines, text)
	if len(s.queuedLines) == 1 {
		s.queueWriters.Go(s.writeQueuedLines)
	}
}

func (s *stdioConn) writeQueuedLines() {
	for {
		s.mu.Lock()
		text := s.queuedLines[0]
		s.mu.Unlock()
		_ = s.writeLine(text)
		s.mu.Lock()
		s.queuedBytes -= len(text)
		s.queuedLines = s.queuedLines[1:]
		done := len(s.queuedLines) == 0
		s.mu.Unlock()
		if done {
			return
		}
	}
}

// writeLine writes one message. It blocks while the client does not read.
func (s *stdioConn) writeLine(text []byte) error {
	s.writeToken <- struct{}{}
	defer func() { <-s.writeToken }()
	jsonrpc2.LogLine(s.logger, "line sent", text)
	if _, err := s.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("cannot write to the client: %w", err)
	}
	return nil
}

// FindCall implements CallFinder.
func (s *stdioConn) FindCall(_ context.Context, req *mcp.CallToolRequest) (c *ToolCall, ok bool) {
	number, _ := strconv.ParseInt(req.Extra.Header.Get(callNumberHeader), 10, 64)
	s.mu.Lock()
	r := s.openRequests[number]
	s.mu.Unlock()
	if r == nil {
		return nil, false
	}
	return &r.ToolCall, !r.IsCancelled()
}

// writeProgress sends a progress notification.
func (s *stdioConn) writeProgress(p progressParams) {
	if line, err := jsonrpc2.NotificationLine("notifications/progress", p); err == nil {
		_ = s.writeLine(line) // writing the answer will fail with the same error
	}
}

// decodeBody returns the message in a body. If there is none, it returns an empty message and the
// problem. The SDK never gets such a body, because it might read it differently from the front,
// which orders the calls.
func decodeBody(body []byte) (*jsonrpc2.Message, *jsonrpc2.Problem) {
	m, err := jsonrpc2.Decode(body)
	if problem, ok := errors.AsType[*jsonrpc2.Problem](err); ok {
		return &jsonrpc2.Message{}, problem
	}
	return m, nil
}

// paramTypeError names the parameter of a request that has a wrong type, or returns "". The SDK's
// own message would name Go types.
func paramTypeError(m *jsonrpc2.Message) string {
	var p any
	switch m.Method {
	case methodInitialize:
		p = &struct {
			Version      string `json:"protocolVersion"`
			Capabilities *struct {
				Roots        *struct{} `json:"roots"`
				Sampling     *struct{} `json:"sampling"`
				Elicitation  *struct{} `json:"elicitation"`
				Experimental *struct{} `json:"experimental"`
				Extensions   *struct{} `json:"extensions"`
			} `json:"capabilities"`
			Client *struct {
				Name    string `json:"name"`
				Title   string `json:"title"`
				Version string `json:"version"`
				Website string `json:"websiteUrl"`
				Icons   []any  `json:"icons"`
			} `json:"clientInfo"`
		}{}
	case methodCallTool:
		p = &struct {
			Name string         `json:"name"`
			Meta map[string]any `json:"_meta"`
		}{}
	default:
		p = &struct {
			Cursor string         `json:"cursor"`
			Level  string         `json:"level"`
			Name   string         `json:"name"`
			URI    string         `json:"uri"`
			Ref    map[string]any `json:"ref"`
			Meta   map[string]any `json:"_meta"`
		}{}
	}
	var wrong *json.UnmarshalTypeError
	if len(m.Params) == 0 || !errors.As(json.Unmarshal(m.Params, p), &wrong) {
		return ""
	}
	kind := "an object"
	switch wrong.Type.Kind() {
	case reflect.String:
		kind = "a string"
	case reflect.Slice:
		kind = "an array"
	}
	field := wrong.Field
	if field == "" {
		field = "params"
	}
	return fmt.Sprintf("%s: %q must be %s, not %s", m.Method, field, kind, wrong.Value)
}

// fixEmptyLists replaces empty arrays in params with empty objects where the protocol expects
// objects. PHP does not distinguish empty arrays from empty objects, so clients written in PHP send
// either.
func fixEmptyLists(params json.RawMessage) json.RawMessage {
	return fixEmptyListsIn(params, "arguments", "_meta", "capabilities")
}
