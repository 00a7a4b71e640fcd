//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// birdServerEnv turns this program into an MCP server with a tool that asks for a bird.
const birdServerEnv = "TURNSTONE_E2E_BIRDS"

func runBirdServer(string) (status int) {
	server := mcp.NewServer(&mcp.Implementation{Name: "birds", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "pick", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["bird"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"bird": &mcp.ElicitParams{Mode: "form", Message: "Which bird?", RequestedSchema: json.RawMessage(`{
				"type": "object", "required": ["name"], "properties": {
					"name": {"type": "string", "title": "Name", "minLength": 2},
					"eggs": {"type": "integer", "default": 3},
					"kind": {"type": "string", "enum": ["owl", "wren"]}}}`)}}, RequestState: "s"}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("got %s %v", answer.Action, answer.Content)}}}, nil
	})
	_ = server.Run(context.Background(), &mcp.StdioTransport{})
	return 0
}

// writeBirdServerConfig writes the configuration of the server and returns the flags for it.
func (h home) writeBirdServerConfig(t *testing.T) []string {
	t.Helper()
	self := testexec.OwnPath()
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"birds": map[string]any{"command": self, "env": map[string]string{birdServerEnv: "1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(h.dir, "servers.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--mcp-servers", file, "--allow-tool", "birds.*"}
}

func TestDoctor_ToolServers(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	flags := h.writeBirdServerConfig(t)
	text, err := os.ReadFile(flags[1])
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(text), `"mcpServers":{`, `"mcpServers":{"broken":{"command":"sh","args":["-c","echo no licence >&2; exit 3"]},"off":{"command":"sh","disabled":true},`, 1)
	file := filepath.Join(h.dir, "a,b.json") // a path may contain a comma
	if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	got := h.runRepl(t, "", "doctor", "--lang", "python", "--mcp-servers", file)
	for _, want := range []string{"MCP servers, for code in sessions", "ok      birds: tools: 1, of which it marks 0 as destructive; started in ", "FAILED  broken: the server broken did not start: ", "it ended with status 3: no licence", "note: server off is skipped: disabled"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("doctor does not say %q: %v", want, got)
		}
	}
	if got.status != 1 {
		t.Errorf("got status %d with a server that does not start", got.status)
	}
}

const pickBirdCode = "from turnstone.tools import birds; print(birds.pick())"

// answerForm answers the form at a terminal.
func (u *terminalUser) answerForm() {
	u.waitText("the server birds asks: Which bird?")
	u.waitText("y (answer it) or n: ")
	u.typeKeys("perhaps\r")
	u.waitText("y (answer it) or n: ")
	u.typeKeys("y\r")
	u.waitText("Name: ")
	u.typeKeys("A\r")
	u.waitText("Name: it has fewer than 2 characters")
	u.waitText("Name: ")
	u.typeKeys("Ada\r")
	u.waitText("eggs (a whole number; default 3): ")
	u.typeKeys("\r")
	u.waitText("kind (one of owl, wren; may be empty): ")
	u.typeKeys("owl\r")
}

func TestForm(t *testing.T) {
	t.Parallel()

	t.Run("a user fills it in at the terminal", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		p := h.startAtPrompt(t, append([]string{"--lang", "python"}, h.writeBirdServerConfig(t)...)...)
		p.enterLine(pickBirdCode)
		p.answerForm()
		p.waitText("got accept map[eggs:3 kind:owl name:Ada]")
		p.waitText(">>> ")
		p.enterLine(pickBirdCode)
		p.waitText("or n: ")
		p.typeKeys("n\r")
		p.waitText("got decline map[]")
		p.enterLine(pickBirdCode)
		p.waitText("or n: ")
		p.typeKeys("y\r")
		p.waitText("Name: ")
		p.typeKeys(ctrlD)
		p.waitText("got cancel map[]")
		p.waitText(">>> ")
		p.enterLine(pickBirdCode)
		p.waitText("or n: ")
		p.typeKeys("\x03")
		p.waitText("KeyboardInterrupt")
		p.waitText(">>> ")
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})

	// The client cannot ask its user, so the reply contains the command by which the user answers.
	t.Run("an attached user fills it in", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t, h.writeBirdServerConfig(t)...)
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		got := a.callRepl(pickBirdCode)
		if !strings.Contains(got, "waiting for the user: the server birds asks: Which bird?") || !strings.Contains(got, `answer there: repl attach bot (`) {
			t.Fatalf("got %q", got)
		}
		for command, want := range map[string]string{"input": "asks the user; answer with repl attach bot", "grant": "needs a user at a terminal"} {
			if got := h.runRepl(t, "y\n", command, "bot"); got.status == 0 || !strings.Contains(got.stderr, want) {
				t.Errorf("repl %s: got %v", command, got)
			}
		}
		p := h.startTerminal(t, "attach", "bot")
		p.answerForm()
		p.waitText("got accept map[eggs:3 kind:owl name:Ada]")
		if got := a.callTool("repl_output", map[string]any{"wait_ms": 30_000}); !strings.Contains(got, "got accept map[eggs:3 kind:owl name:Ada]") {
			t.Errorf("the client sees %q", got)
		}
		p.typeKeys(ctrlD)
		p.waitExit(0)
	})

	t.Run("is declined without a user", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		got := h.runRepl(t, "", append([]string{"--lang", "python", "-e", pickBirdCode}, h.writeBirdServerConfig(t)...)...)
		if got.status != 0 || !strings.Contains(got.stdout, "got decline") || !strings.Contains(got.stderr, "declined, because no user is available to answer: the server birds asks: Which bird?") {
			t.Errorf("got %+v", got)
		}
	})
}
