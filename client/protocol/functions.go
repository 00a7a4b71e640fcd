package protocol

import (
	"encoding/json"

	"github.com/turnstone-repl/turnstone/ipc"
)

// The bounds of function/call.
const (
	// MaxInlineArguments bounds the arguments in a function/call, in bytes. The client asks for
	// larger ones with function/arguments.
	MaxInlineArguments = 1 << 20

	// MaxArgumentPart bounds a part of large arguments, in bytes.
	MaxArgumentPart = 4 << 20
)

// FunctionsParams give functions of a client to the code of a session. They replace the functions
// that this client has given before.
type FunctionsParams struct {
	Session   string        `json:"session"`
	Functions []FunctionDoc `json:"functions"`
	Author    string        `json:"author,omitempty"`
}

// A FunctionDoc describes a function of a client, as session.Function does.
type FunctionDoc struct {
	Name        string          `json:"name"`
	Group       string          `json:"group,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // a JSON Schema of type object
	Returns     json.RawMessage `json:"returns,omitempty"`    // a JSON Schema
}

// FunctionList lists the functions that clients give to the code of a session, by name.
type FunctionList struct {
	Functions []GivenFunction `json:"functions"`
}

// A GivenFunction is a function that a client gives to the code of a session.
type GivenFunction struct {
	Name        string `json:"name"` // with its group
	Description string `json:"description,omitempty"`
	Client      string `json:"client"` // as in ConnectedClient
	Author      string `json:"author,omitempty"`
	Gone        bool   `json:"gone,omitempty"` // the client has disconnected, so calls fail
}

// A FunctionCall is a request of the daemon: code in a session calls a function of the client. The
// client answers with a FunctionResult, or with an error that may have a name.
type FunctionCall struct {
	Session        string          `json:"session"`
	Generation     uint64          `json:"generation"`
	Turn           uint64          `json:"turn"`                // 0 between turns
	Function       string          `json:"function"`            // its name, with its group
	Call           string          `json:"call"`                // names the call in function/arguments
	Arguments      json.RawMessage `json:"arguments,omitempty"` // an object of values; missing if it has more than 1 MiB
	ArgumentsBytes int             `json:"arguments_bytes"`     // size of its text
}

// A FunctionResult is the result of a FunctionCall.
type FunctionResult struct {
	Value json.RawMessage `json:"value"`
}

// A FunctionError has the name of the error with which a FunctionCall fails. It is the data of the
// error in the answer.
type FunctionError struct {
	Name string `json:"name,omitempty"`
}

// ArgumentsParams ask for a part of the arguments of a call, which is a part of their JSON text.
type ArgumentsParams struct {
	Call   string `json:"call"`
	Offset int    `json:"offset,omitempty"` // bytes of UTF-8
}

// An ArgumentsPart is a part of the arguments of a call.
type ArgumentsPart struct {
	Text string `json:"text"`
	Next int    `json:"next"` // offset of the next part; the size of all if this is the last one
	More bool   `json:"more,omitempty"`
}

// EncodeValue returns a value of a call as JSON. It accepts what encoding/json accepts. Bytes, times,
// integers and floats keep their types: docs/daemon-protocol.md describes how.
func EncodeValue(v any) (json.RawMessage, error) {
	encoded, err := ipc.EncodeValue(v)
	if err != nil {
		return nil, err
	}
	return ipc.EncodedToJSON(encoded)
}

// DecodeArguments returns the arguments of a call as a session.Function receives them.
func DecodeArguments(text []byte) (map[string]any, error) {
	v, err := parseValue(text, true)
	args, _ := v.(map[string]any)
	return args, err
}

// DecodeResult returns the result of a call as a session.Function returns it. Objects keep their
// order.
func DecodeResult(text []byte) (any, error) { return parseValue(text, false) }
