package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxMessageBytes   = 16 << 20         // of one message
	savedLineEndBytes = 4 << 10          // saved from the start and end of an overlong line, for its id
	discoverTimeout   = 10 * time.Second // for the answer to server/discover
	writeTimeout      = 30 * time.Second // for a server to read a message
	maxJunkBytes      = 200              // saved from the first line of junk
)

// byteOrderMark precedes the first message of some servers.
var byteOrderMark = []byte("\ufeff")

// elicitationMethod is the method with which a server asks for user input.
const elicitationMethod = "elicitation/create"

// discoverMethod is a method that servers of older protocol versions may leave unanswered.
const discoverMethod = "server/discover"

// rawContentKey is the field in the _meta of a result that holds its structured content as the
// server wrote it. It is needed because the SDK turns integers into floating-point numbers.
// schemaKey is the field in the _meta of an elicitation that holds the form's schema, because the
// SDK loses the order of its fields.
const rawContentKey, schemaKey = "turnstone.structured", "turnstone.schema"

// stdioTransport carries MCP messages over the pipes of a process. It tolerates lines that are
// not messages.
type stdioTransport struct {
	pipe             io.ReadWriteCloser
	progress         func(*mcp.ProgressNotificationParams) // receives progress in the order of the messages
	timeouts         timeouts
	reader           *bufio.Reader
	syntheticAnswers chan jsonrpc.Message // sent in place of missing answers of the server

	writeMu sync.Mutex

	mu               sync.Mutex
	discoverID       jsonrpc.ID // the id of server/discover, until it is answered
	lateDiscoverID   jsonrpc.ID // the id of server/discover, after its timeout
	discoverCameLate bool       // the answer came after the timeout
	isStalled        bool       // the server did not read a message in time
	firstJunk        string     // the first line that was not a message
	received         chan readResult
	closed           chan struct{}
	closing          sync.Once
}

// readResult is a received message, or the error that ended reading.
type readResult struct {
	message jsonrpc.Message
	err     error
}

func newStdioTransport(pipe io.ReadWriteCloser, bounds timeouts) *stdioTransport {
	return &stdioTransport{
		pipe: pipe, timeouts: bounds, reader: bufio.NewReaderSize(pipe, 64<<10),
		syntheticAnswers: make(chan jsonrpc.Message, 1), received: make(chan readResult), closed: make(chan struct{}),
	}
}

// Connect implements mcp.Transport.
func (t *stdioTransport) Connect(context.Context) (mcp.Connection, error) {
	go t.readMessages() // ends with the pipe, or with Close
	return t, nil
}

// SessionID implements mcp.Connection.
func (t *stdioTransport) SessionID() string { return "" }

// Read implements mcp.Connection.
func (t *stdioTransport) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-t.received:
		return r.message, r.err
	case m := <-t.syntheticAnswers:
		return m, nil
	case <-t.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (t *stdioTransport) Write(_ context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == discoverMethod {
		t.mu.Lock()
		t.discoverID = r.ID
		t.mu.Unlock()
		time.AfterFunc(t.timeouts.discover, t.giveUpDiscover)
	}
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	defer time.AfterFunc(t.timeouts.write, t.giveUpWriting).Stop()
	_, err = t.pipe.Write(append(text, '\n'))
	return err
}

// giveUpWriting closes the pipe of a server that did not read a message in time, because all
// later messages would block as well.
func (t *stdioTransport) giveUpWriting() {
	t.mu.Lock()
	t.isStalled = true
	t.mu.Unlock()
	_ = t.pipe.Close()
}

// hasStoppedReading reports whether the server was ended because it did not read.
func (t *stdioTransport) hasStoppedReading() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isStalled
}

// giveUpDiscover answers server/discover like a server that does not know it.
func (t *stdioTransport) giveUpDiscover() {
	t.mu.Lock()
	id := t.discoverID
	t.discoverID, t.lateDiscoverID = jsonrpc.ID{}, id
	t.mu.Unlock()
	if id.IsValid() {
		t.syntheticAnswers <- errorResponse(id, jsonrpc.CodeMethodNotFound, "no answer in time")
	}
}

func errorResponse(id jsonrpc.ID, code int64, words string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: words}}
}

// Close implements mcp.Connection. It leaves the pipe to its owner.
func (t *stdioTransport) Close() error {
	t.closing.Do(func() { close(t.closed) })
	return nil
}

// FirstJunk returns the first line that was not a message, or "".
func (t *stdioTransport) FirstJunk() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.firstJunk
}

// readMessages reads lines until the pipe ends.
func (t *stdioTransport) readMessages() {
	for {
		m, err := t.nextMessage()
		if err == nil && m == nil {
			continue
		}
		select {
		case t.received <- readResult{m, err}:
		case <-t.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// nextMessage returns the next message, or nil for a line that is not one.
func (t *stdioTransport) nextMessage() (jsonrpc.Message, error) {
	line, whole, err := t.readLine()
	if err != nil {
		return nil, err
	}
	if !whole {
		return errorForLine(line, fmt.Sprintf("the server's answer is longer than %d MiB", maxMessageBytes>>20)), nil
	}
	line = bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(line) == 0 {
		return nil, nil
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil || line[0] != '{' {
		t.noteJunk(line)
		return errorForLine(line, "the server's answer is not valid JSON"), nil
	}
	if q, ok := m.(*jsonrpc.Request); ok && !q.ID.IsValid() && t.handleNotification(q) {
		return nil, nil
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		r.ID = numericID(r.ID)
		if !t.isExpected(r.ID) {
			return nil, nil
		}
		r.Result = withQuestionSchemas(withRawField(r.Result, "structuredContent", rawContentKey))
	}
	if q, ok := m.(*jsonrpc.Request); ok && q.Method == elicitationMethod {
		q.Params = withRawField(q.Params, "requestedSchema", schemaKey)
	}
	return m, nil
}

// numericID converts an id back to the number that the SDK sent. Some servers return it as a
// string.
func numericID(id jsonrpc.ID) jsonrpc.ID {
	text, _ := id.Raw().(string)
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return id
	}
	number, err := jsonrpc.MakeID(float64(n))
	if err != nil {
		return id
	}
	return number
}

// handleNotification handles progress and drops log messages, so that a flood of either costs
// little.
func (t *stdioTransport) handleNotification(q *jsonrpc.Request) bool {
	switch q.Method {
	case "notifications/message":
		return true
	case "notifications/progress":
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(q.Params, &p) == nil {
			t.progress(&p)
		}
		return true
	}
	return false
}

// isExpected reports whether the SDK still waits for an answer, and records answers to
// server/discover.
func (t *stdioTransport) isExpected(id jsonrpc.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id.IsValid() && id == t.discoverID {
		t.discoverID = jsonrpc.ID{}
	}
	if id.IsValid() && id == t.lateDiscoverID {
		t.discoverCameLate = true
		return false
	}
	return true
}

// hasAnsweredLate reports whether the answer to server/discover came after its timeout.
func (t *stdioTransport) hasAnsweredLate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.discoverCameLate
}

// readLine returns the next line. For an overlong line, it returns the start and the end.
func (t *stdioTransport) readLine() (line []byte, whole bool, err error) {
	for {
		part, err := t.reader.ReadSlice('\n')
		if len(line)+len(part) > maxMessageBytes {
			return t.skipLongLine(append(line[:min(len(line), savedLineEndBytes)], '\n'), part, err)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, true, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// skipLongLine reads the rest of an overlong line, and returns its start and end.
func (t *stdioTransport) skipLongLine(start, part []byte, err error) ([]byte, bool, error) {
	end := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = t.reader.ReadSlice('\n')
		end = append(end, part...)
		end = append(end[:0], end[max(0, len(end)-savedLineEndBytes):]...)
	}
	return append(start, end...), false, err
}

func (t *stdioTransport) noteJunk(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.firstJunk == "" {
		t.firstJunk = string(line[:min(len(line), maxJunkBytes)])
	}
}

// errorForLine returns an error for the call that a broken line seems to answer, or nil if it
// names none.
func errorForLine(line []byte, words string) jsonrpc.Message {
	for _, expression := range []*regexp.Regexp{idAtEnd(), idAtStart()} {
		found := expression.FindSubmatch(line)
		if found == nil {
			continue
		}
		var value any
		if json.Unmarshal(found[1], &value) != nil {
			continue
		}
		if id, err := jsonrpc.MakeID(value); err == nil && id.IsValid() {
			return errorResponse(id, jsonrpc.CodeParseError, words)
		}
	}
	return nil
}

func idAtEnd() *regexp.Regexp {
	return regexp.MustCompile(`"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?}?\s*$`)
}

func idAtStart() *regexp.Regexp {
	return regexp.MustCompile(`^\s*{\s*(?:"jsonrpc"\s*:\s*"2.0"\s*,\s*)?"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")\s*,`)
}

// withQuestionSchemas applies withRawField to the elicitations in a result.
func withQuestionSchemas(result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(`"inputRequests"`)) {
		return result
	}
	var fields, questions map[string]json.RawMessage
	if json.Unmarshal(result, &fields) != nil || json.Unmarshal(fields["inputRequests"], &questions) != nil {
		return result
	}
	for id, question := range questions {
		var parts map[string]json.RawMessage
		if json.Unmarshal(question, &parts) != nil || parts["params"] == nil {
			continue
		}
		parts["params"] = withRawField(parts["params"], "requestedSchema", schemaKey)
		if changed, err := json.Marshal(parts); err == nil {
			questions[id] = changed
		}
	}
	var err error
	if fields["inputRequests"], err = json.Marshal(questions); err != nil {
		return result
	}
	changed, err := json.Marshal(fields)
	if err != nil {
		return result
	}
	return changed
}

// withRawField copies a field of an object into its _meta, exactly as it came.
func withRawField(result json.RawMessage, field, key string) json.RawMessage {
	if !bytes.Contains(result, []byte(`"`+field+`"`)) {
		return result
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(result, &fields) != nil || fields[field] == nil {
		return result
	}
	meta := map[string]json.RawMessage{}
	_ = json.Unmarshal(fields["_meta"], &meta) // a missing or malformed _meta is replaced
	text, err := json.Marshal(string(fields[field]))
	if err != nil {
		return result
	}
	if meta == nil { // _meta was null
		meta = map[string]json.RawMessage{}
	}
	meta[key] = text
	if fields["_meta"], err = json.Marshal(meta); err != nil {
		return result
	}
	changed, err := json.Marshal(fields)
	if err != nil {
		return result
	}
	return changed
}

// timeouts bound the start of a server, and its reading of a message.
type timeouts struct{ start, discover, write time.Duration }
