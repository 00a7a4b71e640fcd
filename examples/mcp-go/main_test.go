//go:build linux || windows

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	supervisor.MonitorMain()
	os.Exit(m.Run())
}

func connect(t *testing.T, server *mcpgoserver.MCPServer) *mcpgoclient.Client {
	t.Helper()
	c, err := mcpgoclient.NewInProcessClient(server)
	if err == nil {
		err = c.Start(t.Context())
	}
	if err == nil {
		_, err = c.Initialize(t.Context(), mcpgo.InitializeRequest{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func run(ctx context.Context, t *testing.T, c *mcpgoclient.Client, code string) (text string) {
	t.Helper()
	r := mcpgo.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = "repl", map[string]any{"input": code}
	result, err := c.CallTool(ctx, r)
	if err != nil {
		return "error: " + err.Error()
	}
	for _, block := range result.Content {
		if b, ok := block.(mcpgo.TextContent); ok {
			text += b.Text + "\n"
		}
	}
	if strings.Contains(text, "sandbox: user namespace") { // this system refuses sandboxes
		t.Skip(text)
	}
	return text
}

func TestExample_Forward(t *testing.T) {
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("needs Python: %v", spec.Err)
	}
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer sup.Close()
	server, done, err := newServer(sup)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	one, two := connect(t, server), connect(t, server)
	tools, err := one.ListTools(t.Context(), mcpgo.ListToolsRequest{})
	if err != nil || len(tools.Tools) != 5 {
		t.Fatalf("got %+v, %v", tools, err)
	}
	run(t.Context(), t, one, "x = 6")
	if got := run(t.Context(), t, one, "x * 7"); !strings.Contains(got, "42") {
		t.Errorf("got %q", got)
	}
	if got := run(t.Context(), t, two, "x"); !strings.Contains(got, "NameError") {
		t.Errorf("sessions share variables: %q", got)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	run(short, t, one, "import time; time.sleep(60)")
	if got := run(t.Context(), t, one, "x"); !strings.Contains(got, "6") || !strings.Contains(got, "cancelled") {
		t.Errorf("after a cancelled call: %q", got)
	}
	_ = one.Close()
	for end := time.Now().Add(30 * time.Second); len(sup.Sessions()) > 1; {
		if time.Now().After(end) {
			t.Fatal("the session of a client that has left remains")
		}
		<-time.After(10 * time.Millisecond)
	}
	if got := run(t.Context(), t, two, "6"); !strings.Contains(got, "6") {
		t.Errorf("got %q", got)
	}
}
