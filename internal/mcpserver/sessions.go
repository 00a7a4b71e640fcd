package mcpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// sessions holds the sessions that one caller has opened, by name.
type sessions struct {
	sessionsConfig // defaultLang is also set if there is only one language

	processDir string          // the directory of this process
	languages  []string        // sorted
	opening    sync.WaitGroup  // counts goroutines that open a session or end an idle one
	ctx        context.Context // of opening sessions
	stop       context.CancelFunc

	mu         sync.Mutex
	byName     map[string]*callerSession // guarded by mu; without sessions that failed to open
	endedNames map[string]bool           // guarded by mu; names of ended idle sessions, at most maxEndedNames
	closed     bool                      // guarded by mu
}

// maxEndedNames bounds the remembered names of ended sessions. A caller that uses a forgotten
// name learns that its session is new, but not that the old one ended.
const maxEndedNames = 256

// A sessionsConfig says what sessions a caller may have.
type sessionsConfig struct {
	backend     backend.Backend
	specs       map[string]func(dir string) workers.Spec // by language
	sandbox     *workers.Sandbox                         // of the specs
	canConfine  bool                                     // sessions can be confined as a client may ask
	packages    []string                                 // that every spec prepares, as named to the model
	dir         string                                   // working directory, whatever the client says; may be ""
	defaultLang string                                   // the language of calls that name none; may be ""
	logger      *slog.Logger
	shared      bool          // by callers that cannot be distinguished
	idleTimeout time.Duration // how long a session lives without a call; 0 means forever
}

// newSessions returns the sessions of a caller, of which there are none yet.
func newSessions(c *sessionsConfig) *sessions {
	s := &sessions{
		sessionsConfig: *c,
		languages:      slices.Sorted(maps.Keys(c.specs)),
		byName:         make(map[string]*callerSession),
		endedNames:     make(map[string]bool),
	}
	if len(s.languages) == 1 {
		s.defaultLang = s.languages[0]
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.processDir, _ = os.Getwd() // clients never name the directory ""
	return s
}

// contextUntilClosed returns a context that ends when the sessions are closed.
func (s *sessions) contextUntilClosed() context.Context { return s.ctx }

// remoteNames returns the remotes on which sessions can be, with the default one first.
func (s *sessions) remoteNames() []string { return s.backend.Remotes() }

// ownsAll reports whether the backend's sessions all belong to this caller, so that there are none
// but the opened ones.
func (s *sessions) ownsAll() bool { return len(s.backend.Remotes()) == 0 }

// hasUsedSession reports whether a call has named a session.
func (s *sessions) hasUsedSession() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.byName {
		if v.used {
			return true
		}
	}
	return false
}

// resolveAndOpen returns the session of that name and language. It creates a missing one in dir, the
// client's directory, which may be "". notices has facts about it that the caller does not expect.
// Everything slow is found without a lock, and the sessions at the end of that decide.
func (s *sessions) resolveAndOpen(name, lang, dir string, codex *clientprofile.CodexState) (v *callerSession, notices []string, err error) {
	dir = s.workingDirFor(dir)
	language := &slowFact[string]{find: func() string { return s.assumedLanguage(dir) }}
	narrows := &slowFact[bool]{find: func() bool {
		_, narrowed := s.narrowToClient(codex, dir, s.sandbox)
		return narrowed
	}}
	for {
		v, notices, err = s.tryResolveAndOpen(name, lang, dir, codex, language, narrows)
		if !language.findIfMissed() && !narrows.findIfMissed() {
			return v, notices, err
		}
	}
}

// tryResolveAndOpen is resolveAndOpen once. It has no effect if it misses one of the facts: the
// language of a session for which none is named, and whether the client limits its sandbox.
func (s *sessions) tryResolveAndOpen(name, lang, dir string, codex *clientprofile.CodexState, language *slowFact[string], narrows *slowFact[bool]) (v *callerSession, notices []string, err error) {
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

// targetFactsLocked returns what the resolution of a session's name depends on. language is that of a
// new session if nothing else chooses one.
func (s *sessions) targetFactsLocked(language *slowFact[string]) *targetFacts {
	f := &targetFacts{
		languages: s.languages, defaultLang: s.defaultLang, remotes: s.backend.Remotes(), shared: s.shared,
		known: make(map[string]string, len(s.byName)),
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
func (s *sessions) reuseLocked(v *callerSession, t *sessionTarget, codex *clientprofile.CodexState, narrows *slowFact[bool]) (*callerSession, []string, error) {
	var notices []string
	if !v.used {
		moved := t.dir != v.dir
		narrowed, known := narrows.getIfKnown()
		if !known {
			return nil, nil, nil
		}
		if moved || narrowed {
			v = s.openLocked(t.name, v.lang, t.dir, codex)
			if s.ownsAll() && moved {
				notices = append(notices, "it works in "+v.dir)
			}
		}
	}
	v.used = true
	s.touchLocked(v)
	return v, notices, nil
}

// newTargetNoticesLocked returns the notices about a session that was just opened. There are none if
// it may have existed before: only openOnBackend learns whether it is new.
func (s *sessions) newTargetNoticesLocked(t *sessionTarget) (notices []string) {
	if !s.ownsAll() {
		return nil
	}
	switch {
	case s.endedNames[t.name]:
		delete(s.endedNames, t.name)
		notices = append(notices, fmt.Sprintf("session %q was ended after %s without a call; this is a new one, its state is lost", t.name, text.CompactDuration(s.idleTimeout)))
	case t.isNamed && t.isLangInferred:
		notices = append(notices, fmt.Sprintf("new %s session %q", t.lang, t.name))
	case t.isNamed:
		notices = append(notices, fmt.Sprintf("new session %q", t.name))
	case t.isLangInferred:
		notices = append(notices, fmt.Sprintf("new %s session", t.lang))
	}
	if t.dir != s.dir {
		notices = append(notices, "it works in "+t.dir)
	}
	return notices
}

// isOutsideProject reports whether this process was started outside of any project: in the root
// directory, the home directory or a parent of it. Graphical clients start servers there.
func (s *sessions) isOutsideProject() bool {
	if s.dir != "" {
		return false
	}
	here := paths.RealOrSame(s.processDir)
	if home, err := os.UserHomeDir(); err == nil && paths.Contains(here, paths.RealOrSame(home)) {
		return true
	}
	return filepath.Dir(here) == here
}

// assumedLanguage returns the language of a new session when a call names none: the first with a
// runtime on this machine, or else the first.
func (s *sessions) assumedLanguage(dir string) string {
	for _, lang := range s.languages {
		if s.specs[lang](dir).Err == nil {
			return lang
		}
	}
	return s.languages[0]
}

// workingDirFor returns the directory of a new session for a client in dir. "" means the
// session's default.
func (s *sessions) workingDirFor(dir string) string {
	if s.dir != "" || dir == s.processDir {
		return s.dir
	}
	return dir
}

func (s *sessions) freeNameLocked(lang string) string {
	lang = sessionName(lang)
	if s.shared || !s.ownsAll() { // a number could be the session of another caller
		return lang + "-" + strings.ToLower(rand.Text()[:8])
	}
	for n := 2; ; n++ {
		if name := lang + "-" + strconv.Itoa(n); s.byName[name] == nil {
			return name
		}
	}
}

// find returns the existing session of that name, or the default one. It opens a session that only
// the backend may have.
func (s *sessions) find(name string, codex *clientprofile.CodexState) (*callerSession, error) {
	dir := &slowFact[string]{find: codex.WorkingDir}
	for {
		v, err := s.tryFind(name, codex, dir)
		if !dir.findIfMissed() {
			return v, err
		}
	}
}

// tryFind is find once. It has no effect if it misses the client's directory.
func (s *sessions) tryFind(name string, codex *clientprofile.CodexState, dir *slowFact[string]) (*callerSession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	facts := s.targetFactsLocked(nil) // chooses no language
	remote, name, err := facts.splitRemote(name)
	if err != nil {
		return nil, err
	}
	name = remote + name
	if s.shared && name == "" {
		return nil, errNoSessionName
	}
	if name == "" {
		name = facts.defaultSession()
	}
	if v := s.byName[name]; v != nil {
		s.touchLocked(v)
		return v, nil
	}
	if !s.ownsAll() && name != "" && !s.closed { // the backend may have it
		known, ok := dir.getIfKnown()
		if !ok {
			return nil, nil
		}
		v := s.openLocked(name, "", s.workingDirFor(known), codex)
		v.used = true
		return v, nil
	}
	existing := "no sessions yet: repl creates one"
	if names := slices.Sorted(maps.Keys(s.byName)); len(names) > 0 {
		existing = "existing sessions: " + text.JoinNames(names, "and", "")
	}
	if name == "" {
		return nil, fmt.Errorf("session is required; %s", existing)
	}
	return nil, fmt.Errorf("unknown session %q; %s", name, existing)
}

// allSessions returns every session, by name.
func (s *sessions) allSessions() []*callerSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*callerSession
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		all = append(all, s.byName[name])
	}
	return all
}

// describeSessions describes every session, by name, and returns the sessions that are not open
// yet. A backend describes all its sessions, including those of other clients; unreached names
// the remotes that do not answer. An error means that no remote answers.
func (s *sessions) describeSessions(ctx context.Context) (all []session.Info, opening []*callerSession, unreached []string, err error) {
	if !s.ownsAll() {
		if all, unreached, err = s.listRemoteSessions(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, v := range s.allSessions() {
		opened, ok := v.handleIfOpen()
		switch {
		case !ok && !slices.ContainsFunc(all, func(i session.Info) bool { return i.Name == v.name }):
			opening = append(opening, v)
		case ok && s.ownsAll():
			i := opened.InfoOrEnded(ctx)
			i.Name, i.Language = v.name, v.lang // the caller's name; the language is known before the worker is ready
			all = append(all, i)
		}
	}
	return all, opening, unreached, nil
}

// touchLocked restarts the idle timeout of a session.
func (s *sessions) touchLocked(v *callerSession) {
	if s.idleTimeout == 0 {
		return
	}
	v.lastCall = time.Now()
	if v.expiry == nil {
		v.expiry = time.AfterFunc(s.idleTimeout, func() { s.expireIdle(v) })
	} else {
		v.expiry.Reset(s.idleTimeout)
	}
}

// expireIdle ends a session that no call has named for the idle timeout, even a busy one.
func (s *sessions) expireIdle(v *callerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.byName[v.name] != v || time.Since(v.lastCall) < s.idleTimeout {
		return // a call has just restarted the timeout
	}
	delete(s.byName, v.name)
	if len(s.endedNames) >= maxEndedNames {
		clear(s.endedNames)
	}
	s.endedNames[v.name] = true
	s.opening.Go(func() { v.close(s.logger) })
}

func (s *sessions) removeSession(v *callerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[v.name] == v {
		delete(s.byName, v.name)
	}
}

// close closes every session, concurrently.
func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.opening.Wait()
	var closing sync.WaitGroup
	for _, v := range s.allSessions() {
		closing.Go(func() { v.close(s.logger) })
	}
	closing.Wait()
}
