package backend

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
)

// A DaemonSet keeps the sessions of an MCP server in several daemons: the default one, and one at
// each remote that the user allows. It connects to a remote when a call names it or asks for all
// sessions. Each remote has its own connection.
type DaemonSet struct {
	// DefaultRemote is the name of the default daemon; "" if it has none.
	DefaultRemote string
	DefaultDaemon *SingleDaemon

	// Connect returns the daemon of another remote. It is called once for each, unless it fails.
	Connect func(ctx context.Context, remote string) (*SingleDaemon, error)

	// IsJobMissing reports whether a remote needs a job and none was started.
	IsJobMissing func(remote string) (bool, error)

	names   []string // the default daemon comes first
	remotes map[string]*remoteDaemon
}

// A remoteDaemon is a remote and, once connected, its daemon.
type remoteDaemon struct {
	lock   chan struct{} // holds one token; the holder may use daemon
	daemon *SingleDaemon // nil before the first use
}

// AllowRemotes sets the remotes that the user allows besides the default one.
func (b *DaemonSet) AllowRemotes(names []string) {
	b.names = append([]string{b.DefaultRemote}, names...)
	b.remotes = make(map[string]*remoteDaemon)
	for _, name := range names {
		b.remotes[name] = &remoteDaemon{lock: make(chan struct{}, 1)}
	}
}

// Close closes all connections.
func (b *DaemonSet) Close() {
	var closing sync.WaitGroup
	closing.Go(b.DefaultDaemon.Close)
	for _, p := range b.remotes {
		closing.Go(func() {
			p.lock <- struct{}{}
			if p.daemon != nil {
				p.daemon.Close()
			}
		})
	}
	closing.Wait()
}

// daemonFor returns the daemon of a remote. starts allows it to start the remote's job.
func (b *DaemonSet) daemonFor(ctx context.Context, remote string, starts bool) (*SingleDaemon, error) {
	p := b.remotes[remote]
	if p == nil {
		return b.DefaultDaemon, nil
	}
	select {
	case p.lock <- struct{}{}:
		defer func() { <-p.lock }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s is being started", remote)
	}
	if p.daemon == nil && !starts {
		if absent, err := b.IsJobMissing(remote); err != nil || absent {
			return nil, cmp.Or(err, fmt.Errorf("%s needs a job, which is not started; a session there, such as %q, starts it", remote, remote+RemoteSeparator+MainSession))
		}
	}
	if p.daemon == nil {
		var err error
		if p.daemon, err = b.Connect(ctx, remote); err != nil {
			return nil, err
		}
	}
	return p.daemon, nil
}

// Remotes implements Backend.
func (b *DaemonSet) Remotes() []string { return b.names }

// Open implements Backend.
func (b *DaemonSet) Open(ctx context.Context, name, lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy, report func(line string)) (*SessionHandle, error) {
	remote, sessionName, found := strings.Cut(name, RemoteSeparator)
	if !found {
		return b.DefaultDaemon.Open(ctx, name, lang, dir, narrow, report)
	}
	daemon, err := b.daemonFor(ctx, remote, true)
	if err != nil {
		return nil, err
	}
	return daemon.Open(ctx, sessionName, lang, dir, narrow, report)
}

// Sessions implements Backend.
func (b *DaemonSet) Sessions(ctx context.Context, remote string) ([]session.Info, error) {
	daemon, err := b.daemonFor(ctx, remote, false)
	if err != nil {
		return nil, err
	}
	all, err := daemon.Sessions(ctx)
	if daemon != b.DefaultDaemon {
		for i := range all {
			all[i].Name = remote + RemoteSeparator + all[i].Name
		}
	}
	return all, err
}
