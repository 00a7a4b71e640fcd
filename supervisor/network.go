package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egress"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egressipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// newEgressPolicy returns the way out of a session's sandbox; nil when there is none.
func (s *Session) newEgressPolicy(sandbox *workers.Sandbox) (*egress.Policy, error) {
	if !sandbox.Confines() || sandbox.Network != workers.NetworkList {
		return nil, nil
	}
	machine, _ := os.Hostname()
	return egress.New(egress.Options{
		Machine:   machine,
		Hosts:     egress.ExpandHosts(sandbox.Hosts, egress.ConfigSource{Env: s.o.Env, ReadFile: s.readUserConfig}),
		OnRefused: s.handleRefusedHost,
		Notify:    s.Notify,
	})
}

// readUserConfig reads a file of the user's that says where packages come from. A file that sessions like
// this one may have made, at whatever level, does not count.
func (s *Session) readUserConfig(path string) []byte {
	dir := s.spec.Dir
	if dir == "" {
		dir, _ = os.Getwd()
	}
	return confine.ReadUserSettings(s.spec.Sandbox, confine.PlanInput{Home: envValue(s.o.Env, "HOME"), Dir: dir}, path)
}

// hostCallBit is in the numbers of what is held here, connects and calls of functions. The stage counts its own calls from 1.
const hostCallBit = 1 << 62

// handleRefusedHost takes in a place that the sandbox refuses, and waits for a person if one may be
// asked. The event is there before the call of the session returns.
func (s *Session) handleRefusedHost(ctx context.Context, place, why string) bool {
	s.mu.Lock()
	d := host.Denial{Op: "connect", Host: place}
	if why != "" && s.m.isFirstReport(timeline.AccessDenied{Op: "connect", Host: place, Detail: why}) {
		s.m.recordNotice("the sandbox refused a connection to %s: %s", place, why)
	}
	if why != "" || s.worker == nil || !s.spec.Sandbox.AskUser {
		if why == "" {
			s.m.handleDenial(d, session.Grant{Host: place})
		}
		s.unlock()
		return false
	}
	s.lastPendingCall++
	d.ID = hostCallBit + s.lastPendingCall
	answer := make(chan userDecision, 1)
	if s.pendingDecisions == nil {
		s.pendingDecisions = make(map[uint64]chan userDecision)
	}
	s.pendingDecisions[d.ID] = answer
	s.m.handleDenial(d, session.Grant{Host: place})
	s.unlock()
	select {
	case v := <-answer:
		return v.allowed
	case <-ctx.Done():
	}
	s.releaseCall(d.ID)
	return false
}

// checkHostGrant refuses a grant of a host that cannot be meant.
func checkHostGrant(g session.Grant) (session.Grant, error) {
	if g.Host == workers.PackageHosts {
		return g, session.Errorf(session.KindInvalid, "%s is for a session that is being opened: name its hosts", g.Host)
	}
	h, err := workers.ParseHostPattern(g.Host)
	if err != nil {
		return g, &session.Error{Kind: session.KindInvalid, Message: err.Error(), Cause: err}
	}
	g.Host = h.String()
	return g, nil
}

// Destinations implements session.Session.
func (s *Session) Destinations(context.Context) ([]session.Destination, error) {
	list := []session.Destination{}
	if s.egressPolicy == nil {
		return list, nil
	}
	for _, r := range s.egressPolicy.Destinations() {
		list = append(list, session.Destination(r))
	}
	return list, nil
}

// proxyEnv lead programs to the proxy of a session whose names cannot lead out by themselves.
// It serves SOCKS5 as well; but some programs that find such a proxy here refuse to start.
func proxyEnv() []string {
	var list []string
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy"} {
		value := "=http://" + egressipc.ProxyAddr.String()
		list = append(list, name+value, strings.ToUpper(name)+value)
	}
	return append(list, "no_proxy", "NO_PROXY") // what the user excepts leads nowhere here
}

// writeNameFiles makes the files by which programs find the session's names: its resolver, and a
// list of hosts without those of the machine, which have addresses that lead nowhere here.
// It returns, for each file of the machine, the one that takes its place.
func writeNameFiles(state string) (map[string]string, error) {
	machine, _ := os.Hostname()
	files := map[string]string{
		"/etc/resolv.conf": "nameserver 127.0.0.1\n",
		"/etc/hosts":       "127.0.0.1 localhost " + machine + "\n::1 localhost ip6-localhost ip6-loopback\n",
	}
	replaced := make(map[string]string)
	for path, text := range files {
		by := filepath.Join(state, strings.ReplaceAll(path[1:], "/", "-"))
		if err := os.WriteFile(by, []byte(text), 0o644); err != nil {
			return nil, err
		}
		replaced[path] = by
	}
	return replaced, nil
}
