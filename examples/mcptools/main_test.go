//go:build linux || windows

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/mcptools"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, Serial: true})
}

func TestExample(t *testing.T) {
	t.Parallel()
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		t.Skipf("needs Python: %v", spec.Err)
	}
	sandboxcheck.RequireNamespaces(t)
	sup, err := supervisor.New(&supervisor.Options{Dir: sandboxcheck.TempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	server, done, err := newServer(sup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	a, b := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), mcptools.Ordered(a), nil); err != nil {
		t.Fatal(err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"sightings", map[string]any{"place": "harbour"}, `"turnstone":12`},
		{"repl", map[string]any{"input": "counts = {'turnstone': 12, 'knot': 30}"}, "done"},
		{"repl", map[string]any{"input": "sum(counts.values())"}, "42"},
	} {
		result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, block := range result.Content {
			if b, ok := block.(*mcp.TextContent); ok {
				fmt.Fprintln(&text, b.Text)
			}
		}
		if !strings.Contains(text.String(), c.want) {
			t.Errorf("%s: got %q, want %q", c.tool, text.String(), c.want)
		}
	}
}
