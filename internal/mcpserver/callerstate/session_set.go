package callerstate

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/workers"
)

// A SessionSet holds the sessions that one caller has opened, by name.
type SessionSet struct {
	config SessionSetConfig // defaultLang is also set if there is only one language

	processDir string          // the directory of this process
	languages  []string        // sorted
	opening    sync.WaitGroup  // counts goroutines that open a session or end an idle one
	ctx        context.Context // of opening sessions
	stop       context.CancelFunc

	mu         sync.Mutex
	byName     map[string]*CallerSession // guarded by mu; without sessions that failed to open
	endedNames map[string]bool           // guarded by mu; names of ended idle sessions, at most maxEndedNames
	closed     bool                      // guarded by mu
}

// maxEndedNames bounds the remembered names of ended sessions. A caller that uses a forgotten
// name learns that its session is new, but not that the old one ended.
const maxEndedNames = 256

// A SessionSetConfig says which sessions a caller may have.
type SessionSetConfig struct {
	Backend     backend.Backend
	Specs       map[string]func(dir string) workers.Spec // by language
	Sandbox     *sandbox.Policy                          // of the specs
	CanConfine  bool                                     // this system supports sandboxes, which a client may require
	Packages    []string                                 // that every spec prepares, as named to the model
	Dir         string                                   // working directory, whatever the client says; may be ""
	DefaultLang string                                   // the language of calls that name none; may be ""
	Wording     reply.Wording
	Logger      *slog.Logger
	Shared      bool          // by callers that cannot be distinguished
	IdleTimeout time.Duration // how long a session lives without a call; 0 means forever
}

// NewSessionSet returns an empty set of sessions for a caller.
func NewSessionSet(c *SessionSetConfig) *SessionSet {
	s := &SessionSet{
		config:     *c,
		languages:  slices.Sorted(maps.Keys(c.Specs)),
		byName:     make(map[string]*CallerSession),
		endedNames: make(map[string]bool),
	}
	if len(s.languages) == 1 {
		s.config.DefaultLang = s.languages[0]
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.processDir, _ = os.Getwd() // clients never name the directory ""
	return s
}

// ContextUntilClosed returns a context that ends when the sessions are closed.
func (s *SessionSet) ContextUntilClosed() context.Context { return s.ctx }

// RemoteNames returns the remotes on which sessions can be, with the default one first.
func (s *SessionSet) RemoteNames() []string { return s.config.Backend.Remotes() }

// ownsAll reports whether the backend's sessions all belong to this caller. If so, only the
// sessions that it has opened exist.
func (s *SessionSet) ownsAll() bool { return len(s.config.Backend.Remotes()) == 0 }

// HasUsedSession reports whether a call has named a session.
func (s *SessionSet) HasUsedSession() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.byName {
		if v.used {
			return true
		}
	}
	return false
}

// IsOutsideProject reports whether this process was started outside of any project: in the root
// directory, the home directory or a parent of it. Graphical clients start servers there.
func (s *SessionSet) IsOutsideProject() bool {
	if s.config.Dir != "" {
		return false
	}
	here := paths.RealOrSame(s.processDir)
	if home, err := os.UserHomeDir(); err == nil && paths.Contains(here, paths.RealOrSame(home)) {
		return true
	}
	return filepath.Dir(here) == here
}

// workingDirFor returns the directory of a new session for a client in dir. "" means the
// session's default.
func (s *SessionSet) workingDirFor(dir string) string {
	if s.config.Dir != "" || dir == s.processDir {
		return s.config.Dir
	}
	return dir
}

// AllSessions returns every session, by name.
func (s *SessionSet) AllSessions() []*CallerSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*CallerSession
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		all = append(all, s.byName[name])
	}
	return all
}

// touchLocked restarts the idle timeout of a session.
func (s *SessionSet) touchLocked(v *CallerSession) {
	if s.config.IdleTimeout == 0 {
		return
	}
	v.lastCall = time.Now()
	if v.expiry == nil {
		v.expiry = time.AfterFunc(s.config.IdleTimeout, func() { s.expireIdle(v) })
	} else {
		v.expiry.Reset(s.config.IdleTimeout)
	}
}

// expireIdle ends a session that no call has named for the idle timeout, even a busy one.
func (s *SessionSet) expireIdle(v *CallerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.byName[v.Name] != v || time.Since(v.lastCall) < s.config.IdleTimeout {
		return // a call has just restarted the timeout
	}
	delete(s.byName, v.Name)
	if len(s.endedNames) >= maxEndedNames {
		clear(s.endedNames)
	}
	s.endedNames[v.Name] = true
	s.opening.Go(func() { v.close(s.config.Logger) })
}

// RemoveSession forgets a session without closing it. A newer session of the same name stays.
func (s *SessionSet) RemoveSession(v *CallerSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[v.Name] == v {
		delete(s.byName, v.Name)
	}
}

// Close closes every session, concurrently.
func (s *SessionSet) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.opening.Wait()
	var closing sync.WaitGroup
	for _, v := range s.AllSessions() {
		closing.Go(func() { v.close(s.config.Logger) })
	}
	closing.Wait()
}
