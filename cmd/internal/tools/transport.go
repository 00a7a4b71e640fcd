package tools

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
	maxLine       = 16 << 20         // bytes of one message
	keptEnd       = 4 << 10          // of a line that is too long, for the id in it
	discoverLimit = 10 * time.Second // for the answer to server/discover
	writeLimit    = 30 * time.Second // for a server to read a message
	maxJunk       = 200              // bytes of the first line of junk that are kept
)

// byteOrderMark is what some servers begin with.
var byteOrderMark = []byte("\ufeff")

// elicitation is the question to a person.
const elicitation = "elicitation/create"

// discover is the question that servers of older versions may leave without an answer.
const discover = "server/discover"

// rawKey is the field of a result's _meta that has its structured content as the server wrote it:
// the SDK makes floating-point numbers of its integers. schemaKey is likewise that of a question's,
// which has the schema of its form: the SDK forgets the order of the fields.
const rawKey, schemaKey = "turnstone.structured", "turnstone.schema"

// lines carries MCP messages over the pipes of a process. It survives what is no message.
type lines struct {
	pipe     io.ReadWriteCloser
	progress func(*mcp.ProgressNotificationParams) // is told of progress in the order of the messages
	limits   limits
	in       *bufio.Reader
	extra    chan jsonrpc.Message // answers that stand for those of the server

	writing sync.Mutex

	mu         sync.Mutex
	discovered jsonrpc.ID // of server/discover, while it has no answer
	late       jsonrpc.ID // of one whose answer is not waited for any more
	tooLate    bool       // it came
	unread     bool       // it did not read a message in time
	junk       string     // the first line that was none
	read       chan read
	closed     chan struct{}
	closing    sync.Once
}

// read is a message that came, or the end of them.
type read struct {
	message jsonrpc.Message
	err     error
}

func newLines(pipe io.ReadWriteCloser, bounds limits) *lines {
	return &lines{
		pipe: pipe, limits: bounds, in: bufio.NewReaderSize(pipe, 64<<10),
		extra: make(chan jsonrpc.Message, 1), read: make(chan read), closed: make(chan struct{}),
	}
}

// Connect implements mcp.Transport.
func (l *lines) Connect(context.Context) (mcp.Connection, error) {
	go l.take() // ends with the pipe, or with Close
	return l, nil
}

// SessionID implements mcp.Connection.
func (l *lines) SessionID() string { return "" }

// Read implements mcp.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-l.read:
		return r.message, r.err
	case m := <-l.extra:
		return m, nil
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection.
func (l *lines) Write(_ context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == discover {
		l.mu.Lock()
		l.discovered = r.ID
		l.mu.Unlock()
		time.AfterFunc(l.limits.discover, l.giveUpDiscover)
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	defer time.AfterFunc(l.limits.write, l.giveUpWriting).Stop()
	_, err = l.pipe.Write(append(text, '\n'))
	return err
}

// giveUpWriting ends a server that has not read a message in time: all later ones would wait, too.
func (l *lines) giveUpWriting() {
	l.mu.Lock()
	l.unread = true
	l.mu.Unlock()
	_ = l.pipe.Close()
}

// stoppedReading reports whether the server was given up because it does not read.
func (l *lines) stoppedReading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unread
}

// giveUpDiscover answers server/discover as a server does that does not know it.
func (l *lines) giveUpDiscover() {
	l.mu.Lock()
	id := l.discovered
	l.discovered, l.late = jsonrpc.ID{}, id
	l.mu.Unlock()
	if id.IsValid() {
		l.extra <- refusal(id, jsonrpc.CodeMethodNotFound, "no answer in time")
	}
}

func refusal(id jsonrpc.ID, code int64, words string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: code, Message: words}}
}

// Close implements mcp.Connection. The owner of the pipe closes that.
func (l *lines) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

// Junk returns the first line that was no message; "" if there was none.
func (l *lines) Junk() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.junk
}

// take reads lines until the pipe ends.
func (l *lines) take() {
	for {
		m, err := l.next()
		if err == nil && m == nil {
			continue
		}
		select {
		case l.read <- read{m, err}:
		case <-l.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// next returns the next message; nil for a line that is none.
func (l *lines) next() (jsonrpc.Message, error) {
	line, whole, err := l.line()
	if err != nil {
		return nil, err
	}
	if !whole {
		return failedCall(line, fmt.Sprintf("the server's answer is longer than %d MiB", maxLine>>20)), nil
	}
	line = bytes.TrimSpace(bytes.TrimPrefix(line, byteOrderMark))
	if len(line) == 0 {
		return nil, nil
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil || line[0] != '{' {
		l.note(line)
		return failedCall(line, "the server's answer is no valid JSON"), nil
	}
	if q, ok := m.(*jsonrpc.Request); ok && !q.ID.IsValid() && l.told(q) {
		return nil, nil
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		r.ID = asAsked(r.ID)
		if !l.expected(r.ID) {
			return nil, nil
		}
		r.Result = withSchemas(withRaw(r.Result, "structuredContent", rawKey))
	}
	if q, ok := m.(*jsonrpc.Request); ok && q.Method == elicitation {
		q.Params = withRaw(q.Params, "requestedSchema", schemaKey)
	}
	return m, nil
}

// asAsked returns the id of an answer as the SDK asks, which is a number. Some servers make a text of it.
func asAsked(id jsonrpc.ID) jsonrpc.ID {
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

// told takes what a server only tells, so that a flood of it costs little: progress, and the log,
// which nobody reads.
func (l *lines) told(q *jsonrpc.Request) bool {
	switch q.Method {
	case "notifications/message":
		return true
	case "notifications/progress":
		var p mcp.ProgressNotificationParams
		if json.Unmarshal(q.Params, &p) == nil {
			l.progress(&p)
		}
		return true
	}
	return false
}

// expected reports whether an answer is waited for, and takes note of that of server/discover.
func (l *lines) expected(id jsonrpc.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id.IsValid() && id == l.discovered {
		l.discovered = jsonrpc.ID{}
	}
	if id.IsValid() && id == l.late {
		l.tooLate = true
		return false
	}
	return true
}

// answeredLate reports whether the answer to server/discover came when it was not waited for.
func (l *lines) answeredLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tooLate
}

// line returns the next line. Of one that is too long it returns the start and the end.
func (l *lines) line() (line []byte, whole bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return l.rest(append(line[:min(len(line), keptEnd)], '\n'), part, err)
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

// rest reads the rest of a line that is too long, and returns its start with its end.
func (l *lines) rest(start, part []byte, err error) ([]byte, bool, error) {
	end := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = l.in.ReadSlice('\n')
		end = append(end, part...)
		end = append(end[:0], end[max(0, len(end)-keptEnd):]...)
	}
	return append(start, end...), false, err
}

func (l *lines) note(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.junk == "" {
		l.junk = string(line[:min(len(line), maxJunk)])
	}
}

// failedCall returns an error for the call that a line seems to answer; nil if it names none.
func failedCall(line []byte, words string) jsonrpc.Message {
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
			return refusal(id, jsonrpc.CodeParseError, words)
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

// withSchemas does for the questions in a result what withRaw does for one.
func withSchemas(result json.RawMessage) json.RawMessage {
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
		parts["params"] = withRaw(parts["params"], "requestedSchema", schemaKey)
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

// withRaw returns an object one of whose fields, if it is there, is also in its _meta, as it came.
func withRaw(result json.RawMessage, field, key string) json.RawMessage {
	if !bytes.Contains(result, []byte(`"`+field+`"`)) {
		return result
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(result, &fields) != nil || fields[field] == nil {
		return result
	}
	meta := map[string]json.RawMessage{}
	_ = json.Unmarshal(fields["_meta"], &meta) // none, or one that is wrong, which is dropped
	text, err := json.Marshal(string(fields[field]))
	if err != nil {
		return result
	}
	if meta == nil { // it was null
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
