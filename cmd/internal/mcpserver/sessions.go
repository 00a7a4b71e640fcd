package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
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

	"github.com/turnstone-repl/turnstone/cmd/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// MainSession is the session of the default language, for calls that name none. The
	// session of any other language has the language's name.
	MainSession = "main"

	// newSession asks for a session with a name that is not taken.
	newSession = "new"
)

// sessions are the sessions that this caller opened, by name.
type sessions struct {
	supervisor  *supervisor.Supervisor
	author      string
	backend     Backend // where the sessions are; nil: they are our own
	specs       map[string]func(dir string) workers.Spec
	sandbox     *workers.Sandbox // of each session, unless the client allows less
	canConfine  bool             // sessions can be confined as a client asks
	packages    []string         // packages that every spec prepares, as told to the model
	dir         string           // where sessions work, whatever the client says; may be ""
	processDir  string           // the directory of this process
	languages   []string         // sorted
	defaultLang string           // the language that is meant when none is named; "" when there are several
	logger      *slog.Logger
	namePrefix  string          // of the names that the supervisor knows them by
	shared      bool            // by callers that cannot be told apart: each call names its session
	idleTimeout time.Duration   // how long one lives without a call; 0 is for ever
	opening     sync.WaitGroup  // every goroutine that opens a session, or ends an idle one
	ctx         context.Context // of every opening
	stop        context.CancelFunc

	mu         sync.Mutex
	byName     map[string]*callerSession // guarded by mu; those that failed to open are gone
	endedNames map[string]bool           // guarded by mu; names of idle ones that were ended, at most maxEndedNames
	closed     bool                      // guarded by mu
}

// maxEndedNames bounds the remembered names of sessions that were ended. A caller of a forgotten name
// learns that its session is new instead of ended.
const maxEndedNames = 256

func newSessions(o *Options, c mcptransport.ServedClient) *sessions {
	s := &sessions{
		supervisor:  o.Supervisor,
		backend:     o.Backend,
		author:      o.Author,
		specs:       o.Specs,
		sandbox:     o.Sandbox,
		canConfine:  o.CanConfine,
		packages:    o.With,
		dir:         o.Dir,
		languages:   slices.Sorted(maps.Keys(o.Specs)),
		defaultLang: o.Default,
		logger:      o.Logger,
		shared:      c.Shared,
		idleTimeout: c.IdleTimeout,
		byName:      make(map[string]*callerSession),
		endedNames:  make(map[string]bool),
	}
	if c.Number > 0 {
		s.namePrefix = fmt.Sprintf("c%d%s", c.Number, clientSeparator) // all clients are in one supervisor
	}
	if len(s.languages) == 1 {
		s.defaultLang = s.languages[0]
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.processDir, _ = os.Getwd() // clients never name the directory ""
	return s
}

var errNoSessionName = errors.New(`session is required, because nothing else tells your calls from others: pass "new" to make a session, then the name that the reply gives in every call`)

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

// resolveAndOpen returns the session of that name and language. It makes a missing one in dir, the client's
// directory, which may be "". news has the facts about it that the caller does not expect.
func (s *sessions) resolveAndOpen(name, lang, dir string, codex *codexState) (v *callerSession, news []string, err error) {
	lang = s.canonicalLanguage(lang)
	if lang != "" && s.specs[lang] == nil {
		return nil, nil, fmt.Errorf("unknown language %q: use %s", lang, joinNames(s.languages, "or", ""))
	}
	named := name != ""
	at, name, err := s.splitRemote(name)
	if err != nil {
		return nil, nil, err
	}
	isNew, mainThere := name == newSession, at != "" && name == MainSession
	name = at + name
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, session.ErrClosed
	}
	if s.shared && !named {
		return nil, nil, errNoSessionName
	}
	var guessed bool
	switch {
	case named:
	case lang != "":
		name = s.defaultName(lang)
	default:
		if name = s.defaultSessionLocked(); name == "" && len(s.defaultRemoteNamesLocked()) == 0 {
			lang, guessed = s.assumedLanguage(s.workingDirFor(dir)), true
			name = s.defaultName(lang)
		}
	}
	if v := s.byName[name]; v != nil {
		if lang != "" && lang != v.lang {
			return nil, nil, fmt.Errorf("session %q runs %s: leave lang out, or use another session for %s", name, v.lang, lang)
		}
		moved := s.workingDirFor(dir) != v.dir
		if bound := s.clientLimitFor(codex, s.workingDirFor(dir)); !v.used && (moved || bound.intersect(s.sandbox) != s.sandbox) { // opened ahead, and in another way
			v = s.openLocked(name, v.lang, s.workingDirFor(dir), codex)
			if s.backend == nil && moved {
				news = append(news, "it works in "+v.dir)
			}
		}
		v.used = true
		s.touchLocked(v)
		return v, news, nil
	}
	if lang == "" {
		lang = s.defaultLang
	}
	if lang == "" && mainThere { // the session for calls that care for the place alone
		lang = s.assumedLanguage(s.workingDirFor(dir))
	}
	switch {
	case lang != "", s.backend != nil && named && !isNew: // a host may have it already
	case name == "":
		return nil, nil, fmt.Errorf("which session? There is %s", joinNames(slices.Sorted(maps.Keys(s.byName)), "and", ""))
	default:
		lang, guessed = s.assumedLanguage(s.workingDirFor(dir)), true
	}
	if s.countOpeningLocked() >= maxOpening {
		return nil, nil, fmt.Errorf("%w: %d are not open yet", session.ErrLimit, maxOpening)
	}
	if isNew {
		name = at + s.freeNameLocked(lang)
	}
	v = s.openLocked(name, lang, s.workingDirFor(dir), codex)
	v.used = true
	s.touchLocked(v)
	if s.backend != nil {
		return v, nil, nil // whether it is new is not known yet: see openOnBackend
	}
	switch {
	case s.endedNames[name]:
		delete(s.endedNames, name)
		news = append(news, fmt.Sprintf("session %q was ended after %s without a call; this is a new one, its state is lost", name, formatDuration(s.idleTimeout)))
	case named && guessed:
		news = append(news, fmt.Sprintf("new %s session %q", lang, name))
	case named:
		news = append(news, fmt.Sprintf("new session %q", name))
	case guessed:
		news = append(news, fmt.Sprintf("new %s session", lang))
	}
	if v.dir != s.dir {
		news = append(news, "it works in "+v.dir)
	}
	return v, news, nil
}

// canonicalLanguage returns the name of a language that is given in any case.
func (s *sessions) canonicalLanguage(lang string) string {
	for _, known := range s.languages {
		if s.specs[lang] == nil && strings.EqualFold(strings.TrimSpace(lang), known) {
			return known
		}
	}
	return lang
}

// isOutsideProject reports whether this process was started where nobody has a project: in the root, the
// home directory or a parent of it. Clients with a window start servers there.
func (s *sessions) isOutsideProject() bool {
	if s.dir != "" {
		return false
	}
	here := realDir(s.processDir)
	if home, err := os.UserHomeDir(); err == nil && isInOne(realDir(home), []string{here}) {
		return true
	}
	return filepath.Dir(here) == here
}

// assumedLanguage returns the language of a new session when a call names none: the first whose runtime
// is on this machine, otherwise the first.
func (s *sessions) assumedLanguage(dir string) string {
	for _, lang := range s.languages {
		if s.specs[lang](dir).Err == nil {
			return lang
		}
	}
	return s.languages[0]
}

// workingDirFor returns the directory of a new session for a client in dir. "" means the session's
// default.
func (s *sessions) workingDirFor(dir string) string {
	if s.dir != "" || dir == s.processDir {
		return s.dir
	}
	return dir
}

// defaultSessionLocked returns the session for a call that names none: the main one, otherwise the only
// one at the usual place, otherwise "".
func (s *sessions) defaultSessionLocked() string {
	if s.defaultLang != "" {
		return MainSession
	}
	if usual := s.defaultRemoteNamesLocked(); len(usual) == 1 {
		return usual[0]
	}
	return ""
}

// defaultRemoteNamesLocked returns the names of the sessions at the usual place.
func (s *sessions) defaultRemoteNamesLocked() (names []string) {
	for name := range s.byName {
		if !strings.Contains(name, remoteSeparator) {
			names = append(names, name)
		}
	}
	return names
}

func (s *sessions) defaultName(lang string) string {
	if lang == s.defaultLang {
		return MainSession
	}
	return sessionName(lang)
}

// sessionName makes a session's name of a language's, such as "jupyter:ir".
func sessionName(lang string) string { return strings.ReplaceAll(lang, ":", "-") }

func (s *sessions) freeNameLocked(lang string) string {
	lang = sessionName(lang)
	if s.shared || s.backend != nil { // numbers would lead a caller to another's session
		return lang + "-" + strings.ToLower(rand.Text()[:8])
	}
	for n := 2; ; n++ {
		if name := lang + "-" + strconv.Itoa(n); s.byName[name] == nil {
			return name
		}
	}
}

// find returns the session of that name, or the default one, if it is there.
func (s *sessions) find(name string, codex *codexState) (*callerSession, error) {
	at, name, err := s.splitRemote(name)
	if err != nil {
		return nil, err
	}
	name = at + name
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared && name == "" {
		return nil, errNoSessionName
	}
	if name == "" {
		name = s.defaultSessionLocked()
	}
	if v := s.byName[name]; v != nil {
		s.touchLocked(v)
		return v, nil
	}
	if s.backend != nil && name != "" && !s.closed { // it may have it
		v := s.openLocked(name, "", s.workingDirFor(codex.workingDir()), codex)
		v.used = true
		return v, nil
	}
	there := "there is none yet: repl makes one"
	if names := slices.Sorted(maps.Keys(s.byName)); len(names) > 0 {
		there = "there is " + joinNames(names, "and", "")
	}
	if name == "" {
		return nil, fmt.Errorf("which session? %s", there)
	}
	return nil, fmt.Errorf("unknown session %q: %s", name, there)
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

// describeSessions describes every session, by name, and returns those that are not open yet. A host
// describes all its sessions, including those of others; unreached says which of its places it
// cannot ask. An error means that it can ask none.
func (s *sessions) describeSessions(ctx context.Context) (all []session.Info, opening []*callerSession, unreached []string, err error) {
	if s.backend != nil {
		if all, unreached, err = s.describeRemotes(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, v := range s.allSessions() {
		opened, ok := v.handleIfOpen()
		switch {
		case !ok && !slices.ContainsFunc(all, func(i session.Info) bool { return i.Name == v.name }):
			opening = append(opening, v)
		case ok && s.backend == nil:
			i := opened.infoOrEnded(ctx)
			i.Name, i.Language = v.name, v.lang // as the caller knows it, and before its worker is ready
			all = append(all, i)
		}
	}
	return all, opening, unreached, nil
}

// formatDuration formats a duration for people, without zero parts.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// touchLocked restarts the idle time of a session.
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

// expireIdle ends a session that no call has named for the idle time, even a busy one.
func (s *sessions) expireIdle(v *callerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.byName[v.name] != v || time.Since(v.lastCall) < s.idleTimeout {
		return // a call has just restarted the time
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

// close closes every session, at the same time.
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

// clientSeparator is behind the number of a client in the names of its sessions.
const clientSeparator = "-"

// ClientOfSession returns the client whose session the supervisor knows by a name; "" if it is shared, or
// if there is one client only.
func ClientOfSession(name string) string {
	client, _, found := strings.Cut(name, clientSeparator)
	digits := strings.TrimPrefix(client, "c")
	if _, err := strconv.ParseUint(digits, 10, 64); !found || err != nil || digits == client {
		return ""
	}
	return client
}
