package mcpserver

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sandboxState is a capability of Codex. A server that declares it gets with each
// call the sandbox that the user chose, and where the user works.
const sandboxState = "codex/sandbox-state-meta"

// A request is a call of a tool and what its client says about itself.
type request struct {
	*call
	sdk  *mcp.CallToolRequest
	beat *heartbeat // of the whole call

	unknown []string // arguments that the tool does not have
	lane    *place   // among the calls about the same session, until this one has begun; nil when it is about none
}

// A budget bounds the text of one result.
type budget struct {
	chars int
	bytes int // 0 when the client does not count them
}

// defaultBudget is what a reply holds for a client that is not known to hold less.
const defaultBudget = 10_000

// cuts are where clients that name themselves so cut the text of a result, each in
// its own way and without our line that says where the rest is. A reply stays a
// tenth below. The figures were measured on Codex 0.169, Gemini CLI 0.61 and Claude
// Code 2.1.329.
var cuts = []struct {
	client string // the beginning of its name
	at     budget
}{
	{"codex-mcp-client", budget{bytes: 12_000}},      // keeps head and tail; its user can change it
	{"gemini-cli-mcp-client", budget{chars: 40_000}}, // keeps 8,000 and 32,000, and a file
	{"claude-code", budget{chars: 50_000}},           // keeps 2 KB, and a file; more where _meta says so
}

// budget is what the client lets through.
func (r *request) budget() budget {
	b := budget{chars: defaultBudget}
	info := r.sdk.ClientInfo()
	if info == nil {
		return b
	}
	for _, cut := range cuts {
		if !strings.HasPrefix(info.Name, cut.client) {
			continue
		}
		if cut.at.chars > 0 {
			b.chars = min(b.chars, cut.at.chars/10*9)
		}
		if cut.at.bytes > 0 {
			b.bytes = cut.at.bytes / 10 * 9
			b.chars = min(b.chars, b.bytes)
		}
	}
	return b
}

// directory is where the client works; "" when it does not say, or names no
// directory.
func (r *request) directory() string {
	state, _ := r.sdk.Params.Meta[sandboxState].(map[string]any)
	text, _ := state["sandboxCwd"].(string)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
		return ""
	}
	dir := filepath.Clean(filepath.FromSlash(u.Path))
	if filepath.VolumeName(dir[1:]) != "" { // file:///C:/x has one slash before it
		dir = dir[1:]
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	if i, err := os.Stat(dir); err != nil || !i.IsDir() {
		return ""
	}
	return dir
}
