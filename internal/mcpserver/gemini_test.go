package mcpserver_test

import "testing"

func TestReply_GeminiText(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	c.name = "gemini-cli-mcp-client-repl"
	c.initialize("2025-06-18")
	wantText(t, c.runRepl("print 2"), "2\n[end]")
	wantText(t, c.runRepl("print [1,2]"), "[1,2]\n[end]")
	wantText(t, c.runRepl("print two"), "two")
	wantText(t, c.runRepl("print two\nprint 2"), "two\n2")
}
