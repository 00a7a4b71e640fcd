package mcpserver

import (
	"context"
	"net/url"
	"os"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
)

// sandboxState is a capability of Codex. A server that declares it gets, with each call, the
// sandbox that the user chose and the user's directory.
const sandboxState = "codex/sandbox-state-meta"

// A request is a call of a tool, with facts about its client.
type request struct {
	*mcpwire.Call
	sdk  *mcp.CallToolRequest
	beat *heartbeat // of the whole call

	unknown []string       // arguments that the tool does not have
	lane    *mcpwire.Place // among the calls about the same session, until this one has begun; nil when it is about none
}

// named finds the session that a call is about, and the call's place in that session's queue.
// It does both in the order in which the calls came.
func (r *request) named(ctx context.Context, find func() (*view, error)) (*view, error) {
	defer r.Arrival.Leave()
	select {
	case <-r.Arrival.First():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v, err := find()
	if err == nil {
		r.lane = v.lane.Join()
	}
	return v, err
}

// letNextPass lets the next call in the queue begin.
func (r *request) letNextPass() {
	r.Arrival.Leave()
	r.lane.Leave()
}

// directory returns where the client works; "" when it does not say, or names no
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
