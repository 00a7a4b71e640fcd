package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// birdForm is the form of the polite server.
var birdForm = &mcp.ElicitParams{Mode: "form", Message: "Which \x1b[31mbird?", RequestedSchema: json.RawMessage(`{
	"type": "object", "required": ["name"], "properties": {
		"tame": {"type": "boolean"},
		"name": {"type": "string", "minLength": 2},
		"kind": {"type": "string", "enum": ["owl", "wren"]},
		"eggs": {"type": "integer", "default": 3}
	}}`)}

// newPoliteServer returns a server that uses the SDK and asks for user input. An older server does
// not support the protocol version in which a result contains such requests.
func newPoliteServer(older bool) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "polite", Version: "1"}, nil)
	if older {
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				if method == discoverMethod {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown"}
				}
				return next(ctx, method, r)
			}
		})
	}
	add := func(name string, call func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, call)
	}
	jsonResult := func(v any) (*mcp.CallToolResult, error) {
		text, err := json.Marshal(v)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, err
	}
	asks := func(p *mcp.ElicitParams) func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if answer, ok := r.Params.InputResponses["bird"].(*mcp.ElicitResult); ok {
				return jsonResult(map[string]any{"action": answer.Action, "content": answer.Content})
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"bird": p}, RequestState: "s"}, nil
		}
	}
	add("ask", asks(birdForm))
	add("visit", asks(&mcp.ElicitParams{Mode: "url", Message: "Sign in", URL: "https://example.org/sign?in=1", ElicitationID: "v1"}))
	add("lure", asks(&mcp.ElicitParams{Mode: "url", Message: "Sign in", URL: "file:///etc/passwd", ElicitationID: "v2"}))
	add("first", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{{Mode: "url", Message: "Sign in first", URL: "https://example.org/first", ElicitationID: "v3"}})
	})
	add("patient", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) { // older servers only
		ctx, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		defer stop()
		_, err := r.Session.Elicit(ctx, birdForm)
		return jsonResult(fmt.Sprint("gave up: ", err))
	})
	add("hello", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return jsonResult("hello") })
	return server
}

func runPoliteServer(older bool) {
	if err := newPoliteServer(older).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
