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

// resultValue converts the result of a tool to a value for code: its structured content, or else
// its texts, images and files. A single item is returned without a list.
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
			continue // repeats the structured content for models
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

// structuredContent returns the structured content, exactly as the server wrote it if the
// transport saved that.
func structuredContent(r *mcp.CallToolResult) (any, bool) {
	if text, ok := r.Meta[rawContentKey].(string); ok {
		return json.RawMessage(text), text != "null"
	}
	return r.StructuredContent, r.StructuredContent != nil
}

// contentValue converts one content item to a value for code.
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
	return fmt.Sprintf("unknown content type: %T", c)
}

// errorText returns the text of a tool error.
func errorText(content []mcp.Content) string {
	var all []string
	for _, c := range content {
		if t, ok := c.(*mcp.TextContent); ok && t.Text != "" {
			all = append(all, t.Text)
		}
	}
	if len(all) == 0 {
		return "the tool failed without a message"
	}
	return strings.Join(all, "\n")
}

// unusableResult explains why the SDK could not read the result of a tool, or returns "" for any
// other error. The connection survives such an error. The SDK's own text would name Go types.
func unusableResult(err error) string {
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "a field has the wrong type"
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return "the data is not base64"
	}
	if _, kind, ok := strings.Cut(err.Error(), "unrecognized content type "); ok {
		return "unknown content type " + kind
	}
	return ""
}
