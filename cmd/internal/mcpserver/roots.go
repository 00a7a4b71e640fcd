package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
)

// rootsTimeout bounds how long a first call waits for the client to list its roots. The sessions
// of a slower client work in the directory of this process.
const rootsTimeout = 5 * time.Second

// clientRoots are the directories of a client's project. Only a server that was started outside
// of a project asks for them.
type clientRoots struct {
	mu    sync.Mutex // held while the client is asked, because calls come one at a time until they have a session
	known bool       // guarded by mu
	dir   string     // guarded by mu; the first one that exists here, or ""
}

// projectDir returns the client's first root. It asks the client once, if it offers roots.
func (d *clientRoots) projectDir(ctx context.Context, s *server, r *toolRequest) string {
	can := r.sdk.ClientCapabilities()
	//lint:ignore SA1019 clients of protocol versions with roots remain in use
	if can == nil || can.RootsV2 == nil || !r.CanAskClient() || r.sdk.ProtocolVersion() >= mcptransport.StatelessVersion || !s.sessions.isOutsideProject() {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known {
		return d.dir
	}
	asking, stop := context.WithTimeout(ctx, rootsTimeout)
	defer stop()
	//lint:ignore SA1019 as above
	list, err := r.sdk.Session.ListRoots(asking, nil)
	if ctx.Err() != nil {
		return ""
	}
	d.known, d.dir = true, ""
	if err != nil {
		s.sessions.logger.Warn("cannot list roots of client", "error", err)
		return ""
	}
	for _, root := range list.Roots {
		if dir := directoryFromURI(root.URI); dir != "" {
			d.dir = dir
			break
		}
	}
	return d.dir
}

// invalidate makes the next new session ask again.
func (d *clientRoots) invalidate() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = false
}
