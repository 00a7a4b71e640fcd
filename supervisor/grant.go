package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/workers"
)

// Allow implements session.Session.
func (s *Session) Allow(ctx context.Context, g session.Grant) error { return s.allowAs(ctx, "", g) }

// AnswerPermission implements session.Session.
func (s *Session) AnswerPermission(ctx context.Context, id uint64, ok bool) error {
	return s.permitAs(ctx, "", id, ok)
}

func (s *Session) permitAs(ctx context.Context, author string, id uint64, ok bool) error {
	defer s.beginUse()()
	s.mu.Lock()
	p, err := s.m.findPermission(id)
	if err == nil && !ok {
		s.m.recordRefusal(author, p)
	}
	s.unlock()
	if err != nil || !ok {
		return err
	}
	return s.allowAs(ctx, author, p.Grant)
}

func (s *Session) allowAs(ctx context.Context, author string, g session.Grant) error {
	defer s.beginUse()()
	g, err := s.checkGrant(g)
	if err != nil {
		return err
	}
	id := g.Identity
	g.Identity = ""
	if err := s.grantRight(ctx, author, g, id); err != nil {
		return err
	}
	s.mu.Lock()
	closed, closedErr := s.m.isClosed(), s.m.closedError()
	if !closed {
		s.m.applyGrant(author, g)
	}
	s.unlock()
	if closed {
		return closedErr
	}
	if !g.Always {
		return nil
	}
	if err := s.o.Grants.Add(s.workspacePath(), g); err != nil {
		return fmt.Errorf("allowed in this session, but not saved for later ones: %w", err)
	}
	return nil
}

// grantRight gives a grant to the live worker and to all later ones. For the live worker, the path
// must have this identity.
func (s *Session) grantRight(ctx context.Context, author string, g session.Grant, id string) error {
	g.Always = false
	s.mu.Lock()
	had, missed, starting := slices.Contains(s.m.grants, g), slices.Contains(s.m.missingGrants, g), s.currentStart
	s.m.addGrant(g) // first, so that every start planned from here on has it
	s.mu.Unlock()
	err := error(nil)
	if starting != nil { // it may have been planned without the grant
		_ = starting.wait(ctx)
		err = ctx.Err()
	}
	returned := make(chan struct{})
	defer close(returned)
	if err == nil {
		err = s.grantToWorker(g, id, func(w *worker) {
			<-returned
			s.handleLateGrant(w, author, g)
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.m.addGrant(g) // a start in between may have left it out
	case missed:
		s.m.markMissing(g)
	case !had:
		s.m.removeGrant(g)
	}
	return err
}

// grantToWorker gives a grant to the live worker, if there is one.
func (s *Session) grantToWorker(g session.Grant, id string, late func(*worker)) error {
	if g.Call != "" {
		return nil // every call checks the grants itself
	}
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	switch {
	case g.Host != "" && w != nil && w.proc.egressConn == nil:
		return session.Errorf(session.KindUnsupported, "the sandbox of this session allows no outgoing connections; the notice in its first reply says why")
	case g.Host != "":
		return s.egressPolicy.AllowHost(g.Host)
	case w == nil:
		return nil
	case w.proc.control == nil:
		return session.Errorf(session.KindUnsupported, "the sandbox of a running session cannot be changed here; reset the session to apply the grant")
	}
	err := s.grantPath(w, g, id, late)
	if errors.Is(err, monitorproto.ErrEnded) { // the next worker gets the grant
		return nil
	}
	return err
}

// grantPath gives a worker access to a file or directory. If the worker has not answered in time,
// late is called once the grant takes effect.
func (s *Session) grantPath(w *worker, g session.Grant, id string, late func(*worker)) error {
	ended := func() {}
	if s.o.BeforeWrite != nil && g.Write != "" {
		_, ended = s.o.BeforeWrite([]string{g.Write}) // the kept files were named when the session started
	}
	path := g.Read + g.Write
	err := w.proc.control.Grant(path, g.Read != "", id, func() { late(w) })
	switch {
	case errors.Is(err, launch.ErrGrantPending): // the worker may still get write access
		w.callWhenEnded(ended)
		return fmt.Errorf("the sandbox did not answer within 5s, so it is unknown whether this session can use %s; an event reports it if the grant takes effect later, and a reset revokes it", path)
	case err != nil:
		ended()
	default:
		w.callWhenEnded(ended)
	}
	return err
}

// handleLateGrant records that a grant whose outcome was unknown has taken effect.
func (s *Session) handleLateGrant(w *worker, author string, g session.Grant) {
	s.mu.Lock()
	defer s.unlock()
	if s.worker == w && !s.m.isClosed() {
		s.m.addGrant(g)
		s.m.applyGrant(author, g)
	}
}

// checkGrant resolves a grant, and rejects one that this session cannot use.
func (s *Session) checkGrant(g session.Grant) (session.Grant, error) {
	s.mu.Lock()
	spec, closed, closedErr := s.spec, s.m.isClosed(), s.m.closedError()
	s.mu.Unlock()
	policy := spec.Sandbox
	switch {
	case closed:
		return g, closedErr
	case !hasOneTarget(g):
		return g, session.Errorf(session.KindInvalid, "name exactly one path to read, path to write, host or function")
	case g.Call != "":
		return s.checkCallGrant(g)
	case !policy.Confines():
		return g, session.Errorf(session.KindUnsupported, "session %s has no sandbox, so everything is allowed already", s.Name())
	case g.Always && s.o.Grants == nil:
		return g, session.Errorf(session.KindUnsupported, "grants are not saved here; allow it for this session only")
	case g.Host != "" && s.egressPolicy != nil:
		return checkHostGrant(g)
	case g.Host != "":
		return g, session.Errorf(session.KindUnsupported, "single hosts cannot be allowed for session %s: its network is %s", s.Name(), policy.Network)
	}
	return s.o.CheckPath(&spec, g)
}

// CheckPath checks the path of a grant for a session with this spec, and returns the grant for the
// path that it resolves to. An error of kind session.KindUnconfirmed carries the grant that a user
// may give after confirming it.
func (o *Options) CheckPath(spec *workers.Spec, g session.Grant) (session.Grant, error) {
	path := g.Read + g.Write
	if !filepath.IsAbs(path) {
		return g, session.Errorf(session.KindInvalid, "%q is not an absolute path", path)
	}
	found, id, err := resolveGrantPath(path)
	if err == nil && g.Identity != "" && g.Identity != id {
		err = plan.ErrReplaced
	}
	programs := ""
	resolved := g
	resolved.Identity, resolved.Accept = id, ""
	if err == nil && g.Read != "" {
		resolved.Read = found
		err = o.checkReadGrant(spec, found)
	} else if err == nil {
		resolved.Write = found
		programs, err = o.checkWriteGrant(spec, found)
	}
	if err != nil {
		return g, &session.Error{Kind: session.KindInvalid, Message: fmt.Sprintf("%s cannot be allowed: %v", text.QuoteName(path), err), Cause: err}
	}
	if programs != "" {
		resolved.Accept = found
	}
	if isLink := found != filepath.Clean(path); g.Accept != found && (programs != "" || isLink) { // the session may have created the link
		return g, &session.Error{Kind: session.KindUnconfirmed, Grant: &resolved, Message: describeLink(path, found, programs) + "; a user must confirm that"}
	}
	return resolved, nil
}

// describeLink describes where a path leads and which programs use that file.
func describeLink(path, found, programs string) string {
	from, to := text.QuoteName(path), text.QuoteName(found)
	switch {
	case filepath.Clean(path) == found:
		return to + " " + programs
	case programs == "":
		return from + " leads to " + to
	}
	return from + " leads to " + to + ", which " + programs
}

// checkReadGrant returns why no session with this spec may see a path without symbolic links; nil
// if a user may show it.
func (o *Options) checkReadGrant(spec *workers.Spec, path string) error {
	return plan.CheckShow(o.sandboxWithHidden(spec), o.newOrigin(), path)
}

// sandboxWithHidden returns the sandbox of a spec with everything that it hides.
func (o *Options) sandboxWithHidden(spec *workers.Spec) *sandbox.Policy {
	box := *spec.Sandbox
	box.Hidden = slices.Concat(box.Hidden, o.serviceDirs(&box, specWorkspace(spec)))
	return &box
}

// workspacePath returns the directory for which grants are saved.
func (s *Session) workspacePath() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return specWorkspace(&s.spec)
}

// savedGrants returns the grants that are saved for the workspace of a spec.
func (o *Options) savedGrants(spec *workers.Spec) ([]session.Grant, error) {
	if o.Grants == nil {
		return nil, nil
	}
	all, err := o.Grants.List(specWorkspace(spec))
	if err != nil {
		return nil, fmt.Errorf("cannot read the saved grants of this workspace: %w", err)
	}
	if !spec.Sandbox.Confines() { // without a sandbox, only function grants matter
		all = slices.DeleteFunc(all, func(g session.Grant) bool { return g.Call == "" })
	}
	for i := range all {
		all[i].Always = false
	}
	return all, nil
}

// addSavedGrants adds the saved grants to those of the session, and returns all of them. It also
// allows the hosts among them. Paths only take effect in a worker that starts later.
func (s *Session) addSavedGrants(spec *workers.Spec) ([]session.Grant, error) {
	saved, err := s.o.savedGrants(spec)
	if err != nil {
		return nil, err
	}
	for _, g := range saved {
		if g.Host != "" && s.egressPolicy != nil {
			if err := s.egressPolicy.AllowHost(g.Host); err != nil {
				return nil, fmt.Errorf("a saved grant of this workspace: %w", err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range slices.Concat(saved, s.m.missingGrants) {
		s.m.addGrant(g)
	}
	return slices.Clone(s.m.grants), nil
}

// skippedGrantText explains why an allowed path was left out.
func skippedGrantText(path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return text.QuoteName(path) + " was allowed but no longer exists"
	}
	return "an allowed path is left out: " + err.Error()
}
