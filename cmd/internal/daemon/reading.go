package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

// handleRead returns a page of events, even while the session is being prepared.
func (d *Daemon) handleRead(ctx context.Context, _ *rpcserver.Request, p protocol.ReadParams) (session.EventPage, error) {
	d.noteUse()
	e, err := d.readableSession(p.Session)
	if err != nil {
		return session.EventPage{}, err
	}
	return e.session.Read(ctx, p.ReadQuery)
}

func (d *Daemon) handleOutline(ctx context.Context, _ *rpcserver.Request, p protocol.OutlineParams) (session.TurnSummaries, error) {
	d.noteUse()
	e, err := d.readableSession(p.Session)
	if err != nil {
		return session.TurnSummaries{}, err
	}
	return e.session.TurnSummaries(ctx, p.TurnSummariesQuery)
}

func (d *Daemon) handleSearch(ctx context.Context, _ *rpcserver.Request, p protocol.SearchParams) (session.SearchResult, error) {
	d.noteUse()
	e, err := d.readableSession(p.Session)
	if err != nil {
		return session.SearchResult{}, err
	}
	return e.session.Search(ctx, p.SearchQuery)
}

func (d *Daemon) handleBlob(ctx context.Context, _ *rpcserver.Request, p protocol.BlobParams) (session.BlobPart, error) {
	d.noteUse()
	e, err := d.readableSession(p.Session)
	if err != nil {
		return session.BlobPart{}, err
	}
	return e.session.Blob(ctx, p.Digest, p.Offset, p.Limit)
}
