package daemon

import (
	"context"
	"fmt"
	"math"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
)

// handleType types keys for the programs of the active turn. It needs the same access as the answer
// to an input request. A session that is being prepared has no such program, so the call does not
// wait for it.
func (d *Daemon) handleType(ctx context.Context, r *rpcserver.Request, p protocol.TypeParams) (protocol.TypeReply, error) {
	if err := checkAuthor(p.Author); err != nil {
		return protocol.TypeReply{}, err
	}
	if isProbe(p.Keys) {
		return d.probeListener(ctx, p)
	}
	d.noteUse()
	d.setAuthor(r.Conn, p.Author)
	c := d.clientOf(r.Conn) // before runOnce, because the client may have another connection by then
	return runOnce(ctx, d, r, retryableCall{p.Request, p.Session, typeFingerprint(p)}, func(ctx context.Context) (protocol.TypeReply, error) {
		e, err := d.useSession(p.Session)
		if err == nil {
			err = d.checkAnswerAccess(ctx, e, c)
		}
		if err != nil {
			return protocol.TypeReply{}, err
		}
		turn, err := e.session.As(p.Author).Type(ctx, p.Keys)
		return protocol.TypeReply{Turn: turn}, err
	})
}

// typeFingerprint distinguishes a call of turn/type from others.
func typeFingerprint(p protocol.TypeParams) []byte {
	return fmt.Appendf(nil, "%s\n%t %t %q %s", p.Author, p.Secret, p.Live, p.Text, p.Bytes)
}

// isProbe reports whether keys only ask whether a program listens.
func isProbe(k session.Keys) bool { return k.Live && k.Text == "" && len(k.Bytes) == 0 }

// probeListener asks whether a program listens. That only reads the session: it does not count as
// use, and needs no write lock.
func (d *Daemon) probeListener(ctx context.Context, p protocol.TypeParams) (protocol.TypeReply, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return protocol.TypeReply{}, err
	}
	turn, err := e.session.Type(ctx, p.Keys)
	return protocol.TypeReply{Turn: turn}, err
}

// handleScreen returns the screen of the active turn. It does not count as use, because a client
// that shows the screen calls it again and again, also while nobody looks.
func (d *Daemon) handleScreen(ctx context.Context, _ *rpcserver.Request, p protocol.NameParams) (session.Screen, error) {
	e, err := d.findSession(p.Session)
	if err != nil {
		return session.Screen{}, err
	}
	s, err := e.session.Screen(ctx)
	if s.Lines == nil {
		s.Lines = []string{}
	}
	return s, err
}

// handleResize sets the size of a terminal. It does not count as use, because every client that
// shows the session does it at the start.
func (d *Daemon) handleResize(ctx context.Context, _ *rpcserver.Request, p protocol.ResizeParams) (emptyResult, error) {
	if min(p.Rows, p.Cols) < 1 || max(p.Rows, p.Cols) > math.MaxUint16 {
		return emptyResult{}, rpcserver.InvalidParams("rows and cols must be from 1 to %d", math.MaxUint16)
	}
	e, err := d.findSession(p.Session)
	if err != nil {
		return emptyResult{}, err
	}
	return emptyResult{}, e.session.Resize(ctx, session.Size{Rows: uint16(p.Rows), Cols: uint16(p.Cols)})
}
