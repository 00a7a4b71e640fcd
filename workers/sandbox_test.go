package workers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

func TestSandbox_ValidateSaysWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		sandbox workers.Sandbox
		want    string
	}{
		{workers.Sandbox{}, "no such sandbox"},
		{workers.Sandbox{Level: "strict"}, `no such sandbox: "strict"; there is read-only, workspace and full`},
		{workers.Sandbox{Level: workers.Workspace}, "no such network"},
		{workers.Sandbox{Level: workers.Full, Writable: []string{"/x"}}, "may write and read everything"},
		{workers.Sandbox{Level: workers.ReadOnly, Network: workers.NetworkNone, Hidden: []string{"x"}}, "is not absolute"},
		{workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone, Workspace: "x"}, "the workspace is not absolute"},
		{workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone, Hosts: []string{"a.org"}}, "hosts are for the network list"},
		{workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkList, Hosts: []string{"a.org/x"}}, "is not a host"},
		{workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkList, Hosts: make([]string, 1001)}, "may name 1000 hosts"},
	} {
		spec := workers.Spec{Name: "x", Path: "/bin/x", Sandbox: &row.sandbox}
		if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: got %v, want %q", row.sandbox, err, row.want)
		}
	}
	for _, fine := range []*workers.Sandbox{nil, {Level: workers.Full}, {Level: workers.Workspace, Network: workers.NetworkFull, Workspace: "/x"}, {Level: workers.ReadOnly, Network: workers.NetworkList, Hosts: []string{"packages", "*.a.org:80"}}} {
		if err := fine.Validate(); err != nil {
			t.Errorf("%+v: got %v, want none", fine, err)
		}
	}
}

func TestSecretVariables_AreKeysAndWaysToThem(t *testing.T) {
	t.Parallel()
	got := workers.SecretVariables([]string{"HOME=/h", "GITHUB_TOKEN=x", "PATH=/bin", "openai_api_key=y", "SSH_AUTH_SOCK=/s", "AWS_PROFILE=p", "AWS_SECRET_ACCESS_KEY=s", "KEYBOARD=us", "DB_PASSWORD=z", "GITHUB_TOKEN=again"})
	if want := []string{"GITHUB_TOKEN", "openai_api_key", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
