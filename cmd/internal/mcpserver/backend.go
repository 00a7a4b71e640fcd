package mcpserver

import (
	"context"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Backend has sessions that outlive the server, and that others may use, too.
type Backend interface {
	// Remotes names the places of the sessions. The first is the usual one; it may be "". A session
	// at another has the name of the place and a slash before its own, as in "gpu/main".
	Remotes() []string

	// Open returns the session of that name. It makes a missing one in this directory,
	// or returns session.ErrClosed if lang is "". MainSession stands for the client's
	// default session, which the host chooses. narrow makes the host's sandbox as narrow as
	// the client's own; a session that is there already must not be wider. Open waits for
	// preparation, reports its progress, and bounds everything else. Failed preparation is a
	// *PrepareError.
	Open(ctx context.Context, name, lang, dir string, narrow func(*workers.Sandbox) *workers.Sandbox, report func(line string)) (*SessionHandle, error)

	// Sessions describes all sessions at a place, by the names that Open takes.
	Sessions(ctx context.Context, place string) ([]session.Info, error)
}

// A SessionHandle is a session for this client: one of the server's own, or one of a Host.
type SessionHandle struct {
	session.Session // with the client as its author

	// OutputPath is the rendered transcript; "" when there is none.
	OutputPath func() string

	// IsRemote says that the session's files are on another machine than the client's. Then
	// OutputPath is not told, and pictures are kept in Pictures, a directory of this machine
	// that is made when it is needed; "" keeps none.
	IsRemote bool
	ImageDir string

	// FetchCommand is the command that brings a file of the session; "" unless Away.
	FetchCommand string

	// RewriteEvent is how an event of the session is told here; nil unless Away.
	RewriteEvent func(timeline.Event) timeline.Event

	// Leave ends this client's use of the session. It closes a session of the server's own.
	Leave func(context.Context) error

	// AttachCommand is the command with which a person can take part in the session and answer
	// questions that the model must not; "" when there is none.
	AttachCommand string

	// AllowCommand returns the command with which a person gives the session a right; nil when
	// AttachCommand is "".
	AllowCommand func(session.Grant) string

	// Sandbox is that with which it was opened.
	Sandbox *workers.Sandbox

	InitialInfo     session.Info // its state at the time of opening
	IsNew           bool         // this Open made it
	MissingPackages []string     // preparations that an existing session lacks
	LastSeen        timeline.Seq // how far the client had read when it left the session; 0 for a new client

	// Link is the way to a session of a Host; nil if it cannot break.
	Link BackendLink

	// SaveCursor stores that the client knows everything up to seq, for its next visit. Answers
	// do not wait long for it. It may be nil.
	SaveCursor func(seq timeline.Seq)
}

// A BackendLink is a way to sessions that may break and be there again.
type BackendLink interface {
	RemoteName() string                      // where it leads
	DownSince() (since time.Time, down bool) // whether it is broken now
	Downtime(since time.Time) time.Duration  // for how long it was since a moment
}

// newLocalHandle returns a session of this server's own: it ends with the server.
func newLocalHandle(s *supervisor.Session, author string) *SessionHandle {
	return &SessionHandle{Session: s.As(author), OutputPath: s.Log().OutputPath, Leave: s.Close, IsNew: true}
}

// outputName is how replies name the rendered transcript: a file that the client can read, or
// the tool that reads it.
func (o *SessionHandle) outputName() string {
	if o.IsRemote {
		return "repl_output"
	}
	return o.OutputPath()
}

// infoOrEnded describes the session. One that cannot be reached counts as ended.
func (o *SessionHandle) infoOrEnded(ctx context.Context) session.Info {
	i, err := o.Info(ctx)
	if err != nil {
		return session.Info{Name: o.Name(), State: session.StateEnded}
	}
	return i
}
