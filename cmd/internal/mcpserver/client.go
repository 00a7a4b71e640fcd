package mcpserver

import (
	"net/url"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sandboxState is a capability of Codex. A server that declares it gets with each
// call the sandbox that the user chose, and where the user works.
const sandboxState = "codex/sandbox-state-meta"

// A request is a call of a tool and what its client says about itself.
type request struct {
	*call
	sdk *mcp.CallToolRequest
}

// directory is where the client works; "" when it does not say, or names no
// directory.
func (r *request) directory() string {
	state, _ := r.sdk.Params.Meta[sandboxState].(map[string]any)
	text, _ := state["sandboxCwd"].(string)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
		return ""
	}
	dir := filepath.Clean(u.Path)
	if i, err := os.Stat(dir); err != nil || !i.IsDir() {
		return ""
	}
	return dir
}
