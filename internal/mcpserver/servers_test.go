package mcpserver

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestToolsDescriptionSize(t *testing.T) {
	t.Parallel()
	many := make([]string, 100)
	for i := range many {
		many[i] = strings.Repeat("name", 15)
	}
	for _, names := range [][]string{{"github"}, {"everything", "filesystem", "memory", "git", "time"}, many} {
		text := (&server{servers: names}).toolsDescription()
		if tokens := len(text) / 4; tokens > 60 || !strings.Contains(text, names[0][:3]) {
			t.Errorf("%d tokens: %s", tokens, text)
		}
	}
	if text := (&server{}).toolsDescription(); text != "" {
		t.Errorf("without servers: %s", text)
	}
}

func TestPermissionChoices(t *testing.T) {
	t.Parallel()
	p := &session.PermissionRequest{Grant: session.Grant{Call: "a.b"}, Wider: &session.Grant{Call: "a.*"}}
	if want := []string{choiceAllowSession, "allow all of a.* that are not destructive, in this session", choiceAllowAlways, choiceDeny}; !slices.Equal(permissionChoices(p), want) {
		t.Errorf("got %q", permissionChoices(p))
	}
	p.Wider = nil
	if want := []string{choiceAllowSession, choiceAllowAlways, choiceDeny}; !slices.Equal(permissionChoices(p), want) {
		t.Errorf("a destructive tool: got %q", permissionChoices(p))
	}
}
