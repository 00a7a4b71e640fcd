package mcptransport

import (
	"bytes"
	"encoding/json"

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

// setField returns an object in which one field has a new value.
func setField(object []byte, name string, value json.RawMessage) []byte {
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
