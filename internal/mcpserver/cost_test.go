package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/workers"
)

// docs/agents.md states how many tokens the tool definitions for two languages cost a model. This
// test counts characters instead. Count the tokens again before raising the limit.
func TestToolListSize(t *testing.T) {
	t.Parallel()
	const most = 3030
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
		var text strings.Builder
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // as a model sees it
		if err := e.Encode(tool); err != nil {
			t.Fatal(err)
		}
		size += utf8.RuneCountInString(text.String()) - 1
	}
	if len(listed.Tools) != 5 || size > most {
		t.Errorf("%d tools have %d characters, want at most %d", len(listed.Tools), size, most)
	}
}
