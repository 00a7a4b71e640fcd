package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
)

// rootsTimeout bounds how long a first call waits for the client to name its directories. A client that
// takes longer has sessions in the directory of this process.
const rootsTimeout = 5 * time.Second

// Roots are the directories of a client's project. They are asked for only by a server that was
// started where no project is.
type clientRoots struct {
	mu    sync.Mutex // held while the client is asked: calls come one at a time until they have a session
	known bool       // guarded by mu
	dir   string     // guarded by mu; the first of them that is here; ""
}

// projectDir returns the client's first directory. It asks the client once, if that offers roots.
func (d *clientRoots) projectDir(ctx context.Context, s *server, r *toolRequest) string {
	can := r.sdk.ClientCapabilities()
	//lint:ignore SA1019 clients of the versions that have roots offer them for as long as there are such clients
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
		s.sessions.logger.Warn("the client offers roots, and did not name them", "error", err)
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
