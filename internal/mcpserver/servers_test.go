package mcpserver

import (
	"strings"
	"testing"
)

func TestToolsDescriptionSize(t *testing.T) {
	t.Parallel()
	many := make([]string, 100)
	for i := range many {
		many[i] = strings.Repeat("name", 15)
	}
	for _, names := range [][]string{{"github"}, {"everything", "filesystem", "memory", "git", "time"}, many} {
		text := (&toolSet{servers: names}).toolsDescription()
		if tokens := len(text) / 4; tokens > 60 || !strings.Contains(text, names[0][:3]) {
			t.Errorf("%d tokens: %s", tokens, text)
		}
	}
	if text := (&toolSet{}).toolsDescription(); text != "" {
		t.Errorf("without servers: %s", text)
	}
}
