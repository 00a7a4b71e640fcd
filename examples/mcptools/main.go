// Command mcptools is an MCP server with a tool of its own, and with REPL sessions of Python. A
// model can look sightings up, and compute with them in a sandbox.
//
//	claude mcp add birds -- go run ./examples/mcptools
package main

import (
	"context"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/mcptools"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

type place struct {
	Place string `json:"place" jsonschema:"such as harbour"`
}

type sightings struct {
	Counts map[string]int `json:"counts"`
}

func findSightings(_ context.Context, _ *mcp.CallToolRequest, in place) (*mcp.CallToolResult, sightings, error) {
	counts := map[string]map[string]int{"harbour": {"turnstone": 12, "knot": 30}, "marsh": {"spoonbill": 2}}
	return nil, sightings{counts[in.Place]}, nil
}

func newServer(sup *supervisor.Supervisor) (server *mcp.Server, done func(), err error) {
	server = mcp.NewServer(&mcp.Implementation{Name: "birds", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "sightings", Description: "Counts the birds at a place."}, findSightings)
	done, err = mcptools.Add(server, sup, mcptools.Options{Languages: map[string]func(string) workers.Spec{
		"python": func(dir string) workers.Spec { return python.Spec(python.Options{Dir: dir}) },
	}})
	return server, done, err
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
	if err := server.Run(context.Background(), mcptools.Ordered(&mcp.StdioTransport{})); err != nil {
		log.Print(err)
	}
}
