package daemon

import (
	"context"
	"slices"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// handleFiles lists a directory of a session.
func (d *Daemon) handleFiles(ctx context.Context, _ *rpcserver.Request, p protocol.FilesParams) (session.FileList, error) {
	d.noteUse()
	return withFileSession(d, p, func(e *openSession) (session.FileList, error) {
		return e.session.Files(ctx, p.Path)
	}, func(l supervisor.CrashedSession) (session.FileList, error) {
		if p.Path != session.OwnFiles {
			return session.FileList{}, session.Errorf(session.KindNoFile, "of a crashed session only %q can be listed", session.OwnFiles)
		}
		return l.Files()
	})
}

// handleFile returns a part of one file of a session.
func (d *Daemon) handleFile(ctx context.Context, _ *rpcserver.Request, p protocol.FileParams) (any, error) {
	d.noteUse()
	part, err := withFileSession(d, p.FilesParams, func(e *openSession) (session.FilePart, error) {
		return e.session.File(ctx, p.Path, p.Offset, p.Limit)
	}, func(l supervisor.CrashedSession) (session.FilePart, error) {
		return l.File(p.Path, p.Offset, p.Limit)
	})
	if err != nil || !p.Buffer {
		return part, err
	}
	return jsonrpc2.Buffered{Value: &part, Buffer: takeData(&part.BlobPart)}, nil
}

// handlePutFile takes a piece of a file. A piece may come again, because its client got no answer.
// So it needs no request ID.
func (d *Daemon) handlePutFile(ctx context.Context, r *rpcserver.Request, p protocol.PutFileParams) (session.PutProgress, error) {
	d.noteUse()
	e, err := d.useSession(p.Session)
	if err == nil {
		err = d.checkWriteAccess(e, d.clientOf(r.Conn))
	}
	if err != nil {
		return session.PutProgress{}, err
	}
	now, err := e.session.PutFile(ctx, p.FilePiece)
	if err == nil && now.Done {
		d.log.Info("file put", "session", e.name, "by", d.clientLabel(r.Conn), "bytes", now.Bytes)
	}
	return now, err
}

// handleRemoveFile removes a file of the working directory.
func (d *Daemon) handleRemoveFile(ctx context.Context, r *rpcserver.Request, p protocol.RemoveFileParams) (emptyResult, error) {
	d.noteUse()
	c := d.clientOf(r.Conn) // before runOnce, because the client may have another connection by then
	return runOnce(ctx, d, r, retryableCall{p.Request, p.Session, []byte(p.Path)}, func(ctx context.Context) (emptyResult, error) {
		e, err := d.useSession(p.Session)
		if err == nil {
			err = d.checkWriteAccess(e, c)
		}
		if err == nil {
			err = e.session.RemoveFile(ctx, p.Path)
		}
		if err == nil {
			d.log.Info("file removed", "session", e.name, "by", d.clientLabel(r.Conn))
		}
		return emptyResult{}, err
	})
}

// handleLibrary identifies a chart library, and returns a part of its script if that is wanted. The
// file is read and checked for each part, so a part is never released for a check of another file.
func (d *Daemon) handleLibrary(ctx context.Context, _ *rpcserver.Request, p protocol.LibraryParams) (protocol.Library, error) {
	d.noteUse()
	if !p.Script {
		r, err := d.chartLibraries.Identify(ctx, p.Path)
		return protocol.Library{Name: r.Name, Version: r.Version, Digest: r.Digest}, err
	}
	file, err := d.chartLibraries.Read(ctx, p.Path)
	if err != nil {
		return protocol.Library{}, err
	}
	size := int64(len(file.Code))
	if p.Offset < 0 || p.Offset > size {
		return protocol.Library{}, rpcserver.InvalidParams("offset is %d: use 0 to %d", p.Offset, size)
	}
	part := file.Code[p.Offset:min(p.Offset+session.MaxPartBytes, size)]
	return protocol.Library{Name: file.Name, Version: file.Version, Digest: file.Digest, Bytes: size, Script: part}, nil
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

// handleListCrashed lists the sessions that crashed in the last day, except for those in the format
// of another version. The call does not count as use.
func (d *Daemon) handleListCrashed(context.Context, *rpcserver.Request, emptyResult) (protocol.CrashedSessions, error) {
	r := protocol.CrashedSessions{Sessions: []protocol.CrashedSession{}}
	for _, l := range d.options.Supervisor.CrashedSessions() {
		if l.Unreadable {
			continue
		}
		r.Sessions = append(r.Sessions, protocol.CrashedSession{
			ID: l.ID, Name: l.Name, Language: l.Worker, Found: l.Found, Inputs: l.Inputs(), Bytes: l.Bytes, OutputPath: l.OutputPath,
		})
	}
	return r, nil
}
