package mcpserver

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// geminiEndMarker is appended to a text so that it is not valid JSON.
const geminiEndMarker = "\n[end]"

// protectText makes the Gemini CLI show its model the text of a result. If the first text is
// valid JSON, the CLI also takes it for structured content, and rejects anything but an object.
// Results such as 2, [1, 2] or null, which are usual in a REPL, become errors. This was measured
// on 0.61; see docs/clients.md.
func (r *toolRequest) protectText(result *mcp.CallToolResult) {
	info := r.sdk.ClientInfo()
	if info == nil || !strings.HasPrefix(info.Name, "gemini-cli-mcp-client") || len(result.Content) == 0 {
		return
	}
	if first, ok := result.Content[0].(*mcp.TextContent); ok && json.Valid([]byte(first.Text)) {
		first.Text += geminiEndMarker
	}
}
