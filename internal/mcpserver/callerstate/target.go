package callerstate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// A sessionTarget is the session that a repl call asks for.
type sessionTarget struct {
	remote string // with its slash; "" for the default remote
	name   string // with the remote
	lang   string // "" if it is that of a known session, or only the backend knows it
	dir    string // working directory of a new session

	isNamed        bool // the call names a session
	isNew          bool // the call asks for a session with an unused name
	isRemoteMain   bool // the main session of a remote, for calls that only choose the remote
	isLangInferred bool // neither the call nor a default chose the language
}

// A targetFacts holds everything that decides which session a call means, so that resolve needs
// nothing else.
type targetFacts struct {
	languages      []string          // sorted
	defaultLang    string            // the language of calls that name none; "" if there are several
	remotes        []string          // of the backend, with the default first; none if all sessions are known
	shared         bool              // each call names its session
	known          map[string]string // the languages of the known sessions, by name; "" until the backend reports it
	wording        reply.Wording
	assumeLanguage func() string // chooses the language of a new session if nothing else does
}

// resolve returns the session that a call asks for by these arguments.
func (f *targetFacts) resolve(name, lang string) (*sessionTarget, error) {
	lang = f.canonicalLanguage(lang)
	if lang != "" && !slices.Contains(f.languages, lang) {
		return nil, fmt.Errorf("unknown language %q: use %s", lang, text.JoinNames(f.languages, "or", ""))
	}
	remote, own, err := f.splitRemote(name)
	switch {
	case err != nil:
		return nil, err
	case f.shared && name == "":
		return nil, errNoSessionName
	}
	t := &sessionTarget{
		remote: remote, name: remote + own, lang: lang,
		isNamed: name != "", isNew: own == newSession, isRemoteMain: remote != "" && own == backend.MainSession,
	}
	f.resolveName(t)
	if runs, ok := f.known[t.name]; ok {
		if t.lang != "" && t.lang != runs {
			return nil, fmt.Errorf("session %q runs %s: leave lang out, or use another session for %s", t.name, runs, t.lang)
		}
		return t, nil
	}
	return t, f.resolveLanguage(t)
}

// resolveName chooses the session for a call that names none. The name stays "" if several sessions
// are possible.
func (f *targetFacts) resolveName(t *sessionTarget) {
	switch {
	case t.isNamed:
	case t.lang != "":
		t.name = f.defaultName(t.lang)
	default:
		if t.name = f.defaultSession(); t.name == "" && len(f.defaultRemoteNames()) == 0 {
			t.lang, t.isLangInferred = f.assumeLanguage(), true
			t.name = f.defaultName(t.lang)
		}
	}
}

// resolveLanguage chooses the language of a session that is not known. It stays "" if the backend
// may have the session.
func (f *targetFacts) resolveLanguage(t *sessionTarget) error {
	if t.lang == "" {
		t.lang = f.defaultLang
	}
	if t.lang == "" && t.isRemoteMain {
		t.lang = f.assumeLanguage()
	}
	switch {
	case t.lang != "", len(f.remotes) > 0 && t.isNamed && !t.isNew:
	case t.name == "":
		return fmt.Errorf("session is required; existing sessions: %s", text.JoinNames(slices.Sorted(maps.Keys(f.known)), "and", ""))
	default:
		t.lang, t.isLangInferred = f.assumeLanguage(), true
	}
	return nil
}

// resolveExisting returns the name of the session that a call means if the call must not create
// one. The session is known, or the backend may have it.
func (f *targetFacts) resolveExisting(name string) (string, error) {
	remote, own, err := f.splitRemote(name)
	switch name = remote + own; {
	case err != nil:
		return "", err
	case f.shared && name == "":
		return "", errNoSessionName
	case name == "":
		name = f.defaultSession()
	}
	if _, ok := f.known[name]; !ok && (len(f.remotes) == 0 || name == "") {
		return "", f.missingError(name)
	}
	return name, nil
}

// missingError returns the error about a session that does not exist, or about a missing name
// without a default.
func (f *targetFacts) missingError(name string) error {
	existing := f.wording.NameTools("no sessions yet: repl creates one")
	if names := slices.Sorted(maps.Keys(f.known)); len(names) > 0 {
		existing = "existing sessions: " + text.JoinNames(names, "and", "")
	}
	if name == "" {
		return fmt.Errorf("session is required; %s", existing)
	}
	return fmt.Errorf("unknown session %q; %s", name, existing)
}

// canonicalLanguage returns the known spelling of a language, ignoring case.
func (f *targetFacts) canonicalLanguage(lang string) string {
	if slices.Contains(f.languages, lang) {
		return lang
	}
	for _, known := range f.languages {
		if strings.EqualFold(strings.TrimSpace(lang), known) {
			return known
		}
	}
	return lang
}

// defaultSession returns the session for a call that names none: the main one, or else the only one
// on the default remote, or else "".
func (f *targetFacts) defaultSession() string {
	if f.defaultLang != "" {
		return backend.MainSession
	}
	if names := f.defaultRemoteNames(); len(names) == 1 {
		return names[0]
	}
	return ""
}

// defaultRemoteNames returns the names of the sessions on the default remote.
func (f *targetFacts) defaultRemoteNames() (names []string) {
	for name := range f.known {
		if !strings.Contains(name, backend.RemoteSeparator) {
			names = append(names, name)
		}
	}
	return names
}

// defaultName returns the name of the default session of a language.
func (f *targetFacts) defaultName(lang string) string {
	if lang == f.defaultLang {
		return backend.MainSession
	}
	return sessionName(lang)
}

// splitRemote splits a session's name into the remote with its slash, and the session's own name.
// prefix is "" for the default remote.
func (f *targetFacts) splitRemote(name string) (prefix, own string, err error) {
	remote, own, found := strings.Cut(name, backend.RemoteSeparator)
	remotes := f.remotes
	if !found || len(remotes) == 0 {
		return "", name, nil
	}
	switch isDefault := remote != "" && remote == remotes[0]; {
	case !isDefault && !slices.Contains(remotes[1:], remote):
		return "", "", fmt.Errorf("session %q: %s", name, remoteNotAllowed(remote, remotes[1:]))
	case own == "":
		return "", "", fmt.Errorf("session %q lacks a name after the remote: use %q", name, name+backend.MainSession)
	case isDefault:
		return "", own, nil
	}
	return remote + backend.RemoteSeparator, own, nil
}

// remoteNotAllowed says that the user does not allow a remote, and which ones they allow.
func remoteNotAllowed(remote string, allowed []string) string {
	if len(allowed) == 0 {
		return "the user allows no other remotes (repl mcp --remotes): use a name without a slash"
	}
	return fmt.Sprintf("%q is not among the remotes that the user allows (repl mcp --remotes): %s", remote, text.JoinNames(allowed, "and", ""))
}

// newSession asks for a session with an unused name.
const newSession = "new"

var errNoSessionName = errors.New(`session is required, because nothing else distinguishes your calls from others: pass "new" to create a session, then pass the name in the reply with every call`)

// sessionName converts a language such as "jupyter:ir" to a session's name.
func sessionName(lang string) string { return strings.ReplaceAll(lang, ":", "-") }
