package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egress"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// networkOf returns the way out of a session's sandbox; nil when there is none.
func (s *Session) networkOf(sandbox *workers.Sandbox) (*egress.Policy, error) {
	if !sandbox.Confines() || sandbox.Network != workers.NetworkList {
		return nil, nil
	}
	machine, _ := os.Hostname()
	return egress.New(egress.Options{
		Machine: machine,
		Hosts:   egress.Expand(sandbox.Hosts, egress.System{Env: s.o.Env}),
		Refused: s.refusedHost,
		Tell:    s.Notify,
	})
}

// refusedHost records a place that the sandbox refuses. The event is there before the call of
// the session returns.
func (s *Session) refusedHost(_ context.Context, place, why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why != "" {
		s.m.notice("the sandbox refused a connection to %s: %s", place, why)
		return false
	}
	s.m.record(timeline.Denied{Op: "connect", Host: place})
	return false
}

// Reached lists what a session with workers.NetworkList has reached in the network and what it
// was refused, the last first. It is for the user of the session.
func (s *Session) Reached() []session.Reached {
	if s.network == nil {
		return nil
	}
	var list []session.Reached
	for _, r := range s.network.Reached() {
		list = append(list, session.Reached(r))
	}
	return list
}

// allowHost lets a live session reach a host.
func (s *Session) allowHost(pattern string) error {
	if s.network == nil {
		return fmt.Errorf("session %s has no list of hosts: open it with --network list", s.name)
	}
	return s.network.Allow(pattern)
}

// namesFiles makes the files by which programs find the session's names: its resolver, and a
// list of hosts without those of the machine, which have addresses that lead nowhere here.
// It returns, for each file of the machine, the one that takes its place.
func namesFiles(state string) (map[string]string, error) {
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
