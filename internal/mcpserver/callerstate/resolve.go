package callerstate

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// ResolveAndOpen returns the session of that name and language. It creates a missing one in dir, the
// client's directory, which may be "". notices has facts about it that the caller does not expect.
// Everything slow is found without a lock, and the sessions at the end of that decide.
func (s *SessionSet) ResolveAndOpen(name, lang, dir string, codex *clientprofile.CodexState) (v *CallerSession, notices []string, err error) {
	dir = s.workingDirFor(dir)
	language := &slowFact[string]{find: func() string { return s.assumedLanguage(dir) }}
	narrows := &slowFact[bool]{find: func() bool {
		_, narrowed := s.NarrowToClient(codex, dir, s.config.Sandbox)
		return narrowed
	}}
	for {
		v, notices, err = s.tryResolveAndOpen(name, lang, dir, codex, language, narrows)
		if !language.findIfMissed() && !narrows.findIfMissed() {
			return v, notices, err
		}
	}
}

// tryResolveAndOpen is ResolveAndOpen once. It has no effect if it misses one of the facts: the
// language of a session for which none is named, and whether the client limits its sandbox.
func (s *SessionSet) tryResolveAndOpen(name, lang, dir string, codex *clientprofile.CodexState, language *slowFact[string], narrows *slowFact[bool]) (v *CallerSession, notices []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, session.ErrClosed
	}
	t, err := s.targetFactsLocked(language).resolve(name, lang)
	if err != nil || language.isMissed {
		return nil, nil, err
	}
	t.dir = dir
	if v := s.byName[t.name]; v != nil {
		return s.reuseLocked(v, t, codex, narrows)
	}
	if s.countOpeningLocked() >= maxOpening {
		return nil, nil, fmt.Errorf("%w: %d sessions are still being opened", session.ErrLimit, maxOpening)
	}
	if t.isNew {
		t.name = t.remote + s.freeNameLocked(t.lang)
	}
	v = s.openLocked(t.name, t.lang, t.dir, codex)
	v.used = true
	s.touchLocked(v)
	return v, s.newTargetNoticesLocked(t), nil
}

// targetFactsLocked returns the facts on which the resolution of a session's name depends. language
// is the language of a new session if nothing else chooses one.
func (s *SessionSet) targetFactsLocked(language *slowFact[string]) *targetFacts {
	f := &targetFacts{
		languages: s.languages, defaultLang: s.config.DefaultLang, remotes: s.config.Backend.Remotes(), shared: s.config.Shared,
		wording: s.config.Wording,
		known:   make(map[string]string, len(s.byName)),
		assumeLanguage: func() string {
			lang, _ := language.getIfKnown()
			return lang
		},
	}
	for name, v := range s.byName {
		f.known[name] = v.lang
	}
	return f
}

// reuseLocked returns an existing session for a call. It replaces a session that was opened ahead in
// another directory, or with more rights than the client allows.
func (s *SessionSet) reuseLocked(v *CallerSession, t *sessionTarget, codex *clientprofile.CodexState, narrows *slowFact[bool]) (*CallerSession, []string, error) {
	var notices []string
	if !v.used {
		moved := t.dir != v.Dir
		narrowed, known := narrows.getIfKnown()
		if !known {
			return nil, nil, nil
		}
		if moved || narrowed {
			v = s.openLocked(t.name, v.lang, t.dir, codex)
			if s.ownsAll() && moved {
				notices = append(notices, "it works in "+v.Dir)
			}
		}
	}
	v.used = true
	s.touchLocked(v)
	return v, notices, nil
}

// newTargetNoticesLocked returns the notices about a session that was just opened. There are none if
// it may have existed before: only openOnBackend learns whether it is new.
func (s *SessionSet) newTargetNoticesLocked(t *sessionTarget) (notices []string) {
	if !s.ownsAll() {
		return nil
	}
	switch {
	case s.endedNames[t.name]:
		delete(s.endedNames, t.name)
		notices = append(notices, fmt.Sprintf("session %q was ended after %s without a call; this is a new one, its state is lost", t.name, text.CompactDuration(s.config.IdleTimeout)))
	case t.isNamed && t.isLangInferred:
		notices = append(notices, fmt.Sprintf("new %s session %q", t.lang, t.name))
	case t.isNamed:
		notices = append(notices, fmt.Sprintf("new session %q", t.name))
	case t.isLangInferred:
		notices = append(notices, fmt.Sprintf("new %s session", t.lang))
	}
	if t.dir != s.config.Dir {
		notices = append(notices, "it works in "+t.dir)
	}
	return notices
}

// assumedLanguage returns the language of a new session when a call names none: the first with a
// runtime on this machine, or else the first.
func (s *SessionSet) assumedLanguage(dir string) string {
	for _, lang := range s.languages {
		if s.config.Specs[lang](dir).Err == nil {
			return lang
		}
	}
	return s.languages[0]
}

func (s *SessionSet) freeNameLocked(lang string) string {
	lang = sessionName(lang)
	if s.config.Shared || !s.ownsAll() { // a number could be the session of another caller
		return lang + "-" + strings.ToLower(rand.Text()[:8])
	}
	for n := 2; ; n++ {
		if name := lang + "-" + strconv.Itoa(n); s.byName[name] == nil {
			return name
		}
	}
}

// Find returns the existing session of that name, or the default one. It opens a session that only
// the backend may have.
func (s *SessionSet) Find(name string, codex *clientprofile.CodexState) (*CallerSession, error) {
	dir := &slowFact[string]{find: codex.WorkingDir}
	for {
		v, err := s.tryFind(name, codex, dir)
		if !dir.findIfMissed() {
			return v, err
		}
	}
}

// tryFind is Find once. It has no effect if it misses the client's directory.
func (s *SessionSet) tryFind(name string, codex *clientprofile.CodexState, dir *slowFact[string]) (*CallerSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts := s.targetFactsLocked(nil) // chooses no language
	name, err := facts.resolveExisting(name)
	if err == nil && s.byName[name] == nil && s.closed {
		err = facts.missingError(name)
	}
	if err != nil {
		return nil, err
	}
	if v := s.byName[name]; v != nil {
		s.touchLocked(v)
		return v, nil
	}
	known, ok := dir.getIfKnown()
	if !ok {
		return nil, nil
	}
	v := s.openLocked(name, "", s.workingDirFor(known), codex)
	v.used = true
	return v, nil
}

// DescribeSessions describes every session, by name, and returns the sessions that are not open
// yet. A backend describes all its sessions, including those of other clients; unreached names
// the remotes that do not answer. An error means that no remote answers.
func (s *SessionSet) DescribeSessions(ctx context.Context) (all []session.Info, opening []*CallerSession, unreached []string, err error) {
	if !s.ownsAll() {
		if all, unreached, err = s.listRemoteSessions(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, v := range s.AllSessions() {
		opened, ok := v.HandleIfOpen()
		switch {
		case !ok && !slices.ContainsFunc(all, func(i session.Info) bool { return i.Name == v.Name }):
			opening = append(opening, v)
		case ok && s.ownsAll():
			i := opened.InfoOrEnded(ctx)
			i.Name, i.Language = v.Name, v.lang // the caller's name; the language is known before the worker is ready
			all = append(all, i)
		}
	}
	return all, opening, unreached, nil
}

// OpenAhead opens the main session ahead, so that the first call finds it ready.
func (s *SessionSet) OpenAhead() {
	if s.config.DefaultLang != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed && s.byName[backend.MainSession] == nil { // unless a call was faster
			s.openLocked(backend.MainSession, s.config.DefaultLang, s.config.Dir, nil)
		}
	}
}
