package daemon

import (
	"context"
	"slices"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// handleFiles lists the files of a session, for clients on another machine.
func (d *Daemon) handleFiles(ctx context.Context, _ *rpcserver.Request, p protocol.FilesParams) (r protocol.FileList, err error) {
	d.noteUse()
	r.Files, err = withFileSession(d, p, func(e *openSession) ([]session.File, error) { return e.session.Files(ctx) }, supervisor.CrashedSession.Files)
	return r, err
}

// handleFile returns a part of one file of a session.
func (d *Daemon) handleFile(ctx context.Context, _ *rpcserver.Request, p protocol.FileParams) (session.FilePart, error) {
	d.noteUse()
	return withFileSession(d, p.FilesParams, func(e *openSession) (session.FilePart, error) {
		return e.session.File(ctx, p.Path, p.Offset, p.Limit)
	}, func(l supervisor.CrashedSession) (session.FilePart, error) {
		return l.File(p.Path, p.Offset, p.Limit)
	})
}

// withFileSession calls open or crashed with the session that p names.
func withFileSession[R any](d *Daemon, p protocol.FilesParams, open func(*openSession) (R, error), crashed func(supervisor.CrashedSession) (R, error)) (r R, err error) {
	switch {
	case (p.Session == "") == (p.Crashed == ""):
		return r, rpcserver.InvalidParams("give either session or crashed")
	case p.Session != "":
		e, err := d.readableSession(p.Session)
		if err != nil {
			return r, err
		}
		return open(e)
	}
	all := d.options.Supervisor.CrashedSessions()
	at := slices.IndexFunc(all, func(l supervisor.CrashedSession) bool { return l.ID == p.Crashed })
	if at < 0 {
		return r, session.Errorf(session.KindClosed, "no session with the ID %.80q crashed in the last day", p.Crashed)
	}
	return crashed(all[at])
}

// handleListCrashed lists the sessions that crashed in the last day. The call does not count as
// use.
func (d *Daemon) handleListCrashed(context.Context, *rpcserver.Request, emptyResult) (protocol.CrashedSessions, error) {
	r := protocol.CrashedSessions{Sessions: []protocol.CrashedSession{}}
	for _, l := range d.options.Supervisor.CrashedSessions() {
		r.Sessions = append(r.Sessions, protocol.CrashedSession{
			ID: l.ID, Name: l.Name, Language: l.Worker, Found: l.Found, Inputs: l.Inputs(), Bytes: l.Bytes, OutputPath: l.OutputPath,
		})
	}
	return r, nil
}
