package escapes

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A session with the user's network still reaches no Unix servers except its own. Not even one
// connection may reach a server outside, because another thread could send a request over it.
func TestSandbox_OutsideUnixSockets(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	policy := newSandbox(m)
	policy.Network = sandbox.NetworkFull
	r := openSession(t, m, policy)
	needs := readProbeList(t, m).Needs
	before := m.readState(t)
	for _, name := range []string{"abstract_socket_of_the_machine", "socket_in_home", "socket_by_a_symlink", "socket_by_a_relative_path", "socket_seqpacket", "socket_race", "datagram_socket"} {
		t.Run(name, func(t *testing.T) {
			if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "held: ") {
				t.Errorf("got %q, want it held", output)
			}
			m.wantUnchanged(t, before)
		})
	}
	for _, name := range []string{"unix_in_tmp", "unix_in_workspace", "unix_in_a_layer", "unix_relative", "unix_abstract", "socketpair", "manager"} {
		t.Run(name, func(t *testing.T) {
			m.requireTools(t, needs[name])
			if output := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(output, "works") {
				t.Errorf("got %q, want it to work", output)
			}
		})
	}
}
