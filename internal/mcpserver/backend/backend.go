package backend

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// MainSession is the session of the default language, for calls that name none. The session
	// of any other language has the language's name.
	MainSession = "main"

	// RemoteSeparator separates a remote from the name of a session on it. No session's own name
	// contains it.
	RemoteSeparator = "/"
)

// A Backend provides the sessions of one client.
type Backend interface {
	// Remotes returns the names of the daemons that have the sessions. The first is the default,
	// and may be "". A session on another remote has the remote's name and a slash before its
	// own, as in "gpu/main".
	//
	// There are none if all sessions belong to the client and end with the server. Otherwise they
	// outlive it, and other clients may also use them.
	Remotes() []string

	// Open returns the session of that name. It creates a missing one in dir, or returns
	// session.ErrClosed if lang is "". MainSession stands for the client's default session, which
	// the backend chooses. narrow limits the backend's sandbox to the client's own; an existing
	// session must not have a wider one. Open waits for preparation, reports its progress, and
	// bounds everything else. Failed preparation is a *PrepareError.
	Open(ctx context.Context, name, lang, dir string, narrow func(*sandbox.Policy) *sandbox.Policy, report func(line string)) (*SessionHandle, error)

	// Sessions describes all sessions on a remote, by the names that Open takes.
	Sessions(ctx context.Context, remote string) ([]session.Info, error)
}

// A SessionHandle is this client's access to a session, either of this server or of a Backend.
type SessionHandle struct {
	session.Session // with the client as its author

	// OutputPath returns the path of the rendered transcript, or "".
	OutputPath func() string

	// IsRemote means that the session's files are on another machine than the client's. Replies
	// then leave out OutputPath, and images are stored in ImageDir, a directory of this machine
	// that is created on demand. If ImageDir is "", none are stored.
	IsRemote bool
	ImageDir string

	// FetchCommand is the command that fetches a file of the session; "" unless IsRemote.
	FetchCommand string

	// RewriteEvent adapts an event of the session for this client; nil unless IsRemote.
	RewriteEvent func(timeline.Event) timeline.Event

	// Leave ends this client's use of the session. It closes a session that belongs to this
	// server.
	Leave func(context.Context) error

	// AttachCommand is the command with which a user can join the session and answer questions
	// that the model must not. It may be "".
	AttachCommand string

	// AllowCommand returns the command with which a user grants the session a permission. It is
	// nil if AttachCommand is "".
	AllowCommand func(session.Grant) string

	// Sandbox is the sandbox with which the session was opened.
	Sandbox *sandbox.Policy

	InitialInfo     session.Info // its state when it was opened
	IsNew           bool         // this Open created it
	MissingPackages []string     // packages that an existing session lacks
	LastSeen        timeline.Seq // the client's cursor when it left the session; 0 for a new client

	// Link is the connection to a session of a Backend; nil if it cannot break.
	Link Link

	// SaveCursor stores that the client has read everything up to seq, for its next visit. It
	// returns soon, even if the daemon is stuck. It may be nil.
	SaveCursor func(seq timeline.Seq)
}

// A PrepareError reports failed preparation, with the last output of the failed tool.
type PrepareError struct{ Err error }

// Error and Unwrap return the text of Err, and Err itself.
func (e *PrepareError) Error() string { return e.Err.Error() }
func (e *PrepareError) Unwrap() error { return e.Err }

// A Link is a connection to remote sessions, which may break and recover.
type Link interface {
	RemoteName() string                      // the remote end
	DownSince() (since time.Time, down bool) // whether it is down now
	Downtime(since time.Time) time.Duration  // how long it was down since a time
}

// TranscriptName returns how replies name the rendered transcript: a file that the client can read,
// or the tool that reads it.
func (h *SessionHandle) TranscriptName() string {
	if h.IsRemote {
		return "repl_output"
	}
	return h.OutputPath()
}

// InfoOrEnded describes the session. An unreachable session counts as ended.
func (h *SessionHandle) InfoOrEnded(ctx context.Context) session.Info {
	i, err := h.Info(ctx)
	if err != nil {
		return session.Info{Name: h.Name(), State: session.StateEnded}
	}
	return i
}
