package mcpserver_test

import (
	"encoding/json"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

// docs/agents.md states how many tokens the tool definitions for two languages cost a model. This
// test counts characters instead. Count the tokens again before raising the limit.
func TestToolListSize(t *testing.T) {
	t.Parallel()
	const most = 2850
	c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"python": fakeSpec(nil), "r": fakeSpec(nil)}})
	var listed struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(c.request("tools/list", nil).Result, &listed); err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, tool := range listed.Tools {
		text, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		size += len([]rune(string(text)))
	}
	if len(listed.Tools) != 5 || size > most {
		t.Errorf("%d tools have %d characters, want at most %d", len(listed.Tools), size, most)
	}
}
