package escapes

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/tests/confined"
	"github.com/turnstone-repl/turnstone/tests/drive"
	"github.com/turnstone-repl/turnstone/tests/networks"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// internetEnv says that this process is in a network of its own.
const internetEnv = "ESCAPES_INTERNET"

// An internet is two networks without a way out of this machine: that of this process, which
// stands for the user's, and another one behind a wire, in which all servers are.
type internet struct {
	*machine
	there  *os.File                 // the namespace of the servers
	accept workers.SandboxMechanism // what its sessions accept
	kept   []session.Grant          // what is allowed always

	mu    sync.Mutex
	names map[string][]netip.Addr // what the name server says, in turn; the last one stays
	asked map[string]int
	heard chan string // what a server heard
}

// The hosts. The addresses are for documentation, but for those that a sandbox must not let
// anybody reach; all are there and answer.
const (
	userAddress = "203.0.113.1"
	hostAddress = "203.0.113.7"
	nameServer  = "203.0.113.53"
	metadata    = "169.254.169.254"
	intranet    = "10.9.8.7"
)

// inInternet runs the test in a process in networks of its own. It returns nil in the process
// that only waits for it.
func inInternet(t *testing.T) *internet {
	t.Helper()
	t.Parallel()
	if !confined.Alone(t, internetEnv+"=1", unix.CLONE_NEWNET|unix.CLONE_NEWNS,
		unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_RESOURCE) {
		return nil
	}
	n := &internet{names: map[string][]netip.Addr{}, asked: map[string]int{}, heard: make(chan string, 10)}
	n.wire(t)
	n.serveNames(t)
	n.machine = newMachine(t)
	for name, text := range map[string]string{"/etc/resolv.conf": "nameserver " + nameServer + "\noptions timeout:1 attempts:1\n", "/etc/hosts": "127.0.0.1 localhost\n"} {
		file := filepath.Join(n.base, filepath.Base(name))
		write(t, file, text)
		if err := unix.Mount(file, name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// wire makes the other network and the wire to it.
func (n *internet) wire(t *testing.T) {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.there, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.there.Close() })
	to := netip.MustParsePrefix
	err := errors.Join(
		networks.Up("lo"),
		networks.Wire("here", "there", int(n.there.Fd())),
		networks.Address("here", to(userAddress+"/24")),
		networks.Up("here"))
	if err != nil {
		t.Fatal(err)
	}
	n.inThere(t, func() error {
		err := networks.Up("lo")
		for _, a := range []string{hostAddress + "/24", nameServer + "/24", metadata + "/32", intranet + "/32"} {
			err = errors.Join(err, networks.Address("there", to(a)))
		}
		return errors.Join(err, networks.Up("there"))
	})
	for _, a := range []string{metadata, intranet} {
		if err := networks.Route(to(a+"/32"), "here"); err != nil {
			t.Fatal(err)
		}
	}
}

// inThere runs a function on a thread in the other network.
func (n *internet) inThere(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := unix.Setns(int(n.there.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// listen makes a server in the other network.
func (n *internet) listen(t *testing.T, address string, serve func(*net.TCPConn)) {
	t.Helper()
	var l net.Listener
	n.inThere(t, func() (err error) { l, err = net.Listen("tcp", address); return err })
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
}

// greets is a server that says one thing.
func greets(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { _, _ = c.Write([]byte(text)) }
}

// name has the name server give a name these addresses, one at a time.
func (n *internet) name(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range addresses {
		n.names[name] = append(n.names[name], netip.MustParseAddr(a))
	}
}

func (n *internet) serveNames(t *testing.T) {
	var socket net.PacketConn
	n.inThere(t, func() (err error) { socket, err = net.ListenPacket("udp", nameServer+":53"); return err })
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			size, from, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
				continue
			}
			answer, err := n.answer(m)
			if err == nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
}

func (n *internet) answer(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[name]++
	m.Response, m.Additionals = true, nil
	list := n.names[name]
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	} else if h := (dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}); q.Type == dnsmessage.TypeA && list[0].Is4() {
		m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: list[0].As4()}}}
		if len(list) > 1 {
			n.names[name] = list[1:]
		}
	}
	return m.Pack()
}

// session opens a session of Python that may reach these hosts.
func (n *internet) session(t *testing.T, hosts ...string) *drive.REPL {
	t.Helper()
	return n.open(t, false, hosts)
}

// asking opens one that asks for each host.
func (n *internet) asking(t *testing.T) *drive.REPL {
	t.Helper()
	return n.open(t, true, nil)
}

// Kept and Keep make n the store of what is allowed always.
func (n *internet) Kept(string) ([]session.Grant, error) { return n.kept, nil }

func (n *internet) Keep(_ string, g session.Grant) error {
	n.kept = append(n.kept, g)
	return nil
}

func (n *internet) open(t *testing.T, ask bool, hosts []string) *drive.REPL {
	t.Helper()
	spec := python.Spec(python.Options{Path: interpreter})
	spec.Dir, spec.Sandbox = n.work, n.sandbox(ask, hosts)
	r := drive.LaunchIn(t, &supervisor.Options{Dir: n.sessions, Env: n.env, Grants: n}, spec)
	r.WaitUntilReady(t)
	r.Run(t, clientCode)
	return r
}

func (n *internet) sandbox(ask bool, hosts []string) *workers.Sandbox {
	box := workspace(n.machine)
	box.Network, box.Hosts, box.AskUser, box.AcceptMechanism = workers.NetworkList, hosts, ask, n.accept
	return box
}

// count is how often the name server was asked for a name.
func (n *internet) count(t *testing.T, name string) int {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[name]
}
