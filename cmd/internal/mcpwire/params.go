package mcpwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/turnstone-repl/turnstone/internal/jsonline"
)

// isKnown reports whether the SDK has a method. It refuses any other by an HTTP status, which clients
// take for the end of the connection, and not by an answer.
func isKnown(method string) bool {
	switch method {
	case methodInitialize, methodCallTool, "ping", "server/discover", "subscriptions/listen",
		"tools/list", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"notifications/initialized", jsonline.MethodCancelled, "notifications/progress", "notifications/roots/list_changed":
		return true
	}
	return false
}

// wrongParams says which parameter of a request has a wrong type, or "". The SDK's own message
// would name its Go types.
func wrongParams(m *jsonline.Message) string {
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
				Version string `json:"version"`
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
	if wrong.Type.Kind() == reflect.String {
		kind = "a string"
	}
	field := wrong.Field
	if field == "" {
		field = "params"
	}
	return fmt.Sprintf("%s: %q must be %s, not %s", m.Method, field, kind, wrong.Value)
}

// withObjects returns params in which empty lists are empty objects, except within the arguments of a
// tool. The protocol has no lists there, and clients in PHP, to which both are the same, send one for
// the other.
func withObjects(params json.RawMessage) json.RawMessage {
	if string(params) == "[]" {
		return json.RawMessage("{}")
	}
	var fields map[string]json.RawMessage
	if !bytes.Contains(params, []byte("[]")) || json.Unmarshal(params, &fields) != nil {
		return params
	}
	changed := false
	for name, value := range fields {
		if name == "arguments" && string(value) != "[]" {
			continue
		}
		if object := withObjects(value); !bytes.Equal(object, value) {
			fields[name], changed = object, true
		}
	}
	if !changed {
		return params
	}
	meant, err := json.Marshal(fields)
	if err != nil {
		return params
	}
	return meant
}
