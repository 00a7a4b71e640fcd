package mcpserver

import (
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
)

// A call is answered before its client gives up.
func TestClientProfile_CallTimeout(t *testing.T) {
	for name, want := range map[string]time.Duration{
		"claude-code":           600 * time.Second,
		"codex-mcp-client":      280 * time.Second,
		"gemini-cli-mcp-client": 570 * time.Second,
		"Cline":                 50 * time.Second,
		"mcp":                   50 * time.Second,
		"":                      50 * time.Second,
	} {
		r := &toolRequest{sdk: &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{
			"io.modelcontextprotocol/protocolVersion": mcptransport.StatelessVersion,
			"io.modelcontextprotocol/clientInfo":      map[string]any{"name": name, "version": "1"},
		}}}}
		asked := 600_000.0
		if got, err := r.boundedTimeout("timeout_ms", &asked); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", name, got, err, want)
		}
		if got, err := r.boundedTimeout("timeout_ms", nil); err != nil || got != defaultTimeout {
			t.Errorf("%q: got %s, %v without a timeout", name, got, err)
		}
	}
}
