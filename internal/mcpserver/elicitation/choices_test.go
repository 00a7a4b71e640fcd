package elicitation

import (
	"slices"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestPermissionChoices(t *testing.T) {
	t.Parallel()
	p := &session.PermissionRequest{Grant: session.Grant{Call: "a.b"}, Wider: &session.Grant{Call: "a.*"}}
	if want := []string{choiceAllowSession, "allow all of a.* that are not destructive, in this session", choiceAllowAlways, choiceDeny}; !slices.Equal(permissionChoices(p), want) {
		t.Errorf("got %q", permissionChoices(p))
	}
	file := &session.PermissionRequest{AccessDenied: session.AccessDenied{Op: "write", Path: "/data/x"}, Grant: session.Grant{Write: "/data"}}
	if want := []string{choiceAllowSession, "allow only this file, in this session", choiceAllowAlways, choiceDeny}; !slices.Equal(permissionChoices(file), want) {
		t.Errorf("a file: got %q", permissionChoices(file))
	}
	p.Wider = nil
	if want := []string{choiceAllowSession, choiceAllowAlways, choiceDeny}; !slices.Equal(permissionChoices(p), want) {
		t.Errorf("a destructive tool: got %q", permissionChoices(p))
	}
}
