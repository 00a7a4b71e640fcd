package sandbox_test

import (
	"reflect"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
)

func TestSandbox_Intersect(t *testing.T) {
	t.Parallel()
	const dir = "/p"
	full := &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkFull}
	reads := &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone}
	theirs := &sandbox.Policy{Level: sandbox.ReadOnly, Writable: []string{dir, "/data"}, Network: sandbox.NetworkNone}
	agent := &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, AskUser: true}
	for _, row := range []struct {
		name        string
		ours, other *sandbox.Policy
		want        *sandbox.Policy // nil means the receiver
	}{
		{"nothing is said", agent, nil, nil},
		{"full widens nothing", agent, full, nil},
		{"no sandbox at all", nil, full, nil},
		{"the same directory", agent, theirs, nil},
		{"read-only", agent, reads, &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkList, AskUser: true}},
		{"read-only of a session without a sandbox", nil, reads, &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkList, AskUser: true}},
		{"directories of the other policy for a session without a sandbox", nil, theirs, &sandbox.Policy{Level: sandbox.Workspace, Writable: []string{"/data"}, AcceptPaths: []string{"/"}, Network: sandbox.NetworkList, AskUser: true}},
		{"hosts", &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, Hosts: []string{"a.org"}}, theirs,
			&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, Hosts: []string{}}},
		{"the whole network", &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkFull}, theirs,
			&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList}},
		{"no network stays none", &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, theirs, nil},
		{"directories that both have", &sandbox.Policy{Level: sandbox.Workspace, Writable: []string{"/data/x", "/other"}, Network: sandbox.NetworkNone}, theirs,
			&sandbox.Policy{Level: sandbox.Workspace, Writable: []string{"/data/x"}, AcceptPaths: []string{dir}, Network: sandbox.NetworkNone}},
		{"a part of the workspace", agent, &sandbox.Policy{Level: sandbox.ReadOnly, Writable: []string{"/p/out", "/pp"}, Network: sandbox.NetworkFull},
			&sandbox.Policy{Level: sandbox.ReadOnly, Writable: []string{"/p/out"}, AcceptPaths: []string{dir}, Network: sandbox.NetworkList, AskUser: true}},
		{"the workspace lies in that of the other policy", agent, &sandbox.Policy{Level: sandbox.ReadOnly, Writable: []string{"/"}, Network: sandbox.NetworkFull}, nil},
		{"hidden and protected paths are added", &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Hidden: []string{"/k"}},
			&sandbox.Policy{Level: sandbox.ReadOnly, Writable: []string{dir}, Network: sandbox.NetworkNone, Hidden: []string{"/k", "/s"}, Protected: []string{"/p/lock"}},
			&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Hidden: []string{"/k", "/s"}, Protected: []string{"/p/lock"}}},
		{"paths hidden by the other policy are not shown", &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Readable: []string{"/s/x", "/h/.data"}},
			&sandbox.Policy{Level: sandbox.ReadOnly, Writable: []string{dir}, Network: sandbox.NetworkNone, Hidden: []string{"/s"}},
			&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, Readable: []string{"/h/.data"}, Hidden: []string{"/s"}}},
		{"no network for a session that may write everything", nil, &sandbox.Policy{Level: sandbox.Full, Network: sandbox.NetworkNone},
			&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkList, AskUser: true}},
	} {
		got, narrowed := row.ours.Intersect(row.other, dir)
		want := row.want
		if narrowed != (want != nil) {
			t.Errorf("%s: narrowed: got %v, want %v", row.name, narrowed, want != nil)
		}
		if want == nil {
			want = row.ours
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", row.name, got, want)
		}
		if again, narrowed := got.Intersect(row.other, dir); narrowed || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: narrowed twice it is %+v, want %+v", row.name, again, got)
		}
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
