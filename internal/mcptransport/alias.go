package mcptransport

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// An idAlias replaces a request id that the SDK would change. The SDK preserves a number only if
// it is an integer of at most 53 bits. On standard input, stdioConn numbers all requests instead.
type idAlias struct{ id, name json.RawMessage }

// maxIntegerBits bounds the integers that the SDK preserves.
const maxIntegerBits = 53

// newIDAlias returns the alias of an id. The alias is empty if the id needs none.
func newIDAlias(id json.RawMessage) idAlias {
	if len(id) == 0 || id[0] == '"' {
		return idAlias{}
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n >= -1<<maxIntegerBits && n <= 1<<maxIntegerBits {
		return idAlias{}
	}
	return idAlias{id, strconv.AppendQuote(nil, "number "+string(id))}
}

// restoreID puts the client's id back into a message or an event of the SDK.
func (a idAlias) restoreID(text []byte) []byte {
	if a.name == nil {
		return text
	}
	const key = `"id":`
	return bytes.Replace(text, append([]byte(key), a.name...), append([]byte(key), a.id...), 1)
}

// originalID returns the id that the client sent.
func (a idAlias) originalID(id json.RawMessage) json.RawMessage {
	if a.name == nil {
		return id
	}
	return a.id
}

// decodeMessage returns the message in a body, with aliases in place of ids. The problem says why
// a body holds no message.
func (e *exchange) decodeMessage(body []byte) (*jsonrpc2.Message, []byte, *jsonrpc2.Problem) {
	m, problem := decodeBody(body)
	if params := fixEmptyLists(m.Params); !bytes.Equal(params, m.Params) {
		body = setField(body, "params", params)
		m.Params = params
	}
	cancelled := idAlias{}
	if m.Method == jsonrpc2.MethodCancelled && m.ID == nil {
		cancelled = newIDAlias(json.RawMessage(jsonrpc2.CancelledKey(m.Params)))
	}
	switch e.alias = newIDAlias(m.ID); {
	case e.alias.name != nil:
		body = setField(body, "id", e.alias.name)
	case cancelled.name != nil:
		body = setField(body, "params", setField(m.Params, "requestId", cancelled.name))
	default:
		return m, body, problem
	}
	m, problem = decodeBody(body)
	return m, body, problem
}
