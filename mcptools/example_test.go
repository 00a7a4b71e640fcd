package mcptools_test

import (
	"context"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/mcptools"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// A program with an MCP server of its own adds the tools, and serves a client on its standard
// streams.
func ExampleAdd() {
	main := func() {
		supervisor.MonitorMain() // must be first
		sup, err := supervisor.New(nil)
		if err != nil {
			log.Fatal(err)
		}
		defer sup.Close()
		server := mcp.NewServer(&mcp.Implementation{Name: "mine", Version: "1.0.0"}, nil)
		done, err := mcptools.Add(server, sup, mcptools.Options{Languages: map[string]func(string) workers.Spec{
			"python": func(dir string) workers.Spec { return python.Spec(python.Options{Dir: dir}) },
		}})
		if err != nil {
			log.Fatal(err)
		}
		defer done()
		if err := server.Run(context.Background(), mcptools.Ordered(&mcp.StdioTransport{})); err != nil {
			log.Print(err)
		}
	}
	_ = main
}

// A server whose user owns the machine may let that user allow more, and give code the registries of
// packages from the start.
func ExampleDefaultSandbox() {
	add := func(server *mcp.Server, sup *supervisor.Supervisor, o mcptools.Options) (done func(), err error) {
		if policy := mcptools.DefaultSandbox(); policy != nil { // the system has sandboxes
			policy.AskUser = true
			policy.Hosts = []string{sandbox.PackageHosts}
			o.Sandbox = policy
		}
		return mcptools.Add(server, sup, o)
	}
	_ = add
}
