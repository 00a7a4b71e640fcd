package callerstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
)

// countOpeningLocked returns the number of sessions that are not open yet.
func (s *SessionSet) countOpeningLocked() (n int) {
	for _, v := range s.byName {
		if _, ok := v.HandleIfOpen(); !ok {
			n++
		}
	}
	return n
}

// openLocked starts a session without waiting for it. It replaces an unused one of that name.
func (s *SessionSet) openLocked(name, lang, dir string, codex *clientprofile.CodexState) *CallerSession {
	v, unused := newCallerSession(name, lang, dir, &s.mu), s.byName[name]
	v.codex = codex
	s.byName[name] = v
	ctx, cancel := context.WithCancel(s.ctx)
	v.cancelOpening = cancel
	s.opening.Go(func() {
		defer cancel()
		if unused != nil {
			unused.discardUnused(s.config.Logger)
		}
		v.session, v.err = s.openOnBackend(ctx, v)
		if v.err != nil {
			level := slog.LevelError
			if ctx.Err() != nil { // the caller has left, or wants another session
				level = slog.LevelInfo
			}
			s.config.Logger.Log(s.ctx, level, "session open failed", "session", name, "language", lang, "error", v.err)
			s.RemoveSession(v) // the next call tries again
		} else {
			s.config.Logger.Info("session ready", "session", name, "language", lang)
		}
		close(v.opened)
	})
	return v
}

// newSessionNotice returns the notice about a new session: its packages, a runtime other than the
// requested one, and the limits of the client on its sandbox.
func (s *SessionSet) newSessionNotice(runtimeNotice string, l clientprofile.SandboxLimit) string {
	notices := l.Notices
	if runtimeNotice != "" {
		notices = append(notices, runtimeNotice)
	}
	if len(s.config.Packages) > 0 {
		notices = append(notices, s.packagesNotice())
	}
	return strings.Join(notices, "; ")
}

// packagesNotice returns the notice about packages that code can import.
func (s *SessionSet) packagesNotice() string {
	return text.JoinNames(s.config.Packages, "and", "") + " can be used in this session"
}

// openOnBackend opens a session on the backend. If this client has used it before, reading
// continues where the client stopped.
func (s *SessionSet) openOnBackend(ctx context.Context, v *CallerSession) (*backend.SessionHandle, error) {
	limit := s.clientLimitFor(v.codex, v.Dir)
	workingDir := cmp.Or(v.Dir, s.processDir) // by name, because a directory may be removed and recreated
	opened, err := s.config.Backend.Open(ctx, v.Name, v.lang, workingDir, limit.Narrow, v.preparing.setProgress)
	if errors.Is(err, session.ErrClosed) && !s.ownsAll() {
		return nil, s.missingSessionError(ctx, v.Name)
	}
	if err != nil {
		return nil, err
	}
	info := opened.InitialInfo
	if s.ownsAll() { // the call that opened it has the other notices
		v.SetNotice(s.newSessionNotice(info.Notice, limit))
		return opened, nil
	}
	var notices []string
	dir := v.Dir
	if opened.IsNew {
		if v.Name != backend.MainSession && v.Name != v.lang {
			notices = append(notices, fmt.Sprintf("new session %q", v.Name))
		}
		if notice := s.newSessionNotice(info.Notice, limit); notice != "" {
			notices = append(notices, notice)
		}
		if dir != s.config.Dir { // a remote has its own directories
			dir = info.Dir
		}
	} else {
		known := opened.LastSeen
		if known == 0 {
			notices = append(notices, fmt.Sprintf("this session existed before: %d turns were run in it", info.Turn))
			known = info.LastSeq
		} else {
			notices = append(notices, "back in the session as you left it")
		}
		if len(opened.MissingPackages) > 0 {
			notices = append(notices, fmt.Sprintf("it lacks %s, which a new session has", text.JoinNames(opened.MissingPackages, "and", "")))
		}
		v.setCursor(known)
		s.mu.Lock()
		v.lang = info.Language
		s.mu.Unlock()
		dir = info.Dir
	}
	if dir != "" && dir != s.config.Dir && dir != s.processDir {
		notices = append(notices, "it works in "+dir)
	}
	v.SetNotice(strings.Join(notices, "; "))
	return opened, nil
}

// missingSessionError returns the error about a session that the backend does not have, for a
// call that names no language.
func (s *SessionSet) missingSessionError(ctx context.Context, name string) error {
	existing := s.config.Wording.NameTools("no sessions yet: repl creates one")
	if all, err := s.sessionsOnSameRemote(ctx, name); err == nil && len(all) > 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		existing = "existing sessions: " + text.JoinNames(names, "and", "")
	}
	if len(s.languages) > 1 {
		existing += "; to create it, set lang to " + text.JoinNames(s.languages, "or", "")
	}
	return fmt.Errorf("unknown session %q; %s", name, existing)
}

// NarrowToClient narrows a sandbox in dir to the client's limit, and reports whether the limit
// takes anything away.
func (s *SessionSet) NarrowToClient(codex *clientprofile.CodexState, dir string, policy *sandbox.Policy) (left *sandbox.Policy, narrowed bool) {
	return s.clientLimitFor(codex, dir).Intersect(policy)
}

// MakeRoom closes one session without a worker, whose state is already lost.
func (s *SessionSet) MakeRoom() bool {
	for _, v := range s.AllSessions() {
		opened, ok := v.HandleIfOpen()
		if ok && opened.InfoOrEnded(s.ctx).State == session.StateEnded {
			s.RemoveSession(v)
			return opened.Leave(context.Background()) == nil
		}
	}
	return false
}

// clientLimitFor returns the client's limit for a session in dir, which may be "".
func (s *SessionSet) clientLimitFor(codex *clientprofile.CodexState, dir string) clientprofile.SandboxLimit {
	return codex.LimitFor(paths.RealOrSame(cmp.Or(dir, s.processDir)), s.config.Sandbox, s.config.CanConfine)
}
