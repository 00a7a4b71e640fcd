package mcptransport

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxToolPages bounds the pages of a server's list of tools.
const maxToolPages = 1000

// ToolNames returns the names of the tools of a server. The SDK has no such function, so it asks
// over a connection of its own. Middleware of the server can hide tools from it.
func ToolNames(ctx context.Context, server *mcp.Server) ([]string, error) {
	c := &askingConn{requests: make(chan jsonrpc.Message), answers: make(chan *jsonrpc.Response), closed: make(chan struct{})}
	versions := mcp.SupportedProtocolVersions()
	session, err := server.Connect(ctx, c, &mcp.ServerSessionOptions{State: &mcp.ServerSessionState{
		InitializeParams:  &mcp.InitializeParams{ProtocolVersion: versions[len(versions)-1], ClientInfo: &mcp.Implementation{Name: "turnstone"}},
		InitializedParams: &mcp.InitializedParams{},
	}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // cannot fail: the connection has no stream
	var names []string
	cursor := ""
	for range maxToolPages {
		page, err := c.listTools(ctx, cursor)
		if err != nil {
			return nil, err
		}
		for _, tool := range page.Tools {
			names = append(names, tool.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			return names, nil
		}
	}
	return nil, fmt.Errorf("the list of tools has more than %d pages", maxToolPages)
}

// An askingConn is a connection on which this program asks a server of the same process. It
// implements mcp.Transport as well.
type askingConn struct {
	requests chan jsonrpc.Message   // for the server
	answers  chan *jsonrpc.Response // of the server
	closing  sync.Once
	closed   chan struct{} // closed by Close
}

// listTools asks for one page of the list of tools.
func (c *askingConn) listTools(ctx context.Context, cursor string) (*mcp.ListToolsResult, error) {
	params, err := json.Marshal(&mcp.ListToolsParams{Cursor: cursor})
	if err != nil {
		return nil, err
	}
	select {
	case c.requests <- &jsonrpc.Request{ID: idFromNumber(1), Method: "tools/list", Params: params}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case answer := <-c.answers:
		if answer.Error != nil {
			return nil, answer.Error
		}
		var page mcp.ListToolsResult
		return &page, json.Unmarshal(answer.Result, &page)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Connect implements mcp.Transport.
func (c *askingConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection.
func (c *askingConn) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *askingConn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return nil
}

// Read implements mcp.Connection.
func (c *askingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.requests:
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements mcp.Connection. It drops notifications and requests of the server, such as pings.
func (c *askingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		return nil
	}
	select {
	case c.answers <- answer:
		return nil
	case <-c.closed:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}
