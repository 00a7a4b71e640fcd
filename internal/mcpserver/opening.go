package mcpserver

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
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// openAhead opens the main session ahead, so that the first call finds it ready.
func (s *sessions) openAhead() {
	if s.defaultLang != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed && s.byName[backend.MainSession] == nil { // unless a call was faster
			s.openLocked(backend.MainSession, s.defaultLang, s.dir, nil)
		}
	}
}

// countOpeningLocked returns the number of sessions that are not open yet.
func (s *sessions) countOpeningLocked() (n int) {
	for _, v := range s.byName {
		if _, ok := v.handleIfOpen(); !ok {
			n++
		}
	}
	return n
}

// openLocked starts a session without waiting for it. It replaces an unused one of that name.
func (s *sessions) openLocked(name, lang, dir string, codex *clientprofile.CodexState) *callerSession {
	v, unused := newCallerSession(name, lang, dir, &s.mu), s.byName[name]
	v.codex = codex
	s.byName[name] = v
	ctx, cancel := context.WithCancel(s.ctx)
	v.cancelOpening = cancel
	s.opening.Go(func() {
		defer cancel()
		if unused != nil {
			unused.discardUnused(s.logger)
		}
		v.session, v.err = s.openOnBackend(ctx, v)
		if v.err != nil {
			level := slog.LevelError
			if ctx.Err() != nil { // the caller has left, or wants another session
				level = slog.LevelInfo
			}
			s.logger.Log(s.ctx, level, "session open failed", "session", name, "language", lang, "error", v.err)
			s.removeSession(v) // the next call tries again
		} else {
			s.logger.Info("session ready", "session", name, "language", lang)
		}
		close(v.opened)
	})
	return v
}

// newSessionNotice returns the notice about a new session: its packages, a runtime other than the
// requested one, and the limits of the client on its sandbox.
func (s *sessions) newSessionNotice(runtimeNotice string, l clientprofile.SandboxLimit) string {
	notices := l.Notices
	if runtimeNotice != "" {
		notices = append(notices, runtimeNotice)
	}
	if len(s.packages) > 0 {
		notices = append(notices, s.packagesNotice())
	}
	return strings.Join(notices, "; ")
}

// packagesNotice returns the notice about packages that code can import.
func (s *sessions) packagesNotice() string {
	return text.JoinNames(s.packages, "and", "") + " can be used in this session"
}

// openOnBackend opens a session on the backend. If this client has used it before, reading
// continues where the client stopped.
func (s *sessions) openOnBackend(ctx context.Context, v *callerSession) (*backend.SessionHandle, error) {
	limit := s.clientLimitFor(v.codex, v.dir)
	workingDir := cmp.Or(v.dir, s.processDir) // by name, because a directory may be removed and recreated
	opened, err := s.backend.Open(ctx, v.name, v.lang, workingDir, limit.Narrow, v.preparing.setProgress)
	if errors.Is(err, session.ErrClosed) && !s.ownsAll() {
		return nil, s.missingSessionError(ctx, v.name)
	}
	if err != nil {
		return nil, err
	}
	info := opened.InitialInfo
	if s.ownsAll() { // the call that opened it has the other notices
		v.setNotice(s.newSessionNotice(info.Notice, limit))
		return opened, nil
	}
	var notices []string
	dir := v.dir
	if opened.IsNew {
		if v.name != backend.MainSession && v.name != v.lang {
			notices = append(notices, fmt.Sprintf("new session %q", v.name))
		}
		if notice := s.newSessionNotice(info.Notice, limit); notice != "" {
			notices = append(notices, notice)
		}
		if dir != s.dir { // a remote has its own directories
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
	if dir != "" && dir != s.dir && dir != s.processDir {
		notices = append(notices, "it works in "+dir)
	}
	v.setNotice(strings.Join(notices, "; "))
	return opened, nil
}

// missingSessionError returns the error about a session that the backend does not have, for a
// call that names no language.
func (s *sessions) missingSessionError(ctx context.Context, name string) error {
	existing := "no sessions yet: repl creates one"
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

// narrowToClient returns what the client's limit leaves of a sandbox in dir, and reports whether it
// takes anything away.
func (s *sessions) narrowToClient(codex *clientprofile.CodexState, dir string, sandbox *workers.Sandbox) (left *workers.Sandbox, narrowed bool) {
	return s.clientLimitFor(codex, dir).Intersect(sandbox)
}

// makeRoom closes one session without a worker, whose state is already lost.
func (s *sessions) makeRoom() bool {
	for _, v := range s.allSessions() {
		opened, ok := v.handleIfOpen()
		if ok && opened.InfoOrEnded(s.ctx).State == session.StateEnded {
			s.removeSession(v)
			return opened.Leave(context.Background()) == nil
		}
	}
	return false
}

// clientLimitFor returns the client's limit for a session in dir, which may be "".
func (s *sessions) clientLimitFor(codex *clientprofile.CodexState, dir string) clientprofile.SandboxLimit {
	return codex.LimitFor(paths.RealOrSame(cmp.Or(dir, s.processDir)), s.sandbox, s.canConfine)
}
