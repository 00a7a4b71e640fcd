package daemon

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/rpcserver"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// createSession opens a session. A session that has to be prepared is returned before it is ready.
// call is the context of the call, which ends when the call is answered.
func (d *Daemon) createSession(ctx, call context.Context, r *rpcserver.Request, p protocol.CreateParams) (*openSession, error) {
	asked := p
	if p.Language == "" {
		p.Language = d.options.Languages()[0]
	}
	if err := d.checkCreateParams(p); err != nil {
		return nil, err
	}
	if err := d.checkAdmission(); err != nil {
		return nil, err
	}
	spec, err := d.findSpec(p)
	if err != nil {
		return nil, err
	}
	var progress *progressReporter
	if token := progressToken(r, p); token != nil && len(spec.Preparations) > 0 {
		if progress, err = d.newProgressReporter(r.Conn, token); err != nil {
			return nil, err
		}
	}
	type opened struct {
		entry *openSession
		err   error
	}
	done := make(chan opened, 1)
	d.wg.Go(func() {
		e, err := d.registerSession(p, spec, progress)
		if err != nil && progress != nil {
			progress.releaseToken()
		}
		done <- opened{e, err}
	})
	select {
	case o := <-done:
		if session.KindOf(o.err) == session.KindExists {
			return nil, cmp.Or(d.checkExisting(asked, spec), o.err)
		}
		if o.err != nil {
			return nil, o.err
		}
		if progress != nil { // the client must get the answer, which says preparing, before any frame
			d.wg.Go(func() {
				<-call.Done()
				progress.reportUntilPrepared(o.entry.session)
			})
		}
		if ctx.Err() == nil && !r.Commit() {
			return o.entry, nil
		}
		d.closeAbandoned(o.entry, p)
	case <-ctx.Done():
		d.wg.Go(func() {
			if o := <-done; o.err == nil {
				d.closeAbandoned(o.entry, p)
				if progress != nil {
					progress.reportUntilPrepared(o.entry.session)
				}
			}
		})
	}
	return nil, ctx.Err()
}

// checkCreateParams returns an error if no session can be created with these params. The language must be set.
func (d *Daemon) checkCreateParams(p protocol.CreateParams) error {
	if p.Name != "" && !session.IsValidName(p.Name) {
		return rpcserver.InvalidParams("name %q: use up to 64 letters, digits, dots, underscores and hyphens", p.Name)
	}
	if p.Dir != "" && !filepath.IsAbs(p.Dir) {
		return rpcserver.InvalidParams("dir %q: use an absolute path, because the daemon has another working directory", p.Dir)
	}
	if p.Term != "" && !workers.IsTermName(p.Term) {
		return rpcserver.InvalidParams("term %q: use the name of a terminal, up to %d letters, digits, dots, plus signs, underscores and hyphens, such as xterm-256color", text.ShortenBytes(p.Term, workers.MaxTermBytes), workers.MaxTermBytes)
	}
	if p.Sandbox == "" && (p.Home != "" || p.Network != "" || p.Accept != "" || p.AskUser || len(p.Readable)+len(p.Writable)+len(p.Accepted)+len(p.Protected)+len(p.Hosts) > 0) {
		return rpcserver.InvalidParams("home, network, hosts, accept, ask_user, readable, writable, accepted and protected need a sandbox: set sandbox to workspace or read-only")
	}
	for name, value := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return rpcserver.InvalidParams("env: invalid environment variable %q", name)
		}
	}
	switch {
	case len(p.Command) == 0 && !d.options.HasLanguage(p.Language):
		return session.Errorf(session.KindUnknownLanguage, "unknown language %q; available: %s", p.Language, strings.Join(d.options.Languages(), ", "))
	case len(p.Command) == 0:
		return nil
	case d.options.HasLanguage(p.Language):
		return rpcserver.InvalidParams("command: the language %s of this daemon has its own command", p.Language)
	case !filepath.IsAbs(p.Command[0]):
		return rpcserver.InvalidParams("command %q: use an absolute path, because the daemon has another working directory", p.Command[0])
	}
	return nil
}

// findSpec finds the runtime of a new session. Its errors have a kind.
func (d *Daemon) findSpec(p protocol.CreateParams) (workers.Spec, error) {
	spec, err := d.options.FindSpec(p)
	if err == nil {
		err = spec.Err
	}
	if err != nil && session.KindOf(err) == "" {
		kind := session.KindSpec
		if _, missing := errors.AsType[*workers.MissingError](err); missing {
			kind = session.KindStart
		}
		err = session.Errorf(kind, "%v", err)
	}
	return spec, err
}

// checkExisting returns an error of KindDiffers if the session with the name in p is another than its
// caller wants. It compares only what the caller has asked for.
func (d *Daemon) checkExisting(p protocol.CreateParams, spec workers.Spec) error {
	e, err := d.findSession(p.Name)
	if err != nil {
		return nil // it was closed in the meantime
	}
	now, wanted := d.describeSession(e), ""
	has := cmp.Or(now.Sandbox, string(sandbox.Full))
	switch {
	case p.Language != "" && p.Language != now.Language:
		has, wanted = "the language "+now.Language, p.Language
	case p.Sandbox != "" && has != spec.Sandbox.String():
		has, wanted = "the sandbox "+has, spec.Sandbox.String()
	case spec.Limits != (workers.Limits{}) && spec.Limits.String() != now.Limits:
		has, wanted = cmp.Or(now.Limits, "no limits"), spec.Limits.String()
	default:
		return nil
	}
	return session.Errorf(session.KindDiffers, "session %s is open with %s, not %s; close it, or use another name", p.Name, has, wanted)
}

// closeAbandoned closes a session whose name no client knows: the daemon chose the name, and the
// caller is gone.
func (d *Daemon) closeAbandoned(e *openSession, p protocol.CreateParams) {
	if p.Name == "" {
		d.log.Info("unnamed session abandoned by its client", "session", e.name)
		d.wg.Go(func() { _ = d.removeSession(context.Background(), e) })
	}
}
