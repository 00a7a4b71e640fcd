// Command mcp-go is an MCP server that is built on github.com/mark3labs/mcp-go and has REPL sessions
// of Python. The package mcptools is for servers of the Go SDK, so this program has such a server in
// memory, and forwards the calls of each client to it through a client of its own.
//
// Questions to the user of the client are not forwarded. Code that asks for a secret is told that
// nobody can be asked.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"sync"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/mcptools"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// A forwarder forwards calls to a server in memory. Each session of mcp-go is one client of it, so
// that sessions have variables of their own.
type forwarder struct {
	from *mcp.Server
	to   *mcpgoserver.MCPServer

	mu      sync.Mutex
	clients map[string]*mcp.ClientSession // guarded by mu; by the id of the session of mcp-go
}

// connect connects a client. With an id, its progress goes to that session.
func (f *forwarder) connect(id string) (*mcp.ClientSession, error) {
	a, b := mcp.NewInMemoryTransports()
	if _, err := f.from.Connect(context.Background(), mcptools.Ordered(a), nil); err != nil {
		return nil, err
	}
	return mcp.NewClient(&mcp.Implementation{Name: "mcp-go", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			_ = f.to.SendNotificationToSpecificClient(id, "notifications/progress", map[string]any{
				"progressToken": r.Params.ProgressToken, "progress": r.Params.Progress, "message": r.Params.Message,
			})
		},
	}).Connect(context.Background(), b, nil)
}

// clientOf returns the client of the session that a call of mcp-go belongs to.
func (f *forwarder) clientOf(ctx context.Context) (*mcp.ClientSession, error) {
	session := mcpgoserver.ClientSessionFromContext(ctx)
	if session == nil {
		return nil, errors.New("the call has no session")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.clients[session.SessionID()]; c != nil {
		return c, nil
	}
	c, err := f.connect(session.SessionID())
	if err == nil {
		f.clients[session.SessionID()] = c
	}
	return c, err
}

// forget ends the client of a session that has ended, and with it its REPL sessions.
func (f *forwarder) forget(_ context.Context, session mcpgoserver.ClientSession) {
	f.mu.Lock()
	c := f.clients[session.SessionID()]
	delete(f.clients, session.SessionID())
	f.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// call forwards a call. Both libraries have the same messages, so the result is copied as JSON.
func (f *forwarder) call(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
	c, err := f.clientOf(ctx)
	if err != nil {
		return nil, err
	}
	params := &mcp.CallToolParams{Name: r.Params.Name, Arguments: r.GetRawArguments()}
	if r.Params.Meta != nil && r.Params.Meta.ProgressToken != nil {
		params.SetProgressToken(r.Params.Meta.ProgressToken)
	}
	result, err := c.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return mcpgo.ParseCallToolResult((*json.RawMessage)(&text))
}

// addTools adds the tools of the server in memory to that of mcp-go.
func (f *forwarder) addTools(ctx context.Context) error {
	c, err := f.connect("")
	if err != nil {
		return err
	}
	defer c.Close()
	for tool, err := range c.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		schema, err := json.Marshal(tool.InputSchema)
		if err != nil {
			return err
		}
		f.to.AddTool(mcpgo.NewToolWithRawSchema(tool.Name, tool.Description, schema), f.call)
	}
	return nil
}

// newServer returns a server of mcp-go with the tools.
func newServer(sup *supervisor.Supervisor) (server *mcpgoserver.MCPServer, done func(), err error) {
	f := &forwarder{clients: make(map[string]*mcp.ClientSession)}
	hooks := new(mcpgoserver.Hooks)
	hooks.AddOnUnregisterSession(f.forget)
	f.to = mcpgoserver.NewMCPServer("birds", "1.0.0", mcpgoserver.WithHooks(hooks))
	f.from = mcp.NewServer(&mcp.Implementation{Name: "birds", Version: "1.0.0"}, nil)
	done, err = mcptools.Add(f.from, sup, mcptools.Options{Languages: map[string]func(string) workers.Spec{
		"python": func(dir string) workers.Spec { return python.Spec(python.Options{Dir: dir}) },
	}})
	if err != nil {
		return nil, nil, err
	}
	if err := f.addTools(context.Background()); err != nil {
		done()
		return nil, nil, err
	}
	return f.to, done, nil
}

func main() {
	supervisor.MonitorMain()
	sup, err := supervisor.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sup.Close()
	server, done, err := newServer(sup)
	if err != nil {
		log.Fatal(err)
	}
	defer done()
	if err := mcpgoserver.ServeStdio(server); err != nil {
		log.Print(err)
	}
}
