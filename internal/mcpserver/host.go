package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/elicitation"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
)

// maxUsers bounds the users whose shared sessions are kept apart. One more forgets a user who has
// no session.
const maxUsers = 1024

// hostTools are the tools on the MCP server of another program, the host. Each MCP session of that
// server is one caller with its own REPL sessions. Over HTTP without MCP sessions, all calls of one
// user share their REPL sessions, as RunHTTP has it.
type hostTools struct {
	options *Options
	idle    time.Duration        // of shared sessions
	own     map[string]*mcp.Tool // by name, as callers with an MCP session see them
	shared  map[string]*mcp.Tool // by name, as all others see them
	closing sync.WaitGroup       // counts goroutines that close a caller; mu is held when one is started

	mu      sync.Mutex
	removed bool                               // guarded by mu
	last    int                                // guarded by mu; the number of the last caller
	callers map[*mcp.ServerSession]*hostCaller // guarded by mu; emptied as MCP sessions end
	users   map[string]*hostCaller             // guarded by mu; callers without an MCP session by user; "" without authentication
}

// A hostCaller is a caller on the server of a host.
type hostCaller struct {
	*server
	openCalls int // guarded by hostTools.mu
}

// AddTo adds the tools to the MCP server of another program. A tool of that server with the same
// name is an error. remove takes the tools away, closes the sessions that they opened, even busy
// ones, and waits for that. It may be called several times.
func AddTo(ctx context.Context, sdk *mcp.Server, opts *Options, idle time.Duration) (remove func(), err error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	o.hostID = strings.ToLower(rand.Text()[:8])
	h := newHostTools(o, idle)
	tools := newToolSet(o, nil, false).define()
	taken, err := mcptransport.ToolNames(ctx, sdk)
	if err != nil {
		return nil, fmt.Errorf("cannot list the tools that the server has: %w", err)
	}
	for _, tool := range tools {
		if slices.Contains(taken, tool.Name) {
			return nil, fmt.Errorf("the server has a tool %q already; choose another prefix", tool.Name)
		}
	}
	for _, tool := range newToolSet(o, nil, true).define() {
		h.shared[tool.Name] = tool.Tool
	}
	for _, tool := range tools {
		h.own[tool.Name] = tool.Tool
		sdk.AddTool(tool.Tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return h.runTool(ctx, req, tool.handler)
		})
	}
	sdk.AddReceivingMiddleware(h.adaptResults)
	sdk.AddSendingMiddleware(elicitation.ConvertAnswers)
	return func() {
		sdk.RemoveTools(slices.Collect(maps.Keys(h.own))...)
		h.close()
	}, nil
}

func newHostTools(o *Options, idle time.Duration) *hostTools {
	return &hostTools{
		options: o, idle: idle, own: make(map[string]*mcp.Tool), shared: make(map[string]*mcp.Tool),
		callers: make(map[*mcp.ServerSession]*hostCaller), users: make(map[string]*hostCaller),
	}
}

// QueueOfTool returns the queue of the calls of a tool: the prefix of its name. ok is false for a
// tool that has none of the names here.
func QueueOfTool(name string) (queue string, ok bool) {
	for _, own := range []string{"repl", "repl_output", "repl_interrupt", "repl_reset", "repl_sessions"} {
		if prefix, found := strings.CutSuffix(name, own); found {
			return prefix, true
		}
	}
	return "", false
}

// runTool runs a tool for the caller of a request.
func (h *hostTools) runTool(ctx context.Context, req *mcp.CallToolRequest, handler toolHandler) (*mcp.CallToolResult, error) {
	c, err := h.beginCall(req)
	if err != nil {
		return nil, err
	}
	defer h.endCall(c)
	return c.server.runTool(ctx, req, handler)
}

var errRemoved = errors.New("this server no longer has REPL sessions")

// beginCall returns the caller of a request. It must be passed to endCall.
func (h *hostTools) beginCall(req *mcp.CallToolRequest) (*hostCaller, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.removed {
		return nil, errRemoved
	}
	var c *hostCaller
	if mcptransport.IsStateless(req) {
		c = h.userLocked(req)
	} else {
		c = h.callerLocked(req.Session)
	}
	c.openCalls++
	return c, nil
}

func (h *hostTools) endCall(c *hostCaller) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.openCalls--
}

func (h *hostTools) newCallerLocked(client mcptransport.ServedClient) *hostCaller {
	h.last++
	client.Calls, client.Number = new(mcptransport.HostCalls), h.last
	return &hostCaller{server: newServer(h.options, client)}
}

// callerLocked returns the caller of an MCP session. Its REPL sessions end with the MCP session.
func (h *hostTools) callerLocked(session *mcp.ServerSession) *hostCaller {
	if c := h.callers[session]; c != nil {
		return c
	}
	c := h.newCallerLocked(mcptransport.ServedClient{})
	h.callers[session] = c
	go func() {
		_ = session.Wait() // why it ended does not matter
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.callers[session] == c { // else it is closed already
			delete(h.callers, session)
			h.closing.Go(c.Close)
		}
	}()
	return c
}

// userLocked returns the caller of a request without an MCP session. Users whom the host has
// authenticated do not share sessions with each other.
func (h *hostTools) userLocked(req *mcp.CallToolRequest) *hostCaller {
	name := ""
	if req.Extra.TokenInfo != nil {
		name = req.Extra.TokenInfo.UserID
	}
	if c := h.users[name]; c != nil {
		return c
	}
	if len(h.users) >= maxUsers { // the supervisor bounds the users with sessions
		h.forgetUserLocked()
	}
	c := h.newCallerLocked(mcptransport.ServedClient{Shared: true, IdleTimeout: h.idle})
	h.users[name] = c
	return c
}

// forgetUserLocked forgets one user without sessions and calls.
func (h *hostTools) forgetUserLocked() {
	for name, c := range h.users {
		if c.openCalls == 0 && len(c.sessions.AllSessions()) == 0 {
			delete(h.users, name)
			h.closing.Go(c.Close)
			return
		}
	}
}

// close closes all sessions, and waits until they are closed.
func (h *hostTools) close() {
	h.mu.Lock()
	h.removed = true
	open := slices.AppendSeq(slices.Collect(maps.Values(h.callers)), maps.Values(h.users))
	clear(h.callers)
	clear(h.users)
	for _, c := range open {
		h.closing.Go(c.Close)
	}
	h.mu.Unlock()
	h.closing.Wait()
}

// adaptResults is middleware of the host's server. It describes the tools to callers without an MCP
// session, who must name their REPL session. And it declares that the tools respect the sandbox
// that a user of Codex has chosen.
func (h *hostTools) adaptResults(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		switch r := result.(type) {
		case *mcp.ListToolsResult:
			if mcptransport.IsStateless(req) {
				r.Tools = h.sharedTools(r.Tools)
			}
		case *mcp.InitializeResult:
			h.declareCodex(r.Capabilities)
		case *mcp.DiscoverResult:
			h.declareCodex(r.Capabilities)
		}
		return result, nil
	}
}

// sharedTools replaces the tools of this package in a list. A tool of the host that has taken the
// name of one stays.
func (h *hostTools) sharedTools(list []*mcp.Tool) []*mcp.Tool {
	list = slices.Clone(list)
	for i, tool := range list {
		if tool == h.own[tool.Name] {
			list[i] = h.shared[tool.Name]
		}
	}
	return list
}

// declareCodex adds the capability with which Codex sends its user's sandbox along with each call.
func (h *hostTools) declareCodex(to *mcp.ServerCapabilities) {
	h.mu.Lock()
	removed := h.removed
	h.mu.Unlock()
	if to == nil || removed {
		return
	}
	to.Experimental = maps.Clone(to.Experimental)
	if to.Experimental == nil {
		to.Experimental = make(map[string]any)
	}
	to.Experimental[clientprofile.CodexCapability] = struct{}{}
}
