package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/cmd/internal/userconfig"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// remotesUsage describes --remotes.
const remotesUsage = "`REMOTES` the agent may also have sessions at these remotes, with names like gpu/main: names in remotes.toml, separated by commas, or all. Other sessions are in the local daemon, which is started if needed, or where --remote or --via lead"

// allRemotes is the value of --remotes for every remote in the file.
const allRemotes = "all"

// remotesFlag holds the remotes that --remotes allows the agent.
type remotesFlag []string

func (f *remotesFlag) String() string { return strings.Join(*f, ",") }

func (f *remotesFlag) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return fmt.Errorf("use names of remotes separated by commas, or %s", allRemotes)
		}
		*f = append(*f, name)
	}
	return nil
}

// resolveNames replaces "all" by the remotes of the file, checks each name, and drops that of the
// default daemon.
func (f *remotesFlag) resolveNames(target *daemonTarget) error {
	var names []string
	for _, name := range *f {
		if name == userconfig.LocalRemote && target.isRemote() {
			return cmdkit.UsageErrorf("--remotes here: with --remote or --via, names without a remote mean sessions there; leave them out, and add the remote to --remotes")
		}
		if name == allRemotes {
			all, err := userconfig.ReadRemotes(remotesFile())
			if err != nil {
				return cmdkit.UsageErrorf("--remotes all: %v", err)
			}
			if len(all) == 0 {
				return cmdkit.UsageErrorf("--remotes all: no remotes in %s", remotesFile())
			}
			names = append(names, slices.Sorted(maps.Keys(all))...)
			continue
		}
		if _, err := findRemote(name); err != nil && name != userconfig.LocalRemote {
			return err
		}
		names = append(names, name)
	}
	*f = nil
	for _, name := range names {
		if !slices.Contains(*f, name) && name != target.defaultRemote() {
			*f = append(*f, name)
		}
	}
	return nil
}

// A remotesBackend keeps the sessions of an MCP server in several daemons: the default one, and one
// at each remote that the user allows. It connects to a remote when a call names it or asks for all
// sessions. Each remote has its own connection.
type remotesBackend struct {
	names          []string // the default daemon comes first
	defaultBackend *daemonBackend
	remotes        map[string]*remoteBackend
	connect        func(ctx context.Context, remote string) (*daemonBackend, error)
}

// A remoteBackend is a remote and, once connected, the backend of its daemon.
type remoteBackend struct {
	lock    chan struct{}  // holds one token; the holder may use backend
	backend *daemonBackend // nil before the first use
}

func newRemotesBackend(d *daemonFlags, defaultBackend *daemonBackend, connect func(ctx context.Context, remote string) (*daemonBackend, error)) *remotesBackend {
	h := &remotesBackend{
		names: append([]string{d.defaultRemote()}, d.remotes...), defaultBackend: defaultBackend, connect: connect,
		remotes: make(map[string]*remoteBackend),
	}
	for _, name := range d.remotes {
		h.remotes[name] = &remoteBackend{lock: make(chan struct{}, 1)}
	}
	return h
}

// close closes all connections.
func (b *remotesBackend) close() {
	var closing sync.WaitGroup
	closing.Go(b.defaultBackend.closeAll)
	for _, p := range b.remotes {
		closing.Go(func() {
			p.lock <- struct{}{}
			if p.backend != nil {
				p.backend.closeAll()
			}
		})
	}
	closing.Wait()
}

// backendFor returns the backend of a remote. starts allows it to start the remote's job.
func (b *remotesBackend) backendFor(ctx context.Context, remote string, starts bool) (*daemonBackend, error) {
	p := b.remotes[remote]
	if p == nil {
		return b.defaultBackend, nil
	}
	select {
	case p.lock <- struct{}{}:
		defer func() { <-p.lock }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s is being started", remote)
	}
	if p.backend == nil && !starts {
		if absent, err := isJobMissing(remote); err != nil || absent {
			return nil, cmp.Or(err, fmt.Errorf("%s needs a job, which is not started; a session there, such as %q, starts it", remote, remote+"/"+backend.MainSession))
		}
	}
	if p.backend == nil {
		var err error
		if p.backend, err = b.connect(ctx, remote); err != nil {
			return nil, err
		}
	}
	return p.backend, nil
}

// isJobMissing reports whether a remote needs a job and none was started.
func isJobMissing(remote string) (bool, error) {
	p, err := findRemote(remote)
	if err != nil || !p.NeedsJob() {
		return false, err
	}
	known, err := userconfig.ReadRemoteState(cmdkit.StateDir(), remote)
	return known.Job == "", err
}

// Remotes implements backend.Backend.
func (b *remotesBackend) Remotes() []string { return b.names }

// Open implements backend.Backend.
func (b *remotesBackend) Open(ctx context.Context, name, lang, dir string, narrow func(*workers.Sandbox) *workers.Sandbox, report func(string)) (*backend.SessionHandle, error) {
	remote, sessionName, found := strings.Cut(name, "/")
	if !found {
		return b.defaultBackend.Open(ctx, name, lang, dir, narrow, report)
	}
	backend, err := b.backendFor(ctx, remote, true)
	if err != nil {
		return nil, err
	}
	return backend.Open(ctx, sessionName, lang, dir, narrow, report)
}

// Sessions implements backend.Backend.
func (b *remotesBackend) Sessions(ctx context.Context, remote string) ([]session.Info, error) {
	backend, err := b.backendFor(ctx, remote, false)
	if err != nil {
		return nil, err
	}
	all, err := backend.Sessions(ctx)
	if backend != b.defaultBackend {
		for i := range all {
			all[i].Name = remote + "/" + all[i].Name
		}
	}
	return all, err
}
