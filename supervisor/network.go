package supervisor

import (
	"context"
	"os"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egress"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/timeline"
)

// newEgressPolicy returns the egress policy of a session's sandbox; nil if the sandbox needs none.
func (s *Session) newEgressPolicy(policy *sandbox.Policy) (*egress.HostPolicy, error) {
	if !policy.Confines() || policy.Network != sandbox.NetworkList {
		return nil, nil
	}
	hostname, _ := os.Hostname()
	return egress.New(egress.Options{
		Machine:   hostname,
		Hosts:     egress.ExpandHosts(policy.Hosts, egress.ConfigSource{Env: s.o.Env, ReadFile: s.readUserConfig}),
		OnRefused: s.handleRefusedHost,
		Notify:    s.Notify,
	})
}

// readUserConfig reads a file in which the user configures where packages come from. It ignores a
// file that sessions with this sandbox could have written, at any level.
func (s *Session) readUserConfig(path string) []byte {
	dir := s.spec.Dir
	if dir == "" {
		dir, _ = os.Getwd()
	}
	return plan.ReadUserSettings(s.spec.Sandbox, plan.Origin{Home: environ.Get(s.o.Env, "HOME"), Dir: dir}, path)
}

// handleRefusedHost records a destination that the sandbox refuses, and waits for a user's decision
// if asking is allowed. The event is recorded before the session's connect call returns.
func (s *Session) handleRefusedHost(ctx context.Context, destination, why string) bool {
	s.mu.Lock()
	d := monitorproto.Denial{Op: "connect", Host: destination}
	if why != "" && s.m.isFirstReport(timeline.AccessDenied{Op: "connect", Host: destination, Detail: why}) {
		s.m.recordNotice("the sandbox refused a connection to %s: %s", destination, why)
	}
	if why != "" || s.worker == nil || !s.spec.Sandbox.AskUser {
		if why == "" {
			s.m.handleDenial(d, session.Grant{Host: destination})
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
	s.m.handleDenial(d, session.Grant{Host: destination})
	s.unlock()
	select {
	case v := <-answer:
		return v.allowed
	case <-ctx.Done():
	}
	s.releaseCall(d.ID)
	return false
}

// checkHostGrant rejects a grant for hosts that is malformed or that cannot be given to an open
// session.
func checkHostGrant(g session.Grant) (session.Grant, error) {
	if g.Host == sandbox.PackageHosts {
		return g, session.Errorf(session.KindInvalid, "%s is only valid when a session is opened; name its hosts", g.Host)
	}
	h, err := sandbox.ParseHostPattern(g.Host)
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
