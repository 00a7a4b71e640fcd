//go:build linux

package clients

import (
	"encoding/json"
	"strings"
	"testing"
)

// Exit statuses of the Inspector.
const (
	inspectorPassed    = 0
	inspectorToolError = 5
)

// runInspector runs one method of a new server in the MCP Inspector.
func runInspector(t *testing.T, wantStatus int, args ...string) string {
	t.Helper()
	p := newTestHome(t)
	argv := nodeCommand(t, installedFile(t, "@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli", "-q")
	argv = append(append(argv, args[:2]...), append(replCommand(), args[2:]...)...)
	cmd := p.newCommand(argv, "MCP_INSPECTOR_SECRET_STORE=memory")
	out, err := runToEnd(t, cmd)
	if status := cmd.ProcessState.ExitCode(); status != wantStatus {
		t.Errorf("the Inspector's status is %d, want %d: %v\n%s", status, wantStatus, err, out)
	}
	return out
}

func TestInspector(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			var listed struct{ Tools []struct{ Name string } }
			out := runInspector(t, inspectorPassed, "--protocol-era", era, "--method", "tools/list", "--strict")
			if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed.Tools) == 0 || listed.Tools[0].Name != "repl" {
				t.Errorf("got %v, %s", err, out)
			}

			var called sdkResult
			out = runInspector(t, inspectorPassed, "--protocol-era", era,
				"--method", "tools/call", "--tool-name", "repl", "--tool-args-json", `{"input": "1 + 1"}`)
			if err := json.Unmarshal([]byte(out), &called); err != nil || !strings.HasPrefix(called.joinText(), "[sandbox ") || !strings.HasSuffix(called.joinText(), "]\n2") {
				t.Errorf("got %v, %s", err, out)
			}

			out = runInspector(t, inspectorToolError, "--protocol-era", era,
				"--method", "tools/call", "--tool-name", "repl", "--tool-args-json", `{"code": "1 + 1"}`)
			if !strings.Contains(out, "input is required") && !strings.Contains(out, "code") {
				t.Errorf("invalid arguments: got %s", out)
			}
		})
	}
}
