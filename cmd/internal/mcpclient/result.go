package mcpclient

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/supervisor"
)

// resultValue returns what a tool returned as a value for code: its structured content, or else its
// texts, pictures and files, of which one alone is not in a list.
func resultValue(r *mcp.CallToolResult) (any, error) {
	if r.IsError {
		return nil, &supervisor.CallError{Name: "ToolError", Message: errorText(r.Content)}
	}
	var list []any
	structured, has := structuredContent(r)
	if has {
		list = append(list, structured)
	}
	for _, c := range r.Content {
		if _, text := c.(*mcp.TextContent); text && has {
			continue // the same, for models
		}
		list = append(list, contentValue(c))
	}
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		return list[0], nil
	}
	return list, nil
}

// structuredContent returns the structured content as the server wrote it, if that is known.
func structuredContent(r *mcp.CallToolResult) (any, bool) {
	if text, ok := r.Meta[rawContentKey].(string); ok {
		return json.RawMessage(text), text != "null"
	}
	return r.StructuredContent, r.StructuredContent != nil
}

// contentValue returns one piece of content.
func contentValue(c mcp.Content) any {
	switch c := c.(type) {
	case *mcp.TextContent:
		return c.Text
	case *mcp.ImageContent:
		return map[string]any{"type": "image", "mimeType": c.MIMEType, "data": c.Data}
	case *mcp.AudioContent:
		return map[string]any{"type": "audio", "mimeType": c.MIMEType, "data": c.Data}
	case *mcp.ResourceLink:
		return map[string]any{"type": "resource_link", "uri": c.URI, "name": c.Name, "mimeType": c.MIMEType}
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return nil
		}
		found := map[string]any{"type": "resource", "uri": c.Resource.URI, "mimeType": c.Resource.MIMEType}
		if c.Resource.Blob != nil {
			found["data"] = c.Resource.Blob
		} else {
			found["text"] = c.Resource.Text
		}
		return found
	}
	return fmt.Sprintf("content of an unknown kind: %T", c)
}

// errorText returns the words of a tool that failed.
func errorText(content []mcp.Content) string {
	var all []string
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok && t.Text != "" {
			all = append(all, t.Text)
		}
	}
	if len(all) == 0 {
		return "the tool failed, and says nothing about it"
	}
	return strings.Join(all, "\n")
}

// unusableResult says why the SDK could not read what a tool returned; "" if err is about something else. Its
// connection goes on. The SDK's own words name its types.
func unusableResult(err error) string {
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "something in it has the wrong type"
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return "its data is not base64"
	}
	if _, kind, ok := strings.Cut(err.Error(), "unrecognized content type "); ok {
		return "it has content of the unknown type " + kind
	}
	return ""
}
