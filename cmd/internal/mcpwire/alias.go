package mcpwire

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/turnstone-repl/turnstone/internal/jsonline"
)

// An alias takes the place of an id that the SDK would change: of numbers it keeps only those that are
// whole and have 53 bits. On standard input the wire numbers all requests instead.
type alias struct{ id, name json.RawMessage }

// wholeBits bounds the numbers that the SDK keeps.
const wholeBits = 53

// aliasOf returns the alias of an id; one without a name if it needs none.
func aliasOf(id json.RawMessage) alias {
	if len(id) == 0 || id[0] == '"' {
		return alias{}
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n >= -1<<wholeBits && n <= 1<<wholeBits {
		return alias{}
	}
	return alias{id, strconv.AppendQuote(nil, "number "+string(id))}
}

// restore puts the id back into a message of the SDK, or an event with one.
func (a alias) restore(text []byte) []byte {
	if a.name == nil {
		return text
	}
	const key = `"id":`
	return bytes.Replace(text, append([]byte(key), a.name...), append([]byte(key), a.id...), 1)
}

// original returns the id that the client has sent.
func (a alias) original(id json.RawMessage) json.RawMessage {
	if a.name == nil {
		return id
	}
	return a.id
}

// takeMessage returns the message of a body, in which aliases have taken the place of ids, or why it
// holds none.
func (x *exchange) takeMessage(body []byte) (*jsonline.Message, []byte, *jsonline.Problem) {
	m, problem := read(body)
	if params := withObjects(m.Params); !bytes.Equal(params, m.Params) {
		body = withField(body, "params", params)
		m.Params = params
	}
	cancelled := alias{}
	if m.Method == jsonline.MethodCancelled && m.ID == nil {
		cancelled = aliasOf(json.RawMessage(jsonline.CancelledKey(m.Params)))
	}
	switch x.alias = aliasOf(m.ID); {
	case x.alias.name != nil:
		body = withField(body, "id", x.alias.name)
	case cancelled.name != nil:
		body = withField(body, "params", withField(m.Params, "requestId", cancelled.name))
	default:
		return m, body, problem
	}
	m, problem = read(body)
	return m, body, problem
}

// withField returns an object with another value of a field.
func withField(object []byte, name string, value json.RawMessage) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return object
	}
	fields[name] = value
	changed, err := json.Marshal(fields)
	if err != nil {
		return object
	}
	return changed
}
