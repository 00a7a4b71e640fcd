package escapes

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A session in its user's network still has no Unix server but its own: not even one
// connection reaches those outside, in which another thread could have sent a request.
func TestSandbox_OutsideUnixSockets(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	sandbox := newSandbox(m)
	sandbox.Network = workers.NetworkFull
	r := openSession(t, m, sandbox)
	needs := readProbeList(t, m).Needs
	before := m.readState(t)
	for _, name := range []string{"abstract_socket_of_the_machine", "socket_in_home", "socket_by_a_symlink", "socket_by_a_relative_path", "socket_seqpacket", "socket_race", "datagram_socket"} {
		t.Run(name, func(t *testing.T) {
			if said := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(said, "held: ") {
				t.Errorf("got %q, want it held", said)
			}
			m.wantUnchanged(t, before)
		})
	}
	for _, name := range []string{"unix_in_tmp", "unix_in_workspace", "unix_in_a_layer", "unix_relative", "unix_abstract", "socketpair", "manager"} {
		t.Run(name, func(t *testing.T) {
			m.requireTools(t, needs[name])
			if said := r.RunCode(t, "probe('"+name+"')").OutputText(timeline.Stdout, timeline.Stderr); !strings.HasPrefix(said, "works") {
				t.Errorf("got %q, want it to work", said)
			}
		})
	}
}
