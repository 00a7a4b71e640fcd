package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
)

// openAhead opens the main session, so that the first call finds it ready.
func (s *sessions) openAhead() {
	if s.defaultLang != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed && s.byName[MainSession] == nil { // a call may have been faster
			s.openLocked(MainSession, s.defaultLang, s.dir, nil)
		}
	}
}

// countOpeningLocked returns how many sessions are not open yet.
func (s *sessions) countOpeningLocked() (n int) {
	for _, v := range s.byName {
		if _, ok := v.handleIfOpen(); !ok {
			n++
		}
	}
	return n
}

// openLocked starts a session without waiting for it. It replaces an unused one of that name.
func (s *sessions) openLocked(name, lang, dir string, codex *codexState) *callerSession {
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
		if s.backend != nil {
			v.session, v.err = s.openOnBackend(ctx, v)
		} else {
			v.session, v.err = s.openLocal(ctx, v, lang)
		}
		if v.err != nil {
			level := slog.LevelError
			if ctx.Err() != nil { // its caller has left, or wants another
				level = slog.LevelInfo
			}
			s.logger.Log(s.ctx, level, "a session did not open", "session", name, "language", lang, "error", v.err)
			s.removeSession(v) // the next call tries again
		} else {
			s.logger.Info("a session is open", "session", name, "language", lang)
		}
		close(v.opened)
	})
	return v
}

func (s *sessions) openLocal(ctx context.Context, v *callerSession, lang string) (*SessionHandle, error) {
	spec := s.specs[lang](cmp.Or(v.dir, s.processDir)) // by its name: a directory may be removed and made anew
	bound := s.clientLimitFor(v.codex, v.dir)
	spec.Sandbox = bound.intersect(spec.Sandbox)
	opened, err := s.supervisor.Open(ctx, s.namePrefix+v.name, spec)
	if errors.Is(err, session.ErrLimit) && s.makeRoom() {
		opened, err = s.supervisor.Open(ctx, s.namePrefix+v.name, spec)
	}
	if err != nil {
		return nil, withCallerName(v.name, err)
	}
	if err := s.waitPrepared(ctx, v, opened); err != nil {
		_ = opened.Close(context.Background())
		return nil, err
	}
	v.setNotice(s.newSessionNotice(spec.Notice, bound))
	o := newLocalHandle(opened, s.author)
	o.Sandbox = spec.Sandbox
	return o, nil
}

// newSessionNotice tells the model, once, about a new session: which packages it has, that its runtime is
// not the one that was asked for, and that the client bounds its sandbox.
func (s *sessions) newSessionNotice(notice string, b clientLimit) string {
	word := b.notices
	if notice != "" {
		word = append(word, notice)
	}
	if len(s.packages) > 0 {
		word = append(word, s.packagesNotice())
	}
	return strings.Join(word, "; ")
}

// packagesNotice tells the model, once in each session, which packages it can import.
func (s *sessions) packagesNotice() string {
	return joinNames(s.packages, "and", "") + " can be used in this session"
}

// withCallerName returns why a session was not opened, with its name as the caller knows it.
func withCallerName(name string, err error) error {
	said, ok := errors.AsType[*session.Error](err)
	switch {
	case ok && (said.Kind == session.KindStart || said.Kind == session.KindSpec) && said.Cause != nil:
		return &session.Error{Kind: said.Kind, Message: fmt.Sprintf("session %q did not start: %v", name, said.Cause), Cause: said.Cause}
	case ok && said.Kind == session.KindName:
		return &session.Error{Kind: said.Kind, Message: fmt.Sprintf("%q is not a session name: use 1 to 64 letters, digits, dots, dashes and underscores", name)}
	}
	return err
}

// openOnBackend opens the session of a view at the host, and goes on reading where this
// client stopped when it was here before.
func (s *sessions) openOnBackend(ctx context.Context, v *callerSession) (*SessionHandle, error) {
	bound := s.clientLimitFor(v.codex, v.dir)
	opened, err := s.backend.Open(ctx, v.name, v.lang, cmp.Or(v.dir, s.processDir), bound.intersect, v.preparing.setProgress)
	if errors.Is(err, session.ErrClosed) {
		return nil, s.missingSessionError(ctx, v.name)
	}
	if err != nil {
		return nil, err
	}
	info := opened.InitialInfo
	var word []string
	works := v.dir
	if opened.IsNew {
		if v.name != MainSession && v.name != v.lang {
			word = append(word, fmt.Sprintf("new session %q", v.name))
		}
		if new := s.newSessionNotice(info.Notice, bound); new != "" {
			word = append(word, new)
		}
		if works != s.dir { // a place has directories of its own
			works = info.Dir
		}
	} else {
		known := opened.LastSeen
		if known == 0 {
			word = append(word, fmt.Sprintf("this session was there before: %d turns were run in it", info.Turn))
			known = info.LastSeq
		} else {
			word = append(word, "back in the session as it was left")
		}
		if len(opened.MissingPackages) > 0 {
			word = append(word, fmt.Sprintf("it was made without %s, which a new session has", joinNames(opened.MissingPackages, "and", "")))
		}
		v.setCursor(known)
		s.mu.Lock()
		v.lang = info.Language
		s.mu.Unlock()
		works = info.Dir
	}
	if works != "" && works != s.dir && works != s.processDir {
		word = append(word, "it works in "+works)
	}
	v.setNotice(strings.Join(word, "; "))
	return opened, nil
}

// missingSessionError returns the error about a missing session of the host when no language was named.
func (s *sessions) missingSessionError(ctx context.Context, name string) error {
	there := "there is none yet: repl makes one"
	if all, err := s.sessionsOnSameRemote(ctx, name); err == nil && len(all) > 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		there = "there is " + joinNames(names, "and", "")
	}
	if len(s.languages) > 1 {
		there += "; to make it, set lang to " + joinNames(s.languages, "or", "")
	}
	return fmt.Errorf("unknown session %q: %s", name, there)
}

// makeRoom closes one session without a worker, which has nothing to lose.
func (s *sessions) makeRoom() bool {
	for _, v := range s.allSessions() {
		opened, ok := v.handleIfOpen()
		if ok && opened.infoOrEnded(s.ctx).State == session.StateEnded {
			s.removeSession(v)
			return opened.Leave(context.Background()) == nil
		}
	}
	return false
}
