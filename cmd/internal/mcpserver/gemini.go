package mcpserver

import (
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// geminiEndMarker follows a text that the Gemini CLI would not take for one.
const geminiEndMarker = "\n[end]"

// protectText makes the Gemini CLI show its model the text of a result. If the first text is
// JSON, the CLI takes it for structured content as well, and refuses a result that is not an
// object: 2, [1, 2] or null, the usual replies of a REPL, become errors. Measured on 0.61; see
// docs/clients.md.
func (r *toolRequest) protectText(result *mcp.CallToolResult) {
	info := r.sdk.ClientInfo()
	if info == nil || !strings.HasPrefix(info.Name, "gemini-cli-mcp-client") || len(result.Content) == 0 {
		return
	}
	if first, ok := result.Content[0].(*mcp.TextContent); ok && json.Valid([]byte(first.Text)) {
		first.Text += geminiEndMarker
	}
}
