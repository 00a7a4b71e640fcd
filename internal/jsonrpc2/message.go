package jsonrpc2

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// The error codes that JSON-RPC itself defines.
const (
	CodeParse          = -32700 // a line that is not JSON
	CodeInvalidRequest = -32600 // JSON, but not a message
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// MethodCancelled is the notification with which a caller cancels a request.
const MethodCancelled = "notifications/cancelled"

// A Message is a request, a notification or an answer, as it was decoded.
type Message struct {
	ID     json.RawMessage // a string or a number, as its sender wrote it; nil in a notification
	Method string          // "" in an answer
	Params json.RawMessage // nil without params
	Result json.RawMessage // of an answer
	Error  json.RawMessage // of an answer that reports an error

	// Buffer is the bytes that followed the line; nil without. Only [Conn.Read] sets it.
	Buffer      []byte
	bufferBytes json.RawMessage // its size, which the line announces
}

// IsRequest reports whether the message is a request, which needs an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// An Error is the error object of an answer.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// A Problem describes why a line is not a message.
type Problem struct {
	Code       int
	ID         json.RawMessage // the id, if it could be read
	Text       string
	NotJSONRPC bool // the line is an object that does not claim to be JSON-RPC
}

func (p *Problem) Error() string { return p.Text }

// Decode decodes a message. The error is a *Problem.
func Decode(line []byte) (*Message, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil || object == nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, &Problem{Code: CodeParse, Text: "not JSON: " + err.Error()}
		}
		return nil, &Problem{Code: CodeInvalidRequest, Text: "not a JSON-RPC message: it is not an object; batches are not supported"}
	}
	m := &Message{Params: object["params"], Result: object["result"], Error: object["error"], bufferBytes: object["buffer"]}
	id, hasID := object["id"]
	isID := IsID(id) && utf8.Valid(id)
	if isID {
		m.ID = id
	}
	invalid := func(text string) (*Message, error) {
		return nil, &Problem{Code: CodeInvalidRequest, ID: m.ID, Text: "not a JSON-RPC message: " + text}
	}
	version, hasVersion := object["jsonrpc"]
	method, hasMethod := object["method"]
	switch {
	case !hasVersion:
		return nil, &Problem{Code: CodeInvalidRequest, ID: m.ID, Text: `not a JSON-RPC message: "jsonrpc" must be "2.0"`, NotJSONRPC: true}
	case decodeString(version) != "2.0":
		return invalid(`"jsonrpc" must be "2.0"`)
	case !hasMethod && (m.Result != nil || m.Error != nil):
		return m, nil
	case decodeString(method) == "":
		return invalid(`"method" must be a string`)
	case hasID && !isID:
		return invalid(`"id" must be a string or a number`)
	}
	m.Method = decodeString(method)
	return m, nil
}

// bufferSize returns how many bytes follow the line of a message. An error means that nobody knows
// where the next line begins.
func (m *Message) bufferSize() (int, error) {
	if m.bufferBytes == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(m.bufferBytes))
	if err != nil || n < 1 || n > MaxBufferBytes {
		return 0, fmt.Errorf("buffer is %.40s: use 1 to %d bytes", m.bufferBytes, MaxBufferBytes)
	}
	return n, nil
}

// decodeString returns the string that raw encodes, or "" if raw is not a string.
func decodeString(raw json.RawMessage) (s string) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// IsID reports whether raw, which is JSON, is a string or a number. Only these can be ids and
// progress tokens.
func IsID(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// IDKey returns the same key for equal ids. A string may be escaped in several ways, and never
// equals a number.
func IDKey(id json.RawMessage) string {
	var s string
	if len(id) > 0 && id[0] == '"' && json.Unmarshal(id, &s) == nil {
		return `"` + s
	}
	return string(id)
}

// CancelledKey returns the IDKey of the request that the params of MethodCancelled name, or "".
func CancelledKey(params json.RawMessage) string {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil || !IsID(p.ID) {
		return ""
	}
	return IDKey(p.ID)
}

// ProgressToken returns params._meta.progressToken if that is a string or a number.
func ProgressToken(params json.RawMessage) json.RawMessage {
	if !bytes.Contains(params, []byte(`"progressToken"`)) {
		return nil
	}
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil || !IsID(p.Meta.Token) {
		return nil
	}
	return p.Meta.Token
}

// A Buffered value is params or a result with bytes that follow its line. Nobody may change them
// later.
type Buffered struct {
	Value  any // without the bytes
	Buffer []byte
}

// splitBuffer returns what is encoded of params or of a result, and what follows the line.
func splitBuffer(v any) (rest any, buffer []byte) {
	if b, ok := v.(Buffered); ok {
		return b.Value, b.Buffer
	}
	return v, nil
}

// withBuffer adds the size of a buffer to a line, which is an object with a member.
func withBuffer(line, buffer []byte) []byte {
	if len(buffer) == 0 {
		return line
	}
	return fmt.Appendf(line[:len(line)-1], `,"buffer":%d}`, len(buffer))
}

// ResultLine returns the line of an answer with a result, without a newline. result is JSON.
func ResultLine(id, result json.RawMessage) []byte { return answerLine(id, "result", result) }

// ErrorLine returns the line of an answer with an error, without a newline. A nil id stands for a
// request whose id could not be read. failure is a JSON object with code and message.
func ErrorLine(id, failure json.RawMessage) []byte { return answerLine(id, "error", failure) }

func answerLine(id json.RawMessage, name string, value json.RawMessage) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	line := make([]byte, 0, len(id)+len(value)+40)
	line = append(append(line, `{"jsonrpc":"2.0","id":`...), id...)
	line = append(append(append(line, `,"`...), name...), `":`...)
	return append(append(line, value...), '}')
}

// NotificationLine returns the line of a notification, without a newline. nil params are left out.
func NotificationLine(method string, params any) ([]byte, error) {
	return requestLine("", method, params)
}

// requestLine returns the line of a request, or of a notification if id is "".
func requestLine(id, method string, params any) ([]byte, error) {
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  any             `json:"params,omitempty"`
	}
	m.Version, m.Method, m.Params = "2.0", method, params
	if id != "" {
		m.ID = json.RawMessage(id)
	}
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false) // code often contains < and &
	err := e.Encode(m)
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

// InvalidCharacter describes the first part of a JSON text that is not a character; "" without one.
// Such a part is a byte that is not UTF-8, or half of a surrogate pair. A decoder would silently
// replace it by another character.
func InvalidCharacter(text []byte) string {
	if !utf8.Valid(text) {
		for c, size := utf8.DecodeRune(text); c != utf8.RuneError || size > 1; c, size = utf8.DecodeRune(text) {
			text = text[size:]
		}
		return fmt.Sprintf("the byte 0x%02X, which is not UTF-8", text[0])
	}
	if half := loneSurrogate(text); half != "" {
		return half + ", which is half of a character"
	}
	return ""
}

// loneSurrogate returns the first escape that is half of a surrogate pair, or "".
func loneSurrogate(text []byte) string {
	unit := func(at []byte) (rune, bool) {
		if len(at) < 6 || at[0] != '\\' || at[1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(at[2:6]), 16, 16)
		return rune(n), err == nil
	}
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return ""
		}
		text = text[i:]
		switch first, ok := unit(text); {
		case ok && utf16.IsSurrogate(first):
			second, _ := unit(text[6:])
			if utf16.DecodeRune(first, second) == unicode.ReplacementChar {
				return string(text[:6])
			}
			text = text[12:]
		default:
			text = text[min(2, len(text)):]
		}
	}
}
