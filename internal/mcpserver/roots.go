package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
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
func (c *clientRoots) projectDir(ctx context.Context, s *server, r *toolRequest) string {
	can := r.sdk.ClientCapabilities()
	//lint:ignore SA1019 clients of protocol versions with roots remain in use
	if can == nil || can.RootsV2 == nil || !r.CanAskClient() || r.sdk.ProtocolVersion() >= mcptransport.StatelessVersion || !s.sessions.IsOutsideProject() {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		return c.dir
	}
	asking, stop := context.WithTimeout(ctx, rootsTimeout)
	defer stop()
	//lint:ignore SA1019 as above
	list, err := r.sdk.Session.ListRoots(asking, nil)
	if ctx.Err() != nil {
		return ""
	}
	c.known, c.dir = true, ""
	if err != nil {
		s.options.Logger.Warn("cannot list roots of client", "error", err)
		return ""
	}
	for _, root := range list.Roots {
		if dir := clientprofile.DirectoryFromURI(root.URI); dir != "" {
			c.dir = dir
			break
		}
	}
	return c.dir
}

// invalidate makes the next new session ask for the roots again.
func (c *clientRoots) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = false
}
