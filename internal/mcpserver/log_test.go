package mcpserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log has the outcome of each request, but no arguments or results.
func TestLog_OmitsContent(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := newInitializedClient(t, &setup{log: file})
	wantText(t, c.runRepl("print hunter2"), "hunter2")
	c.call("repl", map[string]any{"input": "print hunter2", "timeout_ms": -1})
	c.sendLine("hunter2")
	c.waitMessage("an error", func(a answer) bool { return a.Error != nil })
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"msg=request method=tools/call tool=repl ms=", "failed=false", "failed=true",
		`msg="request refused" code=-32700`, `msg="session ready" session=main language=fake`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log has no %s: %s", want, text)
		}
	}
	if strings.Contains(string(text), "hunter2") {
		t.Errorf("the log has contents of requests: %s", text)
	}
}
