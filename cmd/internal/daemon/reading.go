package daemon

import (
	"context"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
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

// takeData takes the data out of a part, to send it as the buffer of an answer.
func takeData(part *session.BlobPart) []byte {
	data := part.Data
	part.Data = []byte{}
	return data
}

func (d *Daemon) handleBlob(ctx context.Context, _ *rpcserver.Request, p protocol.BlobParams) (any, error) {
	d.noteUse()
	e, err := d.readableSession(p.Session)
	if err != nil {
		return nil, err
	}
	part, err := e.session.Blob(ctx, p.Digest, p.Offset, p.Limit)
	if err != nil || !p.Buffer {
		return part, err
	}
	return jsonrpc2.Buffered{Value: &part, Buffer: takeData(&part)}, nil
}
