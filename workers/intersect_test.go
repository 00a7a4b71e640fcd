package workers_test

import (
	"reflect"
	"testing"

	"github.com/turnstone-repl/turnstone/workers"
)

func TestSandbox_Intersect(t *testing.T) {
	t.Parallel()
	const dir = "/p"
	full := &workers.Policy{Level: workers.Full, Network: workers.NetworkFull}
	reads := &workers.Policy{Level: workers.ReadOnly, Network: workers.NetworkNone}
	theirs := &workers.Policy{Level: workers.ReadOnly, Writable: []string{dir, "/data"}, Network: workers.NetworkNone}
	agent := &workers.Policy{Level: workers.Workspace, Network: workers.NetworkList, AskUser: true}
	for _, row := range []struct {
		name        string
		ours, other *workers.Policy
		want        *workers.Policy // nil means the receiver
	}{
		{"nothing is said", agent, nil, nil},
		{"full widens nothing", agent, full, nil},
		{"no sandbox at all", nil, full, nil},
		{"the same directory", agent, theirs, nil},
		{"read-only", agent, reads, &workers.Policy{Level: workers.ReadOnly, Network: workers.NetworkList, AskUser: true}},
		{"read-only of a session without a sandbox", nil, reads, &workers.Policy{Level: workers.ReadOnly, Network: workers.NetworkList, AskUser: true}},
		{"their directories for a session without a sandbox", nil, theirs, &workers.Policy{Level: workers.Workspace, Writable: []string{"/data"}, AcceptPaths: []string{"/"}, Network: workers.NetworkList, AskUser: true}},
		{"hosts", &workers.Policy{Level: workers.Workspace, Network: workers.NetworkList, Hosts: []string{"a.org"}}, theirs,
			&workers.Policy{Level: workers.Workspace, Network: workers.NetworkList, Hosts: []string{}}},
		{"the whole network", &workers.Policy{Level: workers.Workspace, Network: workers.NetworkFull}, theirs,
			&workers.Policy{Level: workers.Workspace, Network: workers.NetworkList}},
		{"no network stays none", &workers.Policy{Level: workers.Workspace, Network: workers.NetworkNone}, theirs, nil},
		{"directories that both have", &workers.Policy{Level: workers.Workspace, Writable: []string{"/data/x", "/other"}, Network: workers.NetworkNone}, theirs,
			&workers.Policy{Level: workers.Workspace, Writable: []string{"/data/x"}, AcceptPaths: []string{dir}, Network: workers.NetworkNone}},
		{"a part of the workspace", agent, &workers.Policy{Level: workers.ReadOnly, Writable: []string{"/p/out", "/pp"}, Network: workers.NetworkFull},
			&workers.Policy{Level: workers.ReadOnly, Writable: []string{"/p/out"}, AcceptPaths: []string{dir}, Network: workers.NetworkList, AskUser: true}},
		{"the workspace lies in theirs", agent, &workers.Policy{Level: workers.ReadOnly, Writable: []string{"/"}, Network: workers.NetworkFull}, nil},
		{"hidden and protected paths are added", &workers.Policy{Level: workers.Workspace, Network: workers.NetworkNone, Hidden: []string{"/k"}},
			&workers.Policy{Level: workers.ReadOnly, Writable: []string{dir}, Network: workers.NetworkNone, Hidden: []string{"/k", "/s"}, Protected: []string{"/p/lock"}},
			&workers.Policy{Level: workers.Workspace, Network: workers.NetworkNone, Hidden: []string{"/k", "/s"}, Protected: []string{"/p/lock"}}},
		{"what they hide is not shown", &workers.Policy{Level: workers.Workspace, Network: workers.NetworkNone, Readable: []string{"/s/x", "/h/.data"}},
			&workers.Policy{Level: workers.ReadOnly, Writable: []string{dir}, Network: workers.NetworkNone, Hidden: []string{"/s"}},
			&workers.Policy{Level: workers.Workspace, Network: workers.NetworkNone, Readable: []string{"/h/.data"}, Hidden: []string{"/s"}}},
		{"no network for who may write everything", nil, &workers.Policy{Level: workers.Full, Network: workers.NetworkNone},
			&workers.Policy{Level: workers.Workspace, Network: workers.NetworkList, AskUser: true}},
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
