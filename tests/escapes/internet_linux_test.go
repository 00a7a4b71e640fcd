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

	"github.com/turnstone-repl/turnstone/internal/testkit/networks"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// internetEnv tells a test process that it has its own network namespace.
const internetEnv = "ESCAPES_INTERNET"

// A testInternet consists of two networks that are isolated from real ones: that of this process,
// which stands for the user's, and another one behind a veth pair, which contains all servers.
type testInternet struct {
	*machine
	serverNamespace *os.File          // the namespace of the servers
	mechanism       sandbox.Mechanism // accepted by its sessions
	savedGrants     []session.Grant   // grants saved with "always"

	mu       sync.Mutex
	names    map[string][]netip.Addr // answers of the name server, in turn; the last one is repeated
	asked    map[string]int
	received chan string // data that a server received
}

// The addresses of the hosts are reserved for documentation, except for the addresses that a
// sandbox must block. All of them exist and answer.
const (
	userAddress = "203.0.113.1"
	hostAddress = "203.0.113.7"
	nameServer  = "203.0.113.53"
	metadata    = "169.254.169.254"
	intranet    = "10.9.8.7"
)

// newInternet runs the test in a process with its own networks. It returns nil in the process that
// only waits for it.
func newInternet(t *testing.T) *testInternet {
	t.Helper()
	t.Parallel()
	if !sandboxcheck.RerunInNamespaces(t, internetEnv+"=1", unix.CLONE_NEWNET|unix.CLONE_NEWNS,
		unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_RESOURCE) {
		return nil
	}
	n := &testInternet{names: map[string][]netip.Addr{}, asked: map[string]int{}, received: make(chan string, 10)}
	n.connectNetworks(t)
	n.serveNames(t)
	n.machine = newMachine(t)
	for name, text := range map[string]string{"/etc/resolv.conf": "nameserver " + nameServer + "\noptions timeout:1 attempts:1\n", "/etc/hosts": "127.0.0.1 localhost\n"} {
		file := filepath.Join(n.base, filepath.Base(name))
		writeFile(t, file, text)
		if err := unix.Mount(file, name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// connectNetworks makes the other network and the veth pair to it.
func (i *testInternet) connectNetworks(t *testing.T) {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			i.serverNamespace, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.serverNamespace.Close() })
	to := netip.MustParsePrefix
	err := errors.Join(
		networks.BringUp("lo"),
		networks.AddVethPair("here", "there", int(i.serverNamespace.Fd())),
		networks.AddAddress("here", to(userAddress+"/24")),
		networks.BringUp("here"))
	if err != nil {
		t.Fatal(err)
	}
	i.runInServerNetwork(t, func() error {
		err := networks.BringUp("lo")
		for _, a := range []string{hostAddress + "/24", nameServer + "/24", metadata + "/32", intranet + "/32"} {
			err = errors.Join(err, networks.AddAddress("there", to(a)))
		}
		return errors.Join(err, networks.BringUp("there"))
	})
	for _, a := range []string{metadata, intranet} {
		if err := networks.AddRoute(to(a+"/32"), "here"); err != nil {
			t.Fatal(err)
		}
	}
}

// runInServerNetwork runs a function on a thread in the other network.
func (i *testInternet) runInServerNetwork(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := unix.Setns(int(i.serverNamespace.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// newServer starts a server in the other network.
func (i *testInternet) newServer(t *testing.T, address string, serve func(*net.TCPConn)) {
	t.Helper()
	var l net.Listener
	i.runInServerNetwork(t, func() (err error) { l, err = net.Listen("tcp", address); return err })
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

// newGreeter returns a handler that sends one text.
func newGreeter(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { _, _ = c.Write([]byte(text)) }
}

// setAddresses makes the name server answer a name with these addresses, one at a time.
func (i *testInternet) setAddresses(name string, addresses ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, a := range addresses {
		i.names[name] = append(i.names[name], netip.MustParseAddr(a))
	}
}

func (i *testInternet) serveNames(t *testing.T) {
	var socket net.PacketConn
	i.runInServerNetwork(t, func() (err error) { socket, err = net.ListenPacket("udp", nameServer+":53"); return err })
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
			answer, err := i.answerQuery(m)
			if err == nil {
				_, _ = socket.WriteTo(answer, from)
			}
		}
	}()
}

func (i *testInternet) answerQuery(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[name]++
	m.Response, m.Additionals = true, nil
	list := i.names[name]
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	} else if h := (dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}); q.Type == dnsmessage.TypeA && list[0].Is4() {
		m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: list[0].As4()}}}
		if len(list) > 1 {
			i.names[name] = list[1:]
		}
	}
	return m.Pack()
}

// openSession opens a Python session that may reach these hosts.
func (i *testInternet) openSession(t *testing.T, hosts ...string) *sessionkit.TestSession {
	t.Helper()
	return i.openWith(t, false, hosts)
}

// openAskingSession opens a session that asks about each host.
func (i *testInternet) openAskingSession(t *testing.T) *sessionkit.TestSession {
	t.Helper()
	return i.openWith(t, true, nil)
}

// List and Keep implement the store of saved grants.
func (i *testInternet) List(string) ([]session.Grant, error) { return i.savedGrants, nil }

func (i *testInternet) Add(_ string, g session.Grant) error {
	i.savedGrants = append(i.savedGrants, g)
	return nil
}

func (i *testInternet) openWith(t *testing.T, ask bool, hosts []string) *sessionkit.TestSession {
	t.Helper()
	spec := python.Spec(python.Options{Path: interpreter})
	spec.Dir, spec.Sandbox = i.work, i.newSandbox(ask, hosts)
	r := sessionkit.LaunchSessionWith(t, &supervisor.Options{Dir: i.sessions, Env: i.env, Grants: i}, spec)
	r.WaitUntilReady(t)
	r.RunCode(t, clientCode)
	return r
}

func (i *testInternet) newSandbox(ask bool, hosts []string) *sandbox.Policy {
	box := newSandbox(i.machine)
	box.Network, box.Hosts, box.AskUser, box.AcceptMechanism = sandbox.NetworkList, hosts, ask, i.mechanism
	return box
}

// queryCount returns how often the name server was asked for a name.
func (i *testInternet) queryCount(t *testing.T, name string) int {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[name]
}
