package mcptransport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
)

// isKnownMethod reports whether the SDK implements a method. It refuses others with an HTTP
// status instead of an answer, which clients take for the end of the connection.
func isKnownMethod(method string) bool {
	switch method {
	case methodInitialize, methodCallTool, "ping", "server/discover", "subscriptions/listen",
		"tools/list", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
		"resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
		"notifications/initialized", jsonrpc2.MethodCancelled, "notifications/progress", "notifications/roots/list_changed":
		return true
	}
	return false
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
// objects. PHP does not distinguish the two, so clients written in it send either.
func fixEmptyLists(params json.RawMessage) json.RawMessage {
	return fixEmptyListsIn(params, "arguments", "_meta", "capabilities")
}

func fixEmptyListsIn(object json.RawMessage, names ...string) json.RawMessage {
	if string(object) == "[]" {
		return json.RawMessage("{}")
	}
	var fields map[string]json.RawMessage
	if !bytes.Contains(object, []byte("[]")) || json.Unmarshal(object, &fields) != nil {
		return object
	}
	for _, name := range names {
		meant := fields[name]
		switch {
		case name == "capabilities":
			meant = fixEmptyListsIn(meant, "roots", "sampling", "elicitation", "experimental", "extensions")
		case string(meant) == "[]":
			meant = json.RawMessage("{}")
		}
		if !bytes.Equal(meant, fields[name]) {
			object = setField(object, name, meant)
		}
	}
	return object
}
