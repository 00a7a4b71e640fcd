package mcpwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// wrongParams says what is wrong with the types of a request's parameters; "" when
// nothing is. The SDK would answer with the names of its own types.
func (m *message) wrongParams() string {
	var p any
	switch {
	case m.isA(methodInitialize):
		p = &struct {
			Version      string         `json:"protocolVersion"`
			Capabilities map[string]any `json:"capabilities"`
			Client       *struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"clientInfo"`
		}{}
	case m.isA(methodCallTool):
		p = &struct {
			Name string         `json:"name"`
			Meta map[string]any `json:"_meta"`
		}{}
	default:
		return ""
	}
	var wrong *json.UnmarshalTypeError
	if len(m.Params) == 0 || !errors.As(json.Unmarshal(m.Params, p), &wrong) {
		return ""
	}
	kind := "an object"
	if wrong.Type.Kind() == reflect.String {
		kind = "a string"
	}
	field := wrong.Field
	if field == "" {
		field = "params"
	}
	return fmt.Sprintf("%s: %q must be %s, not %s", *m.Method, field, kind, wrong.Value)
}

// outerID is the id of a message of which only the two ends are there; nil when they do
// not show it.
func outerID(head, tail []byte) json.RawMessage {
	if id := leadingID(head); id != nil {
		return id
	}
	// The last brace is the message's own: what stands right before it is in no string.
	tail = bytes.TrimSpace(tail)
	var last message
	i := bytes.LastIndex(tail, []byte(`"id"`))
	if i < 0 || json.Unmarshal(append([]byte{'{'}, tail[i:]...), &last) != nil || !isNameOrNumber(last.ID) {
		return nil
	}
	return last.ID
}

// leadingID is the id in the beginning of a message, before whatever is long in it.
func leadingID(head []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(head))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		if key == "id" && isNameOrNumber(value) {
			return value
		}
	}
	return nil
}
