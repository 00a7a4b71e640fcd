package mcpserver

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// textResult returns a result with one text.
func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// maxErrorChars bounds the text of an error, which may quote an argument of any size.
const maxErrorChars = 4000

// errorResult returns an error of this server, or about the arguments, in a form that a model can
// act on.
func (s *server) errorResult(err error) *mcp.CallToolResult {
	message := text.Shorten(err.Error(), maxErrorChars)
	if kind := session.KindOf(err); kind == session.KindStart || kind == session.KindSpec {
		message += "\n[" + s.wording.StartAdvice() + "]"
	}
	result := textResult(message)
	result.IsError = true
	return result
}
